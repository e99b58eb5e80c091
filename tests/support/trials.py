"""Made-up trials, recorded runs, and damage to the files of runs."""

import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from surecall.eval.report.run_results import Sheet, SheetColumn
from surecall.eval.storage.run_directories import DATABASE, StoreError
from surecall.eval.storage.store import Invocation, RunStore, open_for_reading, open_or_resume
from surecall.eval.storage.trial import CONTROL, Cell, Key, Status, Trial
from surecall.values.types import JSON

# Made-up trials, for tests of what is made of them


CELL = Cell("maker/model")
ONE_SCENARIO = "happy_path"


def trial(
    status: Status = "passed",
    number: int = 1,
    scenario: str = ONE_SCENARIO,
    cell: Cell = CELL,
    **fields: object,
) -> Trial:
    base: dict[str, object] = {
        "key": Key(cell, scenario, number),
        "status": status,
        "category": "" if status == "passed" else "ASSERTION_FAILED",
        "first_ok": status == "passed",
    }
    return msgspec.convert(base | fields, Trial)


def series(pattern: str, scenario: str = ONE_SCENARIO, cell: Cell = CELL) -> list[Trial]:
    """Trials 1, 2, … of one scenario: `.` passed, `x` failed, `i` infra, `s` skipped."""
    statuses: dict[str, Status] = {".": "passed", "x": "failed", "i": "infra", "s": "skipped"}
    return [trial(statuses[mark], at, scenario, cell) for at, mark in enumerate(pattern, 1)]


def rich_trials() -> list[Trial]:
    draw = random.Random(7)  # noqa: S311 - any numbers will do
    return [
        trial(
            draw.choice(("passed", "passed", "failed", "infra", "skipped")),
            number,
            scenario,
            Cell(model, "default", strategy),
            elapsed_ms=draw.randrange(9_999),
            requests=[{"turn": 0, "latency_ms": draw.randrange(999), "attempt": 1}],
            usage={"prompt_tokens": 7, "cost": draw.random() / 1_000},
            fired=[draw.choice("abc")],
            score={"state": draw.choice((True, False, None))},
        )
        for model in ("m1", "m2")
        for strategy in ("baseline", "production")
        for scenario in ("one", "two", CONTROL)
        for number in range(1, 9)
    ]


# Made-up trials for the tests of the store and of reports


HOSTILE = "../|\x1b[31m`x`\\|<script>\n[a](b)]]>\ud800\x00"
CATEGORIES = {"failed": "ASSERTION_FAILED", "infra": "TIMEOUT", "skipped": "TOOLS_DISABLED"}
NAMES = ("happy_path", "long_arguments_guard", "chat_only")


def report_trial(
    cell: Cell,
    scenario: str = "happy_path",
    number: int = 1,
    status: Status = "passed",
    **rest: Any,
) -> Trial:
    fields: JSON = {"category": CATEGORIES.get(status, ""), "first_ok": status == "passed"}
    fields |= rest
    return Trial(key=Key(cell, scenario, number), status=status, **fields)


def sheet(*cells: Cell, scenarios: tuple[str, ...] = NAMES, **settings: Any) -> Sheet:
    return Sheet(tuple(SheetColumn(cell) for cell in cells), scenarios, settings)


CELLS = (Cell("z/last"), Cell("a/first", "warm"), Cell("a/first"), Cell("z/last", "warm", "raw"))


def many() -> list[Trial]:
    chance = random.Random(7)  # noqa: S311 - examples, not secrets
    kinds: list[Status] = ["passed", "passed", "failed", "infra", "skipped"]
    made = [
        report_trial(cell, name, number, chance.choice(kinds), elapsed_ms=chance.randrange(5000))
        for cell in CELLS
        for name in NAMES
        for number in range(1, 13)
    ]
    chance.shuffle(made)
    return made


