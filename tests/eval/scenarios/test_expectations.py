"""Tests of `surecall.eval.scenarios.expectations`."""

import asyncio
from typing import Any

import pytest

from surecall import RunFailed, RunResult, ToolLoopRunner, tool
from surecall.core.outcome import run_error
from surecall.core.state import Fail
from surecall.eval import expect, scenario
from surecall.eval.scenarios.expectations import (
    DECLINED_CHECK,
    EFFECTS_CHECK,
    MAX_MISS_CHARS,
    admits_failure,
    describe_answer,
    excerpt_around,
    format_call,
    format_need,
    format_value,
    make_miss,
    mentions,
    shorten,
)
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.trial import Miss, SideEffects, Trial
from surecall.settings.contract import From, Need
from surecall.testing import ScriptedModel, calls, says
from surecall.values.errors import ErrorCode, ToolError
from tests.support.costly_inputs import DEPTHS, nested
from tests.support.scenario_packs import DONE, GET, patch, play, scripted_trial

# What is expected of a run: side effects, each counted, and a no that tells the truth


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
    return scripted_trial(wanting(*wanted), *numbered, says("I have done it."))


ADA, BOB, X = {"to": "ada"}, {"to": "bob"}, {"name": "x"}


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([("send", ADA)], SideEffects(1, 0, 0)),
        ([("look", {"at": "a"}), ("look", {"at": "a"}), ("send", ADA)], SideEffects(1, 0, 0)),
        ([], SideEffects(0, 0, 0)),
        ([("send", BOB)], SideEffects(1, 1, 0)),
        ([("send", BOB), ("send", ADA)], SideEffects(2, 1, 0)),
        ([("send", ADA), ("look", {"at": "a"}), ("send", ADA)], SideEffects(1, 0, 0)),
        (
            [("send", ADA), ("look", {"at": "a"}), ("send", ADA | {"text": "!"})],
            SideEffects(2, 0, 1),
        ),
        ([("send", BOB), ("look", {"at": "a"}), ("send", BOB)], SideEffects(1, 1, 0)),
        (
            [("label", {"name": "x"}), ("look", {"at": "a"}), ("label", {"name": "x"})],
            SideEffects(1, 1),
        ),
        ([("send", ADA), ("burn", {"what": "ada"})], SideEffects(1, 0, 0)),
    ],
)
def test_each_wrong_and_each_repeated_effect_is_counted(steps: Any, found: SideEffects) -> None:
    result = made(*steps)

    assert result.score.effects == found
    assert result.ok == (found == SideEffects(1, 0, 0))
    assert result.score.state is result.ok


def test_two_needs_alike_are_two_effects_and_a_name_alone_is_a_need() -> None:
    both = (Need("send", ADA), Need("send", BOB))
    assert made(("send", ADA), ("send", BOB), wanted=both).ok
    assert made(("send", BOB), wanted=("send",)).ok
    missing = made(("send", ADA), wanted=both)
    absent = Miss(EFFECTS_CHECK, 'send(to="bob")', "no other call of send", turn=1)
    assert missing.score.misses == (absent,)


def test_an_idempotent_effect_may_be_made_again() -> None:
    again = (("label", X), ("look", {"at": "a"}), ("label", X))
    assert made(*again, wanted=(Need("label", X),)).score.effects == SideEffects(1, 0, 0)


def test_effects_that_are_judged_twice_add_up() -> None:
    @scenario(tools=[send])
    async def twice(run: Any) -> None:
        first = await run("Write to Ada.")
        expect.effects(first, SENT)
        expect.effects(first, SENT)
        expect.effects(await run("And to Bob."), Need("send", BOB))

    script = (calls("send", to="ada"), says("Sent."), calls("send", to="bob"), says("Sent."))
    assert scripted_trial(twice, *script).score.effects == SideEffects(made=3)


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

    found = scripted_trial(burns, calls("burn", what="it"), says(answer))
    assert (found.ok, found.score.declined, found.score.final) == (passes, passes, passes)


def test_a_no_that_was_refused_until_the_run_failed_is_not_how_it_ended() -> None:
    @scenario(tools=[look, burn])
    async def burns(run: Any) -> None:
        expect.cannot(await run("Burn it."))

    no = says("I cannot do that.")
    found = scripted_trial(burns, no, no, no)
    assert (found.status, found.category) == ("failed", "NO_TOOL_CALLS")
    (miss,) = found.score.misses
    refused = '"I cannot do that.", which was not accepted as an answer'
    assert miss == Miss(DECLINED_CHECK, "a no", refused, turn=len(found.requests) - 1)
    assert found.truth == "open"


