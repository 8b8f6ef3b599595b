// Overview: what goes through all queues, what is stored, and whether the cluster is well.

import { get } from "./api.js";
import { RATES, chart, depthFormat, sparkline } from "./charts.js";
import { count, h, keyed, rate, setText, short } from "./dom.js";
import { meter, poll, trouble } from "./poll.js";

const SECONDS = 2;

export function overviewPage() {
  const lost = trouble();
  const verdict = verdictLine();
  const tiles = [
    tile("Sent", "sent", "a second"),
    tile("Received", "received", "a second"),
    tile("Removed", "removed", "a second"),
    tile("Stored", "stored", "messages"),
  ];
  const rates = chart({ title: "Messages a second", series: RATES, unit: "a second" });
  const stored = chart({ title: "Messages stored", series: [{ name: "stored", label: "Stored" }], isStacked: true, unit: "messages", format: depthFormat });
  const busiest = queueList("Busiest queues", "Nothing went through any queue in the last ten seconds.", (row) => `${rate(row.rates.sent)} in, ${rate(row.rates.received)} out a second`);
  const deepest = queueList("Most messages", "All queues are empty.", (row) => `${count(row.stored)} stored`);
  const nodes = nodeCards();
  const measure = meter();
  const element = h("div", { class: "page" },
    h("div", { class: "title" }, h("h1", {}, "Overview"), verdict.element),
    lost.line,
    h("div", { class: "tiles" }, tiles.map((one) => one.element)),
    h("div", { class: "two" }, rates.element, stored.element),
    h("div", { class: "two" }, busiest.element, deepest.element),
    nodes.element);

  const asking = poll(() => Promise.all([get("overview"), get("cluster")]), ([overview, cluster]) => {
    const { history } = overview;
    const now = { ...measure(history), stored: overview.stored };
    for (const one of tiles) one.update(now, history);
    rates.update(history);
    stored.update(history);
    busiest.update(overview.busiest);
    deepest.update(overview.deepest);
    verdict.update(cluster.verdict);
    nodes.update(cluster);
  }, SECONDS, lost.show);
  return { element, stop: asking.stop };
}

export function tile(label, name, unit) {
  const value = h("strong", {}, "–");
  const line = sparkline(name);
  const element = h("section", { class: `card tile series-${name}` }, h("h2", {}, label), h("p", {}, value, " ", h("span", {}, unit)), line.element);
  return {
    element,
    update(now, history) {
      setText(value, unit === "messages" ? short(now[name]) : rate(now[name]));
      if (history[name]) line.update(history);
    },
  };
}

export function verdictLine() {
  const element = h("p", { class: "verdict", role: "status" });
  return {
    element,
    update(text) {
      const [word] = text.split(":");
      element.dataset.state = word;
      setText(element, text.charAt(0).toUpperCase() + text.slice(1));
    },
  };
}

function queueList(title, none, describe) {
  const rows = h("ul", { class: "rows" });
  const empty = h("p", { class: "none" }, none);
  return {
    element: h("section", { class: "card" }, h("h2", {}, title), rows, empty),
    update(queues) {
      empty.hidden = queues.length > 0;
      keyed(rows, queues, (queue) => `${queue.account}/${queue.region}/${queue.name}`,
        (queue) => h("li", {}, h("a", { href: `#/queues/${queue.account}/${queue.region}/${queue.name}` }, queue.name), h("span", {})),
        (row, queue) => setText(row.lastChild, describe(queue)));
    },
  };
}

function nodeCards() {
  const cards = h("ul", { class: "nodes" });
  return {
    element: h("section", { class: "card" }, h("header", {}, h("h2", {}, "Nodes and what they lead"), h("a", { href: "#/cluster" }, "Cluster")), cards),
    update(cluster) {
      keyed(cards, cluster.nodes, (node) => String(node.id), () => h("li", {}, h("h3", {}), h("p", {}), h("div", { class: "leads", role: "img" })), (card, node) => {
        const [name, state, leads] = card.children;
        const led = cluster.groups.filter((group) => group.leader === node.id);
        setText(name, `Node ${node.id}${node.id === cluster.node ? " (this one)" : ""}`);
        setText(state, node.reachable ? `version ${node.version}` : "not reachable");
        card.classList.toggle("down", !node.reachable);
        leads.setAttribute("aria-label", `leads ${led.length} of ${cluster.groups.length} groups`);
        keyed(leads, cluster.groups, (group) => String(group.group), (group) => h("i", { title: `Group ${group.group}` }), (box, group) => {
          box.className = group.leader === node.id ? "leads-it" : group.leader === 0 ? "nobody" : "";
        });
      });
    },
  };
}
