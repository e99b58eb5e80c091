// Holds the conversations of the Vercel AI SDK, as its documentation writes them, and tells what
// ran, line by line, as bench/peers/client.py does. It is started by measure.py, in the folder
// where the packages are: node vercel.mjs FORM < cases
//
// Calls that cannot run are repaired by the documented strategy of asking again.
import { readFileSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [packages, form] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const load = name => import(pathToFileURL(require.resolve(name)));
const { generateText, streamText, stepCountIs, tool } = await load('ai');
const { createOpenAICompatible } = await load('@ai-sdk/openai-compatible');
const { z } = await load('zod');

const AT_ONCE = 8;
const LONGEST_RUN_MS = 300_000;
const MOST_STEPS = 8;

const SCHEMAS = {
  save_note: z.object({
    title: z.string(),
    note_text: z.string(),
    shelf: z.string(),
    folder: z.enum(['R&D', 'Sales']),
    copies: z.number().int(),
    urgent: z.boolean(),
    tags: z.array(z.string()),
    priority: z.number().int().default(5),
  }),
  list_known: z.object({}),
  list_owners: z.object({}),
  state_get: z.object({ workspace_id: z.string() }),
  state_patch: z.object({
    workspace_id: z.string(),
    request_id: z.string(),
    ops: z.array(z.record(z.string(), z.string())),
    note: z.string(),
  }),
};
const DESCRIPTIONS = {
  save_note: 'Save a note.',
  list_known: 'List what exists already.',
  list_owners: 'Tell whose it is.',
  state_get: 'Read the state.',
  state_patch: 'Change the state.',
};

const tell = what => writeSync(1, `${JSON.stringify(what)}\n`);
for (const quiet of ['log', 'info', 'warn', 'error']) console[quiet] = () => {};
globalThis.AI_SDK_LOG_WARNINGS = false;

function toolsOf(given, made) {
  const described = Object.entries(given).map(([name, returned]) => [
    name,
    tool({
      description: DESCRIPTIONS[name],
      inputSchema: SCHEMAS[name],
      execute: async input => {
        made.push([name, input]);
        return returned;
      },
    }),
  ]);
  return Object.fromEntries(described);
}

const parsed = text => {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
};

// The documented example of asking again, but that tools do not run while a call is repaired, and
// that the input is sent back as an object: as a text, strict endpoints refuse it.
function repairing(model) {
  return async ({ toolCall, tools, error, messages, system }) => {
    const { toolCallId, toolName } = toolCall;
    const input = parsed(toolCall.input);
    const output = { type: 'error-text', value: `Error: ${error.message}` };
    const offered = Object.entries(tools).map(([name, { execute, ...rest }]) => [name, rest]);
    const result = await generateText({
      model,
      system,
      messages: [
        ...messages,
        { role: 'assistant', content: [{ type: 'tool-call', toolCallId, toolName, input }] },
        { role: 'tool', content: [{ type: 'tool-result', toolCallId, toolName, output }] },
      ],
      tools: Object.fromEntries(offered),
    });
    const again = result.toolCalls.find(call => call.toolName === toolName);
    return again == null
      ? null
      : { type: 'tool-call', toolCallId, toolName, input: JSON.stringify(again.input) };
  };
}

async function conversation(provider, asked, made) {
  const model = provider(asked.model);
  let failed = null;
  const settings = {
    model,
    system: asked.system,
    prompt: asked.prompt,
    tools: toolsOf(asked.tools, made),
    stopWhen: stepCountIs(MOST_STEPS),
    experimental_repairToolCall: repairing(model),
    abortSignal: AbortSignal.timeout(LONGEST_RUN_MS),
  };
  if (form === 'plain') return (await generateText(settings)).text;
  const result = streamText({ ...settings, onError: ({ error }) => (failed = error) });
  for await (const part of result.fullStream) if (part.type === 'error') failed = part.error;
  if (failed != null) throw failed;
  return await result.text;
}

async function held(provider, asked) {
  const made = [];
  try {
    return { answer: await conversation(provider, asked, made), made };
  } catch (error) {
    return { error: `${error?.name}: ${error?.message}`, made };
  }
}

// A part of a stream that fails after nobody listens any more must not end the process.
process.on('unhandledRejection', () => {});
const given = JSON.parse(readFileSync(0, 'utf8'));
const provider = createOpenAICompatible({ name: 'sim', baseURL: `${given.url}/v1`, apiKey: 'none' });
const waiting = [...given.cases];
const worker = async () => {
  for (let asked = waiting.shift(); asked; asked = waiting.shift()) {
    tell({ began: asked.key });
    tell({ key: asked.key, ...(await held(provider, asked)) });
  }
};
await Promise.all(Array.from({ length: AT_ONCE }, worker));
process.exit(0);
