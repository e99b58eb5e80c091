"""D1: whatever a provider sends, what is read is sound, and only our own errors are raised.

Structured cases bend real bodies of the corpus by the faults of the simulator and by random
changes of any node; for bytes, those of bodies, streams, texts and traces are flipped, cut and
spliced. A case is made of its target, the seed and its number alone:

    python -c "from proof import fuzz; print(fuzz.replay('bodies', 1, 4711))"
"""

import contextlib
import functools
import json
import random
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from proof.claims import Claim, Outcome, gathered
from proof.fuzz_stock import Stock, as_lines
from proof.invariants import is_finite, reply_problems
from proof.mutations import changed_bytes, changed_text, changed_value
from surecall import ToolCallingConfig, presets
from surecall.core.reply_parsing import parse_reply
from surecall.core.streaming import MarkFilter, ResponseReader
from surecall.parsing.arguments import parse_arguments
from surecall.parsing.coercion import coerce
from surecall.runtime.recording import parse_trace
from surecall.runtime.replay import replay as replayed
from surecall.runtime.replay import run_of
from surecall.runtime.retrying_requests import RequestSender, decode_body
from surecall.simulator.faults import SHAPE_FAULTS, apply_fault, chunk_faults, fragment_faults
from surecall.simulator.faults.stream_fault import STREAM_FAULTS, apply_stream_fault
from surecall.simulator.stream_events import build_events, encode_frames, is_streamable
from surecall.testing import ScriptedModel
from surecall.tools.registry import ToolDefinition, ToolRegistry
from surecall.values.errors import Fault, SurecallError
from surecall.values.types import JSON, HttpResponse, Plan, User
from surecall.wire.assembler import Assembler
from surecall.wire.chat_format import decode, encode
from surecall.wire.dialects import recover
from surecall.wire.response import parse_fault
from tests.support.replies import REGISTRY, SAMPLES, TOOLS, meaning
from tests.support.replies import read as read_sample

Target: TypeAlias = Callable[[Stock, random.Random], Iterator[str]]
CONFIGS: Final[tuple[ToolCallingConfig, ...]] = (
    presets.default_tool_calling(),
    presets.content_tag_tool_call_fallback(presets.default_tool_calling()),
    presets.resolve(provider="openrouter"),
    presets.raw(),
    presets.default_tool_calling().replace(call_protocol="guided"),
    presets.default_tool_calling().replace(call_protocol="prompted", decode_html_entities=True),
)
# It makes a megabyte; that it is refused is said elsewhere.
_FAULTS: Final = tuple(name for name in SHAPE_FAULTS if name != "arguments_runaway")
_STREAM_FAULTS: Final = tuple(
    name for name in STREAM_FAULTS if hasattr(fragment_faults, name) or hasattr(chunk_faults, name)
)
_MOST_ARGUMENTS: Final = 20_000
_SENDER: Final = RequestSender(ScriptedModel())


def _plan(tools: ToolRegistry) -> Plan:
    specs = tuple(definition.spec for definition in tools.definitions)
    return Plan("m", (User("hi"),), specs, known_tools=specs)


def _sound(body: Any, tools: ToolRegistry, rng: random.Random) -> Iterator[str]:
    """Read a decoded body, or the fault that it is, and yield what is wrong with the reply."""
    read = body
    if not isinstance(body, Fault):
        read = parse_reply(body, _plan(tools), rng.choice(CONFIGS), tools)
    yield from reply_problems(read, tools.names)


def _heard(stream: bytes, tools: ToolRegistry, rng: random.Random) -> Any:
    """Listen to a stream in random pieces; return its body, or the fault."""
    listener = ResponseReader(Assembler(tools.names, _MOST_ARGUMENTS, _judged))
    for piece in _pieces(stream, rng):
        if listener.is_complete:
            break
        listener.feed(piece)
    listener.close()
    body = listener.finish()
    if isinstance(body, bytes):
        return decode_body(HttpResponse(200, {}, body))
    return body if isinstance(body, Fault) else _SENDER.redact_assembled(body)


def _judged(holder: JSON) -> Fault:
    return parse_fault(holder, None, {}, 0.0)


def _pieces(stream: bytes, rng: random.Random) -> list[bytes]:
    size = rng.choice((29, 64, 512, len(stream) + 1))
    return [stream[at : at + size] for at in range(0, len(stream), size)]


