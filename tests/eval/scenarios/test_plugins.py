"""Scenarios that users bring along: functions, files and packages."""

import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surecall import ConfigError
from surecall.eval.scenarios.plugins import choose, installed, is_file, load
from surecall.values.types import JSON

FILE = '''"""Two scenarios."""
from surecall import tool
from surecall.eval import expect, scenario

@tool
def look(place: str) -> str:
    """Look somewhere."""
    return "nothing"

@scenario(tags=["mine"], tools=[look], system="Look around.")
async def looks(run):
    """Look once.

    Nothing else.
    """
    out = await run("Look into the box.")
    expect.called(out, "look", place="box")
    expect.text(out, "Done.", lenient=True)

@scenario()
async def greets(run):
    expect.contains(await run("Say hello."), "hello")

again = greets
'''
ASKED: JSON = {"messages": [{"role": "user", "content": "Count to 3."}]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_a_file_offers_its_scenarios_each_once_and_in_order(file: Path) -> None:
    looks, greets = load(str(file))
    assert (looks.id, looks.summary, looks.tags) == ("looks", "Look once.", ("mine",))
    assert (looks.uses_tools, greets.uses_tools, greets.summary) == (True, False, "")
    assert [one.id for one in load(f"{file}::greets")] == ["greets"]


def test_scenarios_may_be_in_lists_and_are_picked_by_name_or_group(tmp_path: Path) -> None:
    path = tmp_path / "many.py"
    path.write_text(
        "from surecall.eval import scenario\n"
        "def make(number):\n"
        "    async def ask(run): await run('Hello')\n"
        "    return scenario(name=f'ask_{number}', tags=[f'mod_{number % 2}'])(ask)\n"
        "MANY = [make(number) for number in range(4)]\n"
    )
    assert [one.id for one in load(str(path))] == ["ask_0", "ask_1", "ask_2", "ask_3"]
    assert [one.id for one in load(f"{path}::mod_1")] == ["ask_1", "ask_3"]
    assert [one.id for one in load(f"{path}::ask_2")] == ["ask_2"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = (\n", ":1: '(' was never closed"),
        ("import json\njson.loads('{')\n", ":2: JSONDecodeError: "),
        ("import no_such_module_at_all\n", ":1: ModuleNotFoundError: "),
        ("x = 1\n", ": there is no scenario in it"),
        (
            "from surecall.eval import scenario\n@scenario()\ndef f(run): ...\n",
            ":2: scenario f must be an async function of `run`",
        ),
    ],
)
def test_a_broken_file_is_told_in_one_line_with_its_place(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(str(path))
    assert str(error.value).startswith(f"{path}{told}")
    assert "\n" not in str(error.value)


def test_what_is_not_there_is_told_with_a_suggestion(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='did you mean "looks"'):
        load(f"{file}::look")
    (tmp_path / "notes.txt").write_text("?")
    with pytest.raises(ConfigError, match="not a Python file"):
        load(str(tmp_path / "notes.txt"))
    with pytest.raises(ConfigError, match="no scenario file"):
        load(str(tmp_path / "nowhere.py"))


def test_a_folder_offers_all_its_files_but_not_the_private_ones(file: Path) -> None:
    (file.parent / "log.jsonl").write_text(json.dumps(ASKED))
    (file.parent / "_helper.py").write_text("raise SystemError")
    (file.parent / "notes.txt").write_text("?")
    assert [one.id for one in load(str(file.parent))] == ["log_001", "looks", "greets"]


def test_an_expression_mixes_names_groups_and_files(file: Path) -> None:
    assert [one.id for one in choose(f"simple,{file}::looks")] == [
        "happy_path",
        "chat_only",
        "looks",
    ]
    assert [one.id for one in choose(str(file))] == ["looks", "greets"]
    assert len(choose("")) == 6
    (greets,) = load(f"{file}::greets")
    assert [one.id for one in choose("greets", [greets])] == ["greets"]
    with pytest.raises(ConfigError, match="two scenarios are called 'looks'"):
        choose(f"{file}::looks,{file}::looks")


def test_files_are_known_by_their_looks() -> None:
    assert all(map(is_file, ("a.py", "a.py::b", "a.jsonl", "folder/", "x/y")))
    assert not any(map(is_file, ("happy_path", "!chat_only", "all", "happy*")))


class Entry:
    """An installed entry point."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self._value = value

    def load(self) -> Any:
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Entry]]:
    known: list[Entry] = []
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: known)
    return iter([known])


def test_packages_offer_one_scenario_or_several(entries: Iterator[list[Entry]], file: Path) -> None:
    looks, greets = load(str(file))
    known = next(entries)
    known += [Entry("one", looks), Entry("several", [greets, "something else"])]
    assert installed() == (looks, greets)
    known.append(Entry("again", looks))
    with pytest.raises(ConfigError, match="two scenarios"):
        installed()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (ImportError("gone"), "ImportError: gone"),
        (ConfigError("bad name"), "bad name"),
        (7, "offers no scenario"),
        ([], "offers no scenario"),
    ],
)
def test_a_broken_package_is_named(entries: Iterator[list[Entry]], value: Any, told: str) -> None:
    next(entries).append(Entry("acme", value))
    with pytest.raises(ConfigError, match="entry point 'acme'") as error:
        installed()
    assert told in str(error.value)
