// Helpers for elements, texts, and numbers. Untrusted content is always inserted as text.

const byId = (id) => document.getElementById(id);

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Escapes invisible and direction characters, in the same notation as the rest of the page.
function visible(text) {
  return String(text).replace(/[\p{C}\p{Z}]/gu, (char) => (" \n\t".includes(char) ? char : escapeChar(char)));
}

function escapeChar(char) {
  if (char === "\r") return "\\r";
  const code = char.codePointAt(0);
  const [letter, digits] = code <= 0xff ? ["x", 2] : code <= 0xffff ? ["u", 4] : ["U", 8];
  return `\\${letter}${code.toString(16).padStart(digits, "0")}`;
}

const oneLine = (text) => visible(text).replace(/\s+/g, " ");

// Independent of the locale, so that a report looks the same everywhere.
const groupDigits = (number) => String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ",");

const countNoun = (number, noun) => `${groupDigits(number)} ${noun}${number === 1 ? "" : "s"}`;

function duration(ms) {
  if (ms < 1000) return `${ms} ms`;
  return ms < 100000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 1000)} s`;
}

function bytes(count) {
  return count < 10000 ? `${groupDigits(count)} B` : `${groupDigits(Math.round(count / 1000))} kB`;
}

function dollars(amount) {
  return amount >= 0.01 || amount === 0 ? `$${amount.toFixed(2)}` : `$${amount.toPrecision(2)}`;
}

// Parses JSON and keeps the digits of numbers that a double cannot represent, if the browser can.
function parseExact(text) {
  if (!JSON.rawJSON) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) => {
    if (typeof value !== "number" || context?.source === undefined) return value;
    return String(value) === context.source ? value : JSON.rawJSON(context.source);
  });
}

// Converts such a number for use in text.
const asNumber = (value) => Number(JSON.stringify(value));

const pretty = (value) => JSON.stringify(value, null, 2) ?? "";

// Truncates a long text, with a button that shows all of it.
const LONG = 4000;
function longText(tag, text, attributes) {
  const whole = visible(text);
  if (whole.length <= LONG) return el(tag, attributes, whole);
  const box = el(tag, attributes, `${whole.slice(0, LONG / 2)}…`);
  const more = el("button", { type: "button", class: "more" }, `Show all ${groupDigits(whole.length)} characters`);
  more.addEventListener("click", () => box.replaceChildren(whole));
  box.append(more);
  return box;
}

// Copies a text, or shows it for manual copying if the browser does not allow that.
async function copyText(text, box) {
  try {
    await navigator.clipboard.writeText(text);
    box.replaceChildren("Copied.");
  } catch {
    const area = el("textarea", { readonly: true, rows: "8", "aria-label": "Copy this text" });
    area.value = text;
    box.replaceChildren("Copy this text: ", area);
    area.focus();
    area.select();
  }
}
