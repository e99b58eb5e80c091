"""Damage to the file of a run, and what is read of it then.

`tortured(folder, n, seed)` flips `n` bits, one at a time, `truncated(folder, step)` cuts the file
short at every `step`-th byte, `spliced(folder, n, seed)` moves and copies pieces of it. All return
how often the very same results came back, how often a typed error did, and whatever else
happened, which must be nothing.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from surecall.eval.storage.run_directories import DATABASE, StoreError
from surecall.eval.storage.store import Invocation, Store, open_for_reading, open_or_resume
from surecall.eval.storage.trial import Cell, Key
from tests.support.eval_results import SAME, TRACE, key, passed, spoiled

ABSENT = Key(Cell("nobody"), "nothing", 1)


class Tally(NamedTuple):
    """How many cases there were, and how they ended. `wrong` says what should not have been."""

    cases: int
    same: int
    refused: int
    wrong: list[str]


def small_store(base: Path) -> Store:
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
            list(store.packed()),
            store.done_keys(),
            store.done_keys(infra=False),
            [store.trace(trial.key) for trial in trials],
            store.trace(ABSENT),
        )


def resumed(directory: Path) -> Any:
    """Take a run up to write into it, and read what is there then, without the new command."""
    with open_or_resume(directory.parent.parent, SAME) as store:
        if store.directory != directory:
            raise AssertionError("a run of its own was begun")
        return (store.meta.invocations[:-1], list(store.packed()), store.done_keys())


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
