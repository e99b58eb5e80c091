// Exports of a recorded run: a curl command, a pytest test, and a corpus file.

// A recorded message in wire format.
function onWire(message) {
  if (message.role === "assistant") return assistantOnWire(message.text, message.calls);
  if (message.role === "tool") {
    return { role: "tool", tool_call_id: message.call_id, content: message.content };
  }
  return { role: message.role, content: message.content ?? message.text ?? "" };
}

function assistantOnWire(text, calls) {
  if (!calls?.length) return { role: "assistant", content: text ?? "" };
  const tool_calls = calls.map((call) => ({
    id: call.id,
    type: "function",
    function: { name: call.name, arguments: JSON.stringify(call.arguments ?? {}) },
  }));
  return { role: "assistant", content: null, tool_calls };
}

// The message that the loop sent as the user after a reply, or null. For a premature answer, the
// record has only its main part.
function nudgeOf(event, start) {
  if (event.type === "fix_empty_final") return event.text || (start.config?.fix_empty_final_user_text ?? "");
  return OBJECTIONS.has(event.type) ? event.text : null;
}

// The request of a turn: reconstructed, or else approximated from the earlier events.
function requestOf(trace, turn) {
  return sentOf(trace, turn)?.body ?? approximateRequest(trace, turn);
}

function approximateRequest(trace, turn) {
  const start = trace.events.find((event) => event.type === "run_start") ?? {};
  const request = trace.events.find((event) => event.type === "llm_request_start" && event.turn === turn);
  const messages = [...(start.system ? [start.system] : []), ...(start.messages ?? [])].map(onWire);
  for (const event of trace.events) {
    if (event.turn >= turn) continue;
    if (event.type === "llm_request_end") {
      messages.push(assistantOnWire(event.reply.text, event.reply.calls));
    } else if (event.type === "tool_call_end") {
      messages.push(onWire(event.result));
    } else if (nudgeOf(event, start) !== null) {
      messages.push({ role: "user", content: nudgeOf(event, start) });
    }
  }
  const body = { model: start.model, messages };
  if (request?.tools_enabled && start.tools?.length) {
    body.tools = start.tools.map(({ name, description, parameters }) => ({
      type: "function",
      function: { name, description, parameters },
    }));
    if (request.tool_choice) body.tool_choice = request.tool_choice;
  }
  return { ...body, ...start.options };
}

// The call protocol of a run, or blank for native calls.
function textProtocol(trace) {
  const protocol = trace.events.find((event) => event.type === "run_start")?.config?.call_protocol ?? "native";
  return protocol === "native" ? "" : String(protocol);
}

function requestComments(trace, turn) {
  const sent = sentOf(trace, turn);
  if (sent?.exact) return ["# The request as it was sent. Set API_KEY first."];
  if (sent) return ["# The request, reconstructed from the record; not byte-identical to what was sent. Set API_KEY first."];
  return [
    "# Approximated from the record, without the final repairs of the request. Set API_KEY first.",
    ...(textProtocol(trace) ? [`# The run sent its tools and calls as text (${oneLine(textProtocol(trace))}); here they use the native fields.`] : []),
  ];
}

function asCurl(trace, turn) {
  const simulated = data.simulated || !/^https?:/.test(data.origin.base_url);
  const base = simulated ? "http://127.0.0.1:8000" : data.origin.base_url;
  const prefix = data.origin.api_prefix || "/v1";
  const path = base.replace(/\/+$/, "").endsWith(prefix) ? "" : prefix;
  const url = `${base.replace(/\/+$/, "")}${path}/chat/completions`;
  return [
    ...requestComments(trace, turn),
    `curl '${oneLine(url).replaceAll("'", "%27")}' \\`,
    `  -H "Authorization: Bearer $API_KEY" \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  --data-binary @- <<'JSON'`,
    safeCode(JSON.stringify(requestOf(trace, turn))),
    "JSON",
    "",
  ].join("\n");
}

