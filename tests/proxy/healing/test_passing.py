"""Requests in which there is nothing to heal pass through unread."""

from typing import Any

import pytest

from surecall.proxy.healing.passing import passes
from tests.support.proxy import USER, WEATHER

TOOLS = {"model": "m", "messages": [USER], "tools": [WEATHER]}


def test_a_request_with_tools_is_read() -> None:
    assert not passes(TOOLS)
    assert not passes(TOOLS | {"n": 1, "response_format": {"type": "text"}, "tool_choice": "auto"})
    assert not passes(TOOLS | {"tools": [WEATHER, {"type": "web_search"}, 7]})


@pytest.mark.parametrize(
    "changes",
    [
        {"tools": None},
        {"tools": []},
        {"tools": [WEATHER, {"type": "custom", "custom": {"name": "patch"}}]},
        {"tool_choice": "none"},
        {"tool_choice": ["auto"]},
        {"n": 2},
        {"n": [1]},
        {"logprobs": True},
        {"audio": {"voice": "x"}},
        {"response_format": {"type": "json_object"}},
        {"messages": []},
        {"messages": "hello"},
        {"messages": [USER, "hello"]},
        {"model": None},
    ],
    ids=str,
)
def test_any_other_passes(changes: dict[str, Any]) -> None:
    assert passes(TOOLS | changes)
