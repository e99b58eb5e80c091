"""At most once: what has begun does not begin again, what has run is answered from the record."""

from typing import Any

import msgspec
import pytest

from surecall.core.effects import (
    DuplicateCalls,
    Effect,
    UnknownOutcome,
    duplicate_calls,
    effect_of,
    find_unknown_outcome,
    has_unknown_outcome,
    mark_unfinished,
    messages_with_unknown_outcomes,
    recorded_result,
)
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


TIMED_OUT = ErrorCode.TOOL_TIMEOUT
LOST = ErrorCode.CALL_OUTCOME_UNKNOWN


def test_a_call_that_had_begun_gets_a_problem_that_tells_the_truth() -> None:
    made = call("a")
    doubt = find_unknown_outcome(run(said(made), begun=("a",)), made)

    assert doubt is not None
    assert doubt.problem.code is ErrorCode.CALL_OUTCOME_UNKNOWN
    assert "Nobody knows whether it took effect" in doubt.problem.message
    assert (doubt.is_same_reply, doubt.execution) == (True, "r/a")


@pytest.mark.parametrize("name", ["read", "put"])
def test_a_call_that_may_be_repeated_is_begun_again(name: str) -> None:
    made = call("a", name)
    assert find_unknown_outcome(run(said(made), begun=("a",)), made) is None


def test_a_call_that_nobody_began_is_let_through() -> None:
    made = call("b")
    assert find_unknown_outcome(run(said(made), begun=("a",)), made) is None


def test_a_tool_that_is_gone_is_not_known_to_be_harmless() -> None:
    made = call("a", "gone")
    assert find_unknown_outcome(run(said(made), begun=("a",)), made) is not None


def test_the_like_of_a_call_that_had_begun_does_not_begin_either() -> None:
    first, like, other = call("a", n=1), call("b", n=1), call("c", n=2)
    both = run(said(first, like, other), begun=("a",))
    told = run(said(first, like, other), answer("a", LOST))
    fresh = run(said(first, like, other))

    for so_far, results in ((both, ()), (told, ()), (fresh, [answer("a", TIMED_OUT)])):
        doubt = find_unknown_outcome(so_far, like, results)
        assert doubt is not None
        assert doubt.is_same_reply
        assert find_unknown_outcome(so_far, other, results) is None


def test_what_is_meant_to_be_repeated_is_let_through_beside_its_like() -> None:
    made = (call("a", "poll"), call("b", "poll"))
    assert find_unknown_outcome(run(said(*made), begun=("a",)), made[1]) is None


def test_a_call_that_may_be_repeated_but_has_no_time_to_is_unknown_as_well() -> None:
    made = call("a", "put")
    doubt = find_unknown_outcome(run(said(made), begun=("a",)), made, has_time_left=False)
    assert doubt is not None
    assert doubt.problem.code is ErrorCode.CALL_OUTCOME_UNKNOWN


def before(*results: ToolResult, start: int = 0) -> UnknownOutcome | None:
    """Return the doubt about a call after equal ones with these results, each in its reply."""
    made = [call(f"c{at}", n=1) for at, _ in enumerate(results)]
    turns = [item for each in zip(map(said, made), results, strict=True) for item in each]
    last = call("z", n=1)
    so_far = run(*turns, said(last))
    return find_unknown_outcome(msgspec.structs.replace(so_far, start=start), last)


def test_an_equal_call_whose_outcome_is_unknown_is_a_doubt_in_any_later_reply() -> None:
    for code in (TIMED_OUT, LOST, ErrorCode.TOOL_STILL_RUNNING):
        doubt = before(answer("c0", code))
        assert doubt is not None
        assert not doubt.is_same_reply
        assert "nobody knows whether it took effect" in doubt.problem.message
        assert before(answer("c0", code), start=3) == doubt  # in an earlier run


def test_what_did_not_start_or_ended_with_an_error_leaves_no_doubt() -> None:
    assert before(answer("c0", TIMED_OUT, executed=False)) is None
    assert before(answer("c0", "INTERNAL_ERROR")) is None
    assert before(answer("c0")) is None


def test_a_known_outcome_ends_a_doubt_and_a_refusal_does_not() -> None:
    open_ended = answer("c0", TIMED_OUT)
    assert before(open_ended, answer("c1", "TOOL_POLICY_DENIED", executed=False)) is not None
    assert before(open_ended, answer("c1", "INTERNAL_ERROR")) is None
    assert before(open_ended, answer("c1")) is None


