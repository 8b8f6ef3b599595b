// Asking again and again, while the page is looked at. A view starts it and stops it when it goes.

import { h } from "./dom.js";

export function poll(ask, show, seconds, onError) {
  let timer = 0;
  let isStopped = false;
  let isAsking = false;
  async function turn() {
    clearTimeout(timer);
    if (isStopped || isAsking || document.hidden) return;
    isAsking = true;
    try {
      const answer = await ask();
      if (!isStopped) {
        show(answer);
        onError(null);
      }
    } catch (error) {
      if (!isStopped) onError(error);
    }
    isAsking = false;
    if (!isStopped) timer = setTimeout(turn, seconds * 1000);
  }
  document.addEventListener("visibilitychange", turn);
  turn();
  return {
    now: turn,
    stop() {
      isStopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", turn);
    },
  };
}

// A line that says that what is shown is old, and why.
export function trouble() {
  const line = h("p", { class: "trouble", role: "status", hidden: true });
  return {
    line,
    show(error) {
      line.hidden = error === null;
      line.textContent = error === null ? "" : `${error.message} What you see may be old; the console tries again.`;
    },
  };
}

// Messages per second between two answers with what has passed so far; of the last slot at first.
export function meter() {
  let before = null;
  return (history) => {
    const now = { at: performance.now(), passed: history.passed };
    const last = before;
    if (before === null || now.at - before.at >= 1500) before = now;
    const names = ["sent", "received", "removed"];
    if (last === null) return Object.fromEntries(names.map((name) => [name, (history[name].at(-1) ?? 0) / history.interval_seconds]));
    const seconds = (now.at - last.at) / 1000;
    return Object.fromEntries(names.map((name) => [name, Math.max(0, now.passed[name] - last.passed[name]) / seconds]));
  };
}
