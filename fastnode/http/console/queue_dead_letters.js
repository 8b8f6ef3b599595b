// Dead letters of a queue: where they go, where they come from, and moving them back.

import { arnOf, call, get, mayChange, queuePath } from "./api.js";
import { ago, count, h, many, replace, setText } from "./dom.js";
import { field, formDialog, notify, wholeNumber } from "./notice.js";
import { poll, trouble } from "./poll.js";

const SECONDS = 2;
const ACTIVE = ["RUNNING", "CANCELLING"];
const WORDS = { RUNNING: "moving", COMPLETED: "done", CANCELLING: "stopping", CANCELLED: "stopped", FAILED: "failed" };

export function deadLettersTab(details) {
  const lost = trouble();
  const path = queuePath(details);
  const chain = h("ol", { class: "chain" });
  const chainNote = h("p", { class: "none" });
  const sources = h("ul", { class: "rows" });
  const sourcesNote = h("p", { class: "none" });
  const tasks = h("ul", { class: "tasks" });
  const moving = h("button", { type: "button", class: "primary", onclick: () => redriveDialog(details, asking.now) }, "Move messages back…");
  const redrive = h("section", { class: "card", hidden: true }, h("header", {}, h("h2", {}, "Redrive"), moving),
    h("p", { class: "none" }, "Moves the visible messages of this dead-letter queue to where they came from, or to another queue, so that they are tried again."), tasks);
  const element = h("div", { class: "stack" }, lost.line,
    h("section", { class: "card" }, h("h2", {}, "Where dead letters go"), chain, chainNote),
    redrive,
    h("section", { class: "card" }, h("h2", {}, "Queues that send their dead letters here"), sources, sourcesNote));

  const asking = poll(() => Promise.all([get(`${path}/dead-letters`), get(`${path}/redrive`)]), ([known, { tasks: moves }]) => {
    replace(chain, known.chain.map((link, at) => chainItem(link, at)));
    setText(chainNote, known.chain.length > 1 ? "" : "This queue has no dead-letter queue: a message that fails comes back until its retention runs out. Settings can name one.");
    replace(sources, known.sources.map((link) => h("li", {}, queueLink(link), h("span", {}, `after ${many(link.max_receive_count, "receive")}`))));
    setText(sourcesNote, known.sources.length ? "" : "None.");
    redrive.hidden = !known.sources.length && !moves.length;
    moving.disabled = !mayChange() || moves.some((task) => ACTIVE.includes(task.status));
    replace(tasks, moves.map((task) => taskItem(path, task, asking.now)));
  }, SECONDS, lost.show);
  return { element, stop: asking.stop };
}

const queueLink = (link) => h("a", { href: `#/${queuePath(link)}/dead-letters` }, link.name);

function chainItem(link, at) {
  const next = link.max_receive_count === null ? null : h("small", {}, `after ${many(link.max_receive_count, "receive")} →`);
  return h("li", { class: link.exists ? "" : "missing" },
    at === 0 ? h("strong", {}, link.name) : queueLink(link),
    link.exists ? null : h("small", {}, "does not exist"),
    next);
}

function taskItem(path, task, look) {
  const isRunning = task.status === "RUNNING";
  const total = Math.max(task.to_move, task.moved, 1);
  const target = task.destination_arn ? `to ${task.destination_arn.split(":").at(-1)}` : "to where they came from";
  const text = `${count(task.moved)} of about ${count(task.to_move)} moved ${target}, ${WORDS[task.status] ?? task.status.toLowerCase()}`;
  async function stop() {
    try {
      await call("DELETE", `${path}/redrive`);
      notify("The move is being stopped.");
    } catch (failure) {
      notify(failure.message);
    }
    look();
  }
  return h("li", {},
    h("p", {}, text, h("small", {}, ` · began ${ago(task.started_ms)}`)),
    h("progress", { max: String(total), value: task.status === "COMPLETED" ? total : task.moved, "aria-label": text }),
    task.failure_reason ? h("p", { class: "error" }, task.failure_reason) : null,
    isRunning ? h("button", { type: "button", disabled: !mayChange(), onclick: stop }, "Stop") : null);
}

function redriveDialog(details, look) {
  const target = h("input", { autocomplete: "off", spellcheck: "false", maxlength: "200" });
  const speed = h("input", { inputmode: "numeric", maxlength: "3" });
  formDialog({
    title: `Move messages of ${details.name}`,
    body: [
      field({ label: "To", input: target, help: "The name or the ARN of a queue. Empty: each message to the queue it came from.", check: (text) => (/^(arn:[a-z-]+:sqs:[a-z0-9-]+:[0-9]{12}:)?[A-Za-z0-9_-]{0,80}(\.fifo)?$/.test(text.trim()) ? null : "Give the name or the ARN of a queue.") }),
      field({ label: "At most, a second", input: speed, help: "1 to 500 messages. Empty: as fast as it goes.", check: (text) => (text === "" ? null : wholeNumber(1, 500)(text)) }),
    ],
    action: "Move",
    async submit() {
      const to = target.value.trim();
      const destination = to === "" || to.startsWith("arn:") ? to : arnOf({ ...details, name: to });
      await call("POST", `${queuePath(details)}/redrive`, { destination: destination || null, max_per_second: speed.value ? Number(speed.value) : null });
      notify("The messages are being moved.");
      look();
    },
  });
}
