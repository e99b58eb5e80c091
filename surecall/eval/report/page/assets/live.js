// The live report: polls the server of this page for updates and applies them.

const PAUSE_MS = 1000;
const FOCUSABLE = "a, button, summary, [tabindex]";

function setLiveStatus(text) {
  // Screen readers announce every change, so identical text is not set again.
  if (byId("live").textContent !== text) byId("live").textContent = text;
}

async function fetchUpdate(number) {
  const answer = await fetch(`data?since=${number}`, { cache: "no-store" }).catch(() => null);
  if (!answer) {
    setLiveStatus("Not connected: showing the last data received");
    return null;
  }
  setLiveStatus(answer.ok ? "Live" : oneLine(await answer.text()));
  return answer.status === 200 ? answer.json() : null;
}

// Replaces a section and preserves its open details and its focus.
function swap(old, fresh) {
  const opened = [...old.querySelectorAll("details")].map((each) => each.open);
  [...fresh.querySelectorAll("details")].forEach((each, at) => (each.open = opened[at] ?? false));
  const place = [...old.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  old.replaceWith(fresh);
  if (place >= 0) fresh.querySelectorAll(FOCUSABLE)[place]?.focus({ preventScroll: true });
}

// The server escapes all text, and a separate document executes no scripts. Sections can appear
// later, such as the gains once a second strategy starts.
function takeSections(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const all = [...parsed.querySelectorAll("body > section")];
  const names = new Set(all.map((each) => each.id));
  for (const old of byId("sections").querySelectorAll(":scope > section")) if (!names.has(old.id)) old.remove();
  let before = null;
  for (const fresh of all) {
    const old = byId(fresh.id);
    if (!old) before.after(fresh);
    else if (!old.isEqualNode(fresh)) swap(old, fresh);
    before = byId(fresh.id);
  }
  for (const link of document.querySelectorAll(".bar nav a")) link.hidden = !byId(link.hash.slice(1));
}

// Table indexes change with every new name; addresses contain names, so they stay valid.
function takeData(newer) {
  const address = shownRun.run < 0 ? null : addressOf(shownRun.run);
  data = newer;
  runs = data.runs;
  dropColumns();
  fillForm();
  if (byId("trace").hidden) return showList(listFrom(location.hash));
  showList(listFrom(lastList));
  if (address) shownRun.run = parseRunAddress(address).run;
  else showPlace();
}

async function poll() {
  let number = 0;
  for (;;) {
    const news = await fetchUpdate(number);
    if (news) {
      number = news.number;
      takeSections(news.sections);
      takeData(news.data);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

poll();
