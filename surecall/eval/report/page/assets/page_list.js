// The list of runs. Only visible rows are rendered, so its length does not matter.

const list = byId("list");
const MARGIN_ROWS = 8;
const head = el("div", { role: "row", class: "row head", "aria-rowindex": "1" });
const rows = el("div", { role: "rowgroup", class: "rows" });
let rowHeight = 0;
let drawn = "";

// Sortable columns have the name of their order in the address.
for (const [name, kind, sort] of [
  ["Status", "status", "status"], ["Model", "model", "model"], ["Profile", "profile"], ["Strategy", "strategy"],
  ["Scenario", "scenario", "scenario"], ["Trial", "number trial"], ["Why", "why"], ["Turns", "number turns", "turns"],
  ["Time", "number time", "time"], ["Tokens", "number tokens", "tokens"], ["Cost", "number cost", "cost"],
]) {
  const label = sort ? el("button", { type: "button", click: () => sortBy(sort) }, name) : name;
  head.append(el("span", { role: "columnheader", class: kind, "data-sort": sort }, label));
}
list.append(el("div", { role: "rowgroup", class: "heads" }, head), rows);

// Hides columns whose values are equal in all runs, or unknown.
function dropColumns() {
  list.classList.toggle("no-profile", runs.profiles.length < 2);
  list.classList.toggle("no-strategy", runs.strategies.length < 2);
  list.classList.toggle("no-cost", runs.micros.every((micros) => micros < 0));
}

// The causes of a failed run, or else its error.
function reasonOf(run) {
  const misses = valuesOf("cause", run).map(causeAt);
  return misses.join("; ") || runs.errors[runs.error[run]] || runs.codes[runs.code[run]];
}

function drawRow(place) {
  const run = listed[place];
  const key = keyOf(run);
  const status = runs.status[run];
  const cell = (kind, text, title) => el("span", { role: "cell", class: kind, title }, text);
  const link = el("a", { href: addressOf(run) }, STATUS_WORDS[status]);
  const why = oneLine(reasonOf(run));
  const row = el(
    "div",
    { role: "row", class: `row ${STATUS_NAMES[status]}`, "aria-rowindex": String(place + 2) },
    el("span", { role: "cell", class: "status" }, link),
    cell("model", oneLine(key.model), oneLine(key.model)),
    cell("profile", oneLine(key.profile)),
    cell("strategy", oneLine(key.strategy)),
    cell("scenario", oneLine(key.scenario)),
    cell("number trial", String(key.trial)),
    cell("why", why, why),
    cell("number turns", String(runs.turns[run])),
    cell("number time", duration(runs.ms[run])),
    cell("number tokens", groupDigits(runs.tokens[run])),
    cell("number cost", runs.micros[run] < 0 ? "–" : dollars(runs.micros[run] / 1e6)),
  );
  row.style.top = `${place * rowHeight}px`;
  return row;
}

function drawList(anew) {
  if (byId("report").hidden) return;
  const height = head.offsetHeight ? Math.max(30, head.offsetHeight) : 64;
  if (height !== rowHeight) anew = true;
  rowHeight = height;
  if (anew) {
    rows.style.height = `${listed.length * rowHeight}px`;
    list.setAttribute("aria-rowcount", String(listed.length + 1));
    if (list.scrollTop > listed.length * rowHeight) list.scrollTop = 0;
  }
  const first = Math.max(0, Math.floor(list.scrollTop / rowHeight) - MARGIN_ROWS);
  const count = Math.ceil(list.clientHeight / rowHeight) + 2 * MARGIN_ROWS;
  const last = Math.min(listed.length, first + count);
  if (!anew && drawn === `${first} ${last}`) return;
  drawn = `${first} ${last}`;
  const kept = document.activeElement?.getAttribute("href");
  const made = [];
  for (let place = first; place < last; place++) made.push(drawRow(place));
  rows.replaceChildren(...made);
  if (!listed.length) {
    const none = runs.cell.length ? "No run matches." : "No individual runs are recorded.";
    rows.replaceChildren(el("p", { class: "hint" }, none));
  }
  // Keeps the keyboard focus on its row.
  if (kept) made.map((row) => row.querySelector("a")).find((a) => a.getAttribute("href") === kept)?.focus();
}

list.addEventListener("scroll", () => drawList(false), { passive: true });
addEventListener("resize", () => drawList(true));
rows.addEventListener("click", (event) => {
  const link = event.target.closest(".row")?.querySelector("a");
  if (link && event.target !== link) link.click();
});