def test_a_doubt_names_the_execution_that_may_still_end() -> None:
    left = msgspec.structs.replace(answer("c0", TIMED_OUT), execution="r/c0")
    held, running = (answer("c1", code, executed=False) for code in (LOST, "TOOL_STILL_RUNNING"))

    for results in ([left], [left, held], [left, running]):
        doubt = before(*results)
        assert doubt is not None
        assert doubt.execution == "r/c0"
    newer = before(left, answer("c1", TIMED_OUT))
    assert newer is not None
    assert newer.execution == ""


def test_a_plain_history_says_in_its_content_what_is_unknown() -> None:
    def told(content: str) -> ToolResult:
        return ToolResult("c0", "pay", ok=False, content=content, executed=True)

    timed_out = told('{"ok":false,"errors":[{"code":"TOOL_TIMEOUT"}]}')
    denied = told('{"ok":false,"errors":[{"code":"TOOL_POLICY_DENIED"}]}')
    assert has_unknown_outcome(timed_out)
    for content in ('{"ok":false}', "{", "[]", '{"errors":[1]}', '{"errors":1}'):
        assert not has_unknown_outcome(told(content))
    # It does not say whether a tool ran, so it ends no doubt.
    assert before(timed_out, msgspec.structs.replace(denied, call_id="c1")) is not None


def effect(schema: JSON | None = None, **arguments: Any) -> Effect:
    return effect_of(ToolCall("a", "pay", arguments), schema or {})


def test_arguments_that_say_the_same_have_the_same_effect() -> None:
    deep = [{"x": 1, "y": [2.0]}, None]
    assert effect(a=1, b=deep) == effect(b=[{"y": [2], "x": 1.0}, None], a=1.0)
    assert effect(a=float("nan")) == effect(a=float("nan"))
    assert effect(a=10**22) == effect(a=1e22)
    differing = [effect(a=one) for one in (1, True, "1", None, [1], {"1": 1}, 9007199254740993)]
    assert len({*differing, effect(), effect(a=9007199254740992.0)}) == 9


def test_an_argument_that_repeats_the_default_is_the_same_as_none() -> None:
    schema = {"properties": {"to": {"default": "shop"}, "odd": True, "n": {}}}
    assert effect(schema, a=1, to="shop") == effect(schema, a=1)
    assert effect(schema, to="bank", odd=1, n=2) != effect(schema)
    assert effect({"properties": 3}, a=1) == effect(a=1)


OPTIONS: JSON = {
    "type": "object",
    "properties": {"size": {"default": 1}, "next": {"$ref": "#/$defs/options"}},
}
ROOT: JSON = {"properties": {"again": {"$ref": "#"}, "size": {"default": 1}}}
NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("schema", "spelled", "plain"),
    [
        (OPTIONS, {"size": 1.0, "n": 2}, {"n": 2}),
        ({"allOf": [OPTIONS]}, {"size": 1}, {}),
        ({"anyOf": [OPTIONS, NULL]}, {"size": 1}, {}),
        ({"oneOf": [OPTIONS, {"type": ["null", "string"]}]}, {"size": 1}, {}),
        ({"$ref": "#/$defs/options"}, {"next": {"next": {"size": 1}}}, {"next": {"next": {}}}),
        ({"$ref": "#"}, {"again": {"size": 1}}, {"again": {}}),
        ({"items": OPTIONS}, [{"size": 1}, 2], [{}, 2]),
        ({"allOf": [{}, {"default": 1}], "properties": {"a": {"default": {}}}}, {"a": {}}, {}),
        (OPTIONS | {"default": {"size": 1}}, {}, None),
        (OPTIONS | {"default": {}}, {"size": 1}, None),
    ],
)
def test_a_nested_value_that_repeats_the_default_is_the_same_as_none(
    schema: JSON, spelled: Any, plain: Any
) -> None:
    whole = {"properties": {**ROOT["properties"], "a": schema}, "$defs": {"options": OPTIONS}}
    without = {} if plain is None else {"a": plain}

    assert effect(whole, a=spelled) == effect(whole, **without)


