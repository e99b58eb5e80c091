"""Scenarios that users bring along: functions, files, packages and recorded requests."""

import asyncio
import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surecall import ConfigError, RunFailed, ToolCallingConfig, ToolLoopRunner
from surecall.eval.running.trial_run import Case, Setup, run_trial
from surecall.eval.scenarios.plugins import FITS, choose, installed, is_file, load
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.testing import ScriptedModel, calls, calls_many, says
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
SCHEMA: JSON = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = [{"type": "function", "function": {"name": "count", "parameters": SCHEMA}}]
ASKED: JSON = {"messages": [{"role": "user", "content": "Count to 3."}], "tools": TOOLS}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def trial(one: Scenario, *script: Any) -> Trial:
    """Run one trial of a scenario against a script."""
    config = ToolCallingConfig(tool_use_mode="enforced")  # type: ignore[arg-type]  # as people write it
    setup = Setup(model="m", config=config, extra_attempts=0)
    key = Key(Cell("m"), one.id, 1)
    return asyncio.run(run_trial(key, Case(one, setup), ScriptedModel(*script)))[0]


def written(path: Path, *lines: Any) -> str:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts))
    return str(path)


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
    written(file.parent / "log.jsonl", ASKED)
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


def recorded(tmp_path: Path, **more: Any) -> Scenario:
    (one,) = load(written(tmp_path / "log.jsonl", "", ASKED | more))
    return one


def test_a_recorded_request_goes_out_as_it_was(tmp_path: Path) -> None:
    system = {"role": "system", "content": "Be brief."}
    user = ASKED["messages"][0]
    one = recorded(
        tmp_path,
        messages=[system, user],
        model="theirs",
        temperature=0.5,
        stream=True,
        tool_choice="required",
        id="counts",
        tags=["log"],
    )
    assert (one.id, one.tags, one.system) == ("counts", ("log",), "Be brief.")
    model = ScriptedModel(calls("count", n=3))
    world = one.begin("ws")
    runner = ToolLoopRunner(
        client=model,
        model="ours",
        registry=world.registry,
        executor=world.executor,
        config=one.adapted(ToolCallingConfig()),
        system=one.system,
        llm_options_defaults=one.options,
    )
    asyncio.run(world.converse(runner.run))
    (sent,) = model.requests
    assert sent["messages"] == [system, user]
    assert (sent["model"], sent["temperature"], sent["tool_choice"]) == ("ours", 0.5, "required")
    assert [item["function"]["name"] for item in sent["tools"]] == ["count"]


@pytest.mark.parametrize(
    ("expected", "reply", "checks"),
    [
        ({}, calls("count", n=3), ()),
        ({}, says("1 2 3"), ()),
        ({"tool_call": True, "tools": ["count"]}, calls("count", n=3), ()),
        ({"tool_call": True}, says("1 2 3"), ("there is a call of a tool",)),
        ({"tool_call": False}, calls("count", n=3), ("there is no call",)),
        ({"tools": ["count"]}, says("1 2 3"), ("there is a call of count",)),
        ({"text": "3"}, says("1 2 3"), ()),
        ({"text": "4"}, says("1 2 3"), ('the answer contains "4"',)),
    ],
)
def test_a_reply_is_judged_by_what_was_expected(
    tmp_path: Path, expected: JSON, reply: JSON, checks: tuple[str, ...]
) -> None:
    done = trial(recorded(tmp_path, expect=expected), reply)
    misses = done.score.misses
    assert (done.ok, tuple(miss.check for miss in misses)) == (not checks, checks)
    assert all(miss.expected and miss.turn == 0 for miss in misses)
    assert {miss.got for miss in misses} <= {'"1 2 3"', "count(n=3)"}
    assert len(done.requests) == 1


def test_calls_must_fit_their_schemas_but_may_be_several(tmp_path: Path) -> None:
    one = recorded(tmp_path, parallel_tool_calls=False)
    wrong = trial(one, calls("count", n="three"))
    assert (wrong.status, wrong.score.facts["schema_valid"]) == ("failed", False)
    (miss,) = wrong.score.misses
    assert (miss.check, miss.turn, miss.call_id) == (FITS, 0, "call_1")
    assert miss.got.startswith("count: ARGUMENT_ERROR: ")
    assert trial(one, calls("guess")).score.misses[0].got.startswith("guess: TOOL_NOT_ALLOWED: ")
    two = calls_many(calls("count", n=1), calls("count", n=2))
    assert trial(one, two).ok


def test_a_recorded_request_without_tools_is_a_chat_and_a_blank_reply_is_one(
    tmp_path: Path,
) -> None:
    one = recorded(tmp_path, tools=[])
    assert not one.uses_tools
    assert trial(one, says("1 2 3")).ok
    assert trial(one, says("")).category == "EMPTY_ASSISTANT_TEXT"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "Input data was truncated"),
        ("[]", "Expected `object`"),
        ('{"tools": []}', "missing required field `messages`"),
        ('{"messages": []}', "messages is empty"),
        (json.dumps(ASKED | {"expect": {"tool": True}}), "unknown field `tool`"),
        (json.dumps(ASKED | {"id": "a/b"}), "cannot be called"),
        (json.dumps(ASKED | {"tools": [{"type": "function"}]}), "tool definition"),
        (json.dumps(ASKED | {"response_format": {}}), "response_format"),
    ],
)
def test_a_broken_line_is_told_with_its_number(tmp_path: Path, line: str, told: str) -> None:
    path = written(tmp_path / "log.jsonl", ASKED, line)
    with pytest.raises(ConfigError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}:2: ")
    assert told in str(error.value)


def test_other_failures_of_a_recorded_request_stay_failures(tmp_path: Path) -> None:
    world = recorded(tmp_path).begin("ws")
    runner = ToolLoopRunner(
        client=ScriptedModel(says(""), says("")),
        model="m",
        registry=world.registry,
        executor=world.executor,
    )
    with pytest.raises(RunFailed, match="EMPTY_FINAL"):
        asyncio.run(world.converse(runner.run))