// Escapes invisible and direction characters. JSON and Python parse these escapes in the same way.
function safeCode(text) {
  return text.replace(/[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (char) => {
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

const python = (text) => safeCode(JSON.stringify(text));
const loads = (value) => `json.loads(${python(JSON.stringify(value))})`;

function scriptItem(event) {
  if (event.type === "llm_request_end") return `    raw(${python(JSON.stringify(event.body))}.encode()),`;
  const { status, body } = event.fault;
  return status ? `    raw(${python(body ?? "")}.encode(), ${Number(status)}),` : "    hangs_up(),";
}

function asPytest(trace, run) {
  const start = trace.events.find((event) => event.type === "run_start") ?? {};
  const replies = trace.events.filter((event) => ["llm_request_end", "llm_request_error"].includes(event.type));
  const results = trace.events.filter((event) => event.type === "tool_call_end" && event.result.executed);
  const calls = trace.events.filter((event) => event.type === "tool_call_start");
  const ran = new Set(results.map((event) => event.result.call_id));
  const made = calls.filter((event) => ran.has(event.call.id)).map(({ call }) => [call.name, call.arguments ?? {}]);
  const envelopes = results.map(({ result }) => [result.call_id, result.content]);
  const messages = start.messages ?? [];
  const failed = trace.events.find((event) => event.type === "run_failed");
  const answer = trace.events.find((event) => event.type === "final");
  return [
    `# ${oneLine(nameOf(keyOf(run)))}`,
    `"""Parsing the recorded replies again gives the same calls and the same outcome."""`,
    "",
    "import json",
    "",
    ...(failed ? ["import pytest", ""] : []),
    `from surecall import ${failed ? "RetryPolicy, RunFailed" : "RetryPolicy"}, ToolLoopRunner`,
    "from surecall.testing import ScriptedModel, hangs_up, raw",
    "",
    "REPLIES = [",
    ...replies.map(scriptItem),
    "]",
    `RESULTS = ${loads(Object.fromEntries(envelopes))}`,
    `CALLS = ${loads(made)}`,
    `TOOLS = ${loads(start.tools ?? [])}`,
    `CONFIG = ${loads(start.config ?? {})}`,
    `OPTIONS = ${loads(start.options ?? {})}`,
    `SYSTEM = ${python(start.system?.text ?? "")}`,
    `HISTORY = ${loads(messages.slice(0, start.start ?? 0).map(onWire))}`,
    `PROMPT = ${loads(messages[start.start ?? 0]?.content ?? "")}`,
    "",
    "",
    "def test_recorded_replies_give_the_same_run():",
    "    made = []",
    "",
    "    def execute(name, arguments, tool_call_id):",
    "        made.append([name, arguments])",
    "        return json.loads(RESULTS[tool_call_id])",
    "",
    "    runner = ToolLoopRunner(",
    "        client=ScriptedModel(*REPLIES),",
    `        model=${python(start.model ?? "model")},`,
    "        registry=TOOLS,",
    "        config=CONFIG,",
    "        system=SYSTEM,",
    "        executor=execute,",
    "        llm_options_defaults=OPTIONS,",
    "        retry=RetryPolicy(first_wait_s=0),",
    "    )",
    ...(failed
      ? [
          "    with pytest.raises(RunFailed) as failure:",
          "        runner.run_sync(PROMPT, history=HISTORY)",
          `    assert failure.value.code == ${python(failed.code)}`,
        ]
      : [
          "    result = runner.run_sync(PROMPT, history=HISTORY)",
          `    assert result.assistant_text == ${python(answer?.text ?? "")}`,
        ]),
    "    assert made == CALLS",
    "",
  ].join("\n");
}

// A file name from a text: lowercase letters, digits, and hyphens.
function slugOf(text) {
  return text.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 100).replace(/^-|-$/g, "");
}

// The parsed reply. If all calls have the same problem, its code is enough.
function readingOf(reply) {
  const calls = reply.calls ?? [];
  const codes = new Set(calls.map((call) => call.problem?.code ?? ""));
  const text = reply.text ?? "";
  if (codes.size === 1 && !codes.has("")) return { text, code: [...codes][0] };
  return {
    text,
    calls: calls.map(({ name, problem, arguments: given }) =>
      problem ? { name, code: problem.code } : { name, arguments: given ?? {} },
    ),
  };
}

// The corpus file of one reply, for `tests/corpus/replies/<id>.json`. It passes the tests unchanged,
// because it expects the parsed reply.
function asCorpus(trace, turn, run) {
  const start = trace.events.find((event) => event.type === "run_start") ?? {};
  const request = trace.events.findLast((event) => event.type === "llm_request_start" && event.turn === turn);
  const reply = trace.events.find((event) => event.type === "llm_request_end" && event.turn === turn);
  const id = slugOf(`wild ${nameOf(keyOf(run))} turn ${turn + 1}`);
  const file = {
    id,
    source: id,
    provenance: oneLine(`${nameOf(keyOf(run))}, turn ${turn + 1}`),
    no_fault: "no fault has been written for this reply yet",
    to_check: "whether `expected` is what the model meant: it was parsed when the run was recorded",
    tools: (start.tools ?? []).map(({ name, description, parameters }) => ({ name, description, parameters })),
    ...(request?.tools_enabled ? {} : { offered: [] }),
    presets: [],
    config: start.config ?? {},
    body: reply.body,
    expected: readingOf(reply.reply),
  };
  return `${safeCode(pretty(file))}\n`;
}
