// The page as a whole: which part is shown, its colours, its keys.

const THEMES = { light: "dark", dark: "light" };
let scrolled = 0;

function showPlace() {
  const place = addressed(location.hash);
  const report = byId("report");
  if (place && !report.hidden) scrolled = scrollY;
  const back = !place && report.hidden;
  report.hidden = Boolean(place);
  byId("trace").hidden = !place;
  if (place) {
    scrollTo(0, 0);
    openRun(place.run, place.turn);
    return;
  }
  shownRun.run = -1;
  document.title = reportTitle;
  if (!back) return;
  drawList(true);
  // A reader who comes back from a run goes on where they were; a link to a section leads there.
  const section = ["", "#runs"].includes(location.hash) ? null : byId(location.hash.slice(1));
  if (section) section.scrollIntoView();
  else scrollTo(0, scrolled);
}

const reportTitle = document.title;

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = THEMES[theme] === "dark" ? "Dark" : "Light";
}

function storedTheme() {
  try {
    return localStorage.getItem("surecall-theme");
  } catch {
    return null;
  }
}

function toggleTheme() {
  const theme = THEMES[document.documentElement.dataset.theme];
  setTheme(theme);
  try {
    localStorage.setItem("surecall-theme", theme);
  } catch {
    // Some browsers keep nothing for local files.
  }
}

function search() {
  if (!byId("trace").hidden) location.hash = "#runs";
  setTimeout(() => form.elements.text.focus());
}

const KEYS = {
  j: () => stepTurn(1),
  k: () => stepTurn(-1),
  n: () => stepFailed(1),
  p: () => stepFailed(-1),
  r: () => {
    view = view === "raw" ? VIEWS[0] : "raw";
    redrawWire();
  },
  "/": search,
  Escape: () => {
    if (!byId("trace").hidden) location.hash = "#runs";
  },
};

function pressed(event) {
  const inField = event.target.closest?.("input, select, textarea");
  if (event.key === "Escape" && inField) return event.target.blur();
  if (inField || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
  if ("jkpr".includes(event.key) && byId("trace").hidden) return;
  event.preventDefault();
  KEYS[event.key]();
}

function clicked(event) {
  const button = event.target.closest("button");
  if (!button) return;
  if ("pick" in button.dataset) choose(button);
  else if ("make" in button.dataset) copyAs(button.dataset.make);
  else if ("copy" in button.dataset) {
    const status = button.nextElementSibling ?? button.parentElement.appendChild(el("p", { role: "status" }));
    copyText(button.previousElementSibling.textContent, status);
  }
}

function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(storedTheme() ?? (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => {
    if (!storedTheme()) setTheme(dark.matches ? "dark" : "light");
  });
  byId("theme").addEventListener("click", toggleTheme);
  addEventListener("hashchange", showPlace);
  addEventListener("keydown", pressed);
  document.addEventListener("click", clicked);
  fillForm();
  applyFilters();
  showPlace();
}

start();
