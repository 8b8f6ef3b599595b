// The cluster: members, groups, who leads, and changing that.

import { call, get, mayChange } from "./api.js";
import { count, h, keyed, many, setText } from "./dom.js";
import { confirmByName, field, formDialog, notify, wholeNumber } from "./notice.js";
import { verdictLine } from "./overview.js";
import { poll, trouble } from "./poll.js";

const SECONDS = 2;
const ADDRESS = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$/;

export function clusterPage() {
  const lost = trouble();
  const verdict = verdictLine();
  const members = h("tbody", {});
  const groups = h("tbody", {});
  const ask = () => asking.now();
  let cluster = null;
  const add = h("button", { type: "button", class: "primary", disabled: !mayChange(), onclick: () => addDialog(ask) }, "Add a member");
  const transfer = h("button", { type: "button", disabled: !mayChange(), onclick: () => transferDialog(cluster, null, ask) }, "Transfer leads…");
  const element = h("div", { class: "page" },
    h("div", { class: "title" }, h("h1", {}, "Cluster"), verdict.element),
    lost.line,
    h("section", { class: "card table" }, h("header", {}, h("h2", {}, "Members"), add), table(["Node", "State", "Leads", "Reached at", "Version", "Clock", ""], members, "Members")),
    h("section", { class: "card table" }, h("header", {}, h("h2", {}, "Groups"), transfer),
      h("p", { class: "none" }, "Every queue belongs to a group. A group is one replicated log: its leader takes the changes, the others follow; lag counts the entries they lack."),
      table(["Group", "Leader", "Term", "Committed", "Applied", "Members", "Lag", ""], groups, "Groups")));
  const asking = poll(() => get("cluster"), (answer) => {
    cluster = answer;
    transfer.hidden = answer.nodes.length === 1;
    verdict.update(answer.verdict);
    keyed(members, answer.nodes, (node) => String(node.id), (node) => memberRow(node, () => cluster, ask), (row, node) => fillMember(row, node, answer));
    keyed(groups, answer.groups, (group) => String(group.group), (group) => groupRow(group, () => cluster, ask), (row, group) => fillGroup(row, group, answer));
  }, SECONDS, lost.show);
  return { element, stop: asking.stop };
}

function table(labels, body, caption) {
  const heads = labels.map((label) => (label ? h("th", { scope: "col" }, label) : h("td", {})));
  return h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, heads)), body);
}

const cells = (labels) => labels.map((label) => h("td", { "data-label": label }));

// --- members -------------------------------------------------------------------------------------

function memberRow(node, cluster, ask) {
  const remove = h("button", { type: "button", class: "danger", disabled: !mayChange(), "aria-label": `Remove node ${node.id}`, onclick: () => removeDialog(node, cluster(), ask) }, "Remove");
  return h("tr", {}, h("th", { scope: "row" }, `Node ${node.id}`), cells(["State", "Leads", "Reached at", "Version", "Clock"]), h("td", {}, remove));
}

function fillMember(row, node, cluster) {
  const [, state, leads, address, version, clock] = row.children;
  const led = cluster.groups.filter((group) => group.leader === node.id).length;
  const isLearner = cluster.groups.some((group) => group.learners.includes(node.id));
  const words = [node.reachable ? "reachable" : "not reachable", isLearner ? "catching up" : "", node.id === cluster.node ? "this one" : ""];
  setText(state, words.filter(Boolean).join(", "));
  row.classList.toggle("down", !node.reachable);
  setText(leads, `${led} of ${cluster.groups.length}`);
  setText(address, node.addresses.raft || "–");
  setText(version, node.version || "–");
  setText(clock, node.clock_offset_ms === null || node.id === cluster.node ? "–" : `${node.clock_offset_ms > 0 ? "+" : ""}${node.clock_offset_ms} ms`);
  row.lastChild.firstChild.hidden = cluster.nodes.length === 1;
}

