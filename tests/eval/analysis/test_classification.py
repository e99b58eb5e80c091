"""Tests of `surecall.eval.analysis.classification`."""

import asyncio
from typing import Any

import pytest

from surecall import ErrorCode, Fault, RetryPolicy, RunFailed, RunResult, ToolLoopRunner, tool
from surecall.core.outcome import run_error as failure_of
from surecall.core.state import Fail
from surecall.eval.analysis.classification import (
    MAX_ERROR_CHARS,
    Classification,
    FailureLocation,
    classify_answer,
    classify_exception,
    classify_failure,
    classify_fault,
    locate_failure,
)
from surecall.eval.storage.trial import Miss, Score
from surecall.settings.config import ToolUseMode
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, failure, says
from surecall.values.errors import ToolError
from surecall.values.events import Event, LlmRequestEndEvent, LlmRequestStartEvent
from surecall.values.trace import Trace
from surecall.values.types import JSON
from surecall.wire.response import parse_fault
from tests.support.spec import proves

# How trials are classified: the model's doing, or what lies around the model


ONCE = RetryPolicy(attempts=1)
WRONG = Score(final=False, misses=(Miss("the text is wrong"), Miss("so is the state")))


def ping() -> str:
    """Ping."""
    return "pong"


def held(*script: Any, mode: str = "relaxed", **config: Any) -> RunResult | RunFailed:
    runner = ToolLoopRunner(
        client=ScriptedModel(*script),
        model="m",
        registry=[ping],
        config=raw(tool_use_mode=mode, **config),
        retry=ONCE,
    )
    try:
        return asyncio.run(runner.run("go"))
    except RunFailed as failed:
        return failed


def answered(
    *script: Any, score: Score = WRONG, tools_on: bool = True, **config: Any
) -> Classification:
    result = held(*script, **config)
    assert isinstance(result, RunResult)
    return classify_answer(result, score, tools_on=tools_on)


def failed(*script: Any, mode: str = "enforced", **config: Any) -> Classification:
    result = held(*script, mode=mode, **config)
    assert isinstance(result, RunFailed)
    return classify_failure(result)


@proves("C127")
@pytest.mark.parametrize(
    ("status", "category", "infra"),
    [
        (400, "BAD_REQUEST", False),
        (401, "AUTH", True),
        (402, "PAYMENT_REQUIRED", True),
        (403, "FORBIDDEN", True),
        (404, "NOT_FOUND", True),
        (408, "TIMEOUT", True),
        (409, "CONFLICT", True),
        (413, "REQUEST_TOO_LARGE", False),
        (418, "HTTP_418", True),
        (422, "UNPROCESSABLE", False),
        (429, "RATE_LIMIT", True),
        (500, "UPSTREAM_5XX", True),
        (503, "UPSTREAM_5XX", True),
    ],
)
def test_a_status_has_a_category_and_most_say_nothing_about_the_model(
    status: int, category: str, *, infra: bool
) -> None:
    verdict = failed(failure(status))
    assert (verdict.category, verdict.http_status) == (category, status)
    assert verdict.status == ("infra" if infra else "failed")
    assert verdict.error.startswith(f"{category}: ")
    assert not verdict.is_transient


def test_no_status_at_all_is_an_exception() -> None:
    verdict = classify_exception(KeyError("x"))
    assert verdict == Classification("infra", "EXCEPTION", "KeyError: 'x'")


@pytest.mark.parametrize(
    ("code", "status", "transient"),
    [
        (ErrorCode.CONNECTION_ERROR, None, True),
        (ErrorCode.TIMEOUT, None, True),
        (ErrorCode.TIMEOUT, 408, False),
        (ErrorCode.DECODE_ERROR, 200, True),
        (ErrorCode.EMPTY_RESPONSE, None, True),
        (ErrorCode.PROVIDER_ERROR, None, False),
        (ErrorCode.RESPONSE_TOO_LARGE, None, False),
        (ErrorCode.CONTENT_POLICY, 403, False),
    ],
)
def test_what_the_endpoint_does_is_infrastructure_and_some_of_it_passes(
    code: ErrorCode, status: int | None, *, transient: bool
) -> None:
    verdict = classify_fault(Fault(code, "no", status))
    assert (verdict.status, verdict.category, verdict.is_transient) == ("infra", code, transient)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.MALFORMED_CALL, 502),
        (ErrorCode.MALFORMED_CALL, None),
        (ErrorCode.CONTENT_POLICY, None),
        (ErrorCode.CONTEXT_TOO_LONG, 400),
    ],
)
def test_what_the_model_or_the_conversation_did_is_a_failure(
    code: ErrorCode, status: int | None
) -> None:
    assert classify_fault(Fault(code, "no", status)).status == "failed"


