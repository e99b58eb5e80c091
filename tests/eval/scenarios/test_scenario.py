"""What a scenario is: its hash, its settings, and functions as scenarios."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from surecall import ConfigError, tool
from surecall.eval import expect, scenario
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.expectations import ConversationResult
from surecall.eval.scenarios.plugins import load_scenarios
from surecall.eval.scenarios.scenario import is_done_answer, select_scenarios
from surecall.settings.config import ToolUseMode
from surecall.settings.contract import Contract
from surecall.settings.presets import raw
from surecall.testing import calls, says
from tests.support.reports import book
from tests.support.scenario_packs import BUILTIN_BY_ID, SCENARIO_FILE, chosen_ids, scripted_trial
from tests.support.spec import proves


def test_an_unknown_name_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match='did you mean "happy_path"'):
        chosen_ids("default,happy_pth")
    with pytest.raises(ConfigError, match="selects nothing"):
        chosen_ids("chat_only,!chat_only")
    with pytest.raises(ConfigError, match="defined twice"):
        select_scenarios("all", [SCENARIOS[0], SCENARIOS[0]])


@proves("C125")
@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("Done.", True),
        ("done", True),
        ('"Done!"', True),
        (" `DONE.` \n", True),
        ("Done. Thanks", False),
        ("Done..", False),
        ("", False),
        ("Not done.", False),
    ],
)
def test_done_is_one_word_in_any_case_and_quotes(text: str, *, done: bool) -> None:
    assert is_done_answer(text) is done


def test_the_prompt_hash_is_stable_and_tells_scenarios_and_changes_apart() -> None:
    hashes = {one.prompt_hash for one in SCENARIOS}
    assert len(hashes) == len(SCENARIOS)
    assert {one.prompt_hash for one in SCENARIOS} == hashes
    changed = msgspec.structs.replace(SCENARIOS[0], system="Do as you like.")
    assert changed.prompt_hash not in hashes


def test_a_scenario_adds_its_settings_and_never_switches_tools_on() -> None:
    base = raw(request_overrides={"parallel_tool_calls": False, "seed": 1})
    adapted = BUILTIN_BY_ID["happy_path_parallel"].effective_config(base)
    assert adapted.request_overrides == {"parallel_tool_calls": True, "seed": 1}
    off = raw(tool_use_mode=ToolUseMode.DISABLED)
    assert BUILTIN_BY_ID["happy_path"].effective_config(off).tool_use_mode is ToolUseMode.DISABLED
    assert BUILTIN_BY_ID["chat_only"].effective_config(base).tool_use_mode is ToolUseMode.DISABLED


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SCENARIO_FILE)
    return path


def test_expectations_become_parts_of_the_score(file: Path) -> None:
    (looks,) = load_scenarios(f"{file}::looks")
    good = scripted_trial(looks, calls("look", place="box"), says("done!"))
    assert good.ok
    assert (good.score.process, good.score.final, good.score.state) == (True, True, None)
    assert good.score.facts == {"text_exact": False}
    bad = scripted_trial(looks, calls("look", place="bag"), says("No idea."))
    assert (bad.status, bad.category) == ("failed", "ASSERTION_FAILED")
    assert bad.score.reasons == (
        'expected that look(place="box") succeeds, got look(place="bag")',
        'expected that the answer is "Done.", got "No idea."',
    )


def test_a_scenario_without_tools_is_a_chat(file: Path) -> None:
    (greets,) = load_scenarios(f"{file}::greets")
    assert scripted_trial(greets, says("Hello!")).ok
    assert scripted_trial(greets, says("Go away.")).score.final is False


def test_a_run_that_fails_inside_a_function_keeps_its_category(file: Path) -> None:
    (looks,) = load_scenarios(f"{file}::looks")
    assert scripted_trial(looks, says("Done.")).category == "NO_TOOL_CALLS"


def test_every_kind_of_expectation_can_be_met_and_missed() -> None:
    box: list[int] = []

    @tool
    def put(n: int) -> str:
        """Put a number into the box."""
        box.append(n)
        return "ok"

    @scenario(tools=lambda: [put], options={"seed": 7}, config={"tool_failure_policy": "tolerated"})
    async def fills(run: Any) -> None:
        first: ConversationResult = await run("Put 1.")
        expect.state(first, box, [1])
        second: ConversationResult = await run("And now?", history=first.history)
        expect.not_called(second, "take")
        expect.that(second, len(second.calls) == 1, "it called once")
        expect.text(second, "Done.")
        expect.state(second, box, [2])
        expect.not_called(second, "put")

    script = (calls("put", n=1), says("Done."), calls("put", n=1, call_id="b"), says("Done."))
    score = scripted_trial(fills, *script).score
    assert (score.state, score.process, score.final) == (False, False, True)
    assert [(miss.check, miss.got) for miss in score.misses] == [
        ("the state is [2]", "[1,1]"),
        ("there is no call of put", "put(n=1)"),
    ]
    assert [(miss.turn, miss.call_id) for miss in score.misses] == [(0, "b"), (0, "b")]
    assert score.facts == {"text_exact": True}


def test_a_plain_assert_is_a_reason_and_any_other_error_is_not_the_models_fault() -> None:
    @scenario()
    async def asserts(run: Any) -> None:
        out = await run("Hi.")
        assert out.text == "Hello.", "it should greet"

    @scenario()
    async def breaks(run: Any) -> None:
        raise KeyError((await run("Hi.")).text)

    @scenario()
    async def too_early(_run: Any) -> None:
        raise AssertionError

    @scenario()
    async def idle(_run: Any) -> None:
        """Do nothing."""

    failed = scripted_trial(asserts, says("Bye."))
    assert (failed.status, failed.score.reasons) == (
        "failed",
        ("assertion failed: it should greet",),
    )
    assert (scripted_trial(breaks, says("Bye.")).status, scripted_trial(too_early).category) == (
        "infra",
        "EXCEPTION",
    )
    with pytest.raises(ConfigError, match="does not call"):
        scripted_trial(idle)


def test_the_hash_of_a_function_follows_its_code() -> None:
    @scenario(name="one")
    async def first(run: Any) -> None:
        await run("a")

    @scenario(name="one")
    async def second(run: Any) -> None:
        await run("b")

    space: dict[str, Any] = {"scenario": scenario}
    exec("@scenario()\nasync def typed(run):\n    await run('a')", space)  # noqa: S102  # no source

    assert first.prompt_hash != second.prompt_hash
    assert space["typed"].source


@pytest.mark.parametrize("name", ["a b", "!x", "all", "../x", "_x"])
def test_a_name_that_no_report_could_carry_is_refused(name: str) -> None:
    async def nothing(_run: Any) -> None: ...

    with pytest.raises(ConfigError, match="invalid scenario id"):
        scenario(name=name)(nothing)


def test_a_scenario_must_be_an_async_function() -> None:
    with pytest.raises(ConfigError, match="async function"):
        scenario(name="x")(lambda _run: None)  # type: ignore[arg-type, return-value]  # the point


def test_a_contract_that_a_scenario_cannot_meet_is_refused() -> None:
    async def asks(run: Any) -> None:
        await run("Book Monday.")

    with pytest.raises(ConfigError, match=r"contract of asks requires tools .*: cancel$"):
        scenario(tools=[book], contract=Contract(in_order=("book", "cancel")))(asks)
    with pytest.raises(ConfigError, match="requires tools that are not exposed: book"):
        scenario(contract=Contract(any_of=("book",)))(asks)
