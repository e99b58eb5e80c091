"""Sample replies and recorded streams, and what surecall reads of them."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from hypothesis import strategies as st

from surecall import ToolCallingConfig, ToolRegistry, presets, tool
from surecall.core.reply_parsing import parse_reply
from surecall.settings.presets import raw
from surecall.simulator.faults import apply_fault
from surecall.simulator.stream_events import build_events as stream_events_of
from surecall.simulator.stream_events import encode_frames
from surecall.testing import calls, calls_many, says
from surecall.values.errors import Fault
from surecall.values.types import JSON, Assistant, Message, Plan, Reply, ToolCall, User
from surecall.wire.assembler import Assembler, Delta
from surecall.wire.chat_format import render_tool
from surecall.wire.finish_reasons import FinishKind
from surecall.wire.sse import SseDecoder, SseEvent
from tests.support.project_files import CORPUS

# Recorded streams, what must come of them, and how tests feed them


FOLDER = CORPUS / "streams"
RECORDED = sorted(path.stem for path in FOLDER.glob("*.sse"))


def recorded(name: str) -> tuple[bytes, JSON]:
    """Return the bytes of a stream, and what is expected of it."""
    path = FOLDER / f"{name}.sse"
    expected: JSON = json.loads(path.with_suffix(".json").read_text("utf-8"))
    return path.read_bytes(), expected


def events_of(chunks: Iterable[bytes]) -> list[SseEvent]:
    """Decode a stream, and take the last block also when it lacks its blank line."""
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.close()


def assembled(events: Iterable[SseEvent], **options: Any) -> tuple[JSON | Fault, list[Delta]]:
    """Assemble events: the outcome, and everything that was announced on the way."""
    assembler = Assembler(**options)
    deltas = [delta for event in events for delta in assembler.add(event.data, event.event)]
    return assembler.finish(), deltas


def body_of(*chunks: Any, **options: Any) -> JSON:
    """Assemble chunks that are given as values and must make a body."""
    outcome, _ = assembled([SseEvent(json.dumps(chunk)) for chunk in chunks], **options)
    assert not isinstance(outcome, Fault), outcome
    return outcome


def chunk(delta: Any, finish_reason: str | None = None, **top: Any) -> JSON:
    """Write one chunk."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]} | top


def call_chunk(*fragments: JSON, finish_reason: str | None = None) -> JSON:
    """Write one chunk with fragments of calls."""
    return chunk({"tool_calls": list(fragments)}, finish_reason)


def fragment(arguments: Any = None, **keys: Any) -> JSON:
    """Write one fragment of a call; `name` goes where it belongs."""
    function = {"name": keys.pop("name")} if "name" in keys else {}
    return keys | {"function": function | {"arguments": arguments}}


END = chunk({}, "tool_calls")


def calls_of(*fragments: JSON | list[JSON], **options: Any) -> list[JSON]:
    """Assemble fragments, each in a chunk of its own, or several in one where a list is given."""
    chunks = [call_chunk(*(each if isinstance(each, list) else [each])) for each in fragments]
    message = body_of(*chunks, END, **options)["choices"][0]["message"]
    calls: list[JSON] = message.get("tool_calls", [])
    return calls


def pairs_of(*fragments: JSON | list[JSON], **options: Any) -> list[tuple[str, Any]]:
    """Assemble fragments and return the names and arguments of the calls."""
    functions = [call["function"] for call in calls_of(*fragments, **options)]
    return [(function["name"], function["arguments"]) for function in functions]


# What would run of a reply: a body becomes calls, plain or streamed, under a preset


MARKED: Final = presets.resolve(provider="openai")
WEAK: Final = presets.content_tag_tool_call_fallback(MARKED)
PRESETS: Final[dict[str, ToolCallingConfig]] = {"marked": MARKED, "weak": WEAK}
ASKED: Final[tuple[Message, ...]] = (User("Go on."),)


def completion_body(message: JSON, finish_reason: str = "stop") -> JSON:
    """Wrap a message as a provider does."""
    choice = {"index": 0, "message": {"role": "assistant"} | message}
    return {"id": "r", "model": "m", "choices": [choice | {"finish_reason": finish_reason}]}


def streamed_body(body: JSON) -> Any:
    """Send a body as a stream, and put the pieces together again."""
    frames = b"".join(encode_frames(stream_events_of(body)))
    return assembled(events_of([frames]))[0]


