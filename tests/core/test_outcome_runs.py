"""How whole runs end: what a result holds, and which error a failure is."""

import pickle
from typing import Any

import pytest

from surecall.core.outcome import (
    LimitExceeded,
    RequestFailed,
    RunFailed,
    ToolUseError,
    last_text,
)
from surecall.core.state import Run
from surecall.settings.config import ToolUseMode
from surecall.settings.presets import raw
from surecall.testing import Item, calls, failure, says
from surecall.values.decisions import Decision
from surecall.values.errors import ErrorCode, ProviderError, SurecallError
from surecall.values.types import Assistant, Usage, User
from tests.support.looking import failed, ran


def test_a_result_holds_the_conversation_and_the_repairs() -> None:
    fenced = calls("look")
    fenced["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = "```json\n{}\n```"
    result = ran(fenced, says("done"))
    assert result.fired == ("code_fence",)
    assert [type(message).__name__ for message in result.history] == [
        *("User", "Assistant", "ToolResult", "Assistant")
    ]
    assert result.usage == Usage(2, 2, 4)


def test_a_provider_that_counts_nothing_costs_nothing() -> None:
    assert ran(says("hi", usage=None)).usage == Usage()


@pytest.mark.parametrize(
    ("script", "changes", "kind", "code"),
    [
        ([says("no")], {"tool_use_mode": ToolUseMode.ENFORCED}, ToolUseError, "NO_TOOL_CALLS"),
        ([calls("look")], {"max_turns": 1}, LimitExceeded, "MAX_TURNS_EXCEEDED"),
        ([failure(401)], {}, RequestFailed, "AUTH"),
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


@pytest.mark.parametrize("script", [[says("no")], [failure(401)]])
def test_how_a_run_failed_travels_between_processes(script: list[Item]) -> None:
    error = failed(*script, config=raw(tool_use_mode=ToolUseMode.ENFORCED))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes

    assert (type(again), str(again), again.code) == (type(error), str(error), error.code)
    assert again.result.trace == error.result.trace


def test_an_endpoint_that_fails_in_mid_run_is_both_kinds_of_error() -> None:
    error = failed(calls("look"), failure(402))
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
