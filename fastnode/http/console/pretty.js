// JSON made readable: indented and coloured, with every token as it was sent. Numbers are not parsed
// and written again, so a long one keeps its digits.

import { h } from "./dom.js";

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:]/g;
const TOKENS_MAX = 20_000;
const DEPTH_MAX = 20;

// The parts of the text as elements; null if it is no JSON object or list.
export function prettyJson(text) {
  const trimmed = text.trim();
  if (!/^[[{]/.test(trimmed)) return null;
  try {
    JSON.parse(trimmed);
  } catch {
    return null;
  }
  const tokens = trimmed.match(TOKEN) ?? [];
  return tokens.length > TOKENS_MAX ? null : indented(tokens);
}

function indented(tokens) {
  const parts = [];
  let depth = 0;
  // What is nested deeper is not moved further: a hostile body would be mostly spaces.
  const breakLine = () => parts.push(`\n${"  ".repeat(Math.min(depth, DEPTH_MAX))}`);
  tokens.forEach((token, at) => {
    const next = tokens[at + 1];
    if (token === "{" || token === "[") {
      parts.push(token);
      depth += 1;
      if (next !== "}" && next !== "]") breakLine();
    } else if (token === "}" || token === "]") {
      depth -= 1;
      const before = tokens[at - 1];
      if (before !== "{" && before !== "[") breakLine();
      parts.push(token);
    } else if (token === ",") {
      parts.push(token);
      breakLine();
    } else if (token === ":") {
      parts.push(": ");
    } else {
      parts.push(h("span", { class: kindOf(token, next) }, token));
    }
  });
  return parts;
}

function kindOf(token, next) {
  if (token.startsWith('"')) return next === ":" ? "json-key" : "json-text";
  return "json-value";
}