START = {
    "type": "run_start",
    "run_id": "r",
    "config": {"tool_use_mode": "disabled"},
    "options": {"temperature": 1},
    "messages": [{"role": "system", "text": "s"}, {"role": "user", "content": "u"}],
}
CALL = {"id": "c1", "name": "state_get", "arguments": {}}
EVENTS: list[JSON] = [
    START,
    {"type": "llm_request_end", "reply": {"calls": [CALL]}},
    {"type": "tool_call_start", "call": CALL},
    {
        "type": "tool_call_end",
        "result": {"call_id": "c1", "name": "state_get", "content": '{"ok":true}'},
    },
    {"type": "llm_request_end", "reply": {"text": "Done."}},
]


def lines(*events: JSON) -> bytes:
    return b"".join(msgspec.json.encode(event) + b"\n" for event in events)


SAME = {"base_url": "http://localhost/v1", "seed": 1}
OTHER = SAME | {"seed": 2}
TRACE = b'{"type":"run_start","run_id":"r"}\n{"type":"final","run_id":"r"}\n'


def key(number: int = 1, model: str = "sim/a", scenario: str = "happy_path") -> Key:
    return Key(Cell(model), scenario, number)


def passed(which: Key, elapsed_ms: int = 5) -> Trial:
    return Trial(key=which, status="passed", elapsed_ms=elapsed_ms, draft={"foo": "bar"})


def spoiled(which: Key) -> Trial:
    return Trial(key=which, status="infra", category="TIMEOUT", error="it took too long")


# Damage to the structure of an SQLite file: to the bytes, the cells, and the pages of its b-trees.
# `damaged_pages(sound, rng, n)` yields cases with a name: `n` changed bytes, each cell dropped,
# repeated, and moved in a page that stays well-formed, each page zeroed, pages swapped, and cuts.


# So small that a few rows make trees of several levels.
PAGE: Final = 512
LEAVES: Final = {10, 13}
INTERIOR: Final = {2, 5}