def reply_to(
    body: Any, config: ToolCallingConfig, tools: ToolRegistry, messages: Sequence[Message] = ASKED
) -> Reply:
    """Read a body as the next reply of a conversation."""
    specs = tuple(definition.spec for definition in tools.definitions)
    reply = parse_reply(body, Plan("m", tuple(messages), specs), config, tools)
    assert isinstance(reply, Reply), reply
    return reply


def runnable(reply: Reply) -> list[ToolCall]:
    """List the calls that would run."""
    return [call for call in reply.calls if call.problem is None]


# What the fault tests share: tools, clean replies, and a reader of replies


RAW = raw()
DEFAULT = presets.default_tool_calling()


@tool
def add(a: int, b: int, label: str = "", exact: bool = False) -> int:  # noqa: FBT001, FBT002
    """Add two numbers."""
    return a + b + len(label) + exact


@tool
def note(text: str, tags: list[str] | None = None, ratio: float = 0.5) -> str:
    """Write a note."""
    return f"{text} {tags} {ratio}"


@tool
def save(
    path: str,
    rows: list[int],
    options: dict[str, int],
    force: bool = False,  # noqa: FBT001, FBT002  # a tool has no use for the star
    at: int = 0,
) -> str:
    """Save rows."""
    return f"{path} {rows} {options} {force} {at}"


@tool
def ping() -> str:
    """Ask whether anyone is there."""
    return "pong"


@tool
def compare(
    column: str,
    operator: Literal["<", "<=", ">", ">=", "is not", "it's"],
    case: Literal["lower", "upper"] = "lower",
) -> str:
    """Compare a column."""
    return f"{column} {operator} {case}"


REGISTRY = ToolRegistry([add, note, save, ping, compare])
TOOLS = [render_tool(definition.spec) for definition in REGISTRY.definitions]

# Texts that something between here and there is tempted to change.
TEXTS = st.sampled_from(
    [
        "",
        "x",
        "001",
        "-0",
        "2662",
        "1e3",
        "true",
        "null",
        "[1]",
        "what's the weather",
        'say "hi"',
        "a\nb\tc",
        "make \\\n  all",
        "C:\\new",
        "a &amp;&amp; b",
        "a && b < c",
        '{"name":"app"}',
        "```json\n{}\n```",
        "drink \U0001f378",
        "broken \ufffd half",
        "<tool_call>ping</tool_call>",
        "{'a': 1}",
        "<arg_key>",
    ]
) | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
NUMBERS = st.integers(-(10**6), 10**6)
FRACTIONS = st.sampled_from([0.25, -1.5, 12.75])
ARGUMENTS: dict[str, st.SearchStrategy[JSON]] = {
    "add": st.fixed_dictionaries(
        {"a": NUMBERS, "b": NUMBERS}, optional={"label": TEXTS, "exact": st.booleans()}
    ),
    "note": st.fixed_dictionaries(
        {"text": TEXTS}, optional={"tags": st.lists(TEXTS, max_size=3), "ratio": FRACTIONS}
    ),
    "save": st.fixed_dictionaries(
        {
            "path": TEXTS,
            "rows": st.lists(NUMBERS, max_size=3),
            "options": st.dictionaries(st.sampled_from(["x", "y"]), NUMBERS),
        },
        optional={"force": st.booleans(), "at": NUMBERS},
    ),
    "ping": st.just({}),
    "compare": st.fixed_dictionaries(
        {"column": TEXTS, "operator": st.sampled_from(["<", "<=", ">=", "is not", "it's"])},
        optional={"case": st.sampled_from(["lower", "upper"])},
    ),
}
CALLS = st.sampled_from(sorted(ARGUMENTS)).flatmap(
    lambda name: ARGUMENTS[name].map(lambda arguments: calls(name, **arguments))
)
ANSWERS = st.sampled_from(["Done.", "3", " Yes,\nwell. "]).map(says)


def _beside(reply: JSON, text: str | None) -> JSON:
    choice = reply["choices"][0]
    return reply | {"choices": [choice | {"message": choice["message"] | {"content": text}}]}


CALLING = st.builds(
    _beside,
    st.lists(CALLS, min_size=1, max_size=3).map(lambda several: calls_many(*several)),
    st.sampled_from([None, "", "Let me see."]),
)
REPLIES = CALLING | ANSWERS

