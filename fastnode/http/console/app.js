// The frame: who is signed in, which page the address names, and the bar above all pages.

import { resume, session, signIn, signOut, whenSignedOut } from "./api.js";
import { h, replace, setText } from "./dom.js";
import { field, notices, notify, showError } from "./notice.js";
import { clusterPage } from "./cluster.js";
import { overviewPage } from "./overview.js";
import { queuePage } from "./queue.js";
import { queuesPage } from "./queues.js";

const PLACES = [["#/", "Overview"], ["#/queues", "Queues"], ["#/cluster", "Cluster"]];
const QUEUE = /^#\/queues\/([0-9]{12})\/([a-z0-9-]{1,32})\/([A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo)(?:\/(messages|settings|dead-letters))?$/;
const THEMES = { auto: "light", light: "dark", dark: "auto" };
const THEME_KEY = "fastnode-theme";

const main = h("main", { id: "main", tabindex: "-1" });
const bar = h("header", { class: "bar" });
let page = null;

// --- pages ---------------------------------------------------------------------------------------

function pageOf(hash) {
  if (hash === "" || hash === "#" || hash === "#/") return [overviewPage(), "Overview"];
  if (hash === "#/queues") return [queuesPage(), "Queues"];
  if (hash === "#/cluster") return [clusterPage(), "Cluster"];
  const match = QUEUE.exec(hash);
  if (match === null) return [missingPage(), "Not found"];
  const [, account, region, name, tab] = match;
  return [queuePage({ account, region, name }, tab ?? "activity"), name];
}

function missingPage() {
  return { element: h("div", { class: "empty" }, h("h1", {}, "There is no such page"), h("p", {}, h("a", { href: "#/" }, "Go to the overview"))), stop() {} };
}

function show(isFirst) {
  page?.stop();
  document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
  const [next, title] = pageOf(location.hash);
  page = next;
  document.title = `${title} – fastnode`;
  replace(main, page.element);
  drawBar();
  scrollTo(0, 0);
  if (!isFirst) main.focus({ preventScroll: true });
}

// --- the bar -------------------------------------------------------------------------------------

function drawBar() {
  const here = location.hash || "#/";
  const links = PLACES.map(([href, label]) => {
    const isHere = href === "#/" ? here === href : here.startsWith(href);
    return h("li", {}, h("a", { href, "aria-current": isHere ? "page" : null }, label));
  });
  const who = session.role === "read-only" ? `${session.name} · may look only` : session.name;
  replace(bar,
    h("a", { class: "brand", href: "#/" }, h("img", { src: "/console/icon.svg", alt: "", width: "26", height: "26" }), "fastnode"),
    h("nav", { "aria-label": "Pages" }, h("ul", {}, session.signedIn ? links : [])),
    h("div", { class: "who" },
      who ? h("span", {}, who) : null,
      themeButton(),
      session.signedIn && session.needsToken ? h("button", { type: "button", class: "quiet", onclick: leave }, "Sign out") : null));
}

function themeButton() {
  const label = () => `Theme: ${document.documentElement.dataset.theme ?? "auto"}`;
  const button = h("button", { type: "button", class: "quiet", onclick: turn }, label());
  function turn() {
    useTheme(THEMES[document.documentElement.dataset.theme ?? "auto"]);
    setText(button, label());
  }
  return button;
}

function useTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(THEME_KEY, theme);
  } catch {
    // A browser that keeps nothing keeps the theme for as long as the page is open.
  }
}

function storedTheme() {
  try {
    const theme = localStorage.getItem(THEME_KEY);
    return theme in THEMES ? theme : "auto";
  } catch {
    return "auto";
  }
}

// --- signing in ----------------------------------------------------------------------------------

function showSignIn() {
  page?.stop();
  page = null;
  document.title = "Sign in – fastnode";
  const input = h("input", { type: "password", name: "token", autocomplete: "current-password", spellcheck: "false" });
  const error = h("p", { class: "error", role: "alert", hidden: true });
  const row = field({ label: "Admin token", input, help: "One of those in the node's --admin-tokens file.", check: (text) => (text ? null : "Give a token.") });
  async function enter(event) {
    event.preventDefault();
    error.hidden = true;
    if (!row.check()) return input.focus();
    try {
      await signIn(input.value.trim());
      show(false);
    } catch (failure) {
      showError(error, failure);
      input.select();
    }
  }
  replace(main, h("form", { class: "card sign-in", onsubmit: enter, novalidate: true }, h("h1", {}, "Sign in"), row, error, h("button", { class: "primary", type: "submit" }, "Sign in")));
  drawBar();
  input.focus();
}

async function leave() {
  try {
    await signOut();
    showSignIn();
  } catch (failure) {
    notify(failure.message);
  }
}

// --- start ---------------------------------------------------------------------------------------

async function begin() {
  useTheme(storedTheme());
  document.body.append(h("a", { class: "skip", href: "#main", onclick: skip }, "Skip to the content"), bar, main, notices);
  whenSignedOut(showSignIn);
  addEventListener("hashchange", () => (session.signedIn ? show(false) : showSignIn()));
  try {
    await resume();
  } catch (failure) {
    replace(main, h("p", { class: "error", role: "alert" }, `${failure.message} Is it running? Reload the page to try again.`));
    return;
  }
  if (session.signedIn) show(true);
  else showSignIn();
}

// The address stays that of the page.
function skip(event) {
  event.preventDefault();
  main.focus();
}

begin();
