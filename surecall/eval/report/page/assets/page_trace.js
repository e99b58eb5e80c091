// One run in detail: its turns on the left, the conversation, and the wire on the right.

// What the loop says to a reply that does not count.
const OBJECTIONS = new Set(["forced_continuation", "final_objected", "text_call_asked"]);
// What went wrong with a request, and what was done about it.
const TROUBLES = new Set(["llm_request_error", "llm_request_retry", "model_changed"]);
const shownRun = { run: -1, turn: null, trace: null, turns: [], decided: 0 };

function turnsOf(trace) {
  const found = new Map();
  const at = (number) => {
    if (!found.has(number)) found.set(number, { number, start: null, end: null, troubles: [], results: [], nudged: false, objections: [] });
    return found.get(number);
  };
  for (const event of trace.events) {
    if (event.type === "llm_request_start") at(event.turn).start = event;
    else if (event.type === "llm_request_end") at(event.turn).end = event;
    else if (TROUBLES.has(event.type)) at(event.turn).troubles.push(event);
    else if (event.type === "tool_call_end") at(event.turn).results.push(event);
    else if (event.type === "fix_empty_final") at(event.turn).nudged = true;
    else if (OBJECTIONS.has(event.type)) at(event.turn).objections.push(event);
  }
  return [...found.values()];
}

// What went wrong, each with what was expected, what came, and the turn that decided. A run that
// ended for another reason says so itself; what it lacks besides follows from that.
function missesOf(trial) {
  const misses = trial?.score?.misses ?? [];
  if (trial?.status !== "failed") return [];
  if (trial.category === "ASSERTION_FAILED" && misses.length) return misses;
  return misses.filter((miss) => miss.call_id);
}

// The turn at which a run opens: where it first went wrong, or where it ended; the last one of an
// older record that failed, and the first of a run that passed.
function decidingTurn(trial, turns) {
  const known = (turn) => turns.some((each) => each.number === turn);
  const told = [...missesOf(trial).map((miss) => miss.turn), trial?.turn].find((turn) => known(turn));
  if (told !== undefined) return told;
  const missed = trial && trial.status !== "passed";
  return (missed ? turns.at(-1) : turns[0])?.number ?? 0;
}

async function openRun(run, turn) {
  if (shownRun.run === run && shownRun.trace) return chooseTurn(turn ?? shownRun.decided);
  Object.assign(shownRun, { run, turn, trace: null, turns: [], decided: 0 });
  byId("trace-title").textContent = run < 0 ? "No such run" : visible(nameOf(keyOf(run)));
  byId("trace-why").textContent = run < 0 ? "This report holds no run with that address." : visible(whyItEnded(run, null));
  byId("trace-why").className = run < 0 ? "" : STATUS_NAMES[runs.status[run]];
  byId("copied").replaceChildren();
  allowCopies(false, false);
  for (const id of ["trace-facts", "trace-misses", "trace-task", "turns", "talk", "wire"]) byId(id).replaceChildren();
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
  shownRun.decided = decidingTurn(trace.trial, shownRun.turns);
  byId("trace-why").textContent = visible(whyItEnded(run, trace.trial));
  byId("trace-facts").textContent = visible(factsOf(run, trace.trial));
  byId("trace-misses").replaceChildren(...missesOf(trace.trial).map(drawMiss));
  byId("trace-task").replaceChildren(...drawTask(trace));
  chooseTurn(shownRun.turn ?? shownRun.decided);
  scrollTo(0, 0);
}

function chooseTurn(turn) {
  const { run, trace, turns } = shownRun;
  const known = turns.some((each) => each.number === turn);
  shownRun.turn = known ? turn : shownRun.decided;
  byId("turns").replaceChildren(...drawTurns());
  byId("talk").replaceChildren(...drawTalk(trace, turns, shownRun.turn, showTurn));
  redrawWire();
  const isAnswered = turns.some((each) => each.number === shownRun.turn && each.end);
  allowCopies(turns.length > 0, isAnswered);
  showBlock(byId(`turn-${shownRun.turn}`));
  document.title = `${oneLine(nameOf(keyOf(run)))} · turn ${shownRun.turn + 1}`;
}

// Beside the wire, the conversation moves within its own frame, so that the task stays in sight.
function showBlock(block) {
  const talk = byId("talk");
  if (talk.scrollHeight > talk.clientHeight) talk.scrollTop = block?.offsetTop ?? 0;
  else block?.scrollIntoView({ block: "nearest" });
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

// Red is the turn that decided a failure, and no other: after any other trouble the run went on.
function stateOf(turn) {
  const { run, trace } = shownRun;
  const failed = runs.status[run] === 1 || runs.status[run] === 2;
  const decided = [shownRun.decided, trace.trial?.turn, ...missesOf(trace.trial).map((miss) => miss.turn)];
  if (failed && decided.includes(turn.number)) return "culprit";
  return isTroubled(turn) ? "recovered" : "fine";
}

function isTroubled(turn) {
  const blank = turn.end && !turn.end.reply?.text && !turn.end.reply?.calls?.length;
  const problems = (turn.end?.reply?.calls ?? []).some((call) => call.problem);
  return !turn.end || blank || problems || turn.objections.length > 0 || turn.results.some((event) => !event.ok);
}

const SIGNS = { culprit: ["✗", "bad"], recovered: ["△", "warn"], fine: ["✓", ""] };

function drawTurns() {
  const items = shownRun.turns.map((turn) => {
    const calls = (turn.end?.reply?.calls ?? []).map((call) => call.name).join(", ");
    const what = calls || (turn.end ? (turn.end.reply?.text ? "answer" : "blank answer") : "no reply");
    const asked = turn.objections.some((event) => event.type === "text_call_asked");
    const early = turn.objections.length ? (asked ? " · call in text" : " · early answer") : "";
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
    const [sign, tone] = SIGNS[stateOf(turn)];
    const label = `${sign} ${oneLine(what)}${early}${again}`;
    return el("li", {}, el("a", attributes, el("span", { class: tone }, label), el("small", {}, figures)));
  });
  const legend = el("p", { class: "legend" });
  const words = { culprit: "decided it", recovered: "went on after trouble", fine: "fine" };
  for (const state of new Set(shownRun.turns.map(stateOf))) {
    legend.append(el("span", { class: SIGNS[state][1] }, `${SIGNS[state][0]} ${words[state]}`));
  }
  return [el("ol", {}, ...items), legend];
}

function stepTurn(step) {
  const { turns, turn } = shownRun;
  const next = turns[turns.findIndex((each) => each.number === turn) + step];
  if (next) showTurn(next.number);
}

// The next run that did not pass, among those listed; without a run, the first.
function stepFailed(step) {
  const missed = (run) => runs.status[run] === 1 || runs.status[run] === 2;
  const at = listed.indexOf(shownRun.run);
  const next = step > 0 ? listed.slice(at + 1).find(missed) : listed.slice(0, Math.max(at, 0)).findLast(missed);
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
