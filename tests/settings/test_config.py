"""The configuration: complete, checked when it is built, and plain data at any time."""

import json
import math
from collections.abc import Mapping
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import ConfigError, ToolCallingConfig, ToolFailurePolicy, ToolUseMode
from surecall.settings.config import LadderStep, all_settings
from surecall.settings.endpoint_profile import (
    BLANK_ARGUMENTS,
    BODY_TRANSFORMS,
    FAMILIES,
    RESPONSE_NORMALIZERS,
    EndpointProfile,
)
from surecall.settings.overlay import deep_merge, field_defaults, split_names, union
from surecall.values.types import JSON
from surecall.wire.call_styles import CallProtocol, TextCallRule
from surecall.wire.chat_format import RESERVED_OPTIONS
from tests.support.spec import proves

DEFAULT = ToolCallingConfig()
FIELDS = all_settings(DEFAULT)
BOOLEANS = [name for name, value in FIELDS.items() if isinstance(value, bool)]
LIMITS = [
    *(name for name in FIELDS if name.startswith("max_") and name != "max_unknown_tool_calls"),
    "repeat_note_at",
    "tool_timeout_s",
    "run_deadline_s",
]
LADDER = "final_ladder"
# Lists of words that are known, and what these are.
WORDED: dict[str, tuple[str, ...]] = {
    LADDER: get_args(LadderStep),
    "text_call_rules": get_args(TextCallRule),
}
TUPLES = [name for name, value in FIELDS.items() if isinstance(value, tuple)]
LISTS = [name for name in TUPLES if name not in WORDED]

FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
OPTIONS = st.dictionaries(
    st.text().filter(lambda key: key not in {*RESERVED_OPTIONS, "parallel_tool_calls"}),
    JSON_VALUES,
    max_size=3,
)
NAMES = st.lists(st.text(min_size=1).map(str.strip).filter(bool), max_size=3)
COUNTS = st.integers(1, 10**12)
NEEDS = st.lists(
    st.text(min_size=1).filter(str.strip)
    | st.fixed_dictionaries(
        {"tool": st.text(min_size=1).filter(str.strip)},
        optional={"arguments": st.dictionaries(st.text(), JSON_VALUES, max_size=2)},
    ),
    min_size=1,
    max_size=2,
)
CONTRACTS = st.fixed_dictionaries(
    {"all_of": NEEDS},
    optional={"any_of": NEEDS, "in_order": NEEDS, "then_finalise": st.booleans()},
)


@st.composite
def changes(draw: st.DrawFn) -> JSON:
    """Draw valid settings for some of the fields."""
    note, block, stop = sorted(draw(st.tuples(COUNTS, COUNTS, COUNTS)))
    values: JSON = {
        **dict.fromkeys(BOOLEANS, st.booleans()),
        **dict.fromkeys(LIMITS, COUNTS),
        **dict.fromkeys(LISTS, NAMES),
        **{name: st.lists(st.sampled_from(FAMILIES[name].names)) for name in FAMILIES},
        "tool_use_mode": st.sampled_from(ToolUseMode),
        "tool_failure_policy": st.sampled_from(ToolFailurePolicy),
        "policy_error_mode": st.sampled_from(["deny", "allow", "raise"]),
        "verify_claims": st.sampled_from(["report", "ask", "off"]),
        "tools_off_style": st.sampled_from(["omit", "tool_choice_none"]),
        "call_protocol": st.sampled_from(get_args(CallProtocol)),
        **{name: st.lists(st.sampled_from(words), max_size=3) for name, words in WORDED.items()},
        "contract": st.none() | CONTRACTS,
        "tool_allowlist": st.none() | NAMES,
        "tool_choice": st.sampled_from(["auto", "none", {"type": "function"}]),
        "fix_empty_final_user_text": st.text(min_size=1).filter(str.strip),
        "tool_timeout_s": st.floats(0.001, 1e9),
        "fallback_retry_count": st.integers(0, 9),
        "request_overrides": OPTIONS,
        "repeat_note_at": st.just(note),
    }
    chosen: JSON = draw(st.fixed_dictionaries({}, optional=values))
    return chosen | {"repeat_note_at": note, "repeat_block_at": block, "repeat_stop_at": stop}