@proves("C133")
def test_a_router_without_an_endpoint_for_tools_is_no_failure_of_the_model() -> None:
    body = {"error": {"message": "No endpoints found that support tool use.", "code": 404}}
    verdict = failed(failure(404, body))
    assert (verdict.status, verdict.category) == ("infra", "NO_TOOL_USE_ENDPOINT")


@proves("C130")
@pytest.mark.parametrize(
    ("metadata", "hint"),
    [
        ({"provider_name": "Acme", "raw": '{"error":{"message":"too hot"}}'}, "Acme: too hot"),
        ({"provider_name": "Acme", "raw": "plain words"}, "Acme: plain words"),
        (None, ""),
    ],
)
def test_the_hint_is_what_the_provider_behind_a_router_said(metadata: Any, hint: str) -> None:
    error: JSON = {"message": "Provider returned error", "code": 502}
    body = {"error": error | ({"metadata": metadata} if metadata else {})}
    assert classify_fault(parse_fault(body, 502, {}, 0.0)).hint == hint


def test_a_good_run_has_no_category() -> None:
    assert answered(calls("ping"), says("ok"), score=Score()) == Classification("passed")


@proves("C131")
def test_an_assertion_without_any_call_is_about_the_calls() -> None:
    without = answered(says("no"))
    assert without.category == "NO_TOOL_CALLS"
    assert without.error == "NO_TOOL_CALLS: the text is wrong; so is the state"
    assert answered(calls("ping"), says("no")).category == "ASSERTION_FAILED"
    assert answered(says("no"), tools_on=False).category == "ASSERTION_FAILED"


@proves("C132")
def test_a_tool_use_error_keeps_its_code_also_when_the_text_is_long() -> None:
    verdict = failed(says("I would rather talk. " * 40))
    assert (verdict.status, verdict.category) == ("failed", "NO_TOOL_CALLS")
    assert not verdict.is_transient
    stopped = failed(*[calls("ping")] * 9, max_turns=2)
    assert (stopped.status, stopped.category) == ("failed", "MAX_TURNS_EXCEEDED")


def test_blank_text_is_a_category_of_its_own_and_worth_another_attempt() -> None:
    nudged = failed(calls("ping"), says(""), says(""))
    assert (nudged.category, nudged.is_transient) == ("EMPTY_ASSISTANT_TEXT", True)
    accepted = answered(calls("ping"), says(" "), score=Score(), fix_empty_final=False)
    assert accepted.category == "EMPTY_ASSISTANT_TEXT"


def test_a_run_that_ends_with_its_calls_has_no_blank_answer() -> None:
    stopped = held(calls("ping"), max_turns=1)
    assert isinstance(stopped, RunFailed)
    assert classify_answer(stopped.result, Score(), tools_on=True) == Classification("passed")


def test_a_cut_off_reply_is_truncated_whatever_else_is_wrong() -> None:
    cut = says("Do", finish_reason="length")
    assert answered(calls("ping"), cut).category == "TRUNCATED"
    assert failed(cut).category == "TRUNCATED"
    assert answered(calls("ping"), cut, score=Score()).status == "passed"
    assert not answered(calls("ping"), cut).is_transient


def late(*events: type[Event]) -> Classification:
    """Judge a run whose deadline passed after these events."""
    result = held(calls("ping"), says("ok"))
    assert isinstance(result, RunResult)
    kept = tuple(next(one for one in result.trace if isinstance(one, kind)) for kind in events)
    fault = Fault(ErrorCode.DEADLINE_EXCEEDED, "too late")
    fail = Fail(fault.code, fault.message, fault=fault)
    short = RunResult("", "", result.usage, Trace(kept), result.run)
    return classify_failure(failure_of(fail, short))


def test_a_deadline_is_blamed_on_whoever_was_being_waited_for() -> None:
    assert late(LlmRequestStartEvent).status == "infra"
    assert late(LlmRequestStartEvent, LlmRequestEndEvent).status == "failed"
    assert late().status == "failed"
    assert late(LlmRequestStartEvent).category == "DEADLINE_EXCEEDED"


def test_a_category_is_plain_text() -> None:
    verdicts = (
        failed(failure(401)),
        failed(says("no")),
        answered(says("no")),
        late(LlmRequestStartEvent),
    )
    assert {type(verdict.category) for verdict in verdicts} == {str}


def test_errors_are_kept_short() -> None:
    verdict = classify_exception(ValueError("x" * 1000))
    assert len(verdict.error) == MAX_ERROR_CHARS
    assert verdict.error.endswith("…")
    assert classify_exception(ValueError("short")).error == "ValueError: short"


