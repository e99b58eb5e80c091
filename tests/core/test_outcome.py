"""How a run ends: each failure has its error, and keeps the last words."""

import msgspec
import pytest

from surecall.core.outcome import (
    LimitExceeded,
    RequestFailed,
    RunFailed,
    RunResult,
    ToolUseError,
    after_changes,
    failure,
    last_text,
    replies_by_model,
    usage_of,
)
from surecall.core.state import Fail, Run
from surecall.settings.presets import raw
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import (
    LlmRequestEndEvent,
    LlmRequestErrorEvent,
    ModelChangedEvent,
    RunStartEvent,
)
from surecall.values.trace import Trace
from surecall.values.types import (
    Assistant,
    Refusal,
    Usage,
    User,
)
from tests.support.events import every_event
from tests.support.hand_driven import (
    DOWN,
    begun,
)


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
    result = RunResult("", fail.code, Usage(), Trace(()), begun())
    error = failure(fail, result)
    assert type(error) is kind
    assert (error.code, error.details, error.result) == (fail.code, fail.details, result)


def test_the_last_words_are_those_of_this_run() -> None:
    run = Run("r", "m", raw(), (Assistant("old"), User("hi")), start=1)
    assert last_text(run) == ""
    assert last_text(run.plus(Assistant("a"), Assistant("b"), Refusal(DOWN))) == "b"
    assert usage_of(Trace(())) == Usage()


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
    assert after_changes(fail, Trace((start, failed))) is fail
    assert after_changes(fail, trace).details == {
        "tried": [
            {"model": "m", "code": "AUTH", "message": "no"},
            {"model": "b", "code": "RATE_LIMIT", "message": "slow down"},
        ]
    }