def test_an_answer_may_be_expected_to_leave_something_out() -> None:
    @scenario()
    async def keeps_quiet(run: Any) -> None:
        expect.lacks(await run("Which code?"), "4417")

    assert scripted_trial(keeps_quiet, says("It is 9020.")).ok
    told = scripted_trial(keeps_quiet, says(f"{'Well. ' * 50}It is 4417."))
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
        raise run_error(Fail(code, "the end"), await runner.run("Burn it."))

    world = burns.begin("-")
    with pytest.raises(RunFailed) as raised:
        asyncio.run(world.converse(ask))
    assert world.judge(raised.value.result).declined is met


# What was missed, in words, and the turn that decided it


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

    found = scripted_trial(judged, *script)
    assert found.status == "failed"
    return found.score.misses[0]


def test_what_is_shown_is_one_short_line_whatever_it_is() -> None:
    assert format_value({"a": ["b\nc", None]}) == '{"a":["b\\nc",null]}'
    assert format_value(object).startswith("<class")
    assert len(format_value("x" * 9999)) == MAX_MISS_CHARS
    for depth in DEPTHS:
        assert format_value(nested(depth)) == "(nested too deeply: more than 128 levels)"
    assert shorten("y" * 999).endswith("y…")
    assert excerpt_around("say it", "SAY") == '"say it"'


def test_calls_and_needs_are_written_as_in_a_program() -> None:
    assert format_call("pay", {"to": "ada", "amount": 1}) == 'pay(to="ada", amount=1)'
    need = Need("pay", {"to": From("find", "people[*].id"), "amount": 2})
    assert format_need(need) == "pay(to=from find (people[*].id), amount=2)"


def test_every_text_of_a_miss_is_short() -> None:
    miss = make_miss("c" * 999, "e" * 999, "g" * 999, 3)
    assert {len(miss.check), len(miss.expected), len(miss.got)} == {MAX_MISS_CHARS}
    assert (miss.turn, miss.call_id) == (3, "")


def ended(*script: Any, max_turns: int = 9) -> RunResult:
    runner = ToolLoopRunner(client=ScriptedModel(*script), model="m", registry=[pay])
    try:
        return asyncio.run(runner.run("Pay.", max_turns=max_turns))
    except RunFailed as failure:
        return failure.result


def test_what_came_in_place_of_an_answer_is_told() -> None:
    assert describe_answer(ended(says("Hm."))) == '"Hm."'
    assert describe_answer(ended(says(""), says(""), says(""))) == "a blank answer"
    stopped = ended(calls("pay", amount=1), max_turns=1)
    assert describe_answer(stopped) == "pay(amount=1) instead of an answer"
    assert describe_answer(ended({"error": {"message": "no", "code": 400}})) == "no reply"


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
    found = scripted_trial(two, *script)
    assert [(miss.got, miss.turn) for miss in found.score.misses] == [('"x"', None), ('"y"', 1)]


@pytest.mark.parametrize("reason", ["it was rude", "r" * 999])
def test_a_reason_of_ones_own_is_the_whole_sentence(reason: str) -> None:
    miss = first_of(
        lambda out: expect.that(out, condition=False, reason=reason),
        calls("pay", amount=1),
        says("x"),
    )
    assert miss == Miss(shorten(reason))
    assert miss.sentence == shorten(reason)


# Whether an answer is a no is told by its words; a remark about what was left alone is none


@pytest.mark.parametrize(
    "text",
    [
        "No, the gateway is offline.",
        "Sorry: the course is full.",
        "I could not print the label.",
        "I couldn\u2019t print it.",
        "The label  cannot\nbe printed.",
        "There is no booking on 12 May.",
        "Printing FAILED.",
        "I am unable to do that.",
    ],
)
def test_a_no_is_heard_in_many_words(text: str) -> None:
    assert admits_failure(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Done.",
        "The parcel goes to Market Square now. Nothing else was changed.",
        "Node 4 was restarted.",
        "Your note was saved.",
        "I did not touch the other parcel.",
        "No problem! The parcel goes to Market Square.",
        "It is sent. There is no need to do anything else.",
    ],
)
def test_an_account_of_the_work_is_no_no(text: str) -> None:
    assert not admits_failure(text)


def test_words_are_found_whatever_the_case_and_the_blanks() -> None:
    assert mentions("It is Out  of\nService.", ["broken", "out of service"])
    assert not mentions("It works.", ["broken", "out of service"])
