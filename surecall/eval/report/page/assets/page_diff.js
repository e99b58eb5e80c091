// Line diff of the raw reply and the parsed reply.

const MOST_LINES = 1200;

// The message in a response body, or the whole body if there is none.
function rawMessage(body) {
  return body?.choices?.[0]?.message ?? body;
}

// The parsed reply as a wire message.
function readMessage(reply, body) {
  const raw = rawMessage(body);
  const rawCalls = Array.isArray(raw?.tool_calls) ? raw.tool_calls : [];
  const message = { role: "assistant", content: reply.text || null };
  if (reply.calls?.length) {
    message.tool_calls = reply.calls.map((call, at) => readCall(call, rawCalls[at]));
  }
  for (const [name, value] of Object.entries(reply.extra ?? {})) message[name] = value;
  return inOrderOf(raw, message);
}

function readCall(call, raw) {
  const text = raw?.function?.arguments;
  const known = typeof text === "string" && sameJSON(text, call.arguments ?? {});
  const args = call.problem
    ? `(not parsed: ${call.problem.code})`
    : known ? text : JSON.stringify(call.arguments ?? {});
  return { id: call.id, type: "function", function: { name: call.name, arguments: args } };
}

function sameJSON(text, value) {
  try {
    return JSON.stringify(parseExact(text)) === JSON.stringify(value);
  } catch {
    return false;
  }
}

// Orders keys as in the first object, because key order is not a difference.
function inOrderOf(model, value) {
  if (Array.isArray(value)) {
    return value.map((item, at) => inOrderOf(Array.isArray(model) ? model[at] : undefined, item));
  }
  if (value === null || typeof value !== "object" || JSON.isRawJSON?.(value)) return value;
  if (model === null || typeof model !== "object") return value;
  const names = [...Object.keys(model).filter((name) => Object.hasOwn(value, name)), ...Object.keys(value)];
  return Object.fromEntries([...new Set(names)].map((name) => [name, inOrderOf(model[name], value[name])]));
}

// Returns pairs of a mark (" ", "-", "+") and a line.
function diffLines(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  if (a.length > MOST_LINES || b.length > MOST_LINES) {
    if (before === after) return a.map((line) => [" ", line]);
    return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  }
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i * width + j] =
        a[i] === b[j]
          ? longest[(i + 1) * width + j + 1] + 1
          : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const found = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push([" ", a[i++]]);
      j++;
    } else if (j >= b.length || (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
      found.push(["-", a[i++]]);
    } else {
      found.push(["+", b[j++]]);
    }
  }
  return found;
}

function drawDiff(before, after) {
  const found = diffLines(before, after);
  if (found.every(([mark]) => mark === " ")) {
    return el("div", {}, el("p", { class: "hint" }, "No difference: the reply was parsed unchanged."), longText("pre", before));
  }
  const tags = { "-": "del", "+": "ins", " ": "span" };
  const lines = found.map(([mark, line]) => longText(tags[mark], `${mark} ${line}\n`));
  return el("pre", { class: "diff" }, ...lines);
}
