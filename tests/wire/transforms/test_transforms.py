"""Transforms: what each one heals, and the properties that hold for all of them."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surecall import (
    ConfigError,
    ToolCallingConfig,
    presets,
)
from surecall.settings.endpoint_profile import FAMILIES
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, says
from surecall.values.types import JSON
from tests.support.spec import proves
from tests.support.tools import ask

TEXTS = (
    "",
    " ",
    "add",
    "{}",
    "function",
    '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>',
    "`<tool_call>add</tool_call>` \\<tool_call>",
    "\ud800",
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(TEXTS)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[JSON]:
    """Build objects with some of these keys, each holding what it should or anything at all."""
    return st.fixed_dictionaries({}, optional={key: fields[key] | VALUES for key in fields})


FUNCTIONS = objects(name=SCALARS, arguments=VALUES, description=SCALARS, parameters=VALUES)
CALLS = objects(id=SCALARS, function=FUNCTIONS, signature=SCALARS, extra_content=VALUES)
OBJECTS = objects(
    type=st.just("function"),
    content=SCALARS,
    tool_calls=CALLS | st.lists(CALLS | VALUES, max_size=3),
    function_call=FUNCTIONS,
    function=FUNCTIONS,
    reasoning_content=SCALARS,
    data=VALUES,
    warnings=VALUES,
    errors=VALUES,
)
MEMBERS = [family[name] for family in FAMILIES.values() for name in family.names]
NAMES = [(field, name) for field, family in FAMILIES.items() for name in family.names]


def same(one: object, other: object) -> bool:
    """Compare to the letter: NaN equals itself, and 1 is not True."""
    return repr(one) == repr(other)


@proves("G8", "G9", "I13")
@given(OBJECTS)
@settings(max_examples=400)
def test_no_transform_mutates_its_input_or_raises(value: JSON) -> None:
    before = copy.deepcopy(value)

    for member in MEMBERS:
        assert isinstance(member(value), dict)
        assert same(value, before), member


@proves("G9")
@given(OBJECTS)
@settings(max_examples=400)
def test_equal_means_identical(value: JSON) -> None:
    for member in MEMBERS:
        healed = member(value)
        assert (healed is value) == same(healed, value), member


@given(OBJECTS)
@settings(max_examples=400)
def test_what_was_healed_needs_no_more_healing(value: JSON) -> None:
    for member in MEMBERS:
        healed = member(value)
        assert member(healed) is healed, member


@proves("C99", "C100", "I15")
@pytest.mark.parametrize("field", FAMILIES)
def test_an_unknown_transform_is_refused_when_the_config_is_built(field: str) -> None:
    known = FAMILIES[field].names[0]
    misspelt = known[:-1]
    changes: Any = {field: (known, misspelt)}
    message = f'transform "{misspelt}"; did you mean "{known}"'

    with pytest.raises(ConfigError, match=message):
        raw(**changes)
    with pytest.raises(ConfigError, match=message):
        raw().replace(**changes)
    with pytest.raises(ConfigError, match=message):
        ToolCallingConfig.from_mapping({field: f"{known}, {misspelt}"})


@proves("C101")
@pytest.mark.parametrize(("field", "name"), NAMES)
def test_a_transform_may_be_spelt_in_any_case_and_with_hyphens(field: str, name: str) -> None:
    spelt = f" {name.upper().replace('_', '-')} "

    config = raw().replace(**{field: (spelt, name)})

    assert getattr(config.endpoint, field) == (name,)


def test_a_run_says_which_transforms_fired() -> None:
    bent = calls("add", a=1, b=2)
    message = bent["choices"][0]["message"]
    message["tool_calls"] = message["tool_calls"][0]
    model = ScriptedModel(bent, says("3"))

    result = ask(model, presets.default_tool_calling())

    assert result.repairs == ("assistant_tool_calls_object_to_array",)
