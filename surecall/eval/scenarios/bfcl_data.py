"""Reads the data of BFCL where it lies: in the wheel of `bfcl-eval`, unpacked, or in a checkout.

Nothing but the files of the sets is read, and no code of theirs is run.
"""

import zipfile
from collections.abc import Iterator, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from surecall.eval.scenarios.bfcl import (
    SETS,
    WITHOUT_ANSWERS,
    Answer,
    Mapped,
    SingleTurn,
    recorded_requests,
)
from surecall.values.errors import ConfigError
from surecall.values.types import JSON

_PREFIX: Final = "BFCL_v4_"
_PLACES: Final = ("bfcl_eval/data", "data", "")
_WHEEL: Final = ".whl"
T = TypeVar("T")


def data_in(source: Path) -> Traversable:
    """Return the folder with the sets in a wheel or a directory."""
    if source.suffix == _WHEEL:
        try:
            root: Traversable = zipfile.Path(source)
        except (OSError, zipfile.BadZipFile) as error:
            raise ConfigError(f"cannot read {source}: {error}") from None
    else:
        root = source
    for place in _PLACES:
        folder = root.joinpath(place) if place else root
        if folder.joinpath(_file(SETS[0])).is_file():
            return folder
    raise ConfigError(f"there is no {_file(SETS[0])} in {source}: name the wheel of bfcl-eval")


def read_set(folder: Traversable, name: str, mapped: Mapped, most: int | None) -> list[JSON]:
    """Return a set as recorded requests: all, or at most so many, spread evenly over it."""
    cases = list(_lines(folder, _file(name), SingleTurn))
    if most is not None:
        cases = spread(cases, most)
    known = name in WITHOUT_ANSWERS
    answers = () if known else tuple(_lines(folder, f"possible_answer/{_file(name)}", Answer))
    return list(recorded_requests(name, cases, answers, mapped))


def spread(items: Sequence[T], most: int) -> list[T]:
    """Return at most so many items, with equal gaps between them."""
    few = min(most, len(items))
    return [items[at * len(items) // few] for at in range(few)]


def _file(name: str) -> str:
    return f"{_PREFIX}{name}.json"


def _lines(folder: Traversable, name: str, kind: type[T]) -> Iterator[T]:
    """Read a file with a JSON object on each line."""
    try:
        data = folder.joinpath(name).read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ConfigError(f"cannot read {name}: {error}") from None
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            try:
                yield msgspec.json.decode(line, type=kind)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise ConfigError(f"{name}:{number}: {error}") from None
