// Plots of the last hour in SVG: lines for rates, stacked areas for what is there. Drawn at the size
// they have on the screen. The pointer, or the arrow keys, read values off them.

import { clock, h, rate, replace, short, svg, uniqueId } from "./dom.js";

// Minutes that a plot may show: the shortest of them that has room for what is known.
const SPANS = [5, 15, 30, 60];
// And how many of them lie between two marks, on a wide plot and on a narrow one.
const STEPS = { 5: [1, 5], 15: [5, 15], 30: [10, 15], 60: [15, 30] };
const NARROW = 420;
const LEFT = 44;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 22;

// series: [{name, label}]; the class `series-<name>` gives each its colour. `isStacked` fills areas.
export function chart({ title, series, isStacked = false, unit, format = rate, height = 190 }) {
  const id = uniqueId("chart");
  const readout = h("p", { class: "readout", id: `${id}-readout`, "aria-live": "polite" });
  const legend = h("ul", { class: "legend" }, series.map((one) => h("li", { class: `series-${one.name}` }, h("i", { "aria-hidden": "true" }), one.label)));
  const plot = svg("svg", { class: "plot", height, role: "img", tabindex: "0", "aria-label": title, "aria-describedby": `${id}-readout` });
  const card = h("section", { class: "card chart" }, h("header", {}, h("h2", {}, title), legend), plot, readout);
  let history = null;
  let chosen = null;

  const last = () => slotsOf(history, series[0].name) - 1;
  const columns = () => series.map((one) => values(history, one.name, isStacked ? 1 : history.interval_seconds));
  function draw() {
    const width = plot.clientWidth;
    if (history === null || width === 0) return;
    const drawn = isStacked ? stacked(columns()) : columns();
    const top = niceTop(Math.max(0, ...drawn.flat().filter((value) => value !== null)));
    const place = placing({ width, height, top, last: last() });
    // The lowest of stacked lines comes last: those above it may lie upon it.
    const lines = drawn.map((column, at) => svg("path", { class: `line series-${series[at].name}`, d: path(place, column) }));
    replace(plot, grid(place, top, format), axis(place, history),
      (isStacked ? drawn.map((_, at) => area(place, drawn, at, series[at].name)).reverse() : null),
      isStacked ? lines.reverse() : lines,
      chosen === null ? null : marker(place, drawn, Math.min(chosen, last())));
    tell();
  }
  function tell() {
    const at = Math.min(chosen ?? last(), last());
    const shown = columns();
    const when = chosen === null ? "Latest" : clock(history.newest_ms - (last() - at) * history.interval_seconds * 1000);
    const parts = series.map((one, number) => `${one.label.toLowerCase()} ${shown[number][at] === null ? "–" : format(shown[number][at])}`);
    const text = `${when}: ${parts.join(", ")} ${unit}`;
    if (readout.textContent !== text) readout.textContent = text;
  }
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    choose(history && Math.round(share * last()));
  });
  plot.addEventListener("pointerleave", () => choose(null));
  plot.addEventListener("blur", () => choose(null));
  plot.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || history === null) return;
    event.preventDefault();
    choose((chosen ?? last()) + steps[event.key]);
  });
  function choose(at) {
    chosen = at === null ? null : Math.min(last(), Math.max(0, at));
    draw();
  }
  new ResizeObserver(draw).observe(plot);
  return {
    element: card,
    update(answer) {
      history = answer;
      draw();
    },
  };
}

// A small line without axes.
export function sparkline(name) {
  const plot = svg("svg", { class: "spark", viewBox: "0 0 120 28", preserveAspectRatio: "none", "aria-hidden": "true" });
  return {
    element: plot,
    update(history) {
      const column = values(history, name, 1);
      const top = Math.max(1, ...column.filter((value) => value !== null));
      const place = { x: (at) => (at / (column.length - 1)) * 120, y: (value) => 26 - (value / top) * 24 };
      replace(plot, svg("path", { class: `line series-${name}`, d: path(place, column) }));
    },
  };
}

