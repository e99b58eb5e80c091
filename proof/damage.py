"""D11: damaged files are never read as another result, and never end in a traceback.

The records of a store and the lines of a trace have checksums, so that any damage is seen. Only
what a crash tears off, the end of a trace, is left out.
"""

import asyncio
import errno
import logging
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from proof.claims import Claim, Outcome, gathered
from proof.killed_runs import (
    REPEATABLE,
    WAYS,
    Death,
    MortalSink,
    Place,
    hold,
    judged,
    reply,
    tools,
)
from surecall import ToolLoopRunner, load_trace, presets
from surecall.eval.storage.run_directories import StoreError
from surecall.eval.storage.store import open_or_resume
from surecall.runtime.recording import parse_trace
from surecall.runtime.replay import run_of
from surecall.testing import ScriptedModel
from surecall.values.errors import ConfigError
from surecall.values.events import Event
from tests.support.trials import SAME, resumed, spliced, tortured, truncated

MEMORY = Path("/dev/shm")  # noqa: S108  # a directory of our own is made in it
# Of so many cases, all cuts of a store are tried; of fewer, one in so many.
ALL_CUTS = 3000


def attempt(size: int, seed: int) -> Outcome:
    """Flip `size` bits of a store and of a trace, cut both, splice, and fill the disk."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        folder = Path(name)
        step = max(1, ALL_CUTS // size)
        tallies = [
            tortured(folder / "read", size, seed),
            tortured(folder / "resumed", size // 10, seed, resumed),
            truncated(folder / "cut", step),
            spliced(folder / "spliced", size // 3, seed),
        ]
        failures = [problem for tally in tallies for problem in tally.wrong]
        failures += two_writers(folder / "writers")
        sound = recorded(folder / "trace")
        failures += cut_failures(sound)
        flips, found = flip_failures(sound, size, seed)
        full, times = full_disks(folder / "full")
    cases = sum(tally.cases for tally in tallies)
    return Outcome(
        f"a store: {tallies[0].cases + tallies[1].cases} flipped bits, {tallies[2].cases} cuts, "
        f"{tallies[3].cases} splices, two writers; a trace of {len(sound)} bytes: every cut, "
        f"{size} flipped bits, a full disk at each of {times} writes",
        cases + len(sound) + size + times + 1,
        gathered([*failures, *found, *full]),
        figures=f"of the flipped bits of a trace {flips['refused']} were refused, "
        f"{flips['same']} changed nothing",
    )


def recorded(folder: Path) -> bytes:
    """Return the trace of a run with tools."""
    place = Place(folder)
    hold(place, WAYS[0], Death())
    return place.trace.read_bytes()


def cut_failures(sound: bytes, step: int = 1) -> Iterator[str]:
    """Cut a trace at every `step`-th byte: what is left must be the lines that are whole."""
    whole = list(parse_trace(sound))
    taken_up: set[int] = set()
    for end in range(0, len(sound), step):
        lines = sound[:end].count(b"\n")
        # A line is whole without its line break, too.
        wanted = (whole[:lines], whole[: lines + 1])
        try:
            left = parse_trace(sound[:end])
            if len(left) not in taken_up:
                taken_up.add(len(left))
                run_of(left)
        except ConfigError:
            if lines:
                yield f"cut at {end}: refused, though {lines} lines are whole"
        except Exception as error:  # noqa: BLE001  # an untyped error is what is looked for
            yield f"cut at {end}: {type(error).__name__}: {error}"
        else:
            if list(left) not in wanted:
                yield f"cut at {end}: other events"


def flip_failures(sound: bytes, size: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Flip single bits of a trace; tell every untyped error, and what was read as other events."""
    chance, whole = random.Random(seed), list(parse_trace(sound))
    counts: Counter[str] = Counter()
    failures = []
    for _ in range(size):
        bit = chance.randrange(len(sound) * 8)
        data = bytearray(sound)
        data[bit // 8] ^= 1 << bit % 8
        try:
            is_same = list(parse_trace(bytes(data))) == whole
        except ConfigError:
            counts["refused"] += 1
        except Exception as error:  # noqa: BLE001  # an untyped error is what is looked for
            failures.append(f"bit {bit} of a trace: {type(error).__name__}: {error}")
        else:
            counts["same"] += is_same
            failures += [] if is_same else [f"bit {bit} of a trace: read as other events"]
    return counts, failures


def two_writers(base: Path) -> list[str]:
    """Take up a run that is being written."""
    with open_or_resume(base, SAME) as first:
        try:
            with open_or_resume(base, SAME) as second:
                same = second.directory == first.directory
        except StoreError:
            return []
    return ["two writers have one run"] if same else []


class FullDisk(MortalSink):
    """Writes a trace until there is no space left."""

    def __init__(self, path: Path, last: int) -> None:
        super().__init__(path, Death())
        self._left = last

    def __call__(self, event: Event) -> None:
        """Write one event, or fail as the disk does."""
        self._left -= 1
        if self._left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().__call__(event)


def full_disks(folder: Path) -> tuple[list[str], int]:
    """Fill the disk at the n-th write for every n, then resume with space: no effect twice."""
    place = Place(folder)
    hold(place, WAYS[0], Death())
    writes = len(load_trace(place.trace))
    failures = []
    for last in range(writes):
        place = Place(folder)
        _run_on(FullDisk(place.trace, last), place)
        hold(place, WAYS[0], Death())
        effects = place.effects()
        failures += [
            f"full at write {last}: {call} took effect {times} times"
            for call, times in effects.items()
            if times > 1 and not call.startswith(REPEATABLE)
        ]
        failures += [
            f"full at write {last}: {problem}"
            for problem in judged(place, set(effects))
            if "ended with" in problem or "behind" in problem
        ]
    return failures, writes


def _run_on(sink: FullDisk, place: Place) -> None:
    runner = ToolLoopRunner(
        client=ScriptedModel(*[reply] * 9),
        model="m",
        tools=tools(place, Death(), in_loop=True),
        observers=[sink],
        config=presets.raw(),
        llm_options_defaults={"parallel_tool_calls": True},
    )
    log = logging.getLogger("surecall")
    was, log.disabled = log.disabled, True  # it warns about the sink, as it should
    try:
        asyncio.run(runner.run("Do it."))
    finally:
        log.disabled = was


CLAIM = Claim(
    "D11",
    "A damaged file is never read as a different result.",
    attempt,
    (1500, 20_000, 200_000),
)
