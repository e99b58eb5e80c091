"""The rules one by one: what is signed, what is barred, what ends a run, and the verdict."""

from typing import Any, Final

import msgspec
import pytest

from surecall.core.loop import heard, ran
from surecall.core.policy import admit, halted, verdict
from surecall.core.state import Done, Fail, Run
from surecall.settings.config import ToolUseMode
from surecall.settings.contract import Contract
from surecall.settings.presets import raw
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import Problem, Reply, ToolCall, ToolResult, User
from tests.support.hand_driven import CALL, DOWN, NO_TOOLS, TOOLS, after, asking, begun

OTHER: Final = ToolCall("o", "add", {"a": 2})
SIGNED: Final = ToolCall("s", "add", {"a": 1}, extra={"signature": "x"})


def under(contract: Contract, **settings: Any) -> Run:
    config = raw(contract=contract, **settings)
    return Run("r", "m", config, (User("hi"),), tools=TOOLS)


def barred(run: Run, call: ToolCall) -> ErrorCode | None:
    """Return why the call would not run now."""
    (made,) = admit(run, asking(call)).calls
    return made.problem.code if made.problem is not None else None


# Where state comes from


@pytest.mark.parametrize(
    ("reply", "signed"),
    [
        (Reply("so"), False),
        (asking(CALL), False),
        (Reply("so", extra={"thought": "x"}), True),
        (asking(SIGNED), True),
        (asking(CALL, SIGNED), True),
    ],
)
@pytest.mark.parametrize("mode", ["relaxed", "disabled"])
def test_a_turn_says_where_it_comes_from_if_it_carries_state(
    reply: Reply, mode: str, *, signed: bool
) -> None:
    run = msgspec.structs.replace(begun(tool_use_mode=mode), endpoint="here")
    said = admit(run, reply)

    # Calls that nobody asked for are dropped, and their state with them.
    kept = said.extra or said.calls
    assert said.origin == ("m@here" if signed and kept else "")
    assert said.text == reply.text
    assert len(said.calls or said.dropped) == len(reply.calls)


# Repetition


def reading(run: Run) -> Run:
    """Return a run whose tools only read; a write that was made is answered from the record."""
    tools = tuple(msgspec.structs.replace(spec, read_only=True) for spec in run.tools)
    return msgspec.structs.replace(run, tools=tools)


def test_a_read_that_just_succeeded_is_barred_where_the_config_says_so() -> None:
    run = begun(block_repeated_success=True)

    assert barred(after(reading(run), asking(CALL)), CALL) is ErrorCode.REPEATED_CALL
    assert barred(after(run, asking(CALL)), CALL) is None
    assert barred(after(reading(begun()), asking(CALL)), CALL) is None


def test_one_that_failed_or_was_another_or_may_be_repeated_is_not() -> None:
    run = begun(block_repeated_success=True)
    poll = ToolCall("p", "poll")

    assert barred(run, CALL) is None
    assert barred(after(run, asking(CALL), ok=False), CALL) is None
    assert barred(after(run, asking(CALL), asking(OTHER)), CALL) is None
    assert barred(after(run, asking(poll)), poll) is None


def test_it_stays_barred_after_it_was_barred_and_after_words() -> None:
    run = after(reading(begun(block_repeated_success=True)), asking(CALL))
    again = msgspec.structs.replace(CALL, id="c2")

    assert barred(after(run, asking(again)), CALL) is ErrorCode.REPEATED_CALL
    assert barred(heard(run, Reply("Well.")), CALL) is ErrorCode.REPEATED_CALL


def test_a_call_that_the_contract_wants_again_is_not_barred() -> None:
    contract = Contract(in_order=("add", "add"))
    run = after(under(contract, block_repeated_success=True), asking(CALL))

    assert barred(run, CALL) is None


def test_the_last_call_that_is_left_runs_and_the_next_one_does_not() -> None:
    first, second = admit(begun(max_total_tool_calls=1), asking(CALL, OTHER)).calls

    assert first.problem is None
    assert second.problem is not None
    assert second.problem.code is ErrorCode.TOOL_CALL_LIMIT


def test_a_call_with_a_problem_keeps_it_and_takes_no_place() -> None:
    unknown = Problem(ErrorCode.TOOL_NOT_ALLOWED, "There is no such tool.")
    broken = ToolCall("b", "fly", problem=unknown)
    first, second = admit(begun(max_total_tool_calls=1), asking(broken, OTHER)).calls

    assert first == broken
    assert second.problem is None


# What ends a run


def test_nothing_ends_a_run_that_has_just_begun() -> None:
    assert halted(begun()) is None
    assert halted(begun(tool_use_mode="enforced")) is None
    assert halted(under(Contract(all_of=("add",)))) is None


