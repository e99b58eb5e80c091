"""The honest end is reachable from every state in which a call has failed for good."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from surecall.core.giving_up import ARGUMENT_CODES, count_premature_answers, give_up_reasons
from surecall.core.loop import next_move, record_reply, record_results
from surecall.core.obligations import NO_REPEAT_CODES, unmet_obligation
from surecall.core.protocols import plan_encoder
from surecall.core.state import AskModel, Fail, Run, RunTools
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, Reply, ToolCall, ToolResult
from tests.support.transcripts import NAMES, SETTINGS, begun, said

FOR_GOOD = sorted(NO_REPEAT_CODES - ARGUMENT_CODES)
TURNS = st.lists(
    st.just("Done.")
    | st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(["", ErrorCode.ARGUMENT_ERROR, "GATEWAY_DOWN", *FOR_GOOD]),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=7,
)


def moved(run: Run, turn: Any) -> Run:
    match turn:
        case str():
            return said(run, turn)
        case (name, code, number, retry):
            call = ToolCall(f"c{run.turn_count}", name, {"a": number})
            run = record_reply(run, Reply("", (call,)))
            if not isinstance(move := next_move(run), RunTools):
                return run
            problem = move.calls[0].problem
            codes = (problem.code,) if problem else (code,) if code else ()
            result = ToolResult(
                call.id,
                name,
                ok=not codes,
                content="{}",
                executed=problem is None,
                error_codes=codes,
                retry=bool(problem) or not code or retry,
            )
            return record_results(run, [result])
        case _:
            raise AssertionError(turn)


def failed_for_good(run: Run) -> bool:
    """Whether the newest result of any tool says that it is no use."""
    newest = {item.name: item for item in run.results if item.executed}
    return any(
        not item.ok and (not item.retry or not ARGUMENT_CODES.issuperset(item.error_codes))
        for item in newest.values()
    )


@given(SETTINGS, TURNS)
def test_the_honest_end_is_reachable_whenever_a_call_has_failed_for_good(
    settings: JSON, turns: list[Any]
) -> None:
    run = begun(**settings)
    for turn in turns:
        if not isinstance(move := next_move(run), AskModel):
            break
        owes, early = unmet_obligation(run) is not None, count_premature_answers(run)
        if owes and failed_for_good(run) and not repeated_well(run):
            assert move.plan.give_up_reasons
            assert move.plan.may_answer
            bound = plan_encoder("guided", 200_000)(move.plan).response_format
            assert bound is not None
            assert "'cannot'" in str(bound)
            ended = said(run, "It cannot be done.")
            assert isinstance(end := next_move(ended), Fail)
            assert end.code is ErrorCode.GAVE_UP
            assert count_premature_answers(ended) == early
        if not owes:
            assert give_up_reasons(run) == ()
        run = moved(run, turn)


def repeated_well(run: Run) -> bool:
    """Whether a call that failed last has succeeded before, with the same arguments."""
    done = [(call.name, call.arguments) for call in run.successful_calls]
    return any(
        (call.name, call.arguments) in done for call, result in run.answered_calls if not result.ok
    )
