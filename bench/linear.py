"""Whether every reader of model output takes time in proportion to what it reads.

For each reader and each hostile family of texts: CPU time at n, 2n, 4n … bytes, the best of five.
Printed is the largest growth per doubling; 2 is exactly linear. Small times are noise and skipped.
"""

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator

from surecall.core.streaming import MarkFilter
from surecall.parsing.arguments import parse_arguments
from surecall.parsing.coercion import coercer
from surecall.values.types import ToolSpec
from surecall.wire.assembler import Assembler
from surecall.wire.chat_format import decode
from surecall.wire.content_parts import text_of
from surecall.wire.dialects import recover
from surecall.wire.response import parse_choice, parse_fault

SIZES = [1 << 19, 1 << 20, 1 << 21, 1 << 22]
BAR = 2.3
NOISE_S = 0.02
REPEATS = 5
PIECE = 16
TOOLS = (ToolSpec("f", "", {"type": "object", "properties": {"a": {"type": "string"}}}),)
COERCE = coercer(
    {"type": "object", "properties": {"a": {"type": "array"}, "b": {"type": "integer"}}}
)

FAMILIES: dict[str, Callable[[int], str]] = {
    "unclosed tags": lambda n: "<tool_call>" * (n // 11),
    "unclosed calls": lambda n: '<tool_call>{"name":"f","arguments":{"a":"' * (n // 41),
    "fences": lambda n: "```json\n" * (n // 8),
    "fence blanks": lambda n: "```json" + " " * n,
    "brackets": lambda n: "[" * n,
    "objects": lambda n: '{"a":' * (n // 5),
    "quotes": lambda n: '"' * n,
    "backslashes": lambda n: '{"a":"' + "\\" * n,
    "commas": lambda n: "{" + "," * n,
    "ticks": lambda n: "` `` " * (n // 5),
    "digits": lambda n: '{"a":' + "1" * n + "}",
    "keys": lambda n: "{" + '"a":1,' * (n // 6) + "}",
    "text": lambda n: '{"a":"' + "x" * n + '"}',
    "python": lambda n: "{'a': [" + "True, " * (n // 6) + "]}",
}


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def _fragment(piece: str) -> dict[str, object]:
    return {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": piece}}]}


def _streamed(text: str, delta: Callable[[str], dict[str, object]]) -> object:
    assembler = Assembler(("f",), 1 << 30)
    for piece in _pieces(text):
        chunk = {"choices": [{"index": 0, "delta": delta(piece), "finish_reason": None}]}
        assembler.add(json.dumps(chunk))
    return assembler.finish()


def _shown(text: str) -> object:
    holdback = MarkFilter("any", ("f",))
    return [list(holdback.feed(piece)) for piece in _pieces(text)]


def _answer(data: bytes) -> object:
    try:
        return parse_choice(decode(data))
    except ValueError:
        return None


READERS: dict[str, Callable[[str], object]] = {
    "arguments": lambda text: parse_arguments(text, 1 << 30),
    "dialects": lambda text: recover(text, TOOLS, weak=True),
    "coercion": lambda text: COERCE({"a": text, "b": text}),
    "answers": lambda text: _answer(text.encode()),
    "error bodies": lambda text: parse_fault({"error": {"message": text}}, 400, {}, 0.0),
    "content parts": lambda text: text_of([{"type": "text", "text": text}]),
}


def cost(reader: Callable[[str], object], text: str) -> float:
    """Return the best CPU time of five."""
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        reader(text)
        times.append(time.process_time() - started)
    return min(times)


# A stream is a piece at a time, so a million bytes are already many; what they say matters less.
STREAMS: dict[str, Callable[[str], object]] = {
    "streamed text": lambda text: _streamed(text, lambda piece: {"content": piece}),
    "streamed arguments": lambda text: _streamed(text, _fragment),
    "what is shown": _shown,
}
STREAMED = ("text", "unclosed tags", "ticks")


def measure(
    name: str, reader: Callable[[str], object], families: Iterable[str], sizes: list[int]
) -> float:
    """Print and return the worst growth of one reader."""
    worst, where, slowest = 0.0, "", 0.0
    for family in families:
        costs = [cost(reader, FAMILIES[family](size)) for size in sizes]
        slowest = max(slowest, costs[-1])
        for before, after in itertools.pairwise(costs):
            if before > NOISE_S and after / before > worst:
                worst, where = after / before, family
    said = f"x{worst:.2f} per doubling ({where})" if where else "too quick to tell"
    print(f"{name:18} {said:44} slowest at {sizes[-1] >> 20} MiB {slowest * 1000:7.0f} ms")
    return worst


def main() -> int:
    """Print the worst growth of each reader; fail when one is over the bar."""
    growths = [measure(name, reader, FAMILIES, SIZES) for name, reader in READERS.items()]
    small = [size // 4 for size in SIZES]
    growths += [measure(name, reader, STREAMED, small) for name, reader in STREAMS.items()]
    return int(max(growths) > BAR)


if __name__ == "__main__":
    sys.exit(main())