def in_small_pages(path: Path) -> bytes:
    """Rewrite a closed file in small pages, and return it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        for statement in ("journal_mode = DELETE", f"page_size = {PAGE}"):
            connection.execute(f"PRAGMA {statement}")
        connection.execute("VACUUM")
        connection.execute(f"PRAGMA journal_mode = {mode}")
    return path.read_bytes()


def damaged_pages(sound: bytes, rng: random.Random, n: int) -> Iterator[tuple[str, bytes]]:
    """Yield damaged copies of a file in small pages, each with a name."""
    yield from _changed_bytes(sound, rng, n)
    yield from _changed_cells(sound)
    yield from _changed_pages(sound, rng, n // 12)


def _page(sound: bytes, number: int) -> bytes:
    return sound[number * PAGE : (number + 1) * PAGE]


def _replaced(sound: bytes, at: int, new: bytes) -> bytes:
    return sound[:at] + new + sound[at + len(new) :]


def _cells(page: bytes, start: int) -> tuple[int, int]:
    """Return where the cell pointers of a b-tree page begin, and how many there are."""
    kind = page[start]
    if kind not in LEAVES | INTERIOR:
        return 0, 0
    return start + (8 if kind in LEAVES else 12), int.from_bytes(page[start + 3 : start + 5], "big")


def _structural_bytes(sound: bytes) -> list[int]:
    """Return the places of page headers, cell pointers, and the first bytes of cells."""
    places = list(range(100))
    for number in range(len(sound) // PAGE):
        page, start = _page(sound, number), 100 if number == 0 else 0
        at, count = _cells(page, start)
        inside = [*range(start, at + 2 * count)]
        for pointer in range(at, at + 2 * count, 2):
            cell = int.from_bytes(page[pointer : pointer + 2], "big")
            inside += range(cell, min(cell + 24, PAGE))
        places += [number * PAGE + each for each in inside]
    return places


def _changed_bytes(sound: bytes, rng: random.Random, count: int) -> Iterator[tuple[str, bytes]]:
    places = _structural_bytes(sound)
    for _ in range(count):
        at = rng.choice(places) if rng.random() < 0.8 else rng.randrange(len(sound))
        old = sound[at]
        new = rng.choice((0, 1, 255, old ^ 1 << rng.randrange(8), old - 1 & 255, old + 1 & 255))
        yield f"byte {at} {old} -> {new}", _replaced(sound, at, bytes([new]))


def _changed_cells(sound: bytes) -> Iterator[tuple[str, bytes]]:
    """Drop, repeat, and swap the cells of each page; the pages stay well-formed."""
    for number in range(len(sound) // PAGE):
        page, start = _page(sound, number), 100 if number == 0 else 0
        at, count = _cells(page, start)
        pointers = [page[at + 2 * each : at + 2 * each + 2] for each in range(count)]
        for each in range(count):
            kept = b"".join(pointers[:each] + pointers[each + 1 :]) + b"\0\0"
            fewer = bytearray(page)
            fewer[start + 3 : start + 5] = (count - 1).to_bytes(2, "big")
            fewer[at : at + 2 * count] = kept
            dropped = _replaced(sound, number * PAGE, bytes(fewer))
            yield f"cell {each} of page {number} dropped", dropped
            other = (each + 1) % count
            twice = [*pointers]
            twice[each] = pointers[other]
            where = number * PAGE + at
            yield f"cell {each} of page {number} lost", _replaced(sound, where, b"".join(twice))
            twice[other] = pointers[each]
            yield f"cell {each} of page {number} moved", _replaced(sound, where, b"".join(twice))


def _changed_pages(sound: bytes, rng: random.Random, count: int) -> Iterator[tuple[str, bytes]]:
    for number in range(len(sound) // PAGE):
        yield f"page {number} zeroed", _replaced(sound, number * PAGE, bytes(PAGE))
        yield f"cut at page {number + 1}", sound[: (number + 1) * PAGE]
    for _ in range(count):
        here, there = rng.sample(range(len(sound) // PAGE), 2)
        copied = _replaced(sound, here * PAGE, _page(sound, there))
        yield f"page {there} copied to {here}", copied
        swapped = _replaced(copied, there * PAGE, _page(sound, here))
        yield f"pages {here} and {there} swapped", swapped
        end = rng.randrange(1, len(sound))
        yield f"cut at {end}", sound[:end]


# Damage to the file of a run, and what is read of it then.
# `tortured(folder, n, seed)` flips `n` bits, one at a time, `truncated(folder, step)` cuts the file
# short at every `step`-th byte, `spliced(folder, n, seed)` moves and copies pieces of it,
# `restructured(folder, n, seed)` damages the b-trees of SQLite. All return how often the very same
# results came back, how often a typed error did, and whatever else happened, which must be nothing.


ABSENT = Key(Cell("nobody"), "nothing", 1)


class Tally(NamedTuple):
    """How many cases there were, and how they ended. `wrong` says what should not have been."""

    cases: int
    same: int
    refused: int
    wrong: list[str]


def small_store(base: Path) -> RunStore:
    """Return a closed run of a few trials, with and without traces, written by two commands."""
    first = Invocation(command=("surecall", "eval"), code="1", config={"trials": 3})
    with open_or_resume(base, SAME, first) as store:
        for number in (3, 1, 2):
            store.add(passed(key(number)), TRACE * number)
            store.add(passed(key(number, "sim/b"), elapsed_ms=number))
        store.add(spoiled(key(4)), TRACE)
    with open_or_resume(base, SAME, Invocation(command=("again",))) as store:
        store.add(passed(key(4)), TRACE)
        store.add(passed(key(5, scenario="long_arguments_guard")), bytes(range(256)) * 40)
    return store


def results(directory: Path) -> Any:
    """Read everything that can be read of a run."""
    with open_for_reading(directory) as store:
        trials = list(store.trials())
        return (
            store.meta,
            len(store),
            trials,
            list(store.packed_trials()),
            store.completed_trials(),
            store.completed_trials(infra=False),
            [store.trace(trial.key) for trial in trials],
            store.trace(ABSENT),
        )


def resumed(directory: Path) -> Any:
    """Take a run up to write into it, and read what is there then, without the new command."""
    with open_or_resume(directory.parent.parent, SAME) as store:
        if store.directory != directory:
            raise AssertionError("a run of its own was begun")
        return (store.meta.invocations[:-1], list(store.packed_trials()), store.completed_trials())


def tortured(folder: Path, n: int, seed: int = 1, read: Callable[[Path], Any] = results) -> Tally:
    """Flip one bit of a small store, `n` times, each time of the sound file."""
    store = small_store(folder)
    sound = (store.directory / DATABASE).read_bytes()
    draw = random.Random(seed)  # noqa: S311 - the same cases for the same seed
    bits = [draw.randrange(len(sound) * 8) for _ in range(n)]
    return _tally(store.directory, sound, _flips(sound, bits), read)


def truncated(folder: Path, step: int = 1) -> Tally:
    """Cut a small store short at every `step`-th byte."""
    store = small_store(folder)
    sound = (store.directory / DATABASE).read_bytes()
    cuts = ((f"cut at {end}", sound[:end]) for end in range(0, len(sound), step))
    return _tally(store.directory, sound, cuts)


def spliced(folder: Path, n: int, seed: int = 1) -> Tally:
    """Put a piece of a small store in the place of another, or two in each other's, `n` times."""
    store = small_store(folder)
    sound = (store.directory / DATABASE).read_bytes()
    draw = random.Random(seed)  # noqa: S311 - the same cases for the same seed
    return _tally(store.directory, sound, _splices(sound, n, draw))