def _bodies(stock: Stock, rng: random.Random) -> Iterator[str]:
    body, tools = rng.choice(stock.bodies)
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        body = _bent(body, rng)
    body = decode(json.dumps(changed_value(rng, body, rng.choice((0, 1, 1, 2, 4)))).encode())
    yield from _sound(body, tools, rng)
    if is_streamable(body) and rng.random() < 0.3:
        frames = b"".join(encode_frames(build_events(body, seed=rng.randrange(9))))
        yield from _sound(_heard(frames, tools, rng), tools, rng)


def _bent(body: Any, rng: random.Random) -> Any:
    try:
        return apply_fault(rng.choice(_FAULTS), body, rng.randrange(9), TOOLS)
    except Exception:  # noqa: BLE001  # faults are made for clean replies; this one is bent already
        return body


def _alike(_stock: Stock, rng: random.Random) -> Iterator[str]:
    """Compare a reply with one fault, streamed and not."""
    body = apply_fault(rng.choice(_FAULTS), rng.choice(SAMPLES), rng.randrange(99), TOOLS)
    if not is_streamable(body):
        return
    frames = b"".join(encode_frames(build_events(body, seed=rng.randrange(99))))
    streamed = _heard(frames, REGISTRY, rng)
    found = streamed if isinstance(streamed, Fault) else read_sample(streamed)
    plain = read_sample(body)
    if meaning(found) != meaning(plain):
        yield f"streamed {meaning(found)!r:.120}, plain {meaning(plain)!r:.120}"


def _chunks(_stock: Stock, rng: random.Random) -> Iterator[str]:
    events = build_events(rng.choice(SAMPLES), usage=True, seed=rng.randrange(9))
    for _ in range(rng.choice((0, 1, 1, 2))):
        with contextlib.suppress(Exception):  # faults are made for clean streams
            events = apply_stream_fault(rng.choice(_STREAM_FAULTS), events, rng.randrange(9))
    events = changed_value(rng, events, rng.choice((0, 1, 2, 4)))
    listed = events if isinstance(events, list) else [events]
    frames = b"".join(map(_frame, listed))
    yield from _sound(_heard(frames, REGISTRY, rng), REGISTRY, rng)


def _frame(event: Any) -> bytes:
    if isinstance(event, str):
        return event.encode("utf-8", "replace")
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _arguments(stock: Stock, rng: random.Random) -> Iterator[str]:
    raw = changed_value(rng, rng.choice(stock.arguments), rng.choice((1, 2, 4)))
    yield from _argument_problems(raw, stock, rng)


def _argument_problems(raw: Any, stock: Stock, rng: random.Random) -> Iterator[str]:
    read = parse_arguments(raw, _MOST_ARGUMENTS)
    if (read.value is None) == (read.problem is None):
        yield f"neither an object nor a problem, or both: {read!r:.80}"
    if read.value is None:
        return
    fitted = coerce(read.value, changed_value(rng, rng.choice(stock.schemas), rng.randint(0, 2)))
    for value in (read.value, fitted.value):
        if not is_finite(value):
            yield f"arguments that no JSON can hold: {value!r:.80}"
        encode(value)


def _schemas(stock: Stock, rng: random.Random) -> Iterator[str]:
    schema = changed_value(rng, rng.choice(stock.schemas), rng.choice((1, 2, 4)))
    tool = ToolDefinition("t", "", parameters=schema if isinstance(schema, dict) else {"a": schema})
    value = changed_value(rng, {"a": 1, "text": "x"}, rng.choice((0, 2)))
    value = value if isinstance(value, dict) else {}
    if not all(line.strip() for line in tool.validate(value)):
        yield "a problem without words"
    tool.coerce(value)
    encode(tool.spec)


def _written(stock: Stock, rng: random.Random) -> Iterator[str]:
    text = rng.choice(stock.texts)
    for _ in range(rng.choice((1, 2, 3))):
        text = changed_text(rng, text) + rng.choice(("", "", "\n", rng.choice(stock.texts)))
    yield from _text_problems(text, rng)


def _text_problems(text: str, rng: random.Random) -> Iterator[str]:
    tools = REGISTRY
    specs = _plan(tools).tools
    found = recover(text, specs, weak=rng.random() < 0.5)
    encode([found.text, [[call.name, call.arguments] for call in found.calls]])
    holdback = MarkFilter("any", tools.names)
    for at in range(0, len(text), 31):
        holdback.feed(text[at : at + 31])
    message = {"role": "assistant", "content": text}
    yield from _sound({"choices": [{"message": message, "finish_reason": "stop"}]}, tools, rng)


