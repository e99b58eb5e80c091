"""What is expected of a run: side effects, each counted, and a no that tells the truth."""

import asyncio
from typing import Any

import pytest

from surecall import RunFailed, RunResult, ToolLoopRunner, tool
from surecall.core.outcome import failure
from surecall.core.state import Fail
from surecall.eval import expect, scenario
from surecall.eval.scenarios.expectations import DECLINED, EFFECTS
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.trial import Effects, Miss, Trial
from surecall.settings.contract import Need
from surecall.testing import ScriptedModel, calls, says
from surecall.values.errors import ErrorCode, ToolError
from tests.eval.scenarios.test_recorded import trial

SENT = Need("send", {"to": "ada"})
RELAXED = {"tool_use_mode": "relaxed"}


@tool(read_only=True)
def look(at: str) -> str:
    """Look at something."""
    return at


@tool
def send(to: str, text: str = "") -> str:
    """Send a letter."""
    return f"sent to {to}{text}"


@tool(idempotent=True)
def label(name: str) -> str:
    """Put a label on it."""
    return name


@tool
def burn(what: str) -> str:
    """Burn something."""
    raise ToolError(f"{what} is wet.", code="WET")


def wanting(*needs: Need | str) -> Scenario:
    @scenario(name="wants", tools=[look, send, label, burn], config=RELAXED)
    async def wants(run: Any) -> None:
        expect.effects(await run("Do it."), *needs)

    return wants


def made(*steps: Any, wanted: tuple[Need | str, ...] = (SENT,)) -> Trial:
    numbered = [
        calls(name, call_id=f"c{at}", **arguments) for at, (name, arguments) in enumerate(steps)
    ]
    return trial(wanting(*wanted), *numbered, says("I have done it."))


ADA, BOB, X = {"to": "ada"}, {"to": "bob"}, {"name": "x"}


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([("send", ADA)], Effects(1, 0, 0)),
        ([("look", {"at": "a"}), ("look", {"at": "a"}), ("send", ADA)], Effects(1, 0, 0)),
        ([], Effects(0, 0, 0)),
        ([("send", BOB)], Effects(1, 1, 0)),
        ([("send", BOB), ("send", ADA)], Effects(2, 1, 0)),
        ([("send", ADA), ("look", {"at": "a"}), ("send", ADA)], Effects(1, 0, 0)),
        ([("send", ADA), ("look", {"at": "a"}), ("send", ADA | {"text": "!"})], Effects(2, 0, 1)),
        ([("send", BOB), ("look", {"at": "a"}), ("send", BOB)], Effects(1, 1, 0)),
        (
            [("label", {"name": "x"}), ("look", {"at": "a"}), ("label", {"name": "x"})],
            Effects(1, 1),
        ),
        ([("send", ADA), ("burn", {"what": "ada"})], Effects(1, 0, 0)),
    ],
)
def test_each_wrong_and_each_repeated_effect_is_counted(steps: Any, found: Effects) -> None:
    result = made(*steps)

    assert result.score.effects == found
    assert result.ok == (found == Effects(1, 0, 0))
    assert result.score.state is result.ok


def test_two_needs_alike_are_two_effects_and_a_name_alone_is_a_need() -> None:
    both = (Need("send", ADA), Need("send", BOB))
    assert made(("send", ADA), ("send", BOB), wanted=both).ok
    assert made(("send", BOB), wanted=("send",)).ok
    missing = made(("send", ADA), wanted=both)
    absent = Miss(EFFECTS, 'send(to="bob")', "no other call of send", turn=1)
    assert missing.score.misses == (absent,)


def test_an_idempotent_effect_may_be_made_again() -> None:
    again = (("label", X), ("look", {"at": "a"}), ("label", X))
    assert made(*again, wanted=(Need("label", X),)).score.effects == Effects(1, 0, 0)


def test_effects_that_are_judged_twice_add_up() -> None:
    @scenario(tools=[send])
    async def twice(run: Any) -> None:
        first = await run("Write to Ada.")
        expect.effects(first, SENT)
        expect.effects(first, SENT)
        expect.effects(await run("And to Bob."), Need("send", BOB))

    script = (calls("send", to="ada"), says("Sent."), calls("send", to="bob"), says("Sent."))
    assert trial(twice, *script).score.effects == Effects(made=3)


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        ("It cannot be burnt, because it is  Too\nwet.", True),
        ("It is too wet.", True),
        ("It cannot be burnt.", False),
        ("It is burnt.", False),
    ],
)
def test_a_no_needs_its_true_reason(answer: str, *, passes: bool) -> None:
    @scenario(tools=[burn], config={"tool_failure_policy": "tolerated"} | RELAXED)
    async def burns(run: Any) -> None:
        expect.cannot(await run("Burn it."), "damp", "too wet")

    found = trial(burns, calls("burn", what="it"), says(answer))
    assert (found.ok, found.score.declined, found.score.final) == (passes, passes, passes)


def test_a_no_that_was_refused_until_the_run_failed_is_not_how_it_ended() -> None:
    @scenario(tools=[look, burn])
    async def burns(run: Any) -> None:
        expect.cannot(await run("Burn it."))

    no = says("I cannot do that.")
    found = trial(burns, no, no, no)
    assert (found.status, found.category) == ("failed", "NO_TOOL_CALLS")
    (miss,) = found.score.misses
    refused = '"I cannot do that.", which was not accepted as an answer'
    assert miss == Miss(DECLINED, "a no", refused, turn=len(found.requests) - 1)
    assert found.truth == "open"


def test_an_answer_may_be_expected_to_leave_something_out() -> None:
    @scenario()
    async def keeps_quiet(run: Any) -> None:
        expect.lacks(await run("Which code?"), "4417")

    assert trial(keeps_quiet, says("It is 9020.")).ok
    told = trial(keeps_quiet, says(f"{'Well. ' * 50}It is 4417."))
    (miss,) = told.score.misses
    assert miss.check == 'there is no "4417" in the answer'
    assert (miss.expected, miss.turn) == ('no "4417"', 0)
    assert miss.got.startswith("…")
    assert miss.got.endswith('It is 4417."')


@pytest.mark.parametrize(
    ("code", "answer", "met"),
    [
        (ErrorCode.TOOL_ERROR, "It is too wet.", True),
        (ErrorCode.TOOL_ERROR, "I give up.", False),
        (ErrorCode.LOOP_DETECTED, "It is too wet.", False),
    ],
)
def test_a_run_may_fail_with_a_no_but_not_because_of_a_limit(
    code: ErrorCode, answer: str, *, met: bool
) -> None:
    @scenario()
    async def burns(run: Any) -> None:
        expect.cannot(await run("Burn it."), "too wet")

    async def ask(*_: Any, **__: Any) -> RunResult:
        runner = ToolLoopRunner(client=ScriptedModel(says(answer)), model="m")
        raise failure(Fail(code, "the end"), await runner.run("Burn it."))

    world = burns.begin("-")
    with pytest.raises(RunFailed) as raised:
        asyncio.run(world.converse(ask))
    assert world.judge(raised.value.result).declined is met