def restructured(folder: Path, n: int, seed: int = 1) -> Tally:
    """Damage `n` bytes, and every cell and page, of the b-trees of a small store."""
    store = small_store(folder)
    sound = in_small_pages(store.directory / DATABASE)
    draw = random.Random(seed)  # noqa: S311 - the same cases for the same seed
    return _tally(store.directory, sound, damaged_pages(sound, draw, n))


def _splices(sound: bytes, n: int, draw: random.Random) -> Iterator[tuple[str, bytes]]:
    for _ in range(n):
        size = draw.choice((1, 16, 64, 512, 4096))
        here, there = (draw.randrange(len(sound) // size) * size for _ in range(2))
        data = bytearray(sound)
        data[here : here + size] = sound[there : there + size]
        if draw.random() < 0.5:
            data[there : there + size] = sound[here : here + size]
        yield f"{size} bytes at {here} and {there}", bytes(data)


def _flips(sound: bytes, bits: list[int]) -> Iterator[tuple[str, bytes]]:
    for bit in bits:
        data = bytearray(sound)
        data[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", bytes(data)


def _tally(
    directory: Path,
    sound: bytes,
    cases: Iterable[tuple[str, bytes]],
    read: Callable[[Path], Any] = results,
) -> Tally:
    path = directory / DATABASE
    expected = read(directory)
    count = same = refused = 0
    wrong: list[str] = []
    for name, data in cases:
        count += 1
        path.write_bytes(data)
        try:
            found = read(directory)
        except StoreError as error:
            refused += 1
            if str(path) not in str(error):
                wrong.append(f"{name}: the message does not name the file: {error}")
        except Exception as error:  # noqa: BLE001 - an untyped error is what is looked for
            wrong.append(f"{name}: {type(error).__name__}: {error}")
        else:
            if found == expected:
                same += 1
            else:
                wrong.append(f"{name}: another result")
        for beside in directory.glob(f"{DATABASE}-*"):
            beside.unlink()
    path.write_bytes(sound)
    return Tally(count, same, refused, wrong)


def strategy_trials(
    strategy: str, pattern: str, model: str = "m", profile: str = "default"
) -> list[Trial]:
    return series(pattern, cell=Cell(model, profile, strategy))


GUIDED_HELPS = [
    *strategy_trials("production", "x" * 40),
    *strategy_trials("guided_contract", "." * 38 + "xx"),
]
