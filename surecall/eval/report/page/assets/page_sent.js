// The request of a turn: system text, tools, response schema, and new messages.

// Opened parts stay open from turn to turn.
const openParts = new Set(["new"]);

// Reconstructs the request of a turn, {body, fresh, exact}, from the recorded differences.
function sentOf(trace, turn) {
  let messages = [];
  let rest = {};
  let found = null;
  for (const line of trace.sent) {
    if (line.turn > turn) break;
    const fresh = line.messages ?? [];
    messages = [...messages.slice(0, line.kept ?? 0), ...fresh];
    rest = line.rest ?? rest;
    if (line.turn === turn) found = { body: { ...rest, messages }, fresh, exact: line.exact };
  }
  return found;
}

function drawSent(turn) {
  const sent = sentOf(shownRun.trace, turn.number);
  if (!sent) return [el("h3", {}, "Sent"), el("p", { class: "hint" }, "The request cannot be reconstructed from this record.")];
  const { messages, tools, tool_choice, response_format, model, ...options } = sent.body;
  const system = messages.filter((message) => message.role === "system" || message.role === "developer");
  const fresh = sent.fresh.filter((message) => !system.includes(message));
  const choice = tool_choice ? `, tool_choice ${JSON.stringify(tool_choice)}` : "";
  const parts = [
    system.length ? sentPart("system", "System text", system.map(contentOf)) : null,
    tools ? sentPart("tools", `Tools: ${tools.map((tool) => tool.function?.name ?? "–").join(", ")}${choice}`, [asCode(tools)]) : null,
    response_format ? sentPart("schema", "Response schema", [asCode(response_format)]) : null,
    sentPart("new", turn.number ? "New messages in this request" : "Messages", fresh.map(drawSentMessage)),
    sentPart("options", `Model ${JSON.stringify(model)} and options`, [asCode({ model, ...options })]),
    sentPart("whole", "Whole request", [asCode(sent.body)]),
  ];
  const how = sent.exact ? "Reconstructed from the record; byte-identical to what was sent." : "Reconstructed from the record; not byte-identical to what was sent.";
  return [el("h3", {}, "Sent"), el("p", { class: sent.exact ? "hint" : "hint bad" }, how), ...parts.filter((part) => part !== null)];
}

const asCode = (value) => longText("pre", pretty(value));

function sentPart(name, title, children) {
  const toggle = (event) => (event.target.open ? openParts.add(name) : openParts.delete(name));
  const attributes = { class: "sent", id: `sent-${name}`, open: openParts.has(name), toggle };
  return el("details", attributes, el("summary", {}, oneLine(title)), ...children);
}

// A message as it was sent: its text and any calls.
function drawSentMessage(message) {
  const { role, content, ...others } = message;
  const text = content === null || content === undefined || content === "" ? [] : [contentOf(message)];
  const beside = Object.keys(others).length ? [asCode(others)] : [];
  return messageBlock(oneLine(role), ...text, ...beside);
}
