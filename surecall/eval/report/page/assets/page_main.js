// The page as a whole: visible part, theme, and keyboard shortcuts.

const THEMES = { light: "dark", dark: "light" };
let scrolled = 0;

function showPlace() {
  const place = parseRunAddress(location.hash);
  const report = byId("report");
  if (place && !report.hidden) scrolled = scrollY;
  const back = !place && report.hidden;
  report.hidden = Boolean(place);
  byId("trace").hidden = !place;
  if (place) {
    byId("back").setAttribute("href", lastList);
    scrollTo(0, 0);
    openRun(place.run, place.turn);
    return;
  }
  shownRun.run = -1;
  document.title = reportTitle;
  lastList = location.hash.startsWith("#runs?") ? location.hash : "#runs";
  showList(listFrom(location.hash));
  restoreScroll(back);
}

// Restores the scroll position after leaving a run; otherwise scrolls to the linked section.
function restoreScroll(back) {
  const isList = location.hash.startsWith("#runs?");
  if (back && (isList || ["", "#runs"].includes(location.hash))) return scrollTo(0, scrolled);
  if (!isList) return back && byId(location.hash.slice(1))?.scrollIntoView();
  byId("runs").scrollIntoView();
  // A link to a list moves the focus to it; filtering and sorting keep the focus.
  if (document.activeElement?.matches("a.pick")) list.focus({ preventScroll: true });
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
    // Some browsers have no storage for local files.
  }
}

function search() {
  if (!byId("trace").hidden) location.hash = lastList;
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
    if (!byId("trace").hidden) location.hash = lastList;
  },
};

function onKeydown(event) {
  const inField = event.target.closest?.("input, select, textarea");
  if (event.key === "Escape" && inField) return event.target.blur();
  if (inField || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
  if (event.key === "p" ? !parseRunAddress(location.hash) : "jkr".includes(event.key) && byId("trace").hidden) return;
  event.preventDefault();
  KEYS[event.key]();
}

function onClick(event) {
  const button = event.target.closest("button");
  if (!button) return;
  if ("make" in button.dataset) copyAs(button.dataset.make);
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
  addEventListener("keydown", onKeydown);
  document.addEventListener("click", onClick);
  dropColumns();
  fillForm();
  if (parseRunAddress(location.hash)) showList({});
  showPlace();
}

start();