def setting(config: ToolCallingConfig, name: str) -> Any:
    """Return a setting, be it one of the endpoint or not."""
    return getattr(config if name in config.__struct_fields__ else config.endpoint, name)


def refusal(mapping: Any) -> str:
    """Return the sentence with which a mapping is refused, and see that it is one."""
    with pytest.raises(ConfigError) as failure:
        ToolCallingConfig.from_mapping(mapping)
    sentence = str(failure.value)
    assert "\n" not in sentence
    assert failure.value.__cause__ is None
    return sentence


@given(changes())
def test_any_config_survives_as_plain_data_and_as_json(settings: JSON) -> None:
    config = ToolCallingConfig.from_mapping(settings)

    assert ToolCallingConfig.from_mapping(config.to_mapping()) == config
    assert ToolCallingConfig.from_mapping(json.loads(json.dumps(config.to_mapping()))) == config
    assert msgspec.json.decode(msgspec.json.encode(config), type=ToolCallingConfig) == config


@given(changes())
def test_every_way_to_build_a_config_gives_the_same_one(settings: JSON) -> None:
    config = ToolCallingConfig.from_mapping(settings)

    assert DEFAULT.replace(**settings) == config


def test_no_settings_are_the_defaults() -> None:
    assert ToolCallingConfig.from_mapping({}) == DEFAULT == DEFAULT.replace()


DEFAULTS: JSON = {
    "tool_use_mode": "relaxed",
    "tool_failure_policy": "fatal",
    "tool_allowlist": None,
    "tool_denylist": (),
    "tool_choice": "auto",
    "policy_error_mode": "deny",
    "verify_claims": "report",
    "call_protocol": "native",
    "contract": None,
    "final_ladder": ("remind", "require"),
    "demand_by_name": True,
    "fix_empty_final": True,
    "fix_empty_final_user_text": "Please give your final answer now, as plain text.",
    "fix_empty_final_disable_tools": True,
    "tools_off_style": "omit",
    "max_turns": 12,
    "max_tool_args_bytes": 200_000,
    "max_tool_output_bytes": 200_000,
    "max_tool_calls_per_turn": None,
    "calls_in_order": True,
    "max_concurrent_tools": 8,
    "max_total_tool_calls": 100,
    "max_unknown_tool_calls": 3,
    "repeat_note_at": 2,
    "repeat_block_at": 3,
    "repeat_stop_at": 6,
    "block_repeated_success": False,
    "guided_thought": 0,
    "guided_fit_check": False,
    "choice_temperature": None,
    "closing_reminder": False,
    "tool_timeout_s": 60.0,
    "max_tools_left_running": 32,
    "run_deadline_s": 600.0,
    "max_tools_per_request": None,
    "max_tool_definitions_count": 128,
    "max_tool_definitions_bytes": 200_000,
    "validate_arguments": True,
    "text_calls": "marked",
    "text_call_rules": (
        "whole",
        "marked",
        "own_words",
        "last_words",
        "only_way",
        "not_destructive",
    ),
    "strip_thinking": True,
    "coerce_arguments": True,
    "decode_html_entities": False,
    "stringify_containers": False,
    "default_max_tokens": None,
    "request_overrides": {"parallel_tool_calls": False},
    "unsupported_options": (),
    "fallback_retry_count": 0,
    "keep_text_beside_calls": False,
    "echo_fields": None,
    "echo_call_fields": True,
    "withheld_fields": ("annotations", "audio", "images", "image_url"),
    "short_call_ids": False,
    "name_tool_messages": True,
    "bridge_user_after_tool": False,
    "message_transforms": (),
    "tool_transforms": (),
    "body_transforms": BODY_TRANSFORMS,
    "response_transforms": RESPONSE_NORMALIZERS,
    "tool_call_transforms": (BLANK_ARGUMENTS,),
    "tool_result_transforms": (),
    "event_context_keys": (),
}


def test_the_defaults_are_these() -> None:
    assert all_settings(DEFAULT) == DEFAULTS


def test_the_defaults_are_what_their_fields_take() -> None:
    for kind in (ToolCallingConfig, EndpointProfile):
        for name, unset in field_defaults(kind).items():
            assert kind.validate(name, unset.value) == unset.value


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        DEFAULT.max_turns = 3  # type: ignore[misc]  # the point of the test


