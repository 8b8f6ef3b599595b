// Settings of a queue: attributes in plain words, tags, and what cannot be undone.

import { call, get, mayChange, query, queuePath } from "./api.js";
import { attributeFields } from "./attributes.js";
import { count, h, replace } from "./dom.js";
import { checkFields, confirmByName, field, notify, showError } from "./notice.js";

const TAGS_MAX = 50;

export function settingsTab(details) {
  const element = h("div", { class: "stack" }, attributesForm(details), tagsForm(details), dangers(details));
  if (!mayChange()) {
    element.prepend(h("p", { class: "none" }, "Your token may look only: nothing here can be changed."));
    element.querySelectorAll("input, select, textarea, button").forEach((one) => { one.disabled = true; });
  }
  return { element, stop() {} };
}

function formCard(title, rows, action, submit) {
  const error = h("p", { class: "error", role: "alert", hidden: true });
  const doing = h("button", { type: "submit", class: "primary" }, action);
  async function send(event) {
    event.preventDefault();
    error.hidden = true;
    if (!checkFields(form)) return;
    doing.disabled = true;
    try {
      await submit();
    } catch (failure) {
      showError(error, failure);
    }
    doing.disabled = false;
  }
  const form = h("form", { class: "card", onsubmit: send, novalidate: true }, h("h2", {}, title), rows, error, h("div", { class: "buttons" }, doing));
  return form;
}

// --- attributes ----------------------------------------------------------------------------------

function attributesForm(details) {
  let current = details.attributes;
  let fields = attributeFields(current, details.name.endsWith(".fifo"));
  const main = h("div", { class: "fields" }, fields.main);
  const advanced = h("details", {}, h("summary", {}, "Rate limits and policies"), h("div", { class: "fields" }, fields.advanced));
  proposeQueues(details, main);
  return formCard("Attributes", [main, advanced], "Save attributes", async () => {
    const attributes = fields.changes(details);
    if (!Object.keys(attributes).length) return notify("Nothing was changed.");
    const saved = await call("PATCH", queuePath(details), { attributes });
    current = saved.attributes;
    fields = attributeFields(current, details.name.endsWith(".fifo"));
    replace(main, fields.main);
    replace(advanced.lastChild, fields.advanced);
    proposeQueues(details, main);
    notify("The attributes were saved.");
  });
}

async function proposeQueues(details, container) {
  try {
    const { queues } = await get(`queues${query({ limit: "200" })}`);
    const beside = queues.filter((one) => one.account === details.account && one.region === details.region && one.name.endsWith(".fifo") === details.name.endsWith(".fifo") && one.name !== details.name);
    container.querySelector("datalist")?.replaceChildren(...beside.map((one) => h("option", { value: one.name })));
  } catch {
    // It can be typed as well.
  }
}

// --- tags ----------------------------------------------------------------------------------------

function tagsForm(details) {
  const rows = h("ul", { class: "tags" });
  const add = h("button", { type: "button", onclick: () => { addRow("", ""); rows.lastChild.querySelector("input").focus(); } }, "Add a tag");
  function addRow(key, value) {
    if (rows.children.length >= TAGS_MAX) return notify(`A queue has ${TAGS_MAX} tags at most.`);
    const name = h("input", { autocomplete: "off", maxlength: "128", value: key });
    const text = h("input", { autocomplete: "off", maxlength: "256", value });
    const item = h("li", {},
      field({ label: "Key", input: name, check: (given) => (given.trim() ? (/^aws:/i.test(given) ? "Keys that begin with aws: are reserved." : null) : "Give a key, or remove the tag.") }),
      field({ label: "Value", input: text }),
      h("button", { type: "button", onclick: () => item.remove() }, "Remove"));
    item.tag = () => [name.value, text.value];
    rows.append(item);
  }
  for (const [key, value] of Object.entries(details.tags)) addRow(key, value);
  return formCard("Tags", [rows, h("p", {}, add)], "Save tags", async () => {
    const pairs = [...rows.children].map((item) => item.tag());
    const tags = Object.fromEntries(pairs);
    if (Object.keys(tags).length < pairs.length) throw new Error("Two tags have the same key.");
    await call("PUT", `${queuePath(details)}/tags`, { tags });
    notify("The tags were saved.");
  });
}

// --- what cannot be undone -----------------------------------------------------------------------

function dangers(details) {
  const path = queuePath(details);
  const purge = () => confirmByName({
    title: "Purge queue",
    text: `All messages of ${details.name} will be gone: visible, in flight and delayed. This cannot be undone.`,
    name: details.name,
    action: "Purge",
    async submit() {
      await call("POST", `${path}/purge`, { confirm: details.name });
      notify("The queue was purged.");
    },
  });
  const remove = () => confirmByName({
    title: "Delete queue",
    text: `${details.name} and its messages will be gone (about ${count(details.messages.visible + details.messages.in_flight + details.messages.delayed)}). Clients that use it will fail. This cannot be undone.`,
    name: details.name,
    action: "Delete",
    async submit() {
      await call("DELETE", `${path}${query({ confirm: details.name })}`);
      notify(`${details.name} was deleted.`);
      location.hash = "#/queues";
    },
  });
  return h("section", { class: "card dangers" }, h("h2", {}, "What cannot be undone"),
    h("div", {}, h("p", {}, h("strong", {}, "Purge"), " removes all messages and keeps the queue."), h("button", { type: "button", class: "danger", onclick: purge }, "Purge queue")),
    h("div", {}, h("p", {}, h("strong", {}, "Delete"), " removes the queue with all its messages."), h("button", { type: "button", class: "danger", onclick: remove }, "Delete queue")));
}
