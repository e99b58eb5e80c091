"""Generated cases: how many, from which seed, and Hypothesis strategies."""

import copy
import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import strategies as st

from surecall import ToolCallingConfig, presets
from surecall.parsing.coercion import coerce
from surecall.settings.presets import raw
from surecall.testing import failure
from surecall.values.types import JSON

# How many cases the generated properties make, from which seed, and how a failure is told.
# SURECALL_TEST_CASES=10    ten times as many cases as in an ordinary run
# SURECALL_TEST_SEED=7      other cases than in an ordinary run


TIMES: Final = float(os.environ.get("SURECALL_TEST_CASES", "1"))
SEED: Final = os.environ.get("SURECALL_TEST_SEED", "2026")
_EXAMPLES = 2
_LONGEST = 700
_MOST_KINDS = 60


class Broken(NamedTuple):
    """One case that breaks a property: what to count it by, what it is, and what came of it."""

    kind: str
    text: str
    outcome: str


def many(count: int) -> int:
    """Scale a number of cases."""
    return max(1, round(count * TIMES))


def dice(*about: object) -> random.Random:
    """Return the source of chance of one test, which depends on the seed and the test alone."""
    return random.Random("/".join(map(str, (SEED, *about))))  # noqa: S311  # not for secrets


def spread(rng: random.Random, items: Sequence[str], count: int) -> list[str]:
    """Take that many of the items, in a random order, and each before any comes again."""
    taken: list[str] = []
    while len(taken) < count:
        taken += rng.sample(items, len(items))
    return taken[:count]


def check(broken: Iterable[Broken], cases: int) -> None:
    """Fail if there is a broken case: with the counts, the shortest ones and the seed."""
    found = sorted(broken, key=lambda case: len(case.text))
    if not found:
        return
    kinds = Counter(case.kind for case in found).most_common(_MOST_KINDS)
    counts = ", ".join(f"{kind}: {count}" for kind, count in kinds)
    examples = "\n\n".join(
        f"{case.text[:_LONGEST]}\n=> {case.outcome[:_LONGEST]}" for case in found[:_EXAMPLES]
    )
    pytest.fail(
        f"{len(found)} of {cases} cases (SURECALL_TEST_SEED={SEED}): {counts}\n\n{examples}",
        pytrace=False,
    )


# Hypothesis strategies: answers as bent as the wild makes them, and configs to meet them


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


INTEGER, NUMBER, BOOLEAN, STRING, NULL, ARRAY, OBJECT = (
    {"type": name} for name in ("integer", "number", "boolean", "string", "null", "array", "object")
)


INTEGERS = {"type": "array", "items": INTEGER}


POINT = {"type": "object", "properties": {"n": INTEGER, "s": STRING}, "required": ["n"]}


SEARCH: JSON = {
    "type": "object",
    "properties": {"city": STRING, "limit": INTEGER, "tags": {"type": "array", "items": STRING}},
    "required": ["city"],
    "additionalProperties": False,
}


def tool_parameters(schema: Any, *, required: bool = True) -> JSON:
    """Return the parameters of a tool with one property, `x`."""
    names = ["x"] if required else []
    return {"type": "object", "properties": {"x": schema}, "required": names}


def any_of(*branches: Any) -> JSON:
    return {"anyOf": list(branches)}


def assert_becomes(before: Any, schema: JSON, after: Any, *steps: str) -> None:
    original = copy.deepcopy(before)
    coerced = coerce(before, schema)
    # Compared as text, because 1, 1.0 and True are equal in Python and different in JSON.
    assert json.dumps(coerced.value) == json.dumps(after)
    assert coerced.steps == steps
    assert before == original


def assert_stays(value: Any, schema: Any) -> None:
    coerced = coerce(value, schema)
    assert coerced.value is value
    assert coerced.steps == ()


NAMES = st.sampled_from(["a", "b", "c", "arguments", "input"])


TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


TEXTS = st.sampled_from(
    [
        *[
            "",
            "x",
            "1",
            "2.0",
            "2.5",
            "1e2",
            "001",
            " 2",
            "true",
            "null",
            "[1]",
            '["1"]',
            '[["1"]]',
        ],
        *['{"a": 1}', '{"a": "1"}', '{"arguments": {"a": "1"}}', "9007199254740993.0", "\ud800"],
    ]
)


SCALARS = st.none() | st.booleans() | st.sampled_from([0, 1, 2.0, 2.5, -0.0, 1e300]) | TEXTS


VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


OBJECTS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=3)


PATTERNS = st.lists(
    st.sampled_from(
        [*"ab1^$.?*+|()[]{}-", "[a-z]", "[^a]", "\\d", "\\w", "\\b", "{2}", "{0,1}", "\\-"]
    ),
    max_size=5,
).map("".join)


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[JSON]:
    """Return schemas of up to four keywords."""
    some = st.lists(inner, min_size=1, max_size=3)
    keywords = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "minLength": st.sampled_from([0, 1, 2.0]),
        "pattern": PATTERNS,
        "format": st.sampled_from(["date", "uri", "uri-reference", "uuid", "unheard-of"]),
        "not": inner,
        "properties": st.dictionaries(NAMES, inner, min_size=1, max_size=3),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.just("a|input"), inner),
        "items": inner,
        "prefixItems": some,
        "allOf": some,
        "anyOf": some,
        "oneOf": some,
        "$ref": st.sampled_from(["#", "#/$defs/x"]),
    }
    pairs = [st.tuples(st.just(name), value) for name, value in keywords.items()]
    # Properties and types come more often, or little would be both demanded and there.
    return st.lists(st.one_of(*pairs, pairs[0], pairs[7], pairs[7]), max_size=4).map(dict)


LEAVES = st.booleans() | st.builds(lambda name: {"type": name}, TYPES)


SCHEMAS = st.builds(
    lambda root, x: {**root, "$defs": {"x": x}},
    schemas(LEAVES | schemas(LEAVES | schemas(LEAVES))),
    LEAVES | schemas(LEAVES),
)


def places(inner: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    arrays = inner.map(lambda items: {"type": "array", "items": items})
    return arrays | arrays.map(lambda array: any_of(array, NULL)) | objects(inner)


def objects(inner: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    return st.builds(
        lambda properties, required: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in required],
            "additionalProperties": False,
        },
        st.dictionaries(st.sampled_from("abcd"), inner, min_size=1),
        st.sets(st.sampled_from("abcd")),
    )


FITTING = {
    "boolean": st.booleans(),
    "integer": st.integers() | st.integers(-(10**600), 10**600),
    "number": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(st.characters(exclude_categories=["Cs"])) | TEXTS.filter(str.isascii),
    "null": st.none(),
}


def fitting(schema: JSON) -> st.SearchStrategy[Any]:
    match schema:
        case {"anyOf": branches}:
            return st.one_of(*map(fitting, branches))
        case {"enum": options}:
            return st.sampled_from(options)
        case {"type": "array", "items": items}:
            return st.lists(fitting(items), max_size=3)
        case {"type": "object", "properties": properties, "required": required}:
            children = {name: fitting(child) for name, child in properties.items()}
            optional = {name: child for name, child in children.items() if name not in required}
            return st.fixed_dictionaries(
                {name: children[name] for name in required}, optional=optional
            )
        case {"type": [*names]}:
            return st.one_of(*(FITTING[name] for name in names))
        case _:
            return FITTING[schema["type"]]