function addDialog(ask) {
  const node = h("input", { inputmode: "numeric", maxlength: "5", autofocus: true });
  const address = h("input", { autocomplete: "off", spellcheck: "false", maxlength: "255", placeholder: "10.0.0.4:9326" });
  formDialog({
    title: "Add a member",
    body: [
      h("p", {}, "A node that is started with --join adds itself. This says which one to expect, and lets the number of a member that was removed be used again. A new member first learns everything the cluster knows, and has a vote once it has caught up. An odd number of members is best: three bear the loss of one, five that of two."),
      field({ label: "Node number", input: node, help: "Its --node-id: one that no other member has.", check: wholeNumber(1, 65_535) }),
      field({ label: "Address", input: address, help: "Its --raft address, as the other members reach it.", check: (text) => (ADDRESS.test(text.trim()) ? null : "Give HOST:PORT, an IPv6 host in brackets.") }),
    ],
    action: "Add",
    async submit() {
      await call("POST", "cluster/members", { node: Number(node.value), raft: address.value.trim() });
      notify(`Node ${node.value} is a learner, and has a vote once it has caught up.`);
      ask();
    },
  });
}

function removeDialog(node, cluster, ask) {
  const left = cluster.nodes.length - 1;
  const bears = Math.floor((left - 1) / 2);
  const name = `node ${node.id}`;
  confirmByName({
    title: `Remove node ${node.id}`,
    text: `It takes part no longer, and its data counts no more: whoever comes in its place needs an empty data directory, and should have a new number. ${many(left, "member")} will be left, which can bear the loss of ${bears === 0 ? "none" : bears}.`,
    name,
    action: "Remove",
    async submit() {
      await call("DELETE", `cluster/members/${node.id}`);
      notify(`Node ${node.id} is no longer a member.`);
      ask();
    },
  });
}

// --- groups --------------------------------------------------------------------------------------

function groupRow(group, cluster, ask) {
  const move = h("button", { type: "button", disabled: !mayChange(), "aria-label": `Transfer the lead of group ${group.group}`, onclick: () => transferDialog(cluster(), group.group, ask) }, "Transfer");
  return h("tr", {}, h("th", { scope: "row" }, `Group ${group.group}`), cells(["Leader", "Term", "Committed", "Applied", "Members", "Lag"]), h("td", {}, move));
}

function fillGroup(row, group, cluster) {
  const [, leader, term, commit, applied, voters, lag] = row.children;
  setText(leader, group.leader === 0 ? "nobody" : `node ${group.leader}`);
  row.classList.toggle("down", group.leader === 0);
  setText(term, count(group.term));
  setText(commit, count(group.commit));
  setText(applied, count(group.applied));
  const learners = group.learners.length ? `, learning: ${group.learners.join(", ")}` : "";
  setText(voters, `${group.voters.join(", ")}${learners}`);
  const behind = Object.entries(group.lag).map(([node, entries]) => `node ${node}: ${count(entries)}`);
  setText(lag, cluster.nodes.length === 1 ? "–" : behind.join(", ") || "not known");
  row.lastChild.firstChild.hidden = cluster.nodes.length === 1;
}

function transferDialog(cluster, group, ask) {
  if (cluster === null) return;
  const target = h("select", {}, cluster.nodes.map((node) => h("option", { value: String(node.id), disabled: !node.reachable }, `Node ${node.id}${node.reachable ? "" : " (not reachable)"}`)));
  const what = group === null ? "all groups" : `group ${group}`;
  formDialog({
    title: `Transfer the lead of ${what}`,
    body: [
      h("p", {}, "Calls that are under way are carried to the new leader; clients notice a moment's wait. The node keeps what it was given for ten minutes, then leads are spread evenly again."),
      field({ label: "To", input: target }),
    ],
    action: "Transfer",
    async submit() {
      const which = group === null ? { all: true } : { group };
      const done = await call("POST", "cluster/transfer", { ...which, to: Number(target.value) });
      notify(done.groups.length ? `Node ${done.to} now leads ${many(done.groups.length, "group")} more.` : `Node ${done.to} led ${what} already.`);
      ask();
    },
  });
}
