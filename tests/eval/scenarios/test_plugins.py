"""Tests of `surecall.eval.scenarios.plugins`."""

import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from surecall import ConfigError
from surecall.eval import scenario
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.plugins import (
    choose_scenarios,
    is_scenario_file,
    load_installed,
    load_scenarios,
)
from surecall.eval.scenarios.scenario import Scenario
from surecall.values.types import JSON
from tests.support.scenario_packs import SCENARIO_FILE

# Scenarios that users bring along: functions, files and packages


ASKED: JSON = {"messages": [{"role": "user", "content": "Count to 3."}]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SCENARIO_FILE)
    return path


def test_a_file_offers_its_scenarios_each_once_and_in_order(file: Path) -> None:
    looks, greets = load_scenarios(str(file))
    assert (looks.id, looks.summary, looks.tags) == ("looks", "Look once.", ("mine",))
    assert (looks.uses_tools, greets.uses_tools, greets.summary) == (True, False, "")
    assert [one.id for one in load_scenarios(f"{file}::greets")] == ["greets"]


def test_scenarios_may_be_in_lists_and_are_picked_by_name_or_group(tmp_path: Path) -> None:
    path = tmp_path / "many.py"
    path.write_text(
        "from surecall.eval import scenario\n"
        "def make(number):\n"
        "    async def ask(run): await run('Hello')\n"
        "    return scenario(name=f'ask_{number}', tags=[f'mod_{number % 2}'])(ask)\n"
        "MANY = [make(number) for number in range(4)]\n"
    )
    assert [one.id for one in load_scenarios(str(path))] == ["ask_0", "ask_1", "ask_2", "ask_3"]
    assert [one.id for one in load_scenarios(f"{path}::mod_1")] == ["ask_1", "ask_3"]
    assert [one.id for one in load_scenarios(f"{path}::ask_2")] == ["ask_2"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = (\n", ":1: '(' was never closed"),
        ("import json\njson.loads('{')\n", ":2: JSONDecodeError: "),
        ("import no_such_module_at_all\n", ":1: ModuleNotFoundError: "),
        ("x = 1\n", ": the file has no scenarios"),
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
        load_scenarios(str(path))
    assert str(error.value).startswith(f"{path}{told}")
    assert "\n" not in str(error.value)


def test_what_is_not_there_is_told_with_a_suggestion(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='did you mean "looks"'):
        load_scenarios(f"{file}::look")
    (tmp_path / "notes.txt").write_text("?")
    with pytest.raises(ConfigError, match="not a Python file"):
        load_scenarios(str(tmp_path / "notes.txt"))
    with pytest.raises(ConfigError, match="no scenario file"):
        load_scenarios(str(tmp_path / "nowhere.py"))


def test_a_folder_offers_all_its_files_but_not_the_private_ones(file: Path) -> None:
    (file.parent / "log.jsonl").write_text(json.dumps(ASKED))
    (file.parent / "_helper.py").write_text("raise SystemError")
    (file.parent / "notes.txt").write_text("?")
    assert [one.id for one in load_scenarios(str(file.parent))] == ["log_001", "looks", "greets"]


def test_an_expression_mixes_names_groups_and_files(file: Path) -> None:
    assert [one.id for one in choose_scenarios(f"simple,{file}::looks")] == [
        "happy_path",
        "chat_only",
        "looks",
    ]
    assert [one.id for one in choose_scenarios(str(file))] == ["looks", "greets"]
    assert len(choose_scenarios("")) == 6
    (greets,) = load_scenarios(f"{file}::greets")
    assert [one.id for one in choose_scenarios("greets", [greets])] == ["greets"]
    with pytest.raises(ConfigError, match="two scenarios have the id 'looks'"):
        choose_scenarios(f"{file}::looks,{file}::looks")


def test_files_are_known_by_their_looks() -> None:
    assert all(map(is_scenario_file, ("a.py", "a.py::b", "a.jsonl", "folder/", "x/y")))
    assert not any(map(is_scenario_file, ("happy_path", "!chat_only", "all", "happy*")))


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
    looks, greets = load_scenarios(str(file))
    known = next(entries)
    known += [Entry("one", looks), Entry("several", [greets, "something else"])]
    assert load_installed() == (looks, greets)
    known.append(Entry("again", looks))
    with pytest.raises(ConfigError, match="two scenarios"):
        load_installed()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (ImportError("gone"), "ImportError: gone"),
        (ConfigError("bad name"), "bad name"),
        (7, "has no scenarios"),
        ([], "has no scenarios"),
    ],
)
def test_a_broken_package_is_named(entries: Iterator[list[Entry]], value: Any, told: str) -> None:
    next(entries).append(Entry("acme", value))
    with pytest.raises(ConfigError, match="entry point 'acme'") as error:
        load_installed()
    assert told in str(error.value)