def test_settings_have_names_and_there_are_no_others() -> None:
    with pytest.raises(TypeError):
        ToolCallingConfig(ToolUseMode.RELAXED)  # type: ignore[call-arg]  # the point of the test
    with pytest.raises(msgspec.ValidationError, match="unknown field `max_turn`"):
        msgspec.json.decode(b'{"max_turn": 3}', type=ToolCallingConfig)


@pytest.mark.parametrize(
    ("mapping", "sentence"),
    [
        ({"max_turn": 3}, 'unknown configuration key "max_turn"; did you mean "max_turns"?'),
        ({"Max-Turns": 3}, 'unknown configuration key "Max-Turns"; did you mean "max_turns"?'),
        ({"max_turns": "3"}, "max_turns: Expected `int`, got `str`"),
        ({"max_turns": True}, "max_turns: Expected `int`, got `bool`"),
        ({"max_turns": 3.0}, "max_turns: Expected `int`, got `float`"),
        ({"max_turns": None}, "max_turns: Expected `int`, got `null`"),
        ({"tool_timeout_s": "1"}, "tool_timeout_s: Expected `float`, got `str`"),
        ({"echo_fields": 3}, "echo_fields: Expected `array | null`, got `int`"),
        ({"tool_denylist": ["a", 3]}, "tool_denylist: Expected `str`, got `int` - at `$[1]`"),
        ({"tool_choice": 3}, "tool_choice: Expected `str | object`, got `int`"),
        ({"tool_choice": " "}, "tool_choice is blank"),
        ({"fix_empty_final_user_text": "\n"}, "fix_empty_final_user_text is blank"),
        ({"request_overrides": [1]}, "request_overrides: Expected `object`, got `array`"),
        ({"request_overrides": {1: 2}}, "request_overrides: Expected `str`, got `int`"),
        (
            [("max_turns", 3)],
            'config must be a ToolCallingConfig or a mapping such as {"max_turns": 20}, not list',
        ),
        (
            None,
            'config must be a ToolCallingConfig or a mapping such as {"max_turns": 20}, not None',
        ),
    ],
)
def test_what_is_no_setting_is_refused_in_one_sentence(mapping: Any, sentence: str) -> None:
    assert refusal(mapping).startswith(sentence)


def test_a_key_that_is_no_text_is_refused_too() -> None:
    assert refusal({3: 4}).startswith('unknown configuration key "3"; known: "')


@proves("C69")
@pytest.mark.parametrize(
    ("field", "word", "guess"),
    [
        ("tool_use_mode", "forced", 'did you mean "enforced"?'),
        ("tool_use_mode", "on", 'known: "disabled", "enforced", "relaxed"'),
        ("tool_failure_policy", "tolerate", 'did you mean "tolerated"?'),
        ("policy_error_mode", "denied", 'did you mean "deny"?'),
        ("tools_off_style", 3, 'known: "omit", "tool_choice_none"'),
    ],
)
def test_an_unknown_word_is_refused_with_a_guess(field: str, word: Any, guess: str) -> None:
    sentence = f'unknown {field} "{word}"; {guess}'

    assert refusal({field: word}) == sentence
    with pytest.raises(ConfigError) as failure:
        DEFAULT.replace(**{field: word})
    assert str(failure.value) == sentence


def test_words_are_read_in_any_case_and_end_as_their_own_type() -> None:
    config = ToolCallingConfig.from_mapping(
        {"tool_use_mode": " Enforced ", "tools_off_style": "Tool-Choice-None"}
    )

    assert config.tool_use_mode is ToolUseMode.ENFORCED
    assert config.endpoint.tools_off_style == "tool_choice_none"
    assert DEFAULT.replace(tool_use_mode="disabled").tool_use_mode is ToolUseMode.DISABLED


@proves("I24")
@pytest.mark.parametrize("field", BOOLEANS)
@pytest.mark.parametrize("value", ["false", "true", "", 0, 1, None])
def test_only_true_and_false_are_truth_values(field: str, value: Any) -> None:
    assert refusal({field: value}).startswith(f"{field}: Expected `bool`, got ")
    with pytest.raises(ConfigError, match=f"{field}: Expected `bool`"):
        DEFAULT.replace(**{field: value})


