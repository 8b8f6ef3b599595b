// Dialogs, and the line that says what has been done.

import { h, replace, uniqueId } from "./dom.js";

const line = h("div", { class: "notices", role: "status", "aria-live": "polite" });
export const notices = line;

export function notify(text) {
  const notice = h("p", { class: "notice" }, text);
  line.append(notice);
  setTimeout(() => notice.remove(), 6000);
}

// A form in a dialog. `submit` does the work; what it throws is shown, and the dialog stays.
export function formDialog({ title, body, action, isDangerous, submit, isReady }) {
  const titleId = uniqueId("title");
  const error = h("p", { class: "error", role: "alert", hidden: true });
  const doing = h("button", { type: "submit", class: isDangerous ? "danger solid" : "primary" }, action);
  const form = h("form", { method: "dialog", novalidate: true, onsubmit: send },
    h("h2", { id: titleId }, title),
    body,
    error,
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), doing));
  const dialog = h("dialog", { "aria-labelledby": titleId, onclose: () => dialog.remove() }, form);
  function look() {
    if (isReady) doing.disabled = !isReady();
  }
  async function send(event) {
    event.preventDefault();
    error.hidden = true;
    if (!checkFields(form)) return;
    doing.disabled = true;
    try {
      await submit();
      dialog.close();
    } catch (failure) {
      showError(error, failure);
    }
    doing.disabled = false;
    look();
  }
  form.addEventListener("input", look);
  look();
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

export function showError(element, failure) {
  if (!failure.message) throw failure;
  element.hidden = false;
  replace(element, failure.message);
}

// The name has to be typed: nobody deletes a queue by a slip.
export function confirmByName({ title, text, name, action, submit }) {
  const input = h("input", { autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
  const body = [h("p", {}, text), field({ label: `Type ${name} to confirm`, input })];
  return formDialog({ title, body, action, isDangerous: true, submit, isReady: () => input.value === name });
}

// --- fields --------------------------------------------------------------------------------------

// A label, an input, what it means, and what is wrong with it.
export function field({ label, input, help, check, also }) {
  const id = uniqueId("field");
  const wrong = h("p", { class: "wrong", id: `${id}-wrong`, hidden: true });
  const explanation = help ? h("p", { class: "help", id: `${id}-help` }, help) : null;
  input.id = id;
  input.setAttribute("aria-describedby", `${help ? `${id}-help ` : ""}${id}-wrong`);
  const row = h("div", { class: "field" },
    h("label", { for: id }, label),
    also ? h("div", { class: "joined" }, input, also) : input,
    explanation,
    wrong);
  row.check = () => {
    const reason = check?.(input.value) ?? null;
    wrong.hidden = reason === null;
    wrong.textContent = reason ?? "";
    input.toggleAttribute("aria-invalid", reason !== null);
    if (reason !== null) input.setAttribute("aria-invalid", "true");
    return reason === null;
  };
  input.addEventListener("change", row.check);
  return row;
}

// All fields within; the first that is wrong gets the focus.
export function checkFields(container) {
  const rows = [...container.querySelectorAll(".field")].filter((row) => row.check && !row.closest("[hidden]"));
  const wrong = rows.filter((row) => !row.check());
  if (wrong.length) {
    const folded = wrong[0].closest("details");
    if (folded) folded.open = true;
    wrong[0].querySelector("input, select, textarea").focus();
  }
  return wrong.length === 0;
}

export const wholeNumber = (low, high) => (text) =>
  /^[0-9]{1,9}$/.test(text) && Number(text) >= low && Number(text) <= high
    ? null
    : `Give a whole number from ${low.toLocaleString("en")} to ${high.toLocaleString("en")}.`;