@pytest.mark.parametrize(
    ("schema", "spelled", "plain"),
    [
        ({"anyOf": [OPTIONS, {"type": "object"}]}, {"size": 1}, {}),
        ({"anyOf": [OPTIONS, True]}, {"size": 1}, {}),
        ({"anyOf": 1, "allOf": {}, "items": True, "$ref": "#/$defs/none"}, {"size": 1}, {}),
        (OPTIONS, {"size": True}, {}),
        (OPTIONS, {"size": 2}, {}),
        (OPTIONS, [{"size": 1}], [{}]),
        ({"items": OPTIONS}, [{"size": 1}], []),
    ],
)
def test_a_default_that_is_not_certain_makes_another_effect(
    schema: JSON, spelled: Any, plain: Any
) -> None:
    for definitions in ({}, {"$defs": 1}):
        whole = {"properties": {"a": schema}, **definitions}
        assert effect(whole, a=spelled) != effect(whole, a=plain)


def test_defaults_are_folded_in_within_a_limit() -> None:
    schema = {"properties": {"a": {"items": OPTIONS}}}
    many = [{"size": 1}] * 20_000
    fan: JSON = {"properties": {"size": {"default": 1}}}
    for _ in range(20):
        fan = {"allOf": [fan, dict(fan)]}

    assert effect(schema, a=many[:5_000]) == effect(schema, a=[{}] * 5_000)
    assert effect(schema, a=many) != effect(schema, a=[{}] * 20_000)
    assert effect({"properties": {"a": fan}}, a={"n": 1}) == effect(a={"n": 1})


def test_a_run_that_is_left_answers_what_had_begun() -> None:
    made = (call("a"), call("b", n=1))
    so_far = run(said(*made), begun=("b",))
    (*_, result) = messages_with_unknown_outcomes(so_far)

    assert isinstance(result, ToolResult)
    assert (result.call_id, result.error_codes, result.execution) == ("b", (LOST,), "r/b")
    assert messages_with_unknown_outcomes(run(said(*made))) == run(said(*made)).messages


def test_only_calls_that_began_and_are_due_are_unfinished() -> None:
    refused = msgspec.structs.replace(call("c"), problem=Problem(ErrorCode.ARGUMENT_ERROR, "no"))
    made = (call("a"), call("b", n=1), refused, call("d", n=2))
    so_far = run(said(*made), answer("a"))

    assert mark_unfinished(so_far, made[:3]).begun == ("b",)
    assert mark_unfinished(so_far, ()) is so_far


def test_what_began_in_an_earlier_life_stays_begun() -> None:
    made = (call("a"), call("b"))
    so_far = run(said(*made), begun=("b",))
    assert mark_unfinished(so_far, made[:1]).begun == ("b", "a")


def test_an_answer_ends_what_had_begun() -> None:
    so_far = run(said(call("a"), call("b")), begun=("a", "b"))
    assert so_far.with_results([answer("a")]).begun == ("b",)


def test_the_same_call_under_the_same_id_has_twins_in_its_reply_and_in_earlier_ones() -> None:
    first, second = call("x", n=1), call("x__2", first="x", n=1)
    third, fourth = call("x__3", first="x", n=1), call("x__4", first="x", n=1)
    so_far = run(said(first, second), answer("x"), answer("x__2"), said(third, fourth))

    assert duplicate_calls(run(said(first, second)), second) == DuplicateCalls([], ["x"])
    assert duplicate_calls(so_far, third) == DuplicateCalls(["x", "x__2"], [])
    assert duplicate_calls(so_far, fourth) == DuplicateCalls(["x", "x__2"], ["x__3"])
    assert duplicate_calls(so_far, first) == DuplicateCalls()


def test_other_arguments_or_another_tool_under_the_same_id_make_another_call() -> None:
    first = call("x", n=1)
    for other in (call("x__2", first="x", n=2), call("x__2", "read", first="x", n=1)):
        assert not any(duplicate_calls(run(said(first, other)), other))


def test_an_id_that_another_reply_used_for_something_else_says_nothing() -> None:
    first, second = call("0", n=1), call("0__2", first="0", n=2)
    third = call("0__3", first="0", n=1)
    so_far = run(said(first), answer("0"), said(second), answer("0__2"), said(third))

    assert duplicate_calls(so_far, third).earlier == []


