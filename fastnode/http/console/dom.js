// Building and filling elements. Text becomes text nodes, never markup: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

// h("a", {href, class, onclick, "aria-label", …}, child, …): a child is a node, a text or nothing.
export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
  return element;
}

export function replace(element, ...children) {
  const shown = children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false);
  element.replaceChildren(...shown);
}

// Writes only what differs, so that a screen reader hears changes and a selection stays.
export function setText(element, text) {
  if (element.textContent !== String(text)) element.textContent = text;
}

// Rows of a list by their keys: those that stay keep their elements, and whoever has the focus keeps it.
export function keyed(parent, items, keyOf, create, update) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const wanted = items.map((item) => {
    const key = keyOf(item);
    const child = known.get(key) ?? create(item);
    child.dataset.key = key;
    update(child, item);
    return child;
  });
  const isSame = wanted.length === parent.children.length && wanted.every((child, at) => parent.children[at] === child);
  if (isSame) return;
  parent.replaceChildren(...wanted);
  if (focused?.isConnected) focused.focus({ preventScroll: true });
}

let numbers = 0;
export const uniqueId = (prefix) => `${prefix}-${++numbers}`;

// --- numbers and times ---------------------------------------------------------------------------

const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => whole.format(value);
export const short = (value) => (value < 10_000 ? whole.format(value) : compact.format(value));

// `many(1, "queue")` is "1 queue", `many(2, "queue")` "2 queues".
export const many = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

export function rate(value) {
  if (value === 0) return "0";
  if (value < 10) return value.toFixed(value < 1 ? 2 : 1);
  return short(Math.round(value));
}

export function bytes(value) {
  if (value < 1024) return `${value} B`;
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(1)} KiB`;
  return `${(value / 1024 / 1024).toFixed(1)} MiB`;
}

const UNITS = [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];

export function duration(seconds) {
  const [unit, size] = UNITS.find(([, one]) => seconds >= one && seconds % one === 0) ?? UNITS[3];
  const amount = seconds / size;
  return many(amount, unit);
}

export function ago(milliseconds) {
  const seconds = Math.max(0, Math.round((Date.now() - milliseconds) / 1000));
  const [unit, size] = UNITS.find(([, one]) => seconds >= one) ?? UNITS[3];
  return `${many(Math.floor(seconds / size), unit)} ago`;
}

export const clock = (milliseconds) =>
  new Date(milliseconds).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const dateTime = (milliseconds) => new Date(milliseconds).toISOString().replace("T", " ").slice(0, 19) + " UTC";
