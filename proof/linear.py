"""D2: twice the input takes twice the work, whatever it repeats, and never much more memory.

Work is counted, not timed: the lines of Python that run, and for the readers of text also the
characters that searches inside of built-in functions look at. Counted from `size` bytes on, each
doubling may take 2.3 times the work. Some readers try a repeated mark many times before they give
up; below `size` a bound on the lines for each byte holds instead.

What built-in functions cost shows in time alone. Time depends on the machine, so it is reported
and not judged; the peak of memory is judged at one MiB.
"""

import itertools
import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from bench.linear import FAMILIES, READERS, STREAMED, STREAMS, TOOLS
from proof.claims import Claim, Outcome, gathered
from surecall.core.streaming import ResponseReader
from surecall.tools.registry import ToolDefinition
from surecall.values.errors import SurecallError
from surecall.wire.assembler import Assembler
from surecall.wire.dialects import recover
from tests.support.timing import Watched, steps

GROWTH: Final = 2.3
LINES_PER_BYTE: Final = 512
# So few lines are the start of a reader, not what it reads.
_FEW: Final = 3_000
_SMALL: Final = (2_048, 8_192)
_DOUBLINGS: Final = 4
_MIB: Final = 1 << 20
_MEMORY_TIMES: Final = 8
_MEMORY_MORE: Final = 16 * _MIB


class Case(NamedTuple):
    """A reader, what it reads at a size, and how much of a MiB is timed."""

    name: str
    make: Callable[[int], Any]
    read: Callable[[Any], object]
    part: int = 1

    def lines(self, size: int) -> int:
        """Count the lines that run."""
        given = self.make(size)
        return steps(lambda: self.read(given))


