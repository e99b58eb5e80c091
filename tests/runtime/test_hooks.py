"""What a runner finds out about an executor before anything runs."""

from collections.abc import Callable
from typing import Any

import pytest

from surecall.runtime.hooks import accepts_call_id, executor_context_parameter
from surecall.tools.context import Context
from surecall.values.errors import ConfigError
from surecall.values.types import JSON


def plain(name: str, arguments: JSON) -> None:
    raise AssertionError(name, arguments)


def with_id(name: str, arguments: JSON, tool_call_id: str = "?") -> None:
    raise AssertionError(name, arguments, tool_call_id)


def with_anything(name: str, arguments: JSON, **more: Any) -> None:
    raise AssertionError(name, arguments, more)


def by_position(name: str, arguments: JSON, tool_call_id: str = "?", /) -> None:
    raise AssertionError(name, arguments, tool_call_id)


def with_context(name: str, arguments: JSON, *, run: Context) -> None:
    raise AssertionError(name, arguments, run)


def context_first(context: Context, name: str, arguments: JSON) -> None:
    raise AssertionError(context, name, arguments)


def test_an_executor_gets_the_id_of_a_call_only_if_it_can_take_it_by_name() -> None:
    takers: list[Callable[..., None]] = [plain, with_id, with_anything, by_position]

    assert [accepts_call_id(taker) for taker in takers] == [False, True, True, False]


def test_an_executor_without_a_signature_gets_no_id() -> None:
    assert not accepts_call_id(dict)


def test_the_context_is_found_under_any_name_behind_the_name_and_the_arguments() -> None:
    assert executor_context_parameter(with_context) == "run"
    assert executor_context_parameter(plain) is None


def test_an_executor_that_wants_the_context_first_is_refused() -> None:
    with pytest.raises(ConfigError, match="put `context: Context` after them"):
        executor_context_parameter(context_first)
