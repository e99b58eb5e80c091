// Small tools: elements, texts, numbers. What comes from a model is only ever set as text.

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

// Characters that are not seen, or that turn the direction of a text, are spelled out, in the same
// words as in the rest of the page.
function visible(text) {
  return String(text).replace(/[\p{C}\p{Z}]/gu, (char) => (" \n\t".includes(char) ? char : spelled(char)));
}

function spelled(char) {
  if (char === "\r") return "\\r";
  const code = char.codePointAt(0);
  const [letter, digits] = code <= 0xff ? ["x", 2] : code <= 0xffff ? ["u", 4] : ["U", 8];
  return `\\${letter}${code.toString(16).padStart(digits, "0")}`;
}

const oneLine = (text) => visible(text).replace(/\s+/g, " ");

// Never through the locale: a report looks the same everywhere.
const grouped = (number) => String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ",");

const counted = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;

function duration(ms) {
  if (ms < 1000) return `${ms} ms`;
  return ms < 100000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 1000)} s`;
}

function bytes(count) {
  return count < 10000 ? `${grouped(count)} B` : `${grouped(Math.round(count / 1000))} kB`;
}

function dollars(amount) {
  return amount >= 0.01 || amount === 0 ? `$${amount.toFixed(2)}` : `$${amount.toPrecision(2)}`;
}

// A number that a double cannot hold keeps its digits, where the browser lets it.
function parseExact(text) {
  if (!JSON.rawJSON) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) => {
    if (typeof value !== "number" || context?.source === undefined) return value;
    return String(value) === context.source ? value : JSON.rawJSON(context.source);
  });
}

// Such a number cannot be put into a sentence as it is.
const asNumber = (value) => Number(JSON.stringify(value));

const pretty = (value) => JSON.stringify(value, null, 2) ?? "";

// A long text is cut, with a button that shows the rest.
const LONG = 4000;
function longText(tag, text, attributes) {
  const whole = visible(text);
  if (whole.length <= LONG) return el(tag, attributes, whole);
  const box = el(tag, attributes, `${whole.slice(0, LONG / 2)}…`);
  const more = el("button", { type: "button", class: "more" }, `Show all ${grouped(whole.length)} characters`);
  more.addEventListener("click", () => box.replaceChildren(whole));
  box.append(more);
  return box;
}

// Copies a text; where the browser does not allow that, it is shown, ready to be copied by hand.
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
