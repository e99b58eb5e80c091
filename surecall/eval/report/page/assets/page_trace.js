// One run in detail: its turns on the left, the conversation, and the wire on the right.

// What the loop says to a reply that does not count.
const OBJECTIONS = new Set(["forced_continuation", "final_objected", "text_call_asked"]);
const shownRun = { run: -1, turn: 0, trace: null, turns: [] };

function turnsOf(trace) {
  const found = new Map();
  const at = (number) => {
    if (!found.has(number)) found.set(number, { number, start: null, end: null, troubles: [], results: [], nudged: false, objections: [] });
    return found.get(number);
  };
  for (const event of trace.events) {
    if (event.type === "llm_request_start") at(event.turn).start = event;
    else if (event.type === "llm_request_end") at(event.turn).end = event;
    else if (event.type === "llm_request_error" || event.type === "llm_request_retry") at(event.turn).troubles.push(event);
    else if (event.type === "tool_call_end") at(event.turn).results.push(event);
    else if (event.type === "fix_empty_final") at(event.turn).nudged = true;
    else if (OBJECTIONS.has(event.type)) at(event.turn).objections.push(event);
  }
  return [...found.values()];
}

async function openRun(run, turn) {
  if (shownRun.run === run && shownRun.trace) return chooseTurn(turn);
  Object.assign(shownRun, { run, turn, trace: null, turns: [] });
  byId("trace-title").textContent = run < 0 ? "No such run" : visible(nameOf(keyOf(run)));
  byId("trace-why").textContent = run < 0 ? "This report holds no run with that address." : visible(whyItEnded(run, null));
  byId("trace-why").className = run < 0 ? "" : STATUS_NAMES[runs.status[run]];
  byId("copied").replaceChildren();
  allowCopies(false, false);
  for (const id of ["trace-facts", "turns", "talk", "wire"]) byId(id).replaceChildren();
  byId("trace-title").focus();
  if (run < 0) return;
  let trace;
  try {
    trace = await traceOf(run);
  } catch (error) {
    trace = { trial: null, events: [], sent: [], problem: `The record of this run could not be read: ${error.message}` };
  }
  if (shownRun.run !== run) return;
  shownRun.trace = trace;
  shownRun.turns = turnsOf(trace);
  byId("trace-why").textContent = visible(whyItEnded(run, trace.trial));
  byId("trace-facts").textContent = visible(factsOf(run, trace.trial));
  chooseTurn(shownRun.turn);
}

function chooseTurn(turn) {
  const { run, trace, turns } = shownRun;
  const known = turns.some((each) => each.number === turn);
  shownRun.turn = known ? turn : (turns[0]?.number ?? 0);
  byId("turns").replaceChildren(drawTurns());
  byId("talk").replaceChildren(...drawTalk(trace, turns, shownRun.turn, showTurn));
  redrawWire();
  const isAnswered = turns.some((each) => each.number === shownRun.turn && each.end);
  allowCopies(turns.length > 0, isAnswered);
  byId(`turn-${shownRun.turn}`)?.scrollIntoView({ block: "nearest" });
  document.title = `${oneLine(nameOf(keyOf(run)))} · turn ${shownRun.turn + 1}`;
}

function redrawWire() {
  const turn = shownRun.turns.find((each) => each.number === shownRun.turn);
  byId("wire").replaceChildren(...drawWire(turn, redrawWire));
}

// Going from turn to turn replaces the address: the back button leads out of the run.
function showTurn(turn) {
  history.replaceState(null, "", addressOf(shownRun.run, turn));
  chooseTurn(turn);
}

function drawTurns() {
  const items = shownRun.turns.map((turn) => {
    const calls = (turn.end?.reply?.calls ?? []).map((call) => call.name).join(", ");
    const what = calls || (turn.end ? (turn.end.reply?.text ? "answer" : "blank answer") : "no reply");
    const asked = turn.objections.some((event) => event.type === "text_call_asked");
    const early = turn.objections.length ? (asked ? " · call in text" : " · early answer") : "";
    const bad = !turn.end || turn.results.some((event) => !event.ok) || what === "blank answer" || early;
    const again = turn.troubles.some((event) => event.type === "llm_request_retry") ? " ↻ again" : "";
    const mended = turn.end && repairsOf(turn).length ? " · repaired" : "";
    const follow = (event) => {
      event.preventDefault();
      showTurn(turn.number);
    };
    const attributes = {
      href: addressOf(shownRun.run, turn.number),
      "aria-current": turn.number === shownRun.turn ? "step" : null,
      click: follow,
    };
    const figures = turn.end ? `${bytes(turn.end.response_bytes)} · ${duration(turn.end.elapsed_ms)}${mended}` : "";
    const label = `${bad ? "✗" : "✓"} ${oneLine(what)}${early}${again}`;
    return el("li", {}, el("a", attributes, el("span", { class: bad ? "bad" : "" }, label), el("small", {}, figures)));
  });
  return el("ol", {}, ...items);
}

function stepTurn(step) {
  const { turns, turn } = shownRun;
  const next = turns[turns.findIndex((each) => each.number === turn) + step];
  if (next) showTurn(next.number);
}

// The next run that did not pass, among those listed; without a run, the first.
function stepFailed(step) {
  const missed = listed.filter((run) => runs.status[run] === 1 || runs.status[run] === 2);
  const next = step > 0
    ? missed.find((run) => run > shownRun.run)
    : missed.findLast((run) => run < shownRun.run);
  if (next !== undefined) location.hash = addressOf(next);
  else byId("copied").textContent = "There is no other failed run in the list.";
}

// Before a run is read there is nothing to copy; of a turn without an answer there is no reply.
function allowCopies(request, reply) {
  for (const make of document.querySelectorAll("[data-make]")) {
    make.disabled = make.dataset.make === "corpus" ? !reply : !request;
  }
}

function copyAs(kind) {
  const { trace, turn, run } = shownRun;
  const made = { curl: () => asCurl(trace, turn), pytest: () => asPytest(trace, run), corpus: () => asCorpus(trace, turn, run) };
  return copyText(made[kind](), byId("copied"));
}
