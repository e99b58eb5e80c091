"""What was missed, in words, and the turn that decided it."""

import asyncio
from typing import Any

import pytest

from surecall import RunFailed, RunResult, ToolLoopRunner, tool
from surecall.eval import expect, scenario
from surecall.eval.scenarios.misses import (
    MAX_SHOWN,
    around,
    bounded,
    call_in_words,
    missed,
    need_in_words,
    shown,
    what_came,
)
from surecall.eval.storage.trial import Miss
from surecall.settings.contract import From, Need
from surecall.testing import ScriptedModel, calls, says
from surecall.values.errors import ToolError
from tests.eval.scenarios.test_builtin import DONE, GET, patch, play
from tests.eval.scenarios.test_recorded import trial
from tests.support.nesting import DEPTHS, nested

REFUSED = {"tool_failure_policy": "tolerated"}


@tool
def pay(amount: int, to: str = "ada") -> str:
    """Pay somebody."""
    if amount > 9:
        raise ToolError("Too much.", code="TOO_MUCH")
    return to


def first_of(judge: Any, *script: Any) -> Miss:
    @scenario(name="judged", tools=[pay], config=REFUSED)
    async def judged(run: Any) -> None:
        judge(await run("Pay."))

    found = trial(judged, *script)
    assert found.status == "failed"
    return found.score.misses[0]


def test_what_is_shown_is_one_short_line_whatever_it_is() -> None:
    assert shown({"a": ["b\nc", None]}) == '{"a":["b\\nc",null]}'
    assert shown(object).startswith("<class")
    assert len(shown("x" * 9999)) == MAX_SHOWN
    for depth in DEPTHS:
        assert shown(nested(depth)) == "(nested too deeply: more than 128 levels)"
    assert bounded("y" * 999).endswith("y…")
    assert around("say it", "SAY") == '"say it"'


def test_calls_and_needs_are_written_as_in_a_program() -> None:
    assert call_in_words("pay", {"to": "ada", "amount": 1}) == 'pay(to="ada", amount=1)'
    need = Need("pay", {"to": From("find", "people[*].id"), "amount": 2})
    assert need_in_words(need) == "pay(to=from find (people[*].id), amount=2)"


def test_every_text_of_a_miss_is_short() -> None:
    miss = missed("c" * 999, "e" * 999, "g" * 999, 3)
    assert {len(miss.check), len(miss.expected), len(miss.got)} == {MAX_SHOWN}
    assert (miss.turn, miss.call_id) == (3, "")


def ended(*script: Any, max_turns: int = 9) -> RunResult:
    runner = ToolLoopRunner(client=ScriptedModel(*script), model="m", registry=[pay])
    try:
        return asyncio.run(runner.run("Pay.", max_turns=max_turns))
    except RunFailed as failure:
        return failure.result


def test_what_came_in_place_of_an_answer_is_told() -> None:
    assert what_came(ended(says("Hm."))) == '"Hm."'
    assert what_came(ended(says(""), says(""), says(""))) == "a blank answer"
    stopped = ended(calls("pay", amount=1), max_turns=1)
    assert what_came(stopped) == "pay(amount=1) in place of an answer"
    assert what_came(ended({"error": {"message": "no", "code": 400}})) == "no reply"


def test_a_recovered_call_is_not_to_blame_for_wrong_final_words() -> None:
    _, score = play("type_error_recovery", GET, patch(), patch(call_id="b"), says("All set."))
    assert [(miss.got, miss.turn, miss.call_id) for miss in score.misses] == [('"All set."', 3, "")]


def test_a_wrong_state_is_blamed_on_the_patch_that_left_it() -> None:
    failed = patch(path="/draft/nowhere", call_id="b")
    _, score = play("happy_path", GET, patch("baz"), failed, DONE, mode="relaxed")
    assert [(miss.got, miss.turn) for miss in score.misses] == [('"baz"', 1)]
    assert score.misses[0].call_id
    result, lost = play("happy_path", GET, failed, DONE, mode="relaxed")
    assert [(miss.got, miss.turn) for miss in lost.misses] == [("no value", 2)]
    assert result.assistant_text == "Done."


