"""How trials are classified: the model's doing, or what lies around the model."""

import asyncio
from typing import Any

import pytest

from surecall import ErrorCode, Fault, RetryPolicy, RunFailed, RunResult, ToolLoopRunner
from surecall.core.outcome import failure as failure_of
from surecall.core.state import Fail
from surecall.eval.analysis.category import (
    MAX_ERROR,
    Verdict,
    of_answer,
    of_exception,
    of_failure,
    of_fault,
    shortened,
)
from surecall.eval.storage.trial import Miss, Score
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, failure, says
from surecall.values.events import Event, LlmRequestEndEvent, LlmRequestStartEvent
from surecall.values.trace import Trace
from surecall.values.types import JSON
from surecall.wire.response import fault_of
from tests.support.spec import proves

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


def answered(*script: Any, score: Score = WRONG, tools_on: bool = True, **config: Any) -> Verdict:
    result = held(*script, **config)
    assert isinstance(result, RunResult)
    return of_answer(result, score, tools_on=tools_on)


def failed(*script: Any, mode: str = "enforced", **config: Any) -> Verdict:
    result = held(*script, mode=mode, **config)
    assert isinstance(result, RunFailed)
    return of_failure(result)


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
    assert not verdict.transient


def test_no_status_at_all_is_an_exception() -> None:
    verdict = of_exception(KeyError("x"))
    assert verdict == Verdict("infra", "EXCEPTION", "KeyError: 'x'")


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
    verdict = of_fault(Fault(code, "no", status))
    assert (verdict.status, verdict.category, verdict.transient) == ("infra", code, transient)


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
    assert of_fault(Fault(code, "no", status)).status == "failed"


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
    assert of_fault(fault_of(body, 502, {}, 0.0)).hint == hint


def test_a_good_run_has_no_category() -> None:
    assert answered(calls("ping"), says("ok"), score=Score()) == Verdict("passed")


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
    assert not verdict.transient
    stopped = failed(*[calls("ping")] * 9, max_turns=2)
    assert (stopped.status, stopped.category) == ("failed", "MAX_TURNS_EXCEEDED")


def test_blank_text_is_a_category_of_its_own_and_worth_another_attempt() -> None:
    nudged = failed(calls("ping"), says(""), says(""))
    assert (nudged.category, nudged.transient) == ("EMPTY_ASSISTANT_TEXT", True)
    accepted = answered(calls("ping"), says(" "), score=Score(), fix_empty_final=False)
    assert accepted.category == "EMPTY_ASSISTANT_TEXT"


def test_a_run_that_ends_with_its_calls_has_no_blank_answer() -> None:
    stopped = held(calls("ping"), max_turns=1)
    assert isinstance(stopped, RunFailed)
    assert of_answer(stopped.result, Score(), tools_on=True) == Verdict("passed")


def test_a_cut_off_reply_is_truncated_whatever_else_is_wrong() -> None:
    cut = says("Do", finish_reason="length")
    assert answered(calls("ping"), cut).category == "TRUNCATED"
    assert failed(cut).category == "TRUNCATED"
    assert answered(calls("ping"), cut, score=Score()).status == "passed"
    assert not answered(calls("ping"), cut).transient


def late(*events: type[Event]) -> Verdict:
    """Judge a run whose deadline passed after these events."""
    result = held(calls("ping"), says("ok"))
    assert isinstance(result, RunResult)
    kept = tuple(next(one for one in result.trace if isinstance(one, kind)) for kind in events)
    fault = Fault(ErrorCode.DEADLINE_EXCEEDED, "too late")
    fail = Fail(fault.code, fault.message, fault=fault)
    short = RunResult("", "", result.usage, Trace(kept), result.run)
    return of_failure(failure_of(fail, short))


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
    verdict = of_exception(ValueError("x" * 1000))
    assert len(verdict.error) == MAX_ERROR
    assert verdict.error.endswith("…")
    assert shortened("short") == "short"


def test_a_failure_without_any_reply_has_no_finish_reason_to_look_at() -> None:
    result = held(says("x"))
    assert isinstance(result, RunResult)
    empty = RunResult("", "", result.usage, Trace(()), result.run)
    fail = Fail(ErrorCode.NO_TOOL_CALLS, "none on offer")
    assert of_failure(failure_of(fail, empty)).category == "NO_TOOL_CALLS"


def test_done_without_what_the_contract_demands_is_the_models_failure_and_names_it() -> None:
    contract = {"all_of": ["ping"]}
    verdict = failed(says("Done."), contract=contract, final_ladder=())

    assert (verdict.status, verdict.category) == ("failed", "CONTRACT_UNMET")
    assert verdict.error == "CONTRACT_UNMET: contract not met: still missing ping"
    assert not verdict.transient
    cut_off = failed(says("Do", finish_reason="length"), contract=contract, final_ladder=())
    assert cut_off.category == "TRUNCATED"
