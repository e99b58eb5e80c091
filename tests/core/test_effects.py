"""At most once: what has begun does not begin again, what has run is answered from the record."""

import msgspec
import pytest

from surecall.core.effects import Twins, recorded, twins, unfinished, unless_begun
from surecall.core.state import Run
from surecall.settings.presets import raw
from surecall.values.errors import ErrorCode
from surecall.values.types import (
    JSON,
    Assistant,
    Message,
    Problem,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)

TOOLS = (
    ToolSpec("pay", "", {}),
    ToolSpec("read", "", {}, read_only=True),
    ToolSpec("put", "", {}, idempotent=True),
    ToolSpec("poll", "", {}, repeatable=True),
)


def run(*messages: Message, begun: tuple[str, ...] = ()) -> Run:
    return Run("r", "m", raw(), (User("go"), *messages), tools=TOOLS, begun=begun)


def call(call_id: str, name: str = "pay", first: str | None = None, **arguments: int) -> ToolCall:
    return ToolCall(call_id, name, dict(arguments), first_id=first)


def said(*made: ToolCall) -> Assistant:
    return Assistant("", made)


def answer(call_id: str, *codes: str, executed: bool = True, **data: int) -> ToolResult:
    envelope: JSON = {"ok": not codes, "tool_name": "pay", "data": data, "errors": []}
    content = msgspec.json.encode(envelope).decode()
    return ToolResult(call_id, "pay", not codes, content, executed=executed, error_codes=codes)


def test_a_call_that_had_begun_gets_a_problem_that_tells_the_truth() -> None:
    made = call("a")
    judged = unless_begun(run(said(made), begun=("a",)), made)

    assert judged.problem is not None
    assert judged.problem.code is ErrorCode.CALL_OUTCOME_UNKNOWN
    assert "Nobody knows whether it took effect" in judged.problem.message


@pytest.mark.parametrize("name", ["read", "put"])
def test_a_call_that_may_be_repeated_is_begun_again(name: str) -> None:
    made = call("a", name)
    assert unless_begun(run(said(made), begun=("a",)), made) is made


def test_a_call_that_nobody_began_is_let_through() -> None:
    made = call("b")
    assert unless_begun(run(said(made), begun=("a",)), made) is made


def test_a_tool_that_is_gone_is_not_known_to_be_harmless() -> None:
    made = call("a", "gone")
    assert unless_begun(run(said(made), begun=("a",)), made).problem is not None


def test_the_like_of_a_call_that_had_begun_does_not_begin_either() -> None:
    first, like, other = call("a", n=1), call("b", n=1), call("c", n=2)
    both = run(said(first, like, other), begun=("a",))
    told = run(said(first, like, other), answer("a", ErrorCode.CALL_OUTCOME_UNKNOWN))

    for so_far in (both, told):
        assert unless_begun(so_far, like).problem is not None
        assert unless_begun(so_far, other) is other


def test_what_is_meant_to_be_repeated_is_let_through_beside_its_like() -> None:
    made = (call("a", "poll"), call("b", "poll"))
    assert unless_begun(run(said(*made), begun=("a",)), made[1]) is made[1]


def test_a_problem_that_a_call_has_already_is_kept() -> None:
    problem = Problem(ErrorCode.ARGUMENT_ERROR, "no")
    made = msgspec.structs.replace(call("a"), problem=problem)
    assert unless_begun(run(said(made), begun=("a",)), made) is made


def test_a_call_that_may_be_repeated_but_has_no_time_to_is_unknown_as_well() -> None:
    made = call("a", "put")
    judged = unless_begun(run(said(made), begun=("a",)), made, in_time=False)
    assert judged.problem is not None
    assert judged.problem.code is ErrorCode.CALL_OUTCOME_UNKNOWN


def test_only_calls_that_began_and_are_due_are_unfinished() -> None:
    refused = msgspec.structs.replace(call("c"), problem=Problem(ErrorCode.ARGUMENT_ERROR, "no"))
    made = (call("a"), call("b", n=1), refused, call("d", n=2))
    so_far = run(said(*made), answer("a"))

    assert unfinished(so_far, made[:3]).begun == ("b",)
    assert unfinished(so_far, ()) is so_far


def test_what_began_in_an_earlier_life_stays_begun() -> None:
    made = (call("a"), call("b"))
    so_far = run(said(*made), begun=("b",))
    assert unfinished(so_far, made[:1]).begun == ("b", "a")


def test_an_answer_ends_what_had_begun() -> None:
    so_far = run(said(call("a"), call("b")), begun=("a", "b"))
    assert so_far.answered([answer("a")]).begun == ("b",)


