// Messages of a queue, by looking at them without receiving them; and sending one to try it.

import { call, get, mayChange, query, queuePath } from "./api.js";
import { ago, bytes, count, dateTime, h, many, replace, setText, uniqueId } from "./dom.js";
import { field, formDialog, notify, showError, wholeNumber } from "./notice.js";
import { prettyJson } from "./pretty.js";

const STATES = [["visible", "Visible"], ["in_flight", "In flight"], ["delayed", "Delayed"]];
const PAGE = 20;
// A search goes on by itself through so many pages of a thousand rows.
const EMPTY_PAGES_MAX = 20;
const WHOLE_BODY_BYTES = 262_144;

export function messagesTab(queue) {
  const radioName = uniqueId("state");
  const filterId = uniqueId("filter");
  const filter = h("input", { type: "search", id: filterId, placeholder: "Text in the body, or a message id", maxlength: "500", autocomplete: "off", spellcheck: "false" });
  const list = h("ol", { class: "messages" });
  const summary = h("p", { class: "none", role: "status" });
  const error = h("p", { class: "error", role: "alert", hidden: true });
  const more = h("button", { type: "button", hidden: true, onclick: () => load() }, "Show more");
  const radios = STATES.map(([value, label]) => h("label", {}, h("input", { type: "radio", name: radioName, value, checked: value === "visible", onchange: () => begin(value) }), h("span", {}, label)));
  const refresh = h("button", { type: "button", onclick: () => begin() }, "Look again");
  const element = h("div", {},
    h("form", { class: "toolbar", onsubmit: (event) => { event.preventDefault(); begin(); } },
      h("fieldset", { class: "segments" }, h("legend", { class: "unseen" }, "State"), radios),
      h("label", { for: filterId }, "Filter"), filter, refresh),
    error, summary, list, more);
  let state = "visible";
  let cursor = "";
  let shown = 0;
  let turn = 0;

  function begin(next = state) {
    state = next;
    cursor = "";
    shown = 0;
    turn += 1;
    replace(list);
    return load();
  }
  async function load() {
    const mine = turn;
    error.hidden = true;
    more.disabled = true;
    setText(summary, "Looking…");
    try {
      const page = await nextPage(queue, { state, contains: filter.value, cursor });
      if (mine !== turn) return;
      cursor = page.cursor ?? "";
      shown += page.messages.length;
      list.append(...page.messages.map((message) => messageItem(queue, state, message)));
      more.hidden = !cursor;
      setText(summary, summaryOf(shown, state, filter.value, cursor));
    } catch (failure) {
      if (mine !== turn) return;
      setText(summary, "");
      more.hidden = true;
      showError(error, failure);
    }
    more.disabled = false;
  }
  filter.addEventListener("search", () => begin());
  begin();
  return { element, stop() { turn += 1; } };
}

// A page may be empty and still have a cursor.
async function nextPage(queue, { state, contains, cursor }) {
  let page;
  for (let looked = 0; looked < EMPTY_PAGES_MAX; looked += 1) {
    page = await get(`${queuePath(queue)}/messages${query({ state, contains, cursor, limit: String(PAGE) })}`);
    cursor = page.cursor;
    if (page.messages.length || !cursor) break;
  }
  return page;
}

function summaryOf(shown, state, filter, cursor) {
  const word = STATES.find(([name]) => name === state)[1].toLowerCase();
  if (shown) return `${many(shown, "message")}${cursor ? ", and there are more" : ""}. Looking changes nothing.`;
  if (cursor) return "Nothing found so far; there is more to search.";
  return filter ? "No message has this text." : `No message is ${word}.`;
}

// --- one message ---------------------------------------------------------------------------------

function messageItem(queue, state, message) {
  const content = h("div", { class: "content" });
  const details = h("details", { ontoggle: open },
    h("summary", {},
      h("code", { class: "preview" }, message.body.slice(0, 300)),
      h("span", { class: "meta" }, metaOf(message))),
    content);
  function open() {
    if (!details.open || content.childNodes.length) return;
    fill(message);
  }
  function fill(whole) {
    const isCut = whole.body_truncated && whole.body.length < WHOLE_BODY_BYTES / 4;
    replace(content, bodyOf(whole), isCut ? wholeButton() : null, factsOf(whole));
  }
  function wholeButton() {
    const error = h("p", { class: "error", role: "alert", hidden: true });
    async function fetchWhole() {
      try {
        const found = await wholeMessage(queue, state, message.message_id);
        if (found === null) throw new Error("It is no longer there.");
        fill(found);
      } catch (failure) {
        showError(error, failure);
      }
    }
    return h("p", {}, h("button", { type: "button", onclick: fetchWhole }, `Show more of its ${bytes(message.body_bytes)}`), error);
  }
  return h("li", { class: "card message" }, details);
}

