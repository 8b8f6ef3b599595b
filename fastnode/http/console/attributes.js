// What may be set of a queue, in plain words: the fields of a form, and what has changed in it.

import { arnOf } from "./api.js";
import { count, duration, h, uniqueId } from "./dom.js";
import { field } from "./notice.js";

const TIMES = [["seconds", 1], ["minutes", 60], ["hours", 3600], ["days", 86400]];
const SIZES = [["bytes", 1], ["KiB", 1024]];

const MAIN = [
  { name: "VisibilityTimeout", label: "Hide a received message for", kind: "time", low: 0, high: 43_200, unset: "30", help: "Whoever receives a message has this long to delete it. Then others can receive it again. Up to 12 hours." },
  { name: "MessageRetentionPeriod", label: "Keep messages for", kind: "time", low: 60, high: 1_209_600, unset: "345600", help: "What nobody has deleted by then is gone. 1 minute to 14 days." },
  { name: "DelaySeconds", label: "Delay new messages by", kind: "time", low: 0, high: 900, unset: "0", help: "Nobody can receive a message before that. Up to 15 minutes." },
  { name: "ReceiveMessageWaitTimeSeconds", label: "Let a receive wait for up to", kind: "time", low: 0, high: 20, unset: "0", help: "If there is nothing to receive: long polling. Up to 20 seconds." },
  { name: "MaximumMessageSize", label: "Refuse messages larger than", kind: "size", low: 1_024, high: 1_048_576, unset: "1048576", help: "1 KiB to 1,024 KiB, with all attributes." },
];
const FIFO = [
  { name: "ContentBasedDeduplication", label: "Messages with the same body are duplicates", kind: "choice", unset: "false", choices: [["false", "No: senders give a deduplication id"], ["true", "Yes, if they come within five minutes"]] },
  { name: "DeduplicationScope", label: "Duplicates are looked for", kind: "choice", unset: "queue", choices: [["queue", "in the whole queue"], ["messageGroup", "in each message group"]] },
  { name: "FifoThroughputLimit", label: "Limits on throughput apply", kind: "choice", unset: "perQueue", choices: [["perQueue", "to the whole queue"], ["perMessageGroupId", "to each message group"]], help: "For each group only if duplicates are looked for in each group too." },
];
const ADVANCED = [
  { name: "ThrottleSendCapacity", label: "Sends: burst", kind: "amount", unset: "0", help: "How many messages may be sent at once before the limit applies. 0 is no limit; otherwise at least 10." },
  { name: "ThrottleSendRefillPerSecond", label: "Sends: a second", kind: "amount", unset: "0", help: "How many messages a second may be sent in the long run." },
  { name: "ThrottleRecvCapacity", label: "Receives: burst", kind: "amount", unset: "0", help: "The same for what consumers do: receive, delete, change visibility." },
  { name: "ThrottleRecvRefillPerSecond", label: "Receives: a second", kind: "amount", unset: "0" },
  { name: "Policy", label: "Access policy", kind: "json", unset: "", help: "JSON, as AWS writes it. Empty: the owner only." },
  { name: "RedriveAllowPolicy", label: "Who may use this as a dead-letter queue", kind: "json", unset: "", help: 'JSON, as in {"redrivePermission": "denyAll"}. Empty: every queue of the account.' },
];

// `current` are the attributes as the API shows them. `queues` are names to propose as dead-letter queue.
export function attributeFields(current, isFifo, { isNew = false, queues = [] } = {}) {
  const rules = [...MAIN, ...(isFifo ? FIFO : [])];
  const main = rules.map((rule) => control(rule, current[rule.name] ?? rule.unset));
  const advanced = isNew ? [] : ADVANCED.map((rule) => control(rule, current[rule.name] ?? rule.unset));
  const dead = deadLetterControl(current.RedrivePolicy, queues);
  return {
    main: [...main.map((one) => one.row), dead.row],
    advanced: advanced.map((one) => one.row),
    // Those that differ, as SQS spells them. `place` is where the queue is: a bare name means one beside it.
    changes(place) {
      const changed = {};
      for (const { rule, read } of [...main, ...advanced]) {
        if (read() !== (current[rule.name] ?? rule.unset)) changed[rule.name] = read();
      }
      const redrive = dead.read(place);
      if (!isSamePolicy(redrive, current.RedrivePolicy ?? "")) changed.RedrivePolicy = redrive;
      return changed;
    },
  };
}