def test_the_same_call_under_the_same_id_has_twins_in_its_reply_and_in_earlier_ones() -> None:
    first, second = call("x", n=1), call("x__2", first="x", n=1)
    third, fourth = call("x__3", first="x", n=1), call("x__4", first="x", n=1)
    so_far = run(said(first, second), answer("x"), answer("x__2"), said(third, fourth))

    assert twins(run(said(first, second)), second) == Twins([], ["x"])
    assert twins(so_far, third) == Twins(["x", "x__2"], [])
    assert twins(so_far, fourth) == Twins(["x", "x__2"], ["x__3"])
    assert twins(so_far, first) == Twins()


def test_other_arguments_or_another_tool_under_the_same_id_make_another_call() -> None:
    first = call("x", n=1)
    for other in (call("x__2", first="x", n=2), call("x__2", "read", first="x", n=1)):
        assert not any(twins(run(said(first, other)), other))


def test_an_id_that_another_reply_used_for_something_else_says_nothing() -> None:
    first, second = call("0", n=1), call("0__2", first="0", n=2)
    third = call("0__3", first="0", n=1)
    so_far = run(said(first), answer("0"), said(second), answer("0__2"), said(third))

    assert twins(so_far, third).earlier == []


def test_within_one_reply_it_says_that_all_the_same() -> None:
    first, second = call("0", n=1), call("0__2", first="0", n=2)
    third = call("0__3", first="0", n=1)

    assert twins(run(said(first, second, third)), third).beside == ["0"]


def test_an_id_in_text_counts_within_its_reply_only() -> None:
    written = [
        msgspec.structs.replace(one, from_text=True)
        for one in (call("x"), call("x__2", first="x"), call("x__3", first="x"))
    ]
    so_far = run(said(written[0]), answer("x"), said(*written[1:]))

    assert twins(so_far, written[1]) == ([], [])
    assert twins(so_far, written[2]) == ([], ["x__2"])


def test_a_call_that_could_not_run_says_nothing_about_ids() -> None:
    spare = msgspec.structs.replace(
        call("x__2", first="x", n=9), problem=Problem(ErrorCode.TOOL_CALL_NOT_EXECUTED, "no")
    )
    third = call("x__3", first="x", n=1)
    so_far = run(said(call("x", n=1), spare), answer("x"), answer("x__2"), said(third))

    assert twins(so_far, third).earlier == ["x"]


@pytest.mark.parametrize("name", ["read", "put", "poll"])
def test_a_call_that_may_be_repeated_has_no_twins(name: str) -> None:
    first, second = call("x", name), call("x__2", name, first="x")
    assert twins(run(said(first, second)), second) == Twins()


def test_a_call_of_earlier_history_is_no_twin() -> None:
    made = call("x__2", first="x")
    assert twins(run(said(made)), made) == ([], [])


def test_the_record_is_that_of_the_twin_that_ran_not_of_one_that_was_refused() -> None:
    made = call("x"), call("x__2", first="x"), call("x__3", first="x")
    denied = answer("x", "TOOL_POLICY_DENIED", executed=False)
    again = recorded(run(said(*made)), made[2], [denied, answer("x__2", paid=5)])

    assert again is not None
    assert again.envelope["data"] == {"paid": 5}
    assert recorded(run(said(*made)), made[1], [denied]) is None


def test_the_record_answers_with_the_same_data_and_a_word_about_it() -> None:
    first, second = call("x"), call("x__2", first="x")
    again = recorded(run(said(first, second)), second, [answer("x", paid=5)])

    assert again is not None
    assert (again.call_id, again.ok, again.executed) == ("x__2", True, False)
    assert again.envelope["data"] == {"paid": 5}
    assert "did not run again" in again.envelope["warnings"][0]


def test_a_failure_is_recorded_as_well() -> None:
    first, second = call("x"), call("x__2", first="x")
    again = recorded(run(said(first, second)), second, [answer("x", "INTERNAL_ERROR")])

    assert again is not None
    assert (again.ok, again.error_codes) == (False, ("INTERNAL_ERROR",))


def test_an_unknown_outcome_stays_unknown() -> None:
    first, second = call("x"), call("x__2", first="x")
    code = ErrorCode.CALL_OUTCOME_UNKNOWN
    again = recorded(run(said(first, second)), second, [answer("x", code, executed=False)])
    assert again is not None


def test_a_call_that_was_refused_before_is_not_on_record() -> None:
    first, second = call("x"), call("x__2", first="x")
    so_far = run(said(first), answer("x", "TOOL_POLICY_DENIED", executed=False), said(second))
    assert recorded(so_far, second) is None
    assert recorded(so_far, call("y")) is None
