// Which runs are listed: the form above the list, and every name or number that can be chosen.

const KINDS = ["model", "profile", "strategy", "scenario", "status", "code", "provider"];
const MISSED = "missed";
const form = byId("filters");
let listed = [];

const tableOf = (kind) =>
  ({
    model: runs.models,
    profile: runs.profiles,
    strategy: runs.strategies,
    scenario: runs.scenarios,
    status: STATUS_WORDS,
    code: runs.codes,
    provider: runs.providers,
  })[kind];

function valueOf(kind, run) {
  const place = { model: 0, profile: 1, strategy: 2 }[kind];
  return place === undefined ? runs[kind][run] : runs.cells[runs.cell[run]][place];
}

function fillForm() {
  for (const kind of KINDS) {
    const select = form.elements[kind];
    const chosen = select.value;
    const used = new Set(runs.cell.map((_, run) => valueOf(kind, run)));
    const options = tableOf(kind).map((name, at) => {
      return used.has(at) ? el("option", { value: String(at) }, oneLine(name) || "none") : null;
    });
    if (kind === "status") options.push(el("option", { value: MISSED }, "✗ failed or not scored"));
    select.replaceChildren(el("option", { value: "" }, "all"), ...options.filter(Boolean));
    select.value = chosen;
    select.parentElement.hidden = used.size < 2;
  }
}

function chosenFilters() {
  const chosen = {};
  for (const kind of KINDS) {
    if (form.elements[kind].value !== "") chosen[kind] = form.elements[kind].value;
  }
  return chosen;
}

function applyFilters() {
  const tests = Object.entries(chosenFilters()).map(([kind, value]) => {
    if (value === MISSED) return (run) => runs.status[run] === 1 || runs.status[run] === 2;
    return (run) => valueOf(kind, run) === Number(value);
  });
  const text = form.elements.text.value.trim().toLowerCase();
  if (text) tests.push(textTest(text));
  listed = [];
  for (let run = 0; run < runs.cell.length; run++) {
    if (tests.every((test) => test(run))) listed.push(run);
  }
  const all = runs.cell.length;
  byId("shown").textContent =
    listed.length === all ? `${grouped(all)} runs.` : `${grouped(listed.length)} of ${grouped(all)} runs.`;
  markChosen();
  drawList(true);
}

// Looks a text up once in every table, and then only compares places.
function textTest(text) {
  const has = (table) => table.map((entry) => entry.toLowerCase().includes(text));
  const kinds = ["model", "profile", "strategy", "scenario", "code", "provider"];
  const found = kinds.map((kind) => [kind, has(tableOf(kind))]);
  const errors = has(runs.errors);
  return (run) => errors[runs.error[run]] || found.some(([kind, hits]) => hits[valueOf(kind, run)]);
}

function picked(button) {
  return Object.fromEntries(
    KINDS.filter((kind) => kind in button.dataset).map((kind) => [kind, button.dataset[kind]]),
  );
}

const same = (one, other) =>
  Object.keys(one).length === Object.keys(other).length &&
  Object.entries(one).every(([kind, value]) => other[kind] === value);

function choose(button) {
  const wanted = picked(button);
  const again = button.getAttribute("aria-pressed") === "true";
  form.reset();
  if (!again) {
    for (const [kind, value] of Object.entries(wanted)) form.elements[kind].value = value;
  }
  applyFilters();
  if (!again) {
    byId("runs").scrollIntoView();
    byId("list").focus({ preventScroll: true });
  }
}

function markChosen() {
  const chosen = chosenFilters();
  for (const button of document.querySelectorAll("[data-pick]")) {
    const pressed = Object.keys(chosen).length > 0 && same(chosen, picked(button));
    button.setAttribute("aria-pressed", String(pressed));
  }
}

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", applyFilters);
form.addEventListener("change", applyFilters);
form.addEventListener("reset", () => setTimeout(applyFilters));
