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
function takeSections(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  for (const fresh of parsed.querySelectorAll("body > section")) {
    if (!byId(fresh.id).isEqualNode(fresh)) swap(byId(fresh.id), fresh);
  }
}

// Places in the tables change with every new name, so what was chosen is found again by its name.
function takeData(newer) {
  const names = Object.entries(chosenFilters()).map(([kind, value]) => {
    return [kind, value, kind === "status" ? null : tableOf(kind)[value]];
  });
  const address = shownRun.run < 0 ? null : addressOf(shownRun.run);
  data = newer;
  runs = data.runs;
  fillForm();
  for (const [kind, value, name] of names) {
    form.elements[kind].value = name === null ? value : String(tableOf(kind).indexOf(name));
  }
  applyFilters();
  if (address) shownRun.run = addressed(address).run;
  else if (!byId("trace").hidden) showPlace();
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