// --- values --------------------------------------------------------------------------------------

function minutesOf(history, name) {
  const known = (history[name].length * history.interval_seconds) / 60;
  return SPANS.find((span) => span >= known) ?? SPANS.at(-1);
}

const slotsOf = (history, name) => (minutesOf(history, name) * 60) / history.interval_seconds;

// As many as the plot has slots; null where nothing is known.
function values(history, name, divisor) {
  const slots = slotsOf(history, name);
  const known = history[name].slice(-slots).map((value) => value / divisor);
  return [...Array(slots - known.length).fill(null), ...known];
}

function stacked(columns) {
  let below = columns[0].map(() => 0);
  return columns.map((column) => {
    const sum = column.map((value, at) => (value === null ? null : value + below[at]));
    below = sum.map((value) => value ?? 0);
    return sum;
  });
}

function niceTop(value) {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
}

// --- drawing -------------------------------------------------------------------------------------

function placing({ width, height, top, last }) {
  const across = width - LEFT - RIGHT;
  const up = height - TOP - BOTTOM;
  return { width, height, last, x: (at) => LEFT + (at / last) * across, y: (value) => TOP + up - (value / top) * up };
}

const point = (place, at, value) => `${place.x(at).toFixed(1)} ${place.y(value).toFixed(1)}`;

// A value that stands alone is a dot.
function path(place, column) {
  const parts = [];
  let isDrawing = false;
  column.forEach((value, at) => {
    if (value !== null) parts.push(isDrawing ? `L${point(place, at, value)}` : `M${point(place, at, value)}h.1`);
    isDrawing = value !== null;
  });
  return parts.join("");
}

function area(place, columns, at, name) {
  const known = columns[at].map((value, slot) => [slot, value]).filter(([, value]) => value !== null);
  if (!known.length) return null;
  const above = known.map(([slot, value]) => point(place, slot, value));
  const below = known.map(([slot]) => point(place, slot, at ? columns[at - 1][slot] : 0));
  return svg("path", { class: `area series-${name}`, d: `M${above.join("L")}L${below.reverse().join("L")}Z` });
}

function grid(place, top, format) {
  return [0, 0.5, 1].flatMap((share) => {
    const y = Math.round(place.y(top * share)) + 0.5;
    const label = svg("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, format(top * share));
    return [svg("line", { class: "grid", x1: LEFT, x2: place.width - RIGHT, y1: y, y2: y }), label];
  });
}

function axis(place, history) {
  const minutes = Math.round(((place.last + 1) * history.interval_seconds) / 60);
  const [wide, narrow] = STEPS[minutes];
  const step = place.width < NARROW ? narrow : wide;
  const befores = Array.from({ length: minutes / step + 1 }, (_, at) => minutes - at * step);
  return befores.map((before) => {
    const anchor = before === 0 ? "end" : before === minutes ? "start" : "middle";
    const x = place.x(place.last * (1 - before / minutes));
    return svg("text", { x, y: place.height - 5, "text-anchor": anchor }, before === 0 ? "now" : `−${before} min`);
  });
}

function marker(place, columns, at) {
  const x = place.x(at);
  const points = columns.filter((column) => column[at] !== null).map((column) => svg("circle", { cx: x, cy: place.y(column[at]), r: 3 }));
  return svg("g", { class: "marker" }, svg("line", { x1: x, x2: x, y1: TOP, y2: place.height - BOTTOM }), points);
}

export const RATES = [
  { name: "sent", label: "Sent" },
  { name: "received", label: "Received" },
  { name: "removed", label: "Removed" },
];
export const DEPTHS = [
  { name: "visible", label: "Visible" },
  { name: "in_flight", label: "In flight" },
  { name: "delayed", label: "Delayed" },
];
export const depthFormat = short;
