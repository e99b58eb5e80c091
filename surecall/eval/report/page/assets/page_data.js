// The data of the page: the columns of all runs, and traces, which are decoded on demand.

const STATUS_NAMES = ["passed", "failed", "infra", "skipped"];
const STATUS_WORDS = ["✓ passed", "✗ failed", "! not scored", "– skipped"];

let data = JSON.parse(byId("data").textContent);
let runs = data.runs;

function keyOf(run) {
  const [model, profile, strategy] = runs.cells[runs.cell[run]];
  return {
    model: runs.models[model],
    profile: runs.profiles[profile],
    strategy: runs.strategies[strategy],
    scenario: runs.scenarios[runs.scenario[run]],
    trial: runs.trial[run],
  };
}

// A cause in words. A bare expectation would read as if it had been met.
const notMet = (check) => `Not met: ${check}`;
const causeAt = (at) => (runs.unmet.includes(at) ? notMet(runs.causes[at]) : runs.causes[at]);

const nameOf = (key) => `${key.model} · ${key.profile} · ${key.strategy} · ${key.scenario} · trial ${key.trial}`;

// --- traces -------------------------------------------------------------------------------------

let decoded = { start: -1, texts: [] };
const arriving = new Map();

// A local page can load files only as scripts. Each trace file calls this with its block.
globalThis.surecallBlock = (start, text) => arriving.get(start)?.(text);

async function loadTrace(run) {
  const kind = data.traces.kind;
  if (kind === "live") return parseTrace(await fetchTrace(run));
  if (kind === "none") return parseTrace("");
  const at = blockAt(run);
  const start = data.traces.starts[at];
  if (decoded.start !== start) {
    const text = await inflate(kind === "inline" ? await readInlineBlock(at) : await loadBlockFile(start));
    decoded = { start, texts: text.split(/^(?=\{"type":"trial",)/m) };
  }
  return parseTrace(decoded.texts[run - start] ?? "");
}

function blockAt(run) {
  let low = 0;
  let high = data.traces.starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (data.traces.starts[middle] <= run) low = middle;
    else high = middle - 1;
  }
  return low;
}

async function readInlineBlock(at) {
  if (document.readyState === "loading") {
    await new Promise((ready) => document.addEventListener("DOMContentLoaded", ready));
  }
  return byId(`block${at}`).textContent;
}

function loadBlockFile(start) {
  return new Promise((resolve, reject) => {
    const source = `${encodeURIComponent(data.traces.folder)}/traces_${start}.js`;
    const tag = el("script", { src: source });
    arriving.set(start, resolve);
    tag.addEventListener("error", () => reject(new Error(`${source} is missing`)));
    tag.addEventListener("load", () => tag.remove());
    document.head.append(tag);
  });
}

async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

async function fetchTrace(run) {
  const answer = await fetch(`trace?${new URLSearchParams(keyOf(run))}`);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.text();
}

function parseTrace(text) {
  const found = { trial: null, events: [], sent: [], problem: text ? "" : data.traces.note };
  for (const line of text.split("\n")) {
    if (!line) continue;
    try {
      const event = parseExact(line);
      if (event.type === "trial") found.trial = event;
      else if (event.type === "sent") found.sent.push(event);
      else if (event.type === "damaged") found.problem = "The record of this run is damaged.";
      else found.events.push(event);
    } catch {
      found.problem = "Part of the record of this run could not be read.";
    }
  }
  return found;
}
