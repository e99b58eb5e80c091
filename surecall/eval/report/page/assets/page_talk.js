// The conversation of a run, and one plain sentence about how it ended.

function whyItEnded(run, trial) {
  const status = STATUS_NAMES[runs.status[run]];
  const code = runs.codes[runs.code[run]];
  const error = trial?.error || runs.errors[runs.error[run]];
  const detail = error.startsWith(`${code}: `) ? error.slice(code.length + 2) : error;
  const warnings = trial?.score?.warnings ?? [];
  if (status === "passed") return warnings.length ? `Passed, with a slip: ${warnings.join("; ")}.` : "Passed.";
  if (status === "skipped") return `Skipped: ${detail}.`;
  const hint = trial?.hint && !detail.includes(trial.hint) ? ` (${trial.hint})` : "";
  const what = data.meanings[code] || `It ended with ${code}.`;
  if (missesOf(trial).length) return `Why it failed: ${what}`;
  const end = detail ? ` ${detail}${hint}${/[.!?…]$/.test(detail + hint) ? "" : "."}` : "";
  if (status === "infra") return `Not scored, because it says nothing about the model: ${what}${end}`;
  return `Why it failed: ${what}${end}`;
}

// The parts of the score, each apart, and what the run took.
function factsOf(run, trial) {
  const mark = (value) => (value ? "✓" : "✗");
  const score = trial?.score ?? {};
  const parts = ["state", "process", "final"]
    .filter((name) => typeof score[name] === "boolean")
    .map((name) => `${name} ${mark(score[name])}`);
  const seen = Object.entries(score.facts ?? {}).map(([name, value]) => `${name} ${mark(value)}`);
  const cost = runs.micros[run] < 0 ? [] : [dollars(runs.micros[run] / 1e6)];
  return [
    ...parts,
    ...seen,
    `${duration(runs.ms[run])} in ${counted(runs.turns[run], "request")}`,
    counted(runs.tokens[run], "token"),
    ...cost,
    ...(trial?.false_finals ? [counted(trial.false_finals, "early answer")] : []),
    ...(trial?.models?.length ? [`answered by ${trial.models.join(", then ")}`] : []),
    ...(trial?.attempts > 1 ? [`attempt ${trial.attempts}, after one that came to nothing`] : []),
  ].join(" · ");
}

function said(role, ...children) {
  return el("div", { class: `said ${role}` }, el("span", { class: "who" }, role), ...children);
}

function contentOf(message) {
  const content = message.content ?? message.text ?? "";
  return longText("div", typeof content === "string" ? content : pretty(content), { class: "text" });
}

function drawTalk(trace, turns, chosen, open) {
  const start = trace.events.find((event) => event.type === "run_start");
  const made = [];
  const nudge = start?.config?.fix_empty_final_user_text ?? "";
  for (const turn of turns) made.push(drawTurn(turn, turn.number === chosen, open, nudge));
  const end = trace.events.find((event) => event.type === "run_failed");
  if (end) made.push(said("end", el("div", { class: "text bad" }, visible(`${end.code}: ${end.message}`))));
  if (trace.problem) made.push(el("p", { class: "notice" }, trace.problem));
  if (!made.length) made.push(el("p", { class: "hint" }, "No conversation is on record."));
  return made;
}

// What the model was asked to do: without it, nobody can judge what it did.
function drawTask(trace) {
  const start = trace.events.find((event) => event.type === "run_start");
  if (!start) return [];
  const system = start.system ? [said("system", contentOf(start.system))] : [];
  const asked = (start.messages ?? []).map((message) => said(message.role, contentOf(message)));
  return [el("div", { class: "task" }, el("h2", {}, "Task"), ...system, ...asked)];
}

// One expectation: what it is, and what was expected beside what came.
function drawMiss(miss) {
  const where = miss.turn === null || miss.turn === undefined ? "" : ` (turn ${asNumber(miss.turn) + 1})`;
  const title = el("p", {}, visible(`${miss.expected ? notMet(miss.check) : miss.check}${where}`));
  if (!miss.expected && !miss.got) return el("div", { class: "misses" }, title);
  const side = (name, text) => el("div", {}, el("dt", {}, name), el("dd", {}, visible(text || "nothing")));
  return el("div", { class: "misses" }, title, el("dl", { class: "versus" }, side("Expected", miss.expected), side("Got", miss.got)));
}

function drawTurn(turn, chosen, open, nudge) {
  const reply = turn.end?.reply;
  const state = stateOf(turn);
  const tone = state === "culprit" ? "bad" : "warn";
  const parts = [el("button", { type: "button", class: "turn", click: () => open(turn.number) }, `turn ${turn.number + 1}${{ culprit: ": this decided it", recovered: ": trouble, then it went on", fine: "" }[state]}`)];
  for (const event of turn.troubles) {
    if (event.type === "model_changed") parts.push(said("error", el("div", { class: `text ${tone}` }, oneLine(changeOf(event)))));
    else if (event.fault) parts.push(said("error", el("div", { class: `text ${tone}` }, oneLine(`${event.fault.code}: ${event.fault.message}`))));
  }
  if (reply?.text) parts.push(said("assistant", contentOf(reply)));
  const answers = new Map(turn.results.map((event) => [event.result.call_id, event]));
  for (const call of reply?.calls ?? []) {
    parts.push(drawCall(call, tone));
    const answer = answers.get(call.id);
    if (answer) parts.push(drawAnswer(answer, tone));
  }
  if (reply && !reply.text && !reply.calls?.length) parts.push(said("assistant", el("div", { class: `text ${tone}` }, "(blank)")));
  if (turn.nudged) parts.push(drawWords("(asked once more for the final answer)", nudge, tone));
  for (const event of turn.objections) parts.push(drawObjection(event, tone));
  return el("div", { class: `block ${state}`, id: `turn-${turn.number}`, "aria-current": chosen ? "step" : null }, ...parts);
}

// What was said to an early answer, or to one that the application did not accept.
function drawObjection(event, tone) {
  if (event.type === "text_call_asked") {
    const words = `(call of ${event.tools.join(", ")} in text, not run: ${event.rule})`;
    return drawWords(words, event.text, tone);
  }
  const objected = event.type === "final_objected";
  const wanted = event.tools?.length ? `; ${event.rung === "require" ? "demanded" : "reminded of"}: ${event.tools.join(" or ")}` : "";
  const words = objected ? `(answer not accepted: ${event.reason})` : `(early answer, ${event.rung}: ${event.message}${wanted})`;
  return drawWords(words, event.text, tone);
}

// What the loop said in the user's place: why, and the very words.
function drawWords(why, text, tone) {
  const words = text ? [longText("div", text, { class: "text words" })] : [];
  return said("user", el("div", { class: `text ${tone}` }, visible(why)), ...words);
}

function drawCall(call, tone) {
  const problem = call.problem ? [el("div", { class: `text ${tone}` }, visible(`✗ not run: ${call.problem.code}: ${call.problem.message}`))] : [];
  const name = el("b", {}, oneLine(call.name));
  return said("call", el("div", { class: "text" }, name, longText("code", ` ${JSON.stringify(call.arguments ?? {})}`)), ...problem);
}

function drawAnswer(event, tone) {
  const mark = event.ok ? "✓ " : "✗ ";
  const replaced = event.output_replaced ? el("small", {}, " (too large: replaced)") : null;
  return said("tool", longText("div", mark + event.result.content, { class: event.ok ? "text" : `text ${tone}` }), replaced);
}