@proves("I24")
@pytest.mark.parametrize("value", ["false", 0, None])
def test_parallel_tool_calls_is_a_truth_value_too(value: Any) -> None:
    sentence = f"request_overrides: parallel_tool_calls must be true or false, not {value!r}"

    assert refusal({"request_overrides": {"parallel_tool_calls": value}}) == sentence


def test_an_option_that_is_no_number_in_json_is_refused() -> None:
    sentence = "request_overrides cannot be written as JSON: it contains NaN or infinity"

    assert refusal({"request_overrides": {"top_p": float("nan")}}).endswith(sentence)


@pytest.mark.parametrize("field", LIMITS)
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_must_be_positive(field: str, value: int) -> None:
    assert refusal({field: value}).startswith(f"{field} must be a positive number, not {value}")


@pytest.mark.parametrize("value", [math.inf, math.nan, -math.inf])
def test_a_time_must_be_a_number_that_json_can_carry(value: float) -> None:
    sentence = f"run_deadline_s must be a positive number, not {value!r}"

    assert refusal({"run_deadline_s": value}) == sentence


@pytest.mark.parametrize("field", ["fallback_retry_count", "max_unknown_tool_calls"])
def test_a_budget_may_be_zero_but_not_negative(field: str) -> None:
    assert getattr(DEFAULT.replace(**{field: 0}), field) == 0
    assert field in refusal({field: -1})
    assert "cannot be negative" in refusal({field: -1})


@pytest.mark.parametrize(
    "steps", [{"repeat_note_at": 4}, {"repeat_block_at": 7}, {"repeat_stop_at": 2}]
)
def test_the_steps_against_repetition_must_not_decrease(steps: JSON) -> None:
    assert "must not decrease" in refusal(steps)


@pytest.mark.parametrize("key", sorted(RESERVED_OPTIONS))
def test_reserved_keys_are_refused_by_name(key: str) -> None:
    sentence = refusal({"request_overrides": {"temperature": 1, key: 1}})

    assert sentence.startswith(f"request_overrides cannot set {key}: the runner owns these keys.")


def test_overrides_that_json_cannot_carry_are_refused() -> None:
    sentence = refusal({"request_overrides": {"stop": object()}})

    assert sentence.startswith("request_overrides cannot be written as JSON: ")


@pytest.mark.parametrize("field", [*TUPLES, "tool_allowlist"])
def test_a_list_may_be_written_with_commas_and_blanks_do_not_count(field: str) -> None:
    family = FAMILIES.get(field)
    names = family.names[:2] if family else WORDED.get(field, ("a", "b"))
    forms: tuple[Any, ...] = (" , ".join((*names, "")), [f" {name} " for name in names] + [" "])

    for form in forms:
        assert setting(ToolCallingConfig.from_mapping({field: form}), field) == names


def test_an_allow_list_may_be_empty_or_absent_and_that_is_not_the_same() -> None:
    assert ToolCallingConfig.from_mapping({"tool_allowlist": ""}).tool_allowlist == ()
    assert ToolCallingConfig.from_mapping({"tool_allowlist": None}).tool_allowlist is None


def test_but_refuses_a_key_that_is_none() -> None:
    with pytest.raises(ConfigError, match='key "max_turn"; did you mean "max_turns"'):
        DEFAULT.replace(max_turn=3)


def test_names_in_a_text_are_split_at_commas() -> None:
    assert split_names(" a, ,b c,") == ["a", "b c"]


def test_mappings_merge_in_depth_and_everything_else_is_replaced() -> None:
    base: Mapping[str, Any] = {"a": {"x": 1, "y": {"z": 2}}, "b": [1], "c": {"d": 1}, "e": 1}
    over: Mapping[str, Any] = {"a": {"y": {"w": 3}}, "b": [2], "c": 5, "e": {"f": 1}}

    merged = deep_merge(base, over)

    assert merged == {"a": {"x": 1, "y": {"z": 2, "w": 3}}, "b": [2], "c": 5, "e": {"f": 1}}
    assert base["a"] == {"x": 1, "y": {"z": 2}}


def test_a_union_keeps_the_order_and_repeats_nothing() -> None:
    assert union(["b", "a"], ["a", "c", "c"]) == ("b", "a", "c")
