// Filters and order of the list. The form above the list is synchronized with the address.

const form = byId("filters");
let listed = [];
let sorting = "";

const tableOf = (kind) =>
  ({
    model: runs.models,
    profile: runs.profiles,
    strategy: runs.strategies,
    scenario: runs.scenarios,
    status: STATUS_NAMES,
    cause: runs.causes,
    code: runs.codes,
    provider: runs.providers,
  })[kind];

function valuesOf(kind, run) {
  if (kind === "cause") return runs.sets[runs.missed[run]];
  const place = { model: 0, profile: 1, strategy: 2 }[kind];
  return [place === undefined ? runs[kind][run] : runs.cells[runs.cell[run]][place]];
}

function fillForm() {
  for (const kind of KINDS) {
    const select = form.elements[kind];
    const used = new Set(runs.cell.flatMap((_, run) => valuesOf(kind, run)));
    const options = tableOf(kind).map((name, at) => {
      const shown = kind === "status" ? STATUS_WORDS[at] : oneLine(kind === "cause" ? causeAt(at) : name) || "none";
      return used.has(at) ? el("option", { value: wellFormed(name) }, shown) : null;
    });
    if (kind === "status") options.push(el("option", { value: MISSED }, "✗ failed or not scored"));
    select.replaceChildren(el("option", { value: "" }, "all"), ...options.filter(Boolean));
    select.parentElement.hidden = used.size < 2;
  }
}

// The filters in the form, as in the address. Index 0 is "all", because names may be blank.
function formFilters() {
  const kinds = KINDS.filter((kind) => form.elements[kind].selectedIndex > 0);
  const found = Object.fromEntries(kinds.map((kind) => [kind, form.elements[kind].value]));
  const text = form.elements.text.value.trim();
  return { ...found, ...(text ? { text } : {}), ...(sorting ? { sort: sorting } : {}) };
}

function setForm(wanted) {
  for (const kind of KINDS) {
    const options = [...form.elements[kind].options];
    const at = kind in wanted ? options.findIndex((each, place) => place > 0 && each.value === wanted[kind]) : 0;
    // Keeps a name that no run has (yet).
    if (at < 0) form.elements[kind].append(el("option", { value: wanted[kind] }, oneLine(wanted[kind])));
    form.elements[kind].selectedIndex = at < 0 ? options.length : at;
    if (at) form.elements[kind].parentElement.hidden = false;
  }
  form.elements.text.value = wanted.text ?? "";
  sorting = wanted.sort ?? "";
}

function showList(wanted) {
  setForm(wanted);
  const tests = KINDS.filter((kind) => kind in wanted).map((kind) => checkOf(kind, wanted[kind]));
  if (wanted.text) tests.push(textTest(wanted.text.toLowerCase()));
  listed = [];
  for (let run = 0; run < runs.cell.length; run++) {
    if (tests.every((test) => test(run))) listed.push(run);
  }
  sortListed();
  const all = runs.cell.length;
  byId("shown").textContent =
    listed.length === all ? `${countNoun(all, "run")}.` : `${groupDigits(listed.length)} of ${countNoun(all, "run")}.`;
  markChosen();
  drawList(true);
}

function checkOf(kind, value) {
  if (kind === "status" && value === MISSED) return (run) => runs.status[run] === 1 || runs.status[run] === 2;
  const at = tableOf(kind).findIndex((name) => wellFormed(name) === value);
  return (run) => valuesOf(kind, run).includes(at);
}

// Searches every table once, so that the test of a run only compares indexes.
function textTest(text) {
  const has = (table) => table.map((entry) => entry.toLowerCase().includes(text));
  const kinds = KINDS.filter((kind) => kind !== "status");
  const found = kinds.map((kind) => [kind, has(tableOf(kind))]);
  const errors = has(runs.errors);
  return (run) => errors[runs.error[run]] || found.some(([kind, hits]) => valuesOf(kind, run).some((at) => hits[at]));
}

const SORTS = {
  status: (run) => runs.status[run],
  model: (run) => keyOf(run).model,
  scenario: (run) => keyOf(run).scenario,
  turns: (run) => runs.turns[run],
  time: (run) => runs.ms[run],
  tokens: (run) => runs.tokens[run],
  cost: (run) => runs.micros[run],
};

function sortListed() {
  const by = SORTS[sorting.replace(/^-/, "")];
  if (!by) return;
  const sign = sorting.startsWith("-") ? -1 : 1;
  // Compares names by code unit, independent of the locale.
  const keyed = listed.map((run) => [by(run), run]);
  keyed.sort(([a, one], [b, other]) => (a < b ? -sign : a > b ? sign : one - other));
  listed = keyed.map(([, run]) => run);
}

// Cycles through descending, ascending, and unsorted.
function sortBy(name) {
  const next = { [name]: "", [`-${name}`]: name }[sorting] ?? `-${name}`;
  location.hash = listAddress({ ...formFilters(), sort: next });
}

function markChosen() {
  const here = listAddress(formFilters());
  for (const link of document.querySelectorAll("a.pick")) {
    if (here !== "#runs" && listAddress(listFrom(link.getAttribute("href"))) === here) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  for (const column of head.children) {
    const name = column.dataset.sort;
    const order = { [`-${name}`]: "descending", [name]: "ascending" }[sorting];
    if (name && order) column.setAttribute("aria-sort", order);
    else column.removeAttribute("aria-sort");
  }
}

// Back undoes a selection, but not single characters of a search.
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", (event) => {
  const address = listAddress(formFilters());
  if (event.target.name === "text") {
    history.replaceState(null, "", address);
    showList(listFrom(address));
  } else location.hash = address;
});
form.addEventListener("reset", (event) => {
  event.preventDefault();
  location.hash = "#runs";
});
