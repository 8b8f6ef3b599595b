// One queue: its tabs, and what goes through it.

import { get, queuePath } from "./api.js";
import { DEPTHS, RATES, chart, depthFormat } from "./charts.js";
import { count, dateTime, duration, h, replace } from "./dom.js";
import { notify } from "./notice.js";
import { tile } from "./overview.js";
import { meter, poll, trouble } from "./poll.js";
import { deadLettersTab } from "./queue_dead_letters.js";
import { messagesTab, sendDialog } from "./queue_messages.js";
import { settingsTab } from "./queue_settings.js";

const SECONDS = 2;
const TABS = [["activity", "Activity"], ["messages", "Messages"], ["settings", "Settings"], ["dead-letters", "Dead letters"]];
const CONTENT = { activity: activityTab, messages: messagesTab, settings: settingsTab, "dead-letters": deadLettersTab };

export function queuePage(queue, tab) {
  const body = h("div", {});
  const header = h("div", { class: "title" },
    h("div", {}, h("p", { class: "crumb" }, h("a", { href: "#/queues" }, "Queues")),
      h("h1", {}, queue.name, queue.name.endsWith(".fifo") ? h("span", { class: "badge" }, "FIFO") : null)));
  const tabs = h("nav", { class: "tabs", "aria-label": "About this queue" }, h("ul", {}, TABS.map(([name, label]) =>
    h("li", {}, h("a", { href: `#/${queuePath(queue)}${name === "activity" ? "" : `/${name}`}`, "aria-current": name === tab ? "page" : null }, label)))));
  let content = null;
  let isStopped = false;
  async function begin() {
    try {
      const details = await get(queuePath(queue));
      if (isStopped) return;
      header.append(actions(details));
      content = CONTENT[tab](details);
      replace(body, content.element);
    } catch (failure) {
      const text = failure.code === "queue_not_found" ? "There is no such queue. It may have been deleted." : failure.message;
      replace(body, h("p", { class: "error", role: "alert" }, text));
    }
  }
  begin();
  return {
    element: h("div", { class: "page" }, header, tabs, body),
    stop() {
      isStopped = true;
      content?.stop();
    },
  };
}

function actions(details) {
  return h("div", { class: "buttons" },
    h("button", { type: "button", onclick: () => copy(details.arn) }, "Copy ARN"),
    sendButton(details));
}

function sendButton(details) {
  return h("button", { type: "button", class: "primary", onclick: () => sendDialog(details) }, "Send a message");
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    notify("The ARN was copied.");
  } catch {
    notify(text);
  }
}

function activityTab(queue) {
  const lost = trouble();
  const measure = meter();
  const depths = [tile("Visible", "visible", "messages"), tile("In flight", "in_flight", "messages"), tile("Delayed", "delayed", "messages")];
  const rates = [tile("Sent", "sent", "a second"), tile("Received", "received", "a second"), tile("Removed", "removed", "a second")];
  const rateChart = chart({ title: "Messages a second", series: RATES, unit: "a second" });
  const depthChart = chart({ title: "Messages in the queue", series: DEPTHS, isStacked: true, unit: "messages", format: depthFormat });
  const facts = h("dl", { class: "facts" });
  const element = h("div", {}, lost.line,
    h("div", { class: "tiles six" }, [...depths, ...rates].map((one) => one.element)),
    h("div", { class: "two" }, rateChart.element, depthChart.element),
    h("section", { class: "card" }, h("h2", {}, "In short"), facts));
  replace(facts, factsOf(queue));
  const path = queuePath(queue);
  const asking = poll(() => Promise.all([get(path), get(`${path}/history`)]), ([details, history]) => {
    for (const one of depths) one.update(details.messages, history);
    const now = measure(history);
    for (const one of rates) one.update(now, history);
    rateChart.update(history);
    depthChart.update(history);
  }, SECONDS, lost.show);
  return { element, stop: asking.stop };
}

function factsOf({ arn, created_ms, modified_ms, attributes, tags }) {
  const facts = [
    ["ARN", arn],
    ["Created", dateTime(created_ms)],
    ["Changed", dateTime(modified_ms)],
    ["A received message is hidden for", duration(Number(attributes.VisibilityTimeout))],
    ["Messages are kept for", duration(Number(attributes.MessageRetentionPeriod))],
    ["New messages are delayed by", Number(attributes.DelaySeconds) ? duration(Number(attributes.DelaySeconds)) : "nothing"],
    ["Largest message", `${count(Number(attributes.MaximumMessageSize))} bytes`],
    ["Tags", Object.entries(tags).map(([key, value]) => `${key}: ${value}`).join(", ") || "none"],
  ];
  return facts.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value)));
}
