"""Tests of `surecall.core.outcome`."""

import io
import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from surecall import ToolLoopRunner
from surecall.core.outcome import (
    LimitExceeded,
    RequestFailed,
    RunFailed,
    RunResult,
    ToolUseError,
    last_text,
    repairs_in,
    replies_by_model,
    run_error,
    total_usage,
    with_tried_models,
)
from surecall.core.state import Fail, Run
from surecall.settings.config import ToolUseMode
from surecall.settings.presets import raw
from surecall.testing import Item, ScriptedModel, calls, says
from surecall.testing import failure as scripted_failure
from surecall.values.decisions import Decision
from surecall.values.errors import ErrorCode, Fault, ProviderError, SurecallError
from surecall.values.events import (
    CallsInOrderEvent,
    LlmRequestEndEvent,
    LlmRequestErrorEvent,
    ModelChangedEvent,
    RunStartEvent,
)
from surecall.values.trace import Trace
from surecall.values.types import Assistant, Refusal, Usage, User
from tests.support.scripted_runs import failed, ran
from tests.support.telemetry import every_event
from tests.support.transcripts import DOWN, begun_plain

# How a run ends: each failure has its error, and keeps the last words


@pytest.mark.parametrize(
    ("fail", "kind"),
    [
        (Fail(ErrorCode.MAX_TURNS_EXCEEDED, "x"), LimitExceeded),
        (Fail(ErrorCode.DEADLINE_EXCEEDED, "x", fault=DOWN), LimitExceeded),
        (Fail(ErrorCode.UPSTREAM_5XX, "x", fault=DOWN), RequestFailed),
        (Fail(ErrorCode.POLICY_ERROR, "x", fault=DOWN), ToolUseError),
        (Fail(ErrorCode.EMPTY_FINAL, "x", {"a": 1}), ToolUseError),
    ],
)
def test_each_failure_has_its_error(fail: Fail, kind: type[RunFailed]) -> None:
    result = RunResult("", fail.code, Usage(), Trace(()), begun_plain())
    error = run_error(fail, result)
    assert type(error) is kind
    assert (error.code, error.details, error.result) == (fail.code, fail.details, result)


def test_the_last_words_are_those_of_this_run() -> None:
    run = Run("r", "m", raw(), (Assistant("old"), User("hi")), start=1)
    assert last_text(run) == ""
    assert last_text(run.with_messages(Assistant("a"), Assistant("b"), Refusal(DOWN))) == "b"
    assert total_usage(Trace(())) == Usage()


def test_a_result_names_the_models_that_answered_and_a_failure_all_that_were_tried() -> None:
    fault = Fault(ErrorCode.AUTH, "no")
    start, failed, heard, changed = (
        next(event for event in every_event("m") if isinstance(event, kind))
        for kind in (RunStartEvent, LlmRequestErrorEvent, LlmRequestEndEvent, ModelChangedEvent)
    )
    to_b = msgspec.structs.replace(changed, before="m", model="b", fault=fault)
    fail = Fail(ErrorCode.RATE_LIMIT, "slow down")
    trace = Trace((start, failed, to_b, heard))

    assert [name for name, replies in replies_by_model(trace) if replies] == ["b"]
    assert replies_by_model(Trace((heard,))) == []
    assert with_tried_models(fail, Trace((start, failed))) is fail
    assert with_tried_models(fail, trace).details == {
        "tried": [
            {"model": "m", "code": "AUTH", "message": "no"},
            {"model": "b", "code": "RATE_LIMIT", "message": "slow down"},
        ]
    }


# How whole runs end: what a result holds, and which error a failure is