function metaOf(message) {
  const parts = [ago(message.sent_ms), bytes(message.body_bytes)];
  if (message.receive_count) parts.push(`received ${message.receive_count === 1 ? "once" : `${count(message.receive_count)} times`}`);
  if (message.message_group_id) parts.push(`group ${message.message_group_id}`);
  return parts.join(" · ");
}

function bodyOf(message) {
  const pretty = message.body_truncated ? null : prettyJson(message.body);
  const note = message.body_truncated ? `The first ${bytes(new TextEncoder().encode(message.body).length)} of the body` : pretty ? "Body, as JSON" : "Body";
  return h("figure", {}, h("figcaption", {}, note), h("pre", { dir: "auto", tabindex: "0", "aria-label": note }, pretty ?? message.body));
}

function factsOf(message) {
  const facts = [
    ["Message id", message.message_id],
    ["Sent", `${dateTime(message.sent_ms)} by ${message.sender_id}`],
    ["Received", message.receive_count ? `${many(message.receive_count, "time")}, first ${dateTime(message.first_receive_ms)}` : "never"],
    message.visible_at_ms && message.visible_at_ms > Date.now() ? ["Visible again", dateTime(message.visible_at_ms)] : null,
    message.message_group_id ? ["Message group", message.message_group_id] : null,
    message.source_arn ? ["Came from", message.source_arn] : null,
    message.attribute_names?.length ? ["Attributes", message.attribute_names.join(", ")] : null,
  ];
  return h("dl", { class: "facts" }, facts.filter(Boolean).map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))));
}

async function wholeMessage(queue, state, id) {
  let cursor = "";
  for (let looked = 0; looked < EMPTY_PAGES_MAX; looked += 1) {
    const page = await get(`${queuePath(queue)}/messages${query({ state, contains: id, cursor, limit: "1", body_max_bytes: String(WHOLE_BODY_BYTES) })}`);
    const found = page.messages.find((message) => message.message_id === id);
    if (found) return found;
    if (!page.cursor) return null;
    cursor = page.cursor;
  }
  return null;
}

// --- sending -------------------------------------------------------------------------------------

export function sendDialog(queue) {
  const isFifo = queue.name.endsWith(".fifo");
  const body = h("textarea", { rows: "7", spellcheck: "false", autofocus: true });
  const delay = h("input", { inputmode: "numeric", maxlength: "3", placeholder: "that of the queue" });
  const group = h("input", { autocomplete: "off", maxlength: "128", value: "console" });
  const deduplication = h("input", { autocomplete: "off", maxlength: "128", value: `console-${Date.now()}` });
  const bodyRow = field({ label: "Body", input: body, help: "Any text; JSON is not checked.", check: (text) => (text ? null : "Give a body.") });
  const rows = isFifo
    ? [field({ label: "Message group", input: group, check: needed }), field({ label: "Deduplication id", input: deduplication, help: "A message with the id of another one of the last five minutes is not stored again.", check: needed })]
    : [field({ label: "Delay in seconds", input: delay, check: (text) => (text === "" ? null : wholeNumber(0, 900)(text)) })];
  formDialog({
    title: `Send a message to ${queue.name}`,
    body: mayChange() ? [bodyRow, rows] : [h("p", {}, "Your token may look only."), bodyRow],
    action: "Send",
    isReady: mayChange,
    async submit() {
      const message = { body: body.value };
      if (isFifo) Object.assign(message, { group_id: group.value, deduplication_id: deduplication.value });
      else if (delay.value) message.delay_seconds = Number(delay.value);
      const sent = await call("POST", `${queuePath(queue)}/messages`, message);
      notify(`Sent as ${sent.message_id}.`);
    },
  });
}

const needed = (text) => (text.trim() ? null : "This is needed.");
