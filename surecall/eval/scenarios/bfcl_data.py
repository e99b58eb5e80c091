"""Reads the data of BFCL where it lies: in the wheel of `bfcl-eval`, unpacked, or in a checkout.

Nothing but the files of the sets is read, and no code of theirs is run.
"""

import zipfile
from collections.abc import Iterator, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, TypeVar

from surecall.eval.scenarios.bfcl import (
    SETS,
    WITHOUT_ANSWERS,
    Answer,
    Mapped,
    SingleTurn,
    recorded_requests,
)
from surecall.values.errors import ConfigError
from surecall.values.nesting import decode_json
from surecall.values.types import JSON

_PREFIX: Final = "BFCL_v4_"
_PLACES: Final = ("bfcl_eval/data", "data", "")
_WHEEL: Final = ".whl"
T = TypeVar("T")


def data_in(source: Path) -> Traversable:
    """Return the folder with the sets in a wheel or a directory."""
    folder = folder_with(source, _file(SETS[0]), _PLACES)
    if folder is None:
        raise ConfigError(f"there is no {_file(SETS[0])} in {source}: name the wheel of bfcl-eval")
    return folder


def folder_with(source: Path, file: str, places: Sequence[str]) -> Traversable | None:
    """Return the first of some places in a wheel or a directory where a file is."""
    root: Traversable = source
    if source.suffix == _WHEEL:
        try:
            root = zipfile.Path(source)
        except (OSError, zipfile.BadZipFile) as error:
            raise ConfigError(f"cannot read {source}: {error}") from None
    folders = (root.joinpath(place) if place else root for place in places)
    return next((each for each in folders if each.joinpath(file).is_file()), None)


def read_set(folder: Traversable, name: str, mapped: Mapped, most: int | None) -> list[JSON]:
    """Return a set as recorded requests: all, or at most so many, spread evenly over it."""
    cases = spread(cases_of(folder, name, SingleTurn), most)
    answers = [] if name in WITHOUT_ANSWERS else answers_of(folder, name, Answer)
    return list(recorded_requests(name, cases, answers, mapped))


def cases_of(folder: Traversable, name: str, kind: type[T]) -> list[T]:
    """Read the cases of a set."""
    return list(lines_of(folder, _file(name), kind))


def answers_of(folder: Traversable, name: str, kind: type[T]) -> list[T]:
    """Read the answers of a set."""
    return list(lines_of(folder, f"possible_answer/{_file(name)}", kind))


def spread(items: Sequence[T], most: int | None) -> list[T]:
    """Return all items, or at most so many, with equal gaps between them."""
    few = len(items) if most is None else min(most, len(items))
    return [items[at * len(items) // few] for at in range(few)]


def _file(name: str) -> str:
    return f"{_PREFIX}{name}.json"


def lines_of(folder: Traversable, name: str, kind: type[T]) -> Iterator[T]:
    """Read a file with a JSON object on each line."""
    for number, line in enumerate(bytes_of(folder, name).split(b"\n"), start=1):
        if line.strip():
            try:
                yield decode_json(line, kind)
            except ValueError as error:
                raise ConfigError(f"{name}:{number}: {error}") from None


def bytes_of(folder: Traversable, name: str) -> bytes:
    """Read a file."""
    try:
        return folder.joinpath(name).read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ConfigError(f"cannot read {name}: {error}") from None