def test_within_one_reply_it_says_that_all_the_same() -> None:
    first, second = call("0", n=1), call("0__2", first="0", n=2)
    third = call("0__3", first="0", n=1)

    assert duplicate_calls(run(said(first, second, third)), third).same_reply == ["0"]


def test_an_id_in_text_counts_within_its_reply_only() -> None:
    written = [
        msgspec.structs.replace(one, from_text=True)
        for one in (call("x"), call("x__2", first="x"), call("x__3", first="x"))
    ]
    so_far = run(said(written[0]), answer("x"), said(*written[1:]))

    assert duplicate_calls(so_far, written[1]) == ([], [])
    assert duplicate_calls(so_far, written[2]) == ([], ["x__2"])


def test_a_call_that_could_not_run_says_nothing_about_ids() -> None:
    spare = msgspec.structs.replace(
        call("x__2", first="x", n=9), problem=Problem(ErrorCode.TOOL_CALL_NOT_EXECUTED, "no")
    )
    third = call("x__3", first="x", n=1)
    so_far = run(said(call("x", n=1), spare), answer("x"), answer("x__2"), said(third))

    assert duplicate_calls(so_far, third).earlier == ["x"]


@pytest.mark.parametrize("name", ["read", "put", "poll"])
def test_a_call_that_may_be_repeated_has_no_twins(name: str) -> None:
    first, second = call("x", name), call("x__2", name, first="x")
    assert duplicate_calls(run(said(first, second)), second) == DuplicateCalls()


def test_a_call_of_earlier_history_is_no_twin() -> None:
    made = call("x__2", first="x")
    assert duplicate_calls(run(said(made)), made) == ([], [])


def test_the_record_is_that_of_the_twin_that_ran_not_of_one_that_was_refused() -> None:
    made = call("x"), call("x__2", first="x"), call("x__3", first="x")
    denied = answer("x", "TOOL_POLICY_DENIED", executed=False)
    again = recorded_result(run(said(*made)), made[2], [denied, answer("x__2", paid=5)])

    assert again is not None
    assert again.envelope["data"] == {"paid": 5}
    assert recorded_result(run(said(*made)), made[1], [denied]) is None


def test_the_record_answers_with_the_same_data_and_a_word_about_it() -> None:
    first, second = call("x"), call("x__2", first="x")
    again = recorded_result(run(said(first, second)), second, [answer("x", paid=5)])

    assert again is not None
    assert (again.call_id, again.ok, again.executed) == ("x__2", True, False)
    assert again.envelope["data"] == {"paid": 5}
    assert "did not run again" in again.envelope["warnings"][0]


def test_a_failure_is_recorded_as_well() -> None:
    first, second = call("x"), call("x__2", first="x")
    again = recorded_result(run(said(first, second)), second, [answer("x", "INTERNAL_ERROR")])

    assert again is not None
    assert (again.ok, again.error_codes) == (False, ("INTERNAL_ERROR",))


def test_an_unknown_outcome_is_not_on_record() -> None:
    first, second = call("x"), call("x__2", first="x")
    for result in (answer("x", LOST, executed=False), answer("x", TIMED_OUT)):
        assert recorded_result(run(said(first, second)), second, [result]) is None


def test_a_success_under_another_id_goes_before_a_failure_under_the_same_one() -> None:
    made = call("x"), call("y"), call("x__2", first="x")
    results = [answer("x", "INTERNAL_ERROR"), answer("y", paid=5)]
    again = recorded_result(run(said(*made)), made[2], results)

    assert again is not None
    assert again.envelope["data"] == {"paid": 5}


def test_a_tool_that_ran_and_cannot_show_its_output_does_not_run_again() -> None:
    made = call("a"), call("b")
    code = ErrorCode.TOOL_OUTPUT_TOO_LARGE
    again = recorded_result(run(said(*made)), made[1], [answer("a", code)])

    assert again is not None
    assert (again.ok, again.error_codes) == (False, (code,))
    assert "and the tool ran" in again.envelope["warnings"][-1]


def test_a_call_that_was_refused_before_is_not_on_record() -> None:
    first, second = call("x"), call("x__2", first="x")
    so_far = run(said(first), answer("x", "TOOL_POLICY_DENIED", executed=False), said(second))
    assert recorded_result(so_far, second) is None
    assert recorded_result(so_far, call("y")) is None