def test_a_turn_that_was_not_parallel_is_the_first_that_got_anywhere() -> None:
    nowhere = calls("state_get", workspace_id="ws_9")
    _, score = play("happy_path_parallel", nowhere, calls("state_get", "b"), patch(), DONE)
    (miss,) = score.misses
    assert (miss.check, miss.turn) == ("a turn has two calls that run", 1)
    assert miss.got.startswith('state_get(workspace_id="ws_9"), which failed with WORKSPACE_NOT_')
    _, silent = play("happy_path_parallel", DONE, mode="relaxed")
    assert (silent.misses[-1].got, silent.misses[-1].turn) == ("no call", 0)


def test_a_missing_call_is_blamed_on_the_one_that_came_nearest() -> None:
    def judge(out: Any) -> None:
        expect.called(out, "pay", amount=12)

    small, large = calls("pay", amount=1), calls("pay", "b", amount=12)
    tried = first_of(judge, large, calls("pay", "c", amount=1), says("Paid."))
    assert (tried.turn, tried.call_id) == (0, "b")
    assert tried.got == "pay(amount=12), which failed with TOO_MUCH"
    other = first_of(judge, small, says("Paid."))
    assert (other.turn, other.got) == (0, "pay(amount=1)")


def test_what_was_never_tried_is_blamed_on_the_answer() -> None:
    def judge(out: Any) -> None:
        expect.called(out, "refund", amount=1)

    miss = first_of(judge, calls("pay", amount=1), says("Refunded."))
    assert miss == Miss("refund(amount=1) succeeds", "refund(amount=1)", "no call of refund", 1)


def test_a_wrong_and_a_repeated_effect_name_their_calls() -> None:
    def judge(out: Any) -> None:
        expect.effects(out, Need("pay", {"amount": 1}))

    right, other = calls("pay", amount=1), calls("pay", "b", amount=2)
    wrong = first_of(judge, right, other, says("Paid."))
    assert (wrong.got, wrong.turn, wrong.call_id) == ("pay(amount=2)", 1, "b")
    again = calls("pay", "b", amount=1, to="bob")
    twice = first_of(judge, right, again, says("Paid."))
    assert (twice.got, twice.call_id) == ('pay(amount=1, to="bob") once more', "b")


def test_values_that_look_alike_as_json_are_told_apart() -> None:
    miss = first_of(lambda out: expect.state(out, (1,), [1]), calls("pay", amount=1), says("Paid."))
    assert (miss.expected, miss.got, miss.turn) == ("[1]", "(1,)", 0)


def test_a_no_without_its_reason_and_an_unwanted_call_are_blamed() -> None:
    miss = first_of(
        lambda out: expect.cannot(out, "closed", "shut"), calls("pay", amount=1), says("No.")
    )
    assert (miss.expected, miss.got, miss.turn) == ('"closed" or "shut"', '"No."', 1)
    called = first_of(
        lambda out: expect.not_called(out, "pay"), calls("pay", amount=1), says("Paid.")
    )
    assert (called.expected, called.got) == ("no call of pay", "pay(amount=1)")


def test_turns_are_told_only_of_the_conversation_whose_trace_is_kept() -> None:
    @scenario(name="two", tools=[pay])
    async def two(run: Any) -> None:
        expect.text(await run("Pay."), "A")
        expect.text(await run("Pay again."), "B")

    script = (calls("pay", amount=1), says("x"), calls("pay", "b", amount=1), says("y"))
    found = trial(two, *script)
    assert [(miss.got, miss.turn) for miss in found.score.misses] == [('"x"', None), ('"y"', 1)]


@pytest.mark.parametrize("reason", ["it was rude", "r" * 999])
def test_a_reason_of_ones_own_is_the_whole_sentence(reason: str) -> None:
    miss = first_of(
        lambda out: expect.that(out, condition=False, reason=reason),
        calls("pay", amount=1),
        says("x"),
    )
    assert miss == Miss(bounded(reason))
    assert miss.sentence == bounded(reason)