def test_a_result_holds_the_conversation_and_the_repairs() -> None:
    fenced = calls("look")
    fenced["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = "```json\n{}\n```"
    result = ran(fenced, says("done"))
    assert result.repairs == result.fired == ("code_fence",)
    assert [type(message).__name__ for message in result.history] == [
        *("User", "Assistant", "ToolResult", "Assistant")
    ]
    assert result.usage == Usage(2, 2, 4)


def test_calls_that_run_one_after_the_other_are_a_repair() -> None:
    (stamped,) = [event for event in every_event("x") if isinstance(event, CallsInOrderEvent)]

    assert list(repairs_in(Trace((stamped,)))) == ["calls_in_order"]


def test_a_provider_that_counts_nothing_costs_nothing() -> None:
    assert ran(says("hi", usage=None)).usage == Usage()


@pytest.mark.parametrize(
    ("script", "changes", "kind", "code"),
    [
        ([says("no")], {"tool_use_mode": ToolUseMode.ENFORCED}, ToolUseError, "NO_TOOL_CALLS"),
        ([calls("look")], {"max_turns": 1}, LimitExceeded, "MAX_TURNS_EXCEEDED"),
        ([scripted_failure(401)], {}, RequestFailed, "AUTH"),
    ],
)
def test_how_a_run_failed_is_a_kind_of_error(
    script: list[Item], changes: Any, kind: type[RunFailed], code: str
) -> None:
    error = failed(*script, config=raw(**changes))
    assert type(error) is kind
    assert isinstance(error, SurecallError)
    assert (error.code, error.result.stop_reason) == (code, code)
    assert code in str(error)
    assert error.result.trace.turns
    assert error.details == {}


@pytest.mark.parametrize("script", [[says("no")], [scripted_failure(401)]])
def test_how_a_run_failed_travels_between_processes(script: list[Item]) -> None:
    error = failed(*script, config=raw(tool_use_mode=ToolUseMode.ENFORCED))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes

    assert (type(again), str(again), again.code) == (type(error), str(error), error.code)
    assert again.result.trace == error.result.trace


def test_an_endpoint_that_fails_in_mid_run_is_both_kinds_of_error() -> None:
    error = failed(calls("look"), scripted_failure(402))
    assert isinstance(error, RequestFailed)
    assert isinstance(error, ProviderError)
    assert (error.code, error.status) == (ErrorCode.PAYMENT_REQUIRED, 402)
    assert str(error) == str(error.fault)
    assert "Add credit" in str(error)


def test_a_policy_that_ends_the_run_is_no_fault_of_the_endpoint() -> None:
    class Broken:
        def visible(self, *_: object) -> bool:
            raise RuntimeError("no idea")

        def authorize(self, *_: object) -> Decision:
            return Decision("allow")

    error = failed(config=raw(policy_error_mode="raise"), tool_policy=Broken())
    assert (type(error), error.code) == (ToolUseError, ErrorCode.POLICY_ERROR)


@pytest.mark.parametrize(
    ("messages", "text"),
    [((User("a"),), ""), ((User("a"), Assistant("b"), Assistant("c"), User("d")), "c")],
)
def test_the_newest_words_are_the_best_there_is(messages: Any, text: str) -> None:
    assert last_text(Run("r", "m", raw(), messages)) == text


# How a run ends: what a result shows of itself. Errors and usage are tested with the events


RUN = Run(run_id="r", model="m", config=raw(), messages=(), start=0)


def shown(text: str, stop_reason: str = "stop") -> str:
    return repr(RunResult(text, stop_reason, Usage(10, 35, 45), Trace(()), RUN))


def test_a_result_prints_as_one_line() -> None:
    result = ToolLoopRunner(client=ScriptedModel(says("Clear.")), model="m").run_sync("Weather?")

    assert repr(result) == "RunResult(text='Clear.', stop_reason='final', turns=1, tokens=2)"


@pytest.mark.parametrize(
    ("text", "sight"),
    [
        ("a\nb\x1b[31m", r"RunResult(text='a\nb\x1b[31m', "),
        ("x" * 500, "RunResult(text='" + "x" * 90 + "…', "),
        ("", "RunResult(text='', "),
        ("it's", 'RunResult(text="it\'s", '),
    ],
)
def test_a_long_or_unprintable_answer_is_shortened_and_made_visible(text: str, sight: str) -> None:
    assert shown(text).startswith(sight)


@given(st.text(max_size=300), st.text(max_size=100))
def test_no_answer_takes_more_than_a_line(text: str, stop_reason: str) -> None:
    line = shown(text, stop_reason)

    assert len(line) <= 200
    assert line.isprintable()


def test_rich_shows_the_same() -> None:
    console = Console(file=io.StringIO(), width=200)
    result = RunResult("Clear.", "stop", Usage(10, 35, 45), Trace(()), RUN)
    console.print(result)

    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().strip() == repr(result)
