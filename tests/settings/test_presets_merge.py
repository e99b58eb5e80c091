"""Merging settings: overrides in depth, name lists united, and what cannot be merged."""

from typing import Any

import pytest

from surecall import ConfigError, ToolCallingConfig
from surecall.settings.endpoint_profile import FAMILIES, NORMALISERS
from surecall.settings.presets import merge
from surecall.values.types import JSON
from tests.settings.test_presets import TAGS
from tests.support.spec import proves


@proves("C102")
def test_merge_joins_overrides_in_depth_and_unites_name_lists() -> None:
    merged = merge(
        {"request_overrides": {"provider": {"only": ["a"]}}, "tool_allowlist": ["x", "y"]},
        {"request_overrides": {"provider": {"order": ["b"]}}, "tool_allowlist": " y , z "},
        {"max_turns": 3, "tool_denylist": ("q",)},
        {"max_turns": 4, "request_overrides": None, "tool_allowlist": None},
    )

    assert merged == {
        "request_overrides": {"provider": {"only": ["a"], "order": ["b"]}},
        "tool_allowlist": ["x", "y", "z"],
        "tool_denylist": ["q"],
        "max_turns": 4,
    }


@proves("C103")
@pytest.mark.parametrize("field", [*FAMILIES, "tool_allowlist", "tool_denylist"])
def test_lists_unite_in_order_and_an_empty_one_clears(field: str) -> None:
    assert merge({field: ["b", "a"]}, {field: "a, c"}) == {field: ["b", "a", "c"]}
    empties: tuple[Any, ...] = ([], (), "", " , ")
    for empty in empties:
        assert merge({field: ["a"]}, {field: empty}) == {field: []}
        assert merge({field: ["a"]}, {field: empty}, {field: ["b"]}) == {field: ["b"]}


@proves("C103")
def test_what_was_merged_is_read_as_a_config() -> None:
    merged = merge({"response_transforms": NORMALISERS}, {"response_transforms": TAGS.upper()})

    config = ToolCallingConfig.from_mapping(merged)
    assert config.endpoint.response_transforms == (*NORMALISERS, TAGS)


def test_merge_leaves_its_arguments_alone() -> None:
    first: JSON = {"request_overrides": {"provider": {"only": ["a"]}}, "tool_denylist": ["x"]}
    second: JSON = {"request_overrides": {"provider": {"only": ["b"]}}, "tool_denylist": ["y"]}

    merge(first, second, second)

    assert first == {"request_overrides": {"provider": {"only": ["a"]}}, "tool_denylist": ["x"]}
    assert merge() == {}


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"request_overrides": 3}, "request_overrides must be a mapping, not int"),
        ({"request_overrides": {"model": "x"}}, "request_overrides cannot set model"),
        ({"tool_denylist": 3}, "tool_denylist must be a list of names, not int"),
    ],
)
def test_merge_refuses_what_cannot_be_merged(mapping: JSON, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        merge({"max_turns": 3}, mapping)
