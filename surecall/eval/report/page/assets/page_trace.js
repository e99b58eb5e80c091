// One run in detail: turns, conversation, and requests and replies of the selected turn.

// Events with which the loop rejects a reply.
const OBJECTIONS = new Set(["forced_continuation", "final_objected", "text_call_asked"]);
// Failed requests, retries, and model fallback.
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

// The unmet expectations of a failed run. If it ended for another reason, they are consequences of
// that, except those about a call.
function missesOf(trial) {
  const misses = trial?.score?.misses ?? [];
  if (trial?.status !== "failed") return [];
  if (trial.category === "ASSERTION_FAILED" && misses.length) return misses;
  return misses.filter((miss) => miss.call_id);
}

// The turn at which a run opens: the first failure, or where the run ended. Older records open at
// the last turn if they failed; passed runs open at the first.
function decidingTurn(trial, turns) {
  const known = (turn) => turns.some((each) => each.number === turn);
  const located = [...missesOf(trial).map((miss) => miss.turn), trial?.turn].find((turn) => known(turn));
  if (located !== undefined) return located;
  const missed = trial && trial.status !== "passed";
  return (missed ? turns.at(-1) : turns[0])?.number ?? 0;
}

async function openRun(run, turn) {
  if (shownRun.run === run && shownRun.trace) return chooseTurn(turn ?? shownRun.decided);
  Object.assign(shownRun, { run, turn, trace: null, turns: [], decided: 0 });
  byId("trace-title").textContent = run < 0 ? "No such run" : visible(nameOf(keyOf(run)));
  byId("trace-why").textContent = run < 0 ? "This report has no run with that address." : visible(whyItEnded(run, null));
  byId("trace-why").className = run < 0 ? "" : STATUS_NAMES[runs.status[run]];
  byId("copied").replaceChildren();
  allowCopies(false, false);
  for (const id of ["trace-facts", "trace-misses", "trace-task", "turns", "talk", "wire"]) byId(id).replaceChildren();
  byId("trace-title").focus();
  if (run < 0) return;
  let trace;
  try {
    trace = await loadTrace(run);
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

// On wide screens the conversation scrolls in its own frame, so that the task stays visible.
function showBlock(block) {
  const talk = byId("talk");
  if (talk.scrollHeight > talk.clientHeight) talk.scrollTop = block?.offsetTop ?? 0;
  else block?.scrollIntoView({ block: "nearest" });
}

function redrawWire() {
  const turn = shownRun.turns.find((each) => each.number === shownRun.turn);
  byId("wire").replaceChildren(...drawWire(turn, redrawWire));
}

// Replaces the address, so that Back leaves the run.
function showTurn(turn) {
  history.replaceState(null, "", addressOf(shownRun.run, turn));
  chooseTurn(turn);
}

// Only the turn that decided a failure is red; the run recovered from any other problem.
function stateOf(turn) {
  const { run, trace } = shownRun;
  const failed = runs.status[run] === 1 || runs.status[run] === 2;
  const decided = [shownRun.decided, trace.trial?.turn, ...missesOf(trace.trial).map((miss) => miss.turn)];
  if (failed && decided.includes(turn.number)) return "decisive";
  return isTroubled(turn) ? "recovered" : "fine";
}

function isTroubled(turn) {
  const blank = turn.end && !turn.end.reply?.text && !turn.end.reply?.calls?.length;
  const problems = (turn.end?.reply?.calls ?? []).some((call) => call.problem);
  return !turn.end || blank || problems || turn.objections.length > 0 || turn.results.some((event) => !event.ok);
}

const SIGNS = { decisive: ["✗", "bad"], recovered: ["△", "warn"], fine: ["✓", ""] };

function drawTurns() {
  const items = shownRun.turns.map((turn) => {
    const calls = (turn.end?.reply?.calls ?? []).map((call) => call.name).join(", ");
    const what = calls || (turn.end ? (turn.end.reply?.text ? "answer" : "blank answer") : "no reply");
    const asked = turn.objections.some((event) => event.type === "text_call_asked");
    const early = turn.objections.length ? (asked ? " · text call" : " · premature answer") : "";
    const retried = turn.troubles.some((event) => event.type === "llm_request_retry") ? " ↻ retried" : "";
    const repaired = turn.end && repairsOf(turn).length ? " · repaired" : "";
    const openTurn = (event) => {
      event.preventDefault();
      showTurn(turn.number);
    };
    const attributes = {
      href: addressOf(shownRun.run, turn.number),
      "aria-current": turn.number === shownRun.turn ? "step" : null,
      click: openTurn,
    };
    const figures = turn.end ? `${bytes(turn.end.response_bytes)} · ${duration(turn.end.elapsed_ms)}${repaired}` : "";
    const [sign, tone] = SIGNS[stateOf(turn)];
    const label = `${sign} ${oneLine(what)}${early}${retried}`;
    return el("li", {}, el("a", attributes, el("span", { class: tone }, label), el("small", {}, figures)));
  });
  const legend = el("p", { class: "legend" });
  const words = { decisive: "decided the result", recovered: "recovered from a problem", fine: "fine" };
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

// Opens the next listed run that did not pass, or the first if none is open. Starts from the
// address, because after a key press it changes before the page does.
function stepFailed(step) {
  const missed = (run) => runs.status[run] === 1 || runs.status[run] === 2;
  const at = listed.indexOf(parseRunAddress(location.hash)?.run ?? -1);
  const next = step > 0 ? listed.slice(at + 1).find(missed) : listed.slice(0, Math.max(at, 0)).findLast(missed);
  if (next !== undefined) location.hash = addressOf(next);
  else byId("copied").textContent = "There is no other failed run in the list.";
}

// Enables the copy buttons whose content is available.
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
