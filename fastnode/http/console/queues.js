// All queues: search, sort, create.

import { call, get, mayChange, query, queuePath } from "./api.js";
import { attributeFields } from "./attributes.js";
import { count, h, keyed, many, rate, replace, setText, uniqueId } from "./dom.js";
import { field, formDialog, notify } from "./notice.js";
import { poll, trouble } from "./poll.js";

const SECONDS = 5;
// Pages of a hundred that are fetched; who has more queues narrows the search.
const PAGES_MAX = 10;
const COLUMNS = [
  { key: "name", label: "Queue", of: (queue) => queue.name },
  { key: "visible", label: "Visible", of: (queue) => queue.messages.visible, show: count },
  { key: "in_flight", label: "In flight", of: (queue) => queue.messages.in_flight, show: count },
  { key: "delayed", label: "Delayed", of: (queue) => queue.messages.delayed, show: count },
  { key: "sent", label: "Sent/s", of: (queue) => queue.rates.sent, show: rate },
  { key: "received", label: "Received/s", of: (queue) => queue.rates.received, show: rate },
  { key: "removed", label: "Removed/s", of: (queue) => queue.rates.removed, show: rate },
];
const keyOf = (queue) => `${queue.account}/${queue.region}/${queue.name}`;

export function queuesPage() {
  const lost = trouble();
  const order = { key: "name", isDown: false };
  const searchId = uniqueId("search");
  const search = h("input", { type: "search", id: searchId, placeholder: "Part of a name", maxlength: "80", autocomplete: "off", spellcheck: "false" });
  const summary = h("p", { class: "none", role: "status" }, "Loading…");
  const body = h("tbody", {});
  const sortId = uniqueId("sort");
  // In place of the heads, on a narrow screen.
  const sorting = h("select", { id: sortId, onchange: () => sortBy(COLUMNS.find((one) => one.key === sorting.value)) }, COLUMNS.map((column) => h("option", { value: column.key }, column.label)));
  const heads = COLUMNS.map((column) => h("th", { scope: "col" }, h("button", { type: "button", onclick: () => sortBy(column) }, column.label, h("span", { "aria-hidden": "true" }))));
  const table = h("table", { class: "queues" }, h("caption", { class: "unseen" }, "Queues"), h("thead", {}, h("tr", {}, heads)), body);
  const creating = h("button", { type: "button", class: "primary", disabled: !mayChange(), onclick: () => createDialog().catch((failure) => notify(failure.message)) }, "Create queue");
  const element = h("div", { class: "page" },
    h("div", { class: "title" }, h("h1", {}, "Queues"), creating),
    lost.line,
    h("div", { class: "toolbar" }, h("label", { for: searchId }, "Search"), search, h("div", { class: "sort" }, h("label", { for: sortId }, "Sort by"), sorting), summary),
    h("div", { class: "card table" }, table));
  let found = { queues: [], hasMore: false };

  function sortBy(column) {
    // Names begin with A, numbers with the largest.
    order.isDown = order.key === column.key ? !order.isDown : column.key !== "name";
    order.key = column.key;
    draw();
  }
  function draw() {
    const column = COLUMNS.find((one) => one.key === order.key);
    const sign = order.isDown ? -1 : 1;
    const compare = (one, other) => (column.of(one) < column.of(other) ? -sign : column.of(one) > column.of(other) ? sign : keyOf(one) < keyOf(other) ? -1 : 1);
    sorting.value = order.key;
    heads.forEach((head, at) => {
      const isOrder = COLUMNS[at].key === order.key;
      head.setAttribute("aria-sort", isOrder ? (order.isDown ? "descending" : "ascending") : "none");
      setText(head.querySelector("span"), isOrder ? (order.isDown ? " ↓" : " ↑") : "");
    });
    keyed(body, [...found.queues].sort(compare), keyOf, newRow, fillRow);
    table.hidden = found.queues.length === 0;
    setText(summary, summaryOf(found, search.value));
  }
  const asking = poll(() => fetchQueues(search.value.trim()), (answer) => {
    found = answer;
    draw();
  }, SECONDS, lost.show);
  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(asking.now, 200);
  });
  return { element, stop: asking.stop };
}

