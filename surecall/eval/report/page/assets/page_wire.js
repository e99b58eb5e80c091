// Request and reply of one turn: facts, repairs, and the raw and parsed reply.

const VIEWS = ["difference", "raw", "normalized"];
let view = VIEWS[0];

function fact(name, value) {
  if (value === undefined || value === null || value === "") return null;
  return el("div", {}, el("dt", {}, name), el("dd", {}, oneLine(value)));
}

// How the request contained tools: as tools, as text, or not at all.
function toolsOf(request) {
  if (!request.tools_enabled) return "no tools";
  return `${countNoun(request.tools_count, "tool")}${textProtocol(shownRun.trace) ? ", as text" : ""}`;
}

function drawWire(turn, redraw) {
  if (!turn) return [el("p", { class: "hint" }, "No request was made.")];
  return [
    el("h2", {}, `Turn ${turn.number + 1} on the wire`),
    ...drawTroubles(turn),
    drawFacts(turn),
    ...drawSent(turn),
    ...drawRepairs(turn),
    ...(turn.end ? drawViews(turn.end, redraw) : [el("p", {}, "No reply.")]),
  ];
}

// Failed attempts and retries, in order.
function drawTroubles(turn) {
  const items = turn.troubles.map((event) => {
    if (event.type === "llm_request_retry") {
      const how = event.dropped ? `without ${event.dropped}` : `after ${asNumber(event.wait_s)} s`;
      return el("li", {}, `↻ retried ${oneLine(how)}`);
    }
    if (event.type === "model_changed") return el("li", {}, oneLine(changeOf(event)));
    const fault = event.fault ?? {};
    const status = fault.status ? ` HTTP ${fault.status}` : "";
    const from = fault.provider ? ` [${fault.provider}]` : "";
    const line = `✗ attempt ${event.attempt ?? "–"}: ${fault.code}${status}${from}: ${fault.message}`;
    const body = fault.body ? [longText("pre", fault.body)] : [];
    return el("li", { class: "bad" }, oneLine(line), ...body);
  });
  return items.length ? [el("h3", {}, "Errors and retries"), el("ul", {}, ...items)] : [];
}

// Model fallback: the new model and the reason.
function changeOf(event) {
  return `⇢ switched to ${event.model}: ${event.before} ${event.rests ? "is cooling down" : "failed"} (${event.fault?.code})`;
}

function drawFacts(turn) {
  const reply = turn.end?.reply ?? {};
  const usage = reply.usage ?? {};
  const request = turn.start ?? {};
  const rows = [
    fact("Provider", reply.provider),
    fact("Served model", reply.model),
    fact("Build", turn.end?.body?.system_fingerprint),
    fact("Generation id", reply.response_id),
    fact("Finish reason", reply.finish_reason),
    fact("Time", turn.end && duration(turn.end.elapsed_ms)),
    fact("Attempt", turn.end?.attempt),
    fact("Sent", request.request_bytes !== undefined && `${bytes(request.request_bytes)}, ${countNoun(request.messages_count, "message")}, ${toolsOf(request)}`),
    fact("Received", turn.end && `${bytes(turn.end.response_bytes)}${turn.end.streamed ? ", streamed" : ""}`),
    fact("Tokens", usage.total_tokens && `${groupDigits(usage.prompt_tokens ?? 0)} in, ${groupDigits(usage.completion_tokens ?? 0)} out`),
    fact("Cost", usage.cost === undefined || usage.cost === null ? "" : dollars(Number(usage.cost))),
    fact("Request hash", request.request_hash?.slice(0, 12)),
  ];
  return el("dl", { class: "facts-list" }, ...rows);
}

function repairsOf(turn) {
  const reply = turn.end?.reply ?? {};
  const inCalls = new Set((reply.calls ?? []).flatMap((call) => call.repairs ?? []));
  return [
    ...(reply.fired ?? []).filter((step) => !inCalls.has(step)),
    ...(turn.end?.lessons ?? []).map((lesson) => `learned: ${lesson}`),
    ...(reply.calls ?? []).flatMap((call) => (call.repairs ?? []).map((step) => `${call.name}: ${step}`)),
  ];
}

function drawRepairs(turn) {
  const steps = repairsOf(turn);
  const list = steps.length
    ? el("ul", {}, ...steps.map((step) => el("li", {}, el("code", {}, oneLine(step)))))
    : el("p", { class: "hint" }, "No repairs.");
  return [el("h3", {}, "Repairs"), list];
}

function drawViews(end, redraw) {
  const tabs = VIEWS.map((name) => {
    const choose = () => {
      view = name;
      redraw();
      byId(`view-${name}`).focus();
    };
    const attributes = {
      type: "button",
      role: "tab",
      id: `view-${name}`,
      "aria-selected": String(view === name),
      "aria-controls": "view",
      click: choose,
    };
    return el("button", attributes, name[0].toUpperCase() + name.slice(1));
  });
  const panel = el("div", { id: "view", role: "tabpanel", tabindex: "0", "aria-labelledby": `view-${view}` });
  panel.append(viewOf(end));
  const step = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: VIEWS.length - 1 }[event.key];
    if (by) byId(`view-${VIEWS[(VIEWS.indexOf(view) + by) % VIEWS.length]}`).click();
  };
  const attributes = { role: "tablist", class: "tabs", "aria-label": "The reply", keydown: step };
  return [el("div", attributes, ...tabs), panel];
}

function viewOf(end) {
  const read = readMessage(end.reply, end.body);
  if (view === "raw") return longText("pre", pretty(end.body));
  if (view === "normalized") return longText("pre", pretty(end.reply));
  return drawDiff(pretty(rawMessage(end.body)), pretty(read));
}