# What a user's scenario file may not do: end the program, take the control's id, be unreadable


LINE = json.dumps(ASKED).encode()


def refused(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(ConfigError) as error:
        load_scenarios(str(path))
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(str(path))


def control() -> Scenario:
    return next(one for one in SCENARIOS if one.is_control)


def offer(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    def loaded() -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    entry = SimpleNamespace(name="mine", load=loaded)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [entry])


def test_a_file_that_ends_the_program_is_told_with_its_place(tmp_path: Path) -> None:
    told = refused(tmp_path / "exits.py", b"import sys\n\nsys.exit(0)\n")
    assert told == ":3: SystemExit: 0"


def test_the_line_is_told_for_a_relative_path_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(Path("exits.py"), b"\n1 / 0\n") == ":2: ZeroDivisionError: division by zero"


def test_a_package_that_ends_the_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, SystemExit(0))
    with pytest.raises(ConfigError, match=r"entry point 'mine' .* SystemExit: 0"):
        load_installed()


def test_nobody_else_may_take_the_id_of_the_control(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def chat_only(_run: Any) -> None: ...

    with pytest.raises(ConfigError, match="'chat_only' is reserved"):
        scenario()(chat_only)
    line = json.dumps(ASKED | {"id": "chat_only"}).encode()
    assert refused(tmp_path / "log.jsonl", line).startswith(
        ":1: the scenario id 'chat_only' is reserved"
    )
    # One that was not made by the decorator is found as well.
    text = (
        b"from surecall.eval.scenarios.builtin_scenarios import SCENARIOS\nmine = SCENARIOS[-1]\n"
    )
    assert SCENARIOS[-1] == control()
    assert refused(tmp_path / "mine.py", text).startswith(
        ": the scenario id 'chat_only' is reserved"
    )
    offer(monkeypatch, control())
    with pytest.raises(ConfigError, match=r"entry point 'mine' .* id 'chat_only' is reserved"):
        load_installed()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param(b'{"messages": "\xff"}', "'utf-8' codec can't decode", id="not-utf-8"),
        pytest.param(b'{"messages": ' + b"[" * 100_000, "nested too deeply", id="deep"),
        pytest.param(b'{"id": "twice", ' + LINE[1:], "two scenarios have the id", id="same-id"),
    ],
)
def test_a_line_that_cannot_be_read_is_told_with_its_number(
    tmp_path: Path, line: bytes, told: str
) -> None:
    first = b'{"id": "twice", ' + LINE[1:]
    assert refused(tmp_path / "log.jsonl", first + b"\n\n" + line).startswith(f":3: {told}")


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    text = "one\u2028two\u2029three\x85four"
    line = json.dumps({"messages": [{"role": "user", "content": text}]}, ensure_ascii=False)
    path = tmp_path / "log.jsonl"
    path.write_bytes(f"{line}\r\n{line}\n".encode())
    assert [one.id for one in load_scenarios(str(path))] == ["log_001", "log_002"]