async function fetchQueues(contains) {
  const queues = [];
  let cursor;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const answer = await get(`queues${query({ details: "true", contains, cursor })}`);
    queues.push(...answer.queues);
    cursor = answer.cursor;
    if (!cursor) break;
  }
  return { queues, hasMore: Boolean(cursor) };
}

function summaryOf(found, search) {
  const { length } = found.queues;
  if (found.hasMore) return `The first ${count(length)} queues. Narrow the search to see others.`;
  if (length) return many(length, "queue");
  return search ? "No queue has this in its name." : "There are no queues yet. Create one, or let a client do it.";
}

function newRow(queue) {
  const cells = COLUMNS.slice(1).map((column) => h("td", { "data-label": column.label }));
  const place = queue.account === "000000000000" ? queue.region : `${queue.account} · ${queue.region}`;
  return h("tr", {},
    h("th", { scope: "row" }, h("a", { href: `#/${queuePath(queue)}` }, queue.name), queue.fifo ? h("span", { class: "badge" }, "FIFO") : null, h("small", {}, place)),
    cells);
}

function fillRow(row, queue) {
  COLUMNS.slice(1).forEach((column, at) => {
    const value = column.of(queue);
    const cell = row.children[at + 1];
    setText(cell, column.show(value));
    cell.classList.toggle("zero", value === 0);
  });
}

// --- creating ------------------------------------------------------------------------------------

function checkName(text, isFifo) {
  const name = isFifo ? text.replace(/\.fifo$/, "") : text;
  const longest = isFifo ? 75 : 80;
  const isGood = /^[A-Za-z0-9_-]+$/.test(name) && name.length <= longest;
  return isGood ? null : `Give 1 to ${longest} letters, digits, hyphens or underscores.`;
}

async function createDialog() {
  const node = await get("overview");
  const typeName = uniqueId("type");
  const standard = h("input", { type: "radio", name: typeName, value: "standard", checked: true });
  const fifo = h("input", { type: "radio", name: typeName, value: "fifo" });
  const name = h("input", { autocomplete: "off", spellcheck: "false", autocapitalize: "off", maxlength: "80", autofocus: true });
  const region = h("input", { autocomplete: "off", spellcheck: "false", maxlength: "32", value: node.region });
  const account = h("input", { autocomplete: "off", inputmode: "numeric", maxlength: "12", value: node.account });
  const nameRow = field({ label: "Name", input: name, help: "Letters, digits, hyphens and underscores. The name of a FIFO queue ends with .fifo, which is added for you.", check: (text) => checkName(text, fifo.checked) });
  let fields = attributeFields({}, false, { isNew: true });
  const attributes = h("div", {}, fields.main);
  const more = h("details", {}, h("summary", {}, "Account and region"),
    field({ label: "Region", input: region, check: (text) => (/^[a-z0-9]+(-[a-z0-9]+)*$/.test(text) ? null : "Give lower-case letters, digits and hyphens.") }),
    field({ label: "Account", input: account, check: (text) => (/^[0-9]{12}$/.test(text) ? null : "Give 12 digits.") }));
  const body = [
    nameRow,
    h("fieldset", {}, h("legend", {}, "Type"),
      h("label", { class: "choice" }, standard, h("span", {}, "Standard", h("small", {}, "Highest throughput; order may vary, a message may rarely come twice."))),
      h("label", { class: "choice" }, fifo, h("span", {}, "FIFO", h("small", {}, "Order within each message group, and no duplicates within five minutes.")))),
    h("details", {}, h("summary", {}, "Attributes"), attributes),
    more,
  ];
  function retype() {
    fields = attributeFields({}, fifo.checked, { isNew: true });
    replace(attributes, fields.main);
  }
  standard.addEventListener("change", retype);
  fifo.addEventListener("change", retype);
  formDialog({
    title: "Create queue",
    body,
    action: "Create",
    async submit() {
      const place = { account: account.value, region: region.value };
      const fifoName = `${name.value.replace(/\.fifo$/, "")}.fifo`;
      const queue = {
        ...place,
        name: fifo.checked ? fifoName : name.value,
        attributes: { ...fields.changes(place), ...(fifo.checked ? { FifoQueue: "true" } : {}) },
      };
      const made = await call("POST", "queues", queue);
      notify(`${made.name} was created.`);
      location.hash = `#/${queuePath(made)}`;
    },
  });
}