def test_a_contract_that_no_tool_can_meet_ends_a_run_before_it_asks() -> None:
    fail = halted(under(Contract(all_of=("add", "fly"))))

    assert isinstance(fail, Fail)
    assert fail.code is ErrorCode.CONTRACT_UNMET
    assert fail.details == {"missing": [["fly"]]}
    assert "fly" in fail.message


def test_so_does_a_contract_where_tools_are_disabled() -> None:
    fail = halted(under(Contract(all_of=("add",)), tool_use_mode=ToolUseMode.DISABLED))

    assert isinstance(fail, Fail)
    assert fail.details == {"missing": [["add"]]}


@pytest.mark.parametrize(
    ("settings", "faults", "goes_on"),
    [
        ({"fallback_retry_count": 1}, [NO_TOOLS], True),
        ({"fallback_retry_count": 1}, [NO_TOOLS, NO_TOOLS], False),
        ({"fallback_retry_count": 2}, [NO_TOOLS, NO_TOOLS], True),
        ({"fallback_retry_count": 0}, [NO_TOOLS], False),
        ({"fallback_retry_count": 1}, [DOWN], False),
        ({"fallback_retry_count": 1, "tool_use_mode": "enforced"}, [NO_TOOLS], False),
        ({"fallback_retry_count": 1, "tool_use_mode": "disabled"}, [NO_TOOLS], False),
    ],
)
def test_a_refused_request_goes_out_again_without_tools_where_they_are_not_needed(
    settings: dict[str, Any], faults: list[Fault], *, goes_on: bool
) -> None:
    fail = halted(after(begun(**settings), *faults))

    assert (fail is None) is goes_on
    assert fail is None or (fail.code, fail.fault) == (faults[-1].code, faults[-1])


def test_a_contract_needs_its_tools_so_that_nothing_is_asked_without_them() -> None:
    run = under(Contract(all_of=("add",)), fallback_retry_count=1)
    fail = halted(after(run, NO_TOOLS))

    assert fail is not None
    assert fail.code is ErrorCode.NO_TOOL_USE_ENDPOINT


def test_what_ends_a_run_is_said_in_words() -> None:
    long = halted(after(begun(max_turns=1), asking(CALL)))
    many = halted(after(begun(max_total_tool_calls=1), asking(CALL, OTHER)))
    loop = halted(after(begun(repeat_stop_at=3), *[asking(CALL)] * 3))

    assert long is not None
    assert long.message == "no final answer after 1 turns"
    assert many is not None
    assert many.message == "more than 1 tool calls in one run"
    assert loop is not None
    assert loop.details == {"tool_name": "add"}


@pytest.mark.parametrize("code", [ErrorCode.TOOL_CALL_LIMIT, ErrorCode.TOOL_NOT_ALLOWED])
def test_the_words_of_a_tool_that_ran_end_nothing(code: ErrorCode) -> None:
    run = heard(begun(max_unknown_tool_calls=0), asking(CALL))
    result = ToolResult(CALL.id, CALL.name, ok=False, content="{}", error_codes=(code,))

    told = msgspec.structs.replace(result, executed=True)
    assert halted(ran(run, [told])) is None
    assert halted(ran(run, [result])) is not None


def test_any_call_of_the_newest_turn_may_be_the_one_that_loops() -> None:
    turns = [asking(ToolCall(f"n{n}", "add", {"b": n}), CALL) for n in range(3)]
    fail = halted(after(begun(repeat_stop_at=3), *turns))

    assert fail is not None
    assert fail.code is ErrorCode.LOOP_DETECTED


# The verdict


def judged(reply: Reply, **settings: Any) -> Done | Fail:
    run = heard(begun(**settings), reply)
    return verdict(run, run.said[-1])


def test_a_reply_that_promised_a_call_is_no_answer() -> None:
    verdict_on_it = judged(Reply("I will look.", finish_reason="tool_calls"))

    assert isinstance(verdict_on_it, Fail)
    assert verdict_on_it.code is ErrorCode.CALL_MISSING
    assert "tool_calls" in verdict_on_it.message


def test_an_answer_counts_only_when_nothing_is_left_to_do() -> None:
    verdict_on_it = judged(Reply("Done."), tool_use_mode="enforced")

    assert isinstance(verdict_on_it, Fail)
    assert verdict_on_it.code is ErrorCode.NO_TOOL_CALLS


def test_an_empty_answer_is_accepted_or_refused_with_its_reason() -> None:
    cut_off = judged(Reply(" ", finish_reason="length"))

    assert judged(Reply(" "), fix_empty_final=False) == Done(" ", "empty_final")
    assert isinstance(cut_off, Fail)
    assert cut_off.message == "the final answer is empty (it was cut off by the token limit)"
    assert judged(Reply(" ")) == Fail(ErrorCode.EMPTY_FINAL, "the final answer is empty")