function control(rule, value) {
  if (rule.kind === "time") return measured(rule, value, TIMES);
  if (rule.kind === "size") return measured(rule, value, SIZES);
  if (rule.kind === "choice") return chosen(rule, value);
  return written(rule, value);
}

// A number and its unit: the largest that leaves it whole.
function measured(rule, value, units) {
  const seconds = Number(value);
  const [unitName] = [...units].reverse().find(([, size]) => seconds % size === 0 && seconds >= size) ?? units[0];
  const size = units.find(([name]) => name === unitName)[1];
  const input = h("input", { inputmode: "numeric", value: String(seconds / size), maxlength: "9" });
  const unit = h("select", { "aria-label": `Unit of: ${rule.label}` }, units.map(([name]) => h("option", { value: name, selected: name === unitName }, name)));
  const total = () => Number(input.value) * units.find(([name]) => name === unit.value)[1];
  const shown = rule.kind === "time" ? duration : (bytes) => `${count(bytes)} bytes`;
  const check = (text) => (/^[0-9]{1,9}$/.test(text) && total() >= rule.low && total() <= rule.high ? null : `Give a whole number, so that it is ${shown(rule.low)} to ${shown(rule.high)}.`);
  const row = field({ label: rule.label, input, help: rule.help, check, also: unit });
  unit.addEventListener("change", row.check);
  return { rule, row, read: () => String(total()) };
}

function chosen(rule, value) {
  const input = h("select", {}, rule.choices.map(([name, label]) => h("option", { value: name, selected: name === value }, label)));
  return { rule, row: field({ label: rule.label, input, help: rule.help }), read: () => input.value };
}

function written(rule, value) {
  const isJson = rule.kind === "json";
  const input = isJson
    ? h("textarea", { rows: "4", spellcheck: "false", value: pretty(value) })
    : h("input", { inputmode: "decimal", value, maxlength: "13" });
  const check = isJson ? checkJson : (text) => (/^[0-9]{1,6}(\.[0-9]{1,6})?$/.test(text) && Number(text) <= 100_000 ? null : "Give a number from 0 to 100,000.");
  // What was not touched is sent back as it came.
  const read = () => (input.value === pretty(value) ? value : input.value.trim());
  return { rule, row: field({ label: rule.label, input, help: rule.help, check }), read };
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function checkJson(text) {
  try {
    if (text.trim()) JSON.parse(text);
    return null;
  } catch {
    return "This is no valid JSON.";
  }
}

// --- dead letters --------------------------------------------------------------------------------

function deadLetterControl(policy, queues) {
  const { deadLetterTargetArn = "", maxReceiveCount = "" } = policyOf(policy);
  const listId = uniqueId("queues");
  const target = h("input", { autocomplete: "off", spellcheck: "false", list: listId, maxlength: "200", value: deadLetterTargetArn.split(":").at(-1) });
  const times = h("input", { inputmode: "numeric", maxlength: "4", value: String(maxReceiveCount || "5") });
  const targetRow = field({ label: "Dead-letter queue", input: target, help: "Where messages go that were received too often without being deleted. A queue of the same type; empty for none." , check: (text) => (/^(arn:[a-z-]+:sqs:[a-z0-9-]+:[0-9]{12}:)?[A-Za-z0-9_-]{0,80}(\.fifo)?$/.test(text.trim()) ? null : "Give the name or the ARN of a queue.") });
  const timesRow = field({ label: "…after so many receives", input: times, check: (text) => (!target.value.trim() || (/^[0-9]{1,4}$/.test(text) && Number(text) >= 1 && Number(text) <= 1000) ? null : "Give a whole number from 1 to 1,000.") });
  const row = h("div", { class: "pair" }, targetRow, timesRow, h("datalist", { id: listId }, queues.map((name) => h("option", { value: name }))));
  return {
    row,
    read({ account, region }) {
      const text = target.value.trim();
      if (!text) return "";
      const isOld = deadLetterTargetArn && text === deadLetterTargetArn.split(":").at(-1);
      const arn = text.startsWith("arn:") ? text : isOld ? deadLetterTargetArn : arnOf({ account, region, name: text });
      return JSON.stringify({ deadLetterTargetArn: arn, maxReceiveCount: Number(times.value) });
    },
  };
}

function policyOf(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

function isSamePolicy(one, other) {
  const [first, second] = [policyOf(one), policyOf(other)];
  return first.deadLetterTargetArn === second.deadLetterTargetArn && Number(first.maxReceiveCount ?? 0) === Number(second.maxReceiveCount ?? 0);
}
