"""Hypothesis strategies: answers as bent as the wild makes them, and configs to meet them."""

from typing import Any

from hypothesis import strategies as st

from surecall import ToolCallingConfig, presets
from surecall.settings.presets import raw
from surecall.testing import failure


def _values(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | numbers | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=8,
    )


# Infinities are no JSON, but some decoders let them through.
JSON_VALUES = _values(st.floats(allow_nan=False))
FINITE_VALUES = _values(st.floats(allow_nan=False, allow_infinity=False))
_NAMES = st.sampled_from(
    ["add", " add", "ADD", "fail", "hidden", "nope", "", "a b", "functions.add"]
)
_ARGUMENTS = (
    st.sampled_from(
        ['{"a":1,"b":2}', "", "{", "null", "[]", '{"a":"x"}', '```json\n{"a":1,"b":2}\n```']
    )
    | st.fixed_dictionaries({"a": st.integers(), "b": st.integers()})
    | JSON_VALUES
)
_FUNCTION = st.fixed_dictionaries({"name": _NAMES, "arguments": _ARGUMENTS})
_CALL = st.fixed_dictionaries(
    {"id": st.sampled_from(["call_1", "call_1", "", None, 7, "tc_1", "x"]), "function": _FUNCTION},
    optional={"extra_content": JSON_VALUES},
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.just("assistant")},
    optional={
        "content": st.sampled_from(["", "Well.", None, "<tool_call>add</tool_call>"]) | JSON_VALUES,
        "tool_calls": st.lists(_CALL, max_size=3) | st.lists(JSON_VALUES, max_size=2) | _CALL,
        "function_call": _FUNCTION | JSON_VALUES,
        "reasoning_content": st.text(max_size=5),
    },
)
BODIES = st.builds(
    lambda message, finish: {"choices": [{"message": message, "finish_reason": finish}]},
    MESSAGES,
    st.sampled_from(["stop", "tool_calls", "length", "error", None]),
)
_FAULTS = st.sampled_from(
    [failure(500), failure(401), failure(400, {"error": "tools are not supported"})]
)
SCRIPTS = st.lists(BODIES | _FAULTS | JSON_VALUES.map(lambda value: {"choices": value}), max_size=6)


def _config(mapping: dict[str, Any]) -> ToolCallingConfig:
    config = raw(**({"max_turns": 5, "fallback_retry_count": 1} | mapping))
    return presets.content_tag_tool_call_fallback(presets.default_tool_calling(config))


CONFIGS = st.fixed_dictionaries(
    {
        "tool_use_mode": st.sampled_from(["enforced", "relaxed", "disabled"]),
        "tool_failure_policy": st.sampled_from(["fatal", "tolerated"]),
    },
    optional={
        "request_overrides": st.just({"parallel_tool_calls": True}),
        "max_tool_calls_per_turn": st.sampled_from([1, 2]),
        "tools_off_style": st.just("tool_choice_none"),
        "fix_empty_final_disable_tools": st.booleans(),
        "keep_text_beside_calls": st.booleans(),
        "max_tool_output_bytes": st.just(60),
    },
).map(_config)