def test_a_failure_without_any_reply_has_no_finish_reason_to_look_at() -> None:
    result = held(says("x"))
    assert isinstance(result, RunResult)
    empty = RunResult("", "", result.usage, Trace(()), result.run)
    fail = Fail(ErrorCode.NO_TOOL_CALLS, "none on offer")
    assert classify_failure(failure_of(fail, empty)).category == "NO_TOOL_CALLS"


def test_done_without_what_the_contract_demands_is_the_models_failure_and_names_it() -> None:
    contract = {"all_of": ["ping"]}
    verdict = failed(says("Done."), contract=contract, final_ladder=())

    assert (verdict.status, verdict.category) == ("failed", "CONTRACT_UNMET")
    assert verdict.error == "CONTRACT_UNMET: contract not met: still missing ping"
    assert not verdict.is_transient
    cut_off = failed(says("Do", finish_reason="length"), contract=contract, final_ladder=())
    assert cut_off.category == "TRUNCATED"


# Where a run was decided that no expectation decided about


ENFORCED: JSON = {"tool_use_mode": ToolUseMode.ENFORCED, "final_ladder": ()}


@tool
def pull(rope: int) -> str:
    """Pull a rope."""
    if rope > 1:
        raise ToolError(f"Rope {rope} is stuck.")
    return "pulled"


@tool
def push(door: int) -> str:
    """Push a door."""
    return f"pushed {door}"


def ended(*script: Any, **settings: Any) -> tuple[RunResult, RunFailed | None]:
    runner = ToolLoopRunner(
        client=ScriptedModel(*script),
        model="m",
        registry=[pull, push],
        config=raw().replace(**(ENFORCED | settings)),
    )
    try:
        return asyncio.run(runner.run("Work.")), None
    except RunFailed as failed:
        return failed.result, failed


def place(*script: Any, **settings: Any) -> tuple[str, FailureLocation]:
    result, failed = ended(*script, **settings)
    assert failed is not None
    verdict = classify_failure(failed)
    return verdict.category, locate_failure(verdict, result, failed.details)


PUSH = calls("push", "a", door=1)
STUCK = calls("pull", "b", rope=2)


def test_an_early_answer_is_where_the_run_ended() -> None:
    assert place(says("Done.")) == ("NO_TOOL_CALLS", FailureLocation(0))


def test_a_failure_that_was_not_repaired_is_the_call_that_failed_last() -> None:
    fatal = {"tool_failure_policy": "fatal"}
    repaired = (calls("pull", "c", rope=1), calls("pull", "d", rope=2))
    found = place(PUSH, STUCK, *repaired, calls("push", "e", door=2), says("Done."), **fatal)
    assert found == ("TOOL_ERROR", FailureLocation(3, "d"))


def test_a_circle_is_its_last_call() -> None:
    script = [calls("push", f"p{at}", door=1) for at in range(9)]
    code, found = place(*script)
    assert code == "LOOP_DETECTED"
    assert found.turn is not None
    assert found.call_id == f"p{found.turn}"


def test_a_limit_is_the_last_turn_and_a_refused_request_the_one_without_a_reply() -> None:
    assert place(PUSH, calls("push", "b", door=2), max_turns=2) == (
        "MAX_TURNS_EXCEEDED",
        FailureLocation(1),
    )
    refused = failure(400, "no")
    assert place(PUSH, refused) == ("BAD_REQUEST", FailureLocation(1))


def test_a_run_that_never_asked_has_no_such_place() -> None:
    runner = ToolLoopRunner(client=ScriptedModel(), model="m", config=raw().replace(**ENFORCED))
    with pytest.raises(RunFailed) as raised:
        asyncio.run(runner.run("Work."))
    assert (
        locate_failure(classify_failure(raised.value), raised.value.result, {}) == FailureLocation()
    )


@pytest.mark.parametrize("category", ["", "ASSERTION_FAILED", "EXCEPTION", "NO_TOOL_CALLS"])
def test_what_expectations_decide_is_not_placed_here(category: str) -> None:
    result, _ = ended(PUSH, says("Done."))
    assert locate_failure(Classification("failed", category), result) == FailureLocation()


@pytest.mark.parametrize("category", ["EMPTY_ASSISTANT_TEXT", "TRUNCATED"])
def test_an_answer_that_is_none_is_the_last_turn(category: str) -> None:
    result, _ = ended(PUSH, says("Done."))
    assert locate_failure(Classification("failed", category), result) == FailureLocation(1)