def _traces(stock: Stock, rng: random.Random) -> Iterator[str]:
    events = changed_value(rng, rng.choice(stock.traces), rng.choice((1, 2, 4)))
    yield from _trace_problems(as_lines(events), rng)


def _trace_problems(data: bytes, rng: random.Random) -> Iterator[str]:
    trace = parse_trace(data)
    str(trace)
    if len(trace.digest) != 64:
        yield f"no digest: {trace.digest}"
    (run_of if rng.random() < 0.5 else replayed)(trace)


def _raw_bodies(stock: Stock, rng: random.Random) -> Iterator[str]:
    data = changed_bytes(rng, rng.choice(stock.raw_bodies), stock.raw_bodies)
    yield from _sound(
        decode_body(HttpResponse(rng.choice((200, 200, 500)), {}, data)), REGISTRY, rng
    )


def _raw_streams(stock: Stock, rng: random.Random) -> Iterator[str]:
    data = changed_bytes(rng, rng.choice(stock.streams), stock.streams)
    yield from _sound(_heard(data, REGISTRY, rng), REGISTRY, rng)


def _raw_texts(stock: Stock, rng: random.Random) -> Iterator[str]:
    data = changed_bytes(rng, rng.choice(stock.raw_texts), stock.raw_texts)
    text = data.decode("utf-8", "replace")
    yield from _text_problems(text, rng)
    yield from _argument_problems(text, stock, rng)


def _raw_traces(stock: Stock, rng: random.Random) -> Iterator[str]:
    data = changed_bytes(rng, rng.choice(stock.raw_traces), stock.raw_traces)
    yield from _trace_problems(data, rng)


# The targets, and how many of a hundred cases each gets.
STRUCTURED: Final[dict[str, tuple[Target, int]]] = {
    "bodies": (_bodies, 50),
    "alike": (_alike, 5),
    "chunks": (_chunks, 15),
    "arguments": (_arguments, 18),
    "schemas": (_schemas, 5),
    "written": (_written, 5),
    "traces": (_traces, 2),
}
BYTES: Final[dict[str, tuple[Target, int]]] = {
    "raw_bodies": (_raw_bodies, 50),
    "raw_streams": (_raw_streams, 38),
    "raw_texts": (_raw_texts, 10),
    "raw_traces": (_raw_traces, 2),
}


@functools.cache
def _stock() -> Stock:
    return Stock()


def replay(target: str, seed: int, number: int) -> list[str]:
    """Make one case again, and list what is wrong with it."""
    make, _ = (STRUCTURED | BYTES)[target]
    rng = random.Random(f"{seed}/{target}/{number}")
    try:
        return list(make(_stock(), rng))
    except SurecallError:
        return []
    except Exception as error:  # noqa: BLE001  # any other is what is looked for
        last = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{type(error).__name__}: {error!s:.100} at {last.filename[-40:]}:{last.lineno}"]


def attempt(size: int, seed: int) -> Outcome:
    """Try `size` structured cases, and as many of bytes."""
    made: Counter[str] = Counter()
    failures: list[str] = []
    for kind, targets in (("structured", STRUCTURED), ("bytes", BYTES)):
        for target, (_, share) in targets.items():
            count = max(1, size * share // 100)
            made[kind] += count
            failures += _failures(target, seed, count)
    figures = f"structured {made['structured']:,}, bytes {made['bytes']:,}; " + ", ".join(
        f"{name} {share} %" for name, (_, share) in (STRUCTURED | BYTES).items()
    )
    ran = "malformed bodies, streams, arguments, schemas, texts, and traces through every parser"
    return Outcome(ran, made.total(), gathered(failures), figures=figures)


def _failures(target: str, seed: int, count: int) -> Iterator[str]:
    for number in range(count):
        for problem in replay(target, seed, number):
            yield f"fuzz.replay({target!r}, {seed}, {number}): {problem}"


CLAIM = Claim(
    "D1",
    "Any input parses to valid results or raises one of surecall's own errors.",
    attempt,
    (150_000, 2_500_000, 20_000_000),
    long=True,
)