_AWKWARD = "make \\\n all,\nit's \ufffd \U0001f378"
# One reply for each thing that some fault needs; every curable fault applies to one of them.
SAMPLES: tuple[JSON, ...] = (
    says("The sum is 3."),
    calls("ping"),
    calls("add", a=1, b=2),
    _beside(
        calls("add", a=-4, b=70, label="it's\n\tso \ufffd \U0001f378", exact=True), "Let me see."
    ),
    calls("note", text='make \\\n "all" \ufffd', tags=["a", "b\n"], ratio=1.5),
    calls("note", text='{"name":"app"}'),
    calls("save", path="C:\\new &amp; \U0001f378", rows=[1, 2], options={"x": 3}, at=4),
    _beside(calls("save", path=_AWKWARD, rows=[], options={}, force=True), "All at once."),
    _beside(calls("add", a=1, b=2, label=_AWKWARD), "All but one."),
    calls_many(
        calls("ping"),
        calls("save", path=_AWKWARD, rows=[1], options={}, force=True),
        calls("note", text="a\nb"),
        calls("add", a=1, b=2),
    ),
    _beside(calls_many(calls("ping"), calls("add", a=1, b=2), calls("ping")), "Three."),
    _beside(
        calls_many(
            calls("ping"),
            calls("save", path="2662", rows=[1], options={}, force=True, at=4),
            calls("compare", column=_AWKWARD, operator=">="),
        ),
        "All sorts.",
    ),
    calls("note", text="2662"),
    calls("compare", column="it's\n\ufffd \U0001f378", operator=">="),
    calls("compare", column="make \\\n7", operator="<", case="upper"),
)


def plan(*earlier: str) -> Plan:
    """Build a request in whose history these call ids are taken."""
    turns = tuple(Assistant("", (ToolCall(call_id, "ping"),)) for call_id in earlier)
    return Plan("m", (User("go"), *turns))


def read(body: Any, config: ToolCallingConfig = DEFAULT, *earlier: str) -> Reply | Fault:
    """Read a body as a run would."""
    return parse_reply(body, plan(*earlier), config, REGISTRY)


def meaning(reply: Reply | Fault) -> Any:
    """Return what counts: the text, and each call by name, arguments to the letter, and code."""
    if isinstance(reply, Fault):
        return reply.code
    return reply.text, [
        (call.name, json.dumps(call.arguments), call.problem and call.problem.code)
        for call in reply.calls
    ]


def with_fault(fault_id: str, body: JSON, seed: int = 0) -> JSON:
    """Apply a fault to a reply, with the tools of these tests."""
    return apply_fault(fault_id, body, seed, TOOLS)


FINISH_WORDS = {
    FinishKind.COMPLETE: [
        *("stop", "end_turn", "eos", "stop_sequence", "COMPLETE", "completed", "finished"),
        *("STOP", "done", "eos_token", "FINISH_REASON_UNSPECIFIED", "", "success", "end_of_text"),
    ],
    FinishKind.CALLS: [
        "tool_calls",
        "function_call",
        "tool_use",
        "TOOL_CALLS",
        "toolUse",
        "tool-call",
    ],
    FinishKind.CUT_OFF: [
        *("length", "max_tokens", "MAX_TOKENS", "maxTokens", "model_length", "max_output_tokens"),
        *("model_context_window_exceeded", "context_length_exceeded", "incomplete", "truncated"),
    ],
    FinishKind.FILTERED: [
        *("content_filter", "content_filtered", "SAFETY", "RECITATION", "PROHIBITED_CONTENT"),
        *("guardrail_intervened", "refusal", "BLOCKLIST", "SPII", "sensitive", "IMAGE_SAFETY"),
    ],
    FinishKind.BROKEN: [
        *("error", "network_error", "abort", "aborted", "cancelled", "server_error", "timeout"),
        *("insufficient_system_resource", "ERROR", "rate_limit_exceeded", "engine_overloaded"),
    ],
    FinishKind.MALFORMED: [
        *("MALFORMED_FUNCTION_CALL", "malformed_function_call", "UNEXPECTED_TOOL_CALL"),
        *("function_call_filter: MALFORMED_FUNCTION_CALL", "invalid_tool_call", "tool_use_failed"),
    ],
}


FINISH_REASONS = [(ending, word) for ending, words in FINISH_WORDS.items() for word in words]
