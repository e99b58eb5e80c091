"""The application's own code at the border: what an executor takes, and what a tool returns."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from surecall.runtime.dispatch import ToolDispatcher
from surecall.settings.presets import raw
from surecall.tools.context import Context
from surecall.tools.registry import ToolDefinition, ToolRegistry
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.types import JSON, ToolCall, ToolResult

INSIDE = "postgres://root:secret@db"


def answer(executor: Callable[..., Any]) -> ToolResult:
    """Let an executor answer one call of a run that has a context."""
    registry = ToolRegistry([ToolDefinition("t")])
    dispatcher = ToolDispatcher(registry, raw(), executor=executor, context={"user": "kim"})
    return asyncio.run(dispatcher.answer(ToolCall("a", "t")))


def test_an_executor_takes_the_context_in_any_place_after_the_name_and_the_arguments() -> None:
    def third(name: str, arguments: JSON, context: Context) -> str:
        return f"{name} {arguments} {context['user']}"

    def fourth(name: str, arguments: JSON, tool_call_id: str, context: Context) -> str:
        return f"{name} {arguments} {tool_call_id} {context['user']}"

    def by_keyword(name: str, arguments: JSON, *, context: Context) -> str:
        return f"{name} {arguments} {context['user']}"

    assert answer(third).envelope["data"] == {"value": "t {} kim"}
    assert answer(fourth).envelope["data"] == {"value": "t {} a kim"}
    assert answer(by_keyword).envelope["data"] == {"value": "t {} kim"}


def test_an_executor_that_wants_the_context_in_the_place_of_the_others_is_refused() -> None:
    def first(context: Context, name: str, arguments: JSON) -> None:
        raise AssertionError(context, name, arguments)

    def second(name: str, context: Context, arguments: JSON) -> None:
        raise AssertionError(context, name, arguments)

    for executor in (first, second):
        with pytest.raises(ConfigError, match="`context: Context` comes after them"):
            answer(executor)


class Rude(Mapping[str, Any]):
    """A mapping that leaves when it is looked into."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __getitem__(self, key: str) -> Any:
        raise self._error

    def __iter__(self) -> Iterator[str]:
        raise self._error

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    "error", [RuntimeError(INSIDE), KeyError(INSIDE), SystemExit(INSIDE), GeneratorExit(INSIDE)]
)
def test_a_result_that_cannot_be_looked_into_is_told_as_one_of_a_tool_that_ran(
    error: BaseException,
) -> None:
    result = answer(lambda _name, _arguments: Rude(error))

    assert result.error_codes == (ErrorCode.TOOL_OUTPUT_SERIALIZATION_ERROR,)
    assert result.executed
    assert result.envelope["data"] == {"executed": True, "error_class": type(error).__name__}
    assert INSIDE not in result.content
    assert result.detail is not None
    assert INSIDE in result.detail
