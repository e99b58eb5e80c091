"""The feature comparison: read from `table.toml`, written into docs/comparison.md."""

import tomllib
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Final

import msgspec

from scripts.marked import with_part

HERE: Final = Path(__file__).resolve().parent
DASH: Final = "\u2013"
SIGNS: Final = {"yes": "✓", "in part": "partly", "no": DASH, "none found": DASH, "not checked": "?"}
OURS: Final = "surecall"
LEGEND: Final = (
    f"✓ yes, *partly* as described below, {DASH} no or none found, ? not checked. "
    "A row that begins with … refines the row above it."
)


class Library(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A library that is compared: what is installed of it, and in which versions.

    `requires` is what else its environment needs, extras among it. What is in `alone` is installed
    without what it requires. What is in `without` surecall needs and
    no check here does; the library wants another version of it.
    """

    name: str
    title: str
    versions: dict[str, str] = {}
    requires: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


class Cell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of one library: a word, why, and what shows it."""

    word: str
    why: str
    shown: str = ""
    link: str = ""
    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def sign(self) -> str:
        """The cell as the short table shows it."""
        return self.shown or SIGNS[self.word]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A feature: what it means, and the cell of each library."""

    key: str
    title: str
    means: str
    cells: dict[str, Cell]
    script: str = ""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of it."""

    day: date
    about: str
    libraries: tuple[Library, ...]
    rows: tuple[Row, ...]


TABLE: Final = msgspec.convert(tomllib.loads((HERE / "table.toml").read_text("utf-8")), Table)


def _lined(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def summary() -> str:
    """Write the short table: a sign for each cell."""
    titles = [_version(library) for library in TABLE.libraries]
    rows = [
        [row.title, *(row.cells[library.name].sign for library in TABLE.libraries)]
        for row in TABLE.rows
    ]
    head = ["feature", *titles]
    return "\n".join(map(_lined, [head, ["---"] * len(head), *rows]))


def _version(library: Library) -> str:
    version = next(iter(library.versions.values()), "")
    return f"{library.title} {version}".strip()


def with_features(document: str) -> str:
    """Put the tables into the page."""
    document = with_part(document, "features", "\n\n".join(_overview()))
    return with_part(document, "evidence", "\n\n".join(evidence()))


def _overview() -> Iterable[str]:
    yield TABLE.about.strip()
    yield summary()
    yield f"{LEGEND} Checked on {TABLE.day} with these packages:"
    yield "\n".join(map(_lined, [["library", "packages"], ["---", "---"], *_packages()]))


def evidence() -> Iterable[str]:
    """Write what each row means, and what shows each cell."""
    for row in TABLE.rows:
        yield f"### {row.title[0].upper()}{row.title[1:]}"
        yield row.means + (f" Script: [{_path(row)}](../{_path(row)})." if row.script else "")
        cells = [[_version(each), *_reasons(row.cells[each.name])] for each in TABLE.libraries]
        yield "\n".join(map(_lined, [["library", "", "evidence"], ["---"] * 3, *cells]))


def _packages() -> Iterable[list[str]]:
    for library in TABLE.libraries:
        if library.versions:
            yield [library.title, ", ".join(f"{k} {v}" for k, v in library.versions.items())]


def _path(row: Row) -> str:
    return f"scripts/features/{row.script}.py"


def _reasons(cell: Cell) -> tuple[str, str]:
    word = f"{cell.word}: {cell.shown}" if cell.shown else cell.word
    names = ", ".join(f"`{name}`" for name in cell.names)
    absent = ", ".join(f"`{word}`" for word in cell.words)
    shown = [
        cell.why,
        f"({names})" if names else "",
        f"(not in its source: {absent})" if absent else "",
        f"[read]({cell.link})" if cell.link else "",
    ]
    return word, " ".join(part for part in shown if part)
