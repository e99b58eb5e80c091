"""The table at the top of the spellings has every list, with the modules that really read it."""

import re

import pytest

from surecall.wire.dialects import spelling
from tests.support.project_files import ROOT

LISTS = [name for name in vars(spelling) if name.isupper() and not name.startswith("_")]
ROW = re.compile(r"^    ([A-Z_, ]+) \(([a-z_, ]+)\)\n        (.+)", re.MULTILINE)
PLACES = ("surecall/wire/dialects/*.py", "surecall/core/streaming.py")


def rows() -> list[tuple[list[str], list[str], str]]:
    """Read the table: names, modules, and what it says about them."""
    assert spelling.__doc__ is not None
    found = ROW.findall(spelling.__doc__)
    return [(names.split(", "), modules.split(", "), words) for names, modules, words in found]


def readers_of(name: str) -> set[str]:
    """Name the modules that read a list."""
    use = re.compile(rf"\bspelling\.{name}\b|spelling import .*\b{name}\b")
    paths = [path for place in PLACES for path in ROOT.glob(place)]
    return {path.stem for path in paths if use.search(path.read_text("utf-8"))}


@pytest.mark.parametrize("name", LISTS)
def test_the_table_says_what_a_list_is_for(name: str) -> None:
    assert [name for names, _, _ in rows() if name in names] == [name]


@pytest.mark.parametrize(("names", "modules", "words"), rows(), ids=lambda part: str(part)[:30])
def test_the_table_names_the_modules_that_read_a_list(
    names: list[str], modules: list[str], words: str
) -> None:
    assert words
    assert [name for name in names if name not in LISTS] == []
    assert {*modules} == set().union(*map(readers_of, names))
