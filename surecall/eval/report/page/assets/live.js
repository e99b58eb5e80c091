// The live report: asks the program that serves this page for news, and puts them in place.

const PAUSE_MS = 1000;
const FOCUSABLE = "a, button, summary, [tabindex]";

function tell(text) {
  // Readers of the screen hear every change, so nothing is written twice.
  if (byId("live").textContent !== text) byId("live").textContent = text;
}

async function newsSince(number) {
  const answer = await fetch(`data?since=${number}`, { cache: "no-store" }).catch(() => null);
  if (!answer) {
    tell("Not connected: this is what was last seen");
    return null;
  }
  tell(answer.ok ? "Live" : oneLine(await answer.text()));
  return answer.status === 200 ? answer.json() : null;
}

// What someone has opened and where they are stays so in the new version of a section.
function swap(old, fresh) {
  const opened = [...old.querySelectorAll("details")].map((each) => each.open);
  [...fresh.querySelectorAll("details")].forEach((each, at) => (each.open = opened[at] ?? false));
  const place = [...old.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  old.replaceWith(fresh);
  if (place >= 0) fresh.querySelectorAll(FOCUSABLE)[place]?.focus({ preventScroll: true });
}

// The program has escaped every text; and a document of its own runs nothing that might be in it.
// A section may be new, such as the gains when a second strategy begins.
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

// Places in the tables change with every new name; addresses hold names, so they stay.
function takeData(newer) {
  const address = shownRun.run < 0 ? null : addressOf(shownRun.run);
  data = newer;
  runs = data.runs;
  dropColumns();
  fillForm();
  if (byId("trace").hidden) return showList(listFrom(location.hash));
  showList(listFrom(lastList));
  if (address) shownRun.run = addressed(address).run;
  else showPlace();
}

async function follow() {
  let number = 0;
  for (;;) {
    const news = await newsSince(number);
    if (news) {
      number = news.number;
      takeSections(news.sections);
      takeData(news.data);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

follow();