def cases() -> list[Case]:
    """Return every reader with every family that it can be given."""
    texts = FAMILIES | {"comments": lambda n: "{" + "/* x */ // y\n" * (n // 13)}
    found = [
        Case(f"{reader}, {family}", make, read)
        for reader, read in READERS.items()
        for family, make in texts.items()
    ]
    found += [
        Case(f"{reader}, {family}", FAMILIES[family], read, 16)
        for reader, read in STREAMS.items()
        for family in STREAMED
    ]
    found += [
        Case("events in single bytes", _events, lambda stream: _listened(stream, 1), 4),
        Case("events in pieces of 64 bytes", _events, lambda stream: _listened(stream, 64), 4),
        Case("one event in single bytes", _event, lambda stream: _listened(stream, 1), 4),
        Case(
            "comments in a stream", lambda n: b": x\n\n" * (n // 5), lambda s: _listened(s, 64), 4
        ),
        Case("references of a schema", _references, _tool, 4),
        Case("alternatives of a schema", _alternatives, _tool, 4),
        Case("unique items", _items, _UNIQUE.validate),
    ]
    return found


def _events(size: int) -> bytes:
    delta = {"choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}
    event = b"data: " + json.dumps(delta).encode() + b"\n\n"
    return event * (size // len(event))


def _event(size: int) -> bytes:
    return b'data: {"choices":[{"delta":{"content":"' + b"x" * size + b'"}}]}\n\n'


def _listened(stream: bytes, size: int) -> object:
    listener = ResponseReader(Assembler(("f",), _MIB))
    for at in range(0, len(stream), size):
        listener.feed(stream[at : at + size])
    listener.close()
    return listener.finish()


def _references(size: int) -> Any:
    properties = {f"p{number}": {"$ref": "#/$defs/x"} for number in range(size // 64)}
    return {"type": "object", "properties": properties, "$defs": {"x": {"type": "string"}}}


def _alternatives(size: int) -> Any:
    return {
        "type": "object",
        "properties": {"a": {"anyOf": [{"const": n} for n in range(size // 64)]}},
    }


def _tool(schema: Any) -> object:
    try:
        tool = ToolDefinition("t", "", parameters=schema)
        return tool.validate({"a": -1}), tool.coerce({"a": "1"})
    except SurecallError:  # too many nodes: refused, which costs no more
        return None


def _items(size: int) -> Any:
    return {"a": [[number] for number in range(size // 8)]}


_UNIQUE: Final = ToolDefinition(
    "t", "", parameters={"type": "object", "properties": {"a": {"uniqueItems": True}}}
)


def growth_problem(case: Case, size: int) -> tuple[float, str]:
    """Return the largest growth at a doubling, and what is wrong with it."""
    counts = [case.lines(size << doubling) for doubling in range(_DOUBLINGS)]
    grown = [after / before for before, after in itertools.pairwise(counts) if before > _FEW]
    worst = max(grown, default=0.0)
    return worst, f"{case.name}: lines {counts} from {size} bytes on" if worst > GROWTH else ""


def density_problem(case: Case) -> tuple[float, str]:
    """Return the most lines for a byte of a small input, and what is wrong with it."""
    most = max((case.lines(size) - _FEW) / size for size in _SMALL)
    bad = most > LINES_PER_BYTE
    return most, f"{case.name}: {most:.0f} lines for each byte of {_SMALL}" if bad else ""


def look_problem(family: str, size: int) -> str:
    """Say in which family the characters that are looked at grow faster than the text."""
    counts = []
    for doubling in range(_DOUBLINGS):
        text = Watched.of(FAMILIES[family](size << doubling))
        recover(text, TOOLS, weak=True)
        counts.append(text.looked)
    worst = max(after / max(before, 1) for before, after in itertools.pairwise(counts))
    return f"dialects, {family}: looks {counts} from {size} bytes on" if worst > GROWTH else ""


def memory_problem(case: Case) -> tuple[float, str]:
    """Return the CPU seconds for a MiB, and what is wrong with the peak of memory."""
    size = _MIB // case.part
    given = case.make(size)
    started = time.process_time()
    case.read(given)
    took = (time.process_time() - started) * case.part
    tracemalloc.start()
    try:
        case.read(given)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    bad = peak > _MEMORY_TIMES * size + _MEMORY_MORE
    return took, f"{case.name}: {peak >> 20} MiB of memory for {size >> 10} KiB" if bad else ""


def attempt(size: int, _seed: int) -> Outcome:
    """Count the work of every reader on every family, from `size` bytes on."""
    every = cases()
    growths = {case.name: growth_problem(case, size) for case in every}
    densities = {case.name: density_problem(case) for case in every}
    times = {case.name: memory_problem(case) for case in every}
    failures = [problem for _, problem in (*growths.values(), *densities.values(), *times.values())]
    failures += [look_problem(family, size) for family in FAMILIES]
    slow = sorted(times, key=lambda name: -times[name][0])[:3]
    figures = (
        f"growth at most {_most(growths, '.2f')}, lines per byte {_most(densities, '.0f')}; "
        "CPU per MiB, not judged: "
        + ", ".join(f"{name} {times[name][0] * 1000:.0f} ms" for name in slow)
        + f", {sum(took <= 0.25 for took, _ in times.values())} of {len(times)} below 250 ms"
    )
    ran = f"{len(every)} parsers and input families, counted at {_DOUBLINGS} sizes from {size} "
    ran += "bytes on"
    count = len(every) * (_DOUBLINGS + len(_SMALL) + 1) + len(FAMILIES) * _DOUBLINGS
    found = [failure for failure in failures if failure]
    return Outcome(ran, count, gathered(found), figures=figures)


def _most(values: dict[str, tuple[float, str]], form: str) -> str:
    name = max(values, key=lambda each: values[each][0])
    return f"{values[name][0]:{form}} ({name})"


CLAIM = Claim(
    "D2",
    "Parsing takes linear time and at most eight times the input's size in memory.",
    attempt,
    (8_192, 65_536, 262_144),
    long=True,
)
