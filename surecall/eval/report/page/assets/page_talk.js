// The conversation of a run, and a sentence about how it ended.

function whyItEnded(run, trial) {
  const status = STATUS_NAMES[runs.status[run]];
  const code = runs.codes[runs.code[run]];
  const error = trial?.error || runs.errors[runs.error[run]];
  const detail = error.startsWith(`${code}: `) ? error.slice(code.length + 2) : error;
  const warnings = trial?.score?.warnings ?? [];
  if (status === "passed") return warnings.length ? `Passed with warnings: ${warnings.join("; ")}.` : "Passed.";
  if (status === "skipped") return `Skipped: ${detail}.`;
  const hint = trial?.hint && !detail.includes(trial.hint) ? ` (${trial.hint})` : "";
  const what = data.meanings[code] || `The run ended with ${code}.`;
  if (missesOf(trial).length) return `Why it failed: ${what}`;
  const end = detail ? ` ${detail}${hint}${/[.!?…]$/.test(detail + hint) ? "" : "."}` : "";
  if (status === "infra") return `Not scored (infrastructure error): ${what}${end}`;
  return `Why it failed: ${what}${end}`;
}

// The parts of the score, duration, tokens, and cost.
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
    `${duration(runs.ms[run])} in ${countNoun(runs.turns[run], "request")}`,
    countNoun(runs.tokens[run], "token"),
    ...cost,
    ...(trial?.false_finals ? [countNoun(trial.false_finals, "premature answer")] : []),
    ...(trial?.models?.length ? [`answered by ${trial.models.join(", then ")}`] : []),
    ...(trial?.attempts > 1 ? [`attempt ${trial.attempts}, after an unsuccessful one`] : []),
  ].join(" · ");
}

function messageBlock(role, ...children) {
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
  if (end) made.push(messageBlock("end", el("div", { class: "text bad" }, visible(`${end.code}: ${end.message}`))));
  if (trace.problem) made.push(el("p", { class: "notice" }, trace.problem));
  if (!made.length) made.push(el("p", { class: "hint" }, "No conversation was recorded."));
  return made;
}

// The task of the run.
function drawTask(trace) {
  const start = trace.events.find((event) => event.type === "run_start");
  if (!start) return [];
  const system = start.system ? [messageBlock("system", contentOf(start.system))] : [];
  const messages = (start.messages ?? []).map((message) => messageBlock(message.role, contentOf(message)));
  return [el("div", { class: "task" }, el("h2", {}, "Task"), ...system, ...messages)];
}

// An unmet expectation with expected and actual value.
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
  const tone = state === "decisive" ? "bad" : "warn";
  const parts = [el("button", { type: "button", class: "turn", click: () => open(turn.number) }, `turn ${turn.number + 1}${{ decisive: ": decided the result", recovered: ": recovered from a problem", fine: "" }[state]}`)];
  for (const event of turn.troubles) {
    if (event.type === "model_changed") parts.push(messageBlock("error", el("div", { class: `text ${tone}` }, oneLine(changeOf(event)))));
    else if (event.fault) parts.push(messageBlock("error", el("div", { class: `text ${tone}` }, oneLine(`${event.fault.code}: ${event.fault.message}`))));
  }
  if (reply?.text) parts.push(messageBlock("assistant", contentOf(reply)));
  const answers = new Map(turn.results.map((event) => [event.result.call_id, event]));
  for (const call of reply?.calls ?? []) {
    parts.push(drawCall(call, tone));
    const answer = answers.get(call.id);
    if (answer) parts.push(drawAnswer(answer, tone));
  }
  if (reply && !reply.text && !reply.calls?.length) parts.push(messageBlock("assistant", el("div", { class: `text ${tone}` }, "(blank)")));
  if (turn.nudged) parts.push(drawWords("(re-prompted for the final answer)", nudge, tone));
  for (const event of turn.objections) parts.push(drawObjection(event, tone));
  return el("div", { class: `block ${state}`, id: `turn-${turn.number}`, "aria-current": chosen ? "step" : null }, ...parts);
}

// The response to a premature answer, or to one that the application rejected.
function drawObjection(event, tone) {
  if (event.type === "text_call_asked") {
    const words = `(text call to ${event.tools.join(", ")}, not run: ${event.rule})`;
    return drawWords(words, event.text, tone);
  }
  const objected = event.type === "final_objected";
  const wanted = event.tools?.length ? `; ${event.rung === "require" ? "required" : "reminded of"}: ${event.tools.join(" or ")}` : "";
  const words = objected ? `(answer not accepted: ${event.reason})` : `(premature answer, ${event.rung}: ${event.message}${wanted})`;
  return drawWords(words, event.text, tone);
}

// A message that the loop sent as the user, with its reason.
function drawWords(why, text, tone) {
  const words = text ? [longText("div", text, { class: "text words" })] : [];
  return messageBlock("user", el("div", { class: `text ${tone}` }, visible(why)), ...words);
}

function drawCall(call, tone) {
  const problem = call.problem ? [el("div", { class: `text ${tone}` }, visible(`✗ not run: ${call.problem.code}: ${call.problem.message}`))] : [];
  const name = el("b", {}, oneLine(call.name));
  return messageBlock("call", el("div", { class: "text" }, name, longText("code", ` ${JSON.stringify(call.arguments ?? {})}`)), ...problem);
}

function drawAnswer(event, tone) {
  const mark = event.ok ? "✓ " : "✗ ";
  const replaced = event.output_replaced ? el("small", {}, " (too large: replaced)") : null;
  return messageBlock("tool", longText("div", mark + event.result.content, { class: event.ok ? "text" : `text ${tone}` }), replaced);
}
