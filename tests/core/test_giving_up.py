"""Tests of `surecall.core.giving_up`."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from surecall import (
    Contract,
    ErrorCode,
    RetryPolicy,
    RunFailed,
    RunResult,
    ToolError,
    ToolLoopRunner,
    replay,
    tool,
)
from surecall.core.giving_up import Recurrence, before_last_reply, call_recurrence
from surecall.core.outcome import ToolUseError
from surecall.core.state import Run
from surecall.settings.config import REMIND, REQUIRE
from surecall.settings.contract import Need
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.types import JSON, ToolCall
from tests.support.prompted_runs import PROTOCOLS, body
from tests.support.transcripts import begun, called, said

# The honest way out: when it is open, how a run ends there, and what ends one in vain


OFFLINE = "The gateway is offline."
NO = "No, the gateway is offline."
CHARGE = Contract(all_of=["charge"])


class Shop:
    """A gateway that may be dead, and a shelf to look at."""

    def __init__(self, problem: Callable[[int], BaseException | None]) -> None:
        self.charged: list[int] = []
        self._problem = problem

    def tools(self) -> list[Any]:
        @tool
        def charge(amount: int = 1) -> str:
            """Charge."""
            self.charged.append(amount)
            if (problem := self._problem(len(self.charged))) is not None:
                raise problem
            return "charged"

        @tool(read_only=True)
        def look(at: int = 0) -> int:
            """Look."""
            return at

        return [charge, look]

    def run(self, protocol: Any, *decisions: Any, **settings: Any) -> tuple[RunResult, list[JSON]]:
        """Play decisions; then the model says no, and says it again, for ever."""
        script = [body(protocol, decision) for decision in (*decisions, *[NO] * 12)]
        model = ScriptedModel(*script)
        given: JSON = {"final_ladder": (REMIND, REQUIRE), "contract": CHARGE} | settings
        runner = ToolLoopRunner(
            client=model,
            model="m",
            tools=self.tools(),
            config=raw(**given, call_protocol=protocol),
            retry=RetryPolicy(attempts=1),
        )
        try:
            return runner.run_sync("Charge 1."), model.requests
        except RunFailed as failed:
            return failed.result, model.requests


def always(problem: BaseException) -> Callable[[int], BaseException]:
    return lambda _: problem


FOR_GOOD = [
    ToolError(OFFLINE, retry=False),
    ToolError(OFFLINE, code="GATEWAY_DOWN"),
    ToolError(OFFLINE, code="GATEWAY_DOWN", retry=False),
    RuntimeError(OFFLINE),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("problem", FOR_GOOD, ids=repr)
@pytest.mark.parametrize("settings", [{}, {"contract": None, "tool_use_mode": "enforced"}])
def test_an_honest_no_after_a_failure_for_good_ends_the_run_at_once(
    protocol: str, problem: BaseException, settings: JSON
) -> None:
    shop = Shop(always(problem))
    result, requests = shop.run(protocol, ("charge", {"amount": 1}), **settings)

    assert result.stop_reason == ErrorCode.GAVE_UP
    assert result.assistant_text == NO
    assert result.false_finals == 0
    assert len(shop.charged) == 1
    assert len(requests) == 2
    assert replay(result.trace).stop_reason == ErrorCode.GAVE_UP


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("problem", [ToolError(OFFLINE), ValueError(OFFLINE)], ids=repr)
def test_a_failure_that_may_be_about_the_arguments_must_come_twice(
    protocol: str, problem: BaseException
) -> None:
    shop = Shop(always(problem))
    once, _ = shop.run(protocol, ("charge", {"amount": 1}))
    assert once.stop_reason == ErrorCode.CONTRACT_UNMET
    assert once.false_finals == 3

    shop = Shop(always(problem))
    twice, requests = shop.run(protocol, ("charge", {"amount": 1}), ("charge", {"amount": 2}))
    assert (twice.stop_reason, twice.false_finals) == (ErrorCode.GAVE_UP, 0)
    assert len(requests) == 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mode", ["relaxed", "enforced"])
@pytest.mark.parametrize("contract", [None, CHARGE])
@pytest.mark.parametrize("problem", [*FOR_GOOD, ToolError(OFFLINE)], ids=repr)
@pytest.mark.parametrize("varied", [False, True])
def test_a_model_that_goes_on_charging_is_asked_twice_more_at_most(
    protocol: str, mode: str, contract: Contract | None, problem: BaseException, *, varied: bool
) -> None:
    shop = Shop(always(problem))
    tries = [("charge", {"amount": number if varied else 1}) for number in range(12)]
    settings: JSON = {"tool_use_mode": mode, "contract": contract, "max_turns": 12}
    result, requests = shop.run(protocol, *tries, **settings)

    assert result.stop_reason == ErrorCode.LOOP_DETECTED
    said_for_good = isinstance(problem, ToolError) and not problem.retry
    assert len(requests) == (1 if said_for_good else 2) + 2
    assert len(shop.charged) <= 4
    if said_for_good:
        assert len(shop.charged) == (3 if varied else 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_dead_tool_runs_at_most_twice_more_whatever_else_is_done(protocol: str) -> None:
    shop = Shop(always(ToolError(OFFLINE, retry=False)))
    tries: list[Any] = []
    for number in range(8):
        tries += [("charge", {"amount": number}), ("look", {"at": number})]
    result, _ = shop.run(protocol, *tries, max_turns=30)

    assert shop.charged == [0, 1, 2]
    assert result.stop_reason == ErrorCode.GAVE_UP
    refused = [item for item in result.run.results if item.name == "charge" and not item.executed]
    assert len(refused) == 5
    assert "reported that this call will not help" in refused[0].content


def test_in_one_reply_a_dead_tool_is_not_run_for_the_rest_of_its_calls() -> None:
    shop = Shop(always(ToolError(OFFLINE, retry=False)))
    many = calls_many(*(calls("charge", f"c{n}", amount=n) for n in range(9)))
    model = ScriptedModel(many, says(NO))
    runner = ToolLoopRunner(
        client=model,
        model="m",
        tools=shop.tools(),
        config=raw(contract=CHARGE),
    )
    with pytest.raises(ToolUseError, match="gave up after a call failed permanently") as failed:
        runner.run_sync("Charge.")
    assert shop.charged == [0, 1, 2]
    assert failed.value.details["unmet"] == ErrorCode.CONTRACT_UNMET
    assert f"charge: {OFFLINE}" in failed.value.details["reasons"]


def test_a_success_closes_the_way_out() -> None:
    shop = Shop(lambda number: RuntimeError("?") if number == 1 else None)
    decisions = (("charge", {"amount": 1}), ("charge", {"amount": 2}), "Charged.")
    result, _ = shop.run("native", *decisions)
    assert (result.stop_reason, result.assistant_text) == ("final", "Charged.")


def test_a_tool_that_works_again_after_three_busy_answers_is_given_its_chance() -> None:
    busy = ToolError("Busy, try again.")
    shop = Shop(lambda number: busy if number < 4 else None)
    tries = [("charge", {"amount": number}) for number in range(4)]
    result, _ = shop.run("native", *tries, "Charged.")
    assert result.stop_reason == "final"


def test_where_nothing_is_owed_an_honest_no_is_an_answer_like_any_other() -> None:
    shop = Shop(always(ToolError(OFFLINE, retry=False)))
    result, _ = shop.run("native", ("charge", {"amount": 1}), contract=None)
    assert (result.stop_reason, result.assistant_text) == ("final", NO)


def test_the_model_reads_that_it_need_not_try_again() -> None:
    shop = Shop(always(ToolError(OFFLINE, retry=False)))
    result, _ = shop.run("native", ("charge", {"amount": 1}))
    (told,) = result.run.results
    assert told.envelope["errors"] == [
        {"code": "TOOL_UNAVAILABLE", "message": OFFLINE, "retry": False}
    ]
    assert not told.retry


def test_a_tool_may_say_so_in_an_envelope_of_its_own() -> None:
    @tool
    def charge() -> JSON:
        """Charge."""
        return {"ok": False, "errors": [{"code": "DOWN", "message": OFFLINE, "retry": False}]}

    model = ScriptedModel(body("native", ("charge", {})), says(NO))
    config = raw(contract=CHARGE, final_ladder=(REMIND, REQUIRE))
    runner = ToolLoopRunner(client=model, model="m", tools=[charge], config=config)
    with pytest.raises(RunFailed) as failed:
        runner.run_sync("Charge.")
    assert failed.value.code is ErrorCode.GAVE_UP


def test_in_a_guided_reply_the_reason_is_one_that_a_tool_gave() -> None:
    shop = Shop(always(ToolError(OFFLINE, retry=False)))
    reason = f"charge: {OFFLINE}"
    taken = says(json.dumps({"cannot": reason}))
    model = ScriptedModel(body("guided", ("charge", {"amount": 1})), taken)
    config = raw(contract=CHARGE, call_protocol="guided")
    runner = ToolLoopRunner(client=model, model="m", tools=shop.tools(), config=config)
    with pytest.raises(RunFailed) as failed:
        runner.run_sync("Charge.")

    only = model.requests[1]["response_format"]["json_schema"]["schema"]
    assert only["properties"] == {"cannot": {"enum": [reason]}}, "there is nothing left to try"
    assert failed.value.code is ErrorCode.GAVE_UP
    assert failed.value.result.assistant_text == reason


def test_an_empty_answer_gives_no_reason_and_fails_with_what_is_missing() -> None:
    shop = Shop(always(ToolError(OFFLINE, retry=False)))
    script = [body("native", ("charge", {"amount": 1})), says(""), says("")]
    config = raw(contract=CHARGE, fix_empty_final=False)
    runner = ToolLoopRunner(
        client=ScriptedModel(*script), model="m", tools=shop.tools(), config=config
    )
    with pytest.raises(RunFailed) as failed:
        runner.run_sync("Charge 1.")
    assert failed.value.code is ErrorCode.CONTRACT_UNMET


# How often a call recurs: in a row, and in circles


def after(letters: str, run: Run | None = None) -> Run:
    run = begun() if run is None else run
    for letter in letters:
        run = said(run, "Hm.") if letter == "-" else called(run, "get", a=letter)
    return run


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("", "A", (1, 1, 1)),
        ("A", "A", (2, 2, 1)),
        ("AB", "A", (1, 1, 1)),
        ("ABA", "B", (2, 4, 2)),
        ("ABAB", "A", (3, 5, 2)),
        ("ABABA", "B", (3, 6, 2)),
        ("ABCAB", "C", (2, 6, 3)),
        ("ABCABC", "A", (3, 7, 3)),
        ("XABCAB", "C", (2, 6, 3)),
        ("AABAA", "B", (2, 6, 3)),
        ("ABCAX", "C", (1, 1, 1)),
        ("AB-AB", "A", (1, 1, 1)),
        ("A-", "A", (1, 1, 1)),
    ],
)
def test_a_call_recurs_in_a_row_or_in_a_circle(
    before: str, now: str, expected: tuple[int, int, int]
) -> None:
    call = ToolCall("new", "get", {"a": now})
    assert call_recurrence(after(before), call) == Recurrence(*expected)


def test_what_the_contract_says_may_be_repeated_is_no_repetition() -> None:
    contract = Contract(all_of=[Need("get", {"a": "A"}, repeat=True)], then_finalise=False)
    run = after("AAA", begun(contract=contract))

    assert call_recurrence(run, ToolCall("new", "get", {"a": "A"})) == Recurrence()
    assert call_recurrence(after("ABAB", run), ToolCall("n", "get", {"a": "B"})) == Recurrence(2, 2)


def test_before_the_newest_turn_there_may_have_been_none() -> None:
    run = begun()
    assert before_last_reply(run).messages == run.messages[: run.start]
    assert before_last_reply(after("AB")).turn_count == 1
