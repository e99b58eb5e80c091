"""Typed answers: one that counts fits, whatever the model says; one that fits is exact."""

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import jsonschema_rs
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from surecall import RetryPolicy, RunFailed, RunResult, ToolLoopRunner, presets, replay, run_of
from surecall.core.typed_answers import MAX_CORRECTIONS
from surecall.settings.capabilities import Capabilities
from surecall.testing import ScriptedModel, says, streams
from surecall.values.errors import ErrorCode
from surecall.values.trace import Trace
from surecall.values.types import JSON, Assistant, User
from tests.support.generated import FINITE_VALUES
from tests.support.prompted_runs import PROTOCOLS


class Part(msgspec.Struct):
    """A thing that may hold another one."""

    name: str
    size: float | None = None
    inner: "Part | None" = None


@dataclass
class Parcel:
    """Many kinds of fields."""

    id: UUID
    sent: datetime
    price: Decimal
    tags: list[Literal["new", "old"]]
    parts: dict[str, Part]
    at: tuple[int, int] = (0, 0)


class Person(BaseModel):
    """A model of pydantic's, with an alias and a bound."""

    full_name: str = Field(alias="fullName", max_length=20)
    born: date
    friends: list["Person"] = []


NUMBERS = st.integers(-(2**60), 2**60)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
PARTS = st.recursive(
    st.builds(Part, st.text(max_size=5)),
    lambda inner: st.builds(Part, st.text(max_size=5), FLOATS, inner),
    max_leaves=3,
)
PARCELS = st.builds(
    Parcel,
    st.uuids(),
    st.datetimes(timezones=st.just(UTC)),
    st.decimals(allow_nan=False, allow_infinity=False, places=2),
    st.lists(st.sampled_from(["new", "old"]), max_size=3),
    st.dictionaries(st.text(max_size=5), PARTS, max_size=2),
    st.tuples(NUMBERS, NUMBERS),
)
PEOPLE = st.recursive(
    st.builds(Person, fullName=st.text(max_size=20), born=st.dates()),
    lambda inner: st.builds(
        Person,
        fullName=st.text(max_size=20),
        born=st.dates(),
        friends=st.lists(inner, max_size=2),
    ),
    max_leaves=3,
)
VALUES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Parcel, PARCELS),
    (Part, PARTS),
    (Person, PEOPLE),
    (list[Person], st.lists(PEOPLE, max_size=2)),
    (list[int], st.lists(NUMBERS)),
    (str, st.text()),
    (bool, st.booleans()),
    (int | None, st.none() | NUMBERS),
    (
        dict[str, float],
        st.dictionaries(st.text(), FLOATS),
    ),
]
TYPED = st.sampled_from(VALUES).flatmap(lambda row: st.tuples(st.just(row[0]), row[1]))
SCHEMAS: list[JSON] = [
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
    {"type": "array", "items": {"anyOf": [{"type": "number"}, {"$ref": "#"}]}},
    {"enum": ["yes", "no", 1, None]},
    {"type": "string", "minLength": 2},
    {"type": ["integer", "boolean"]},
    {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 0}]},
    {"not": {}},
    {},
]
ALMOST = st.sampled_from(
    [
        *('{"n": 1}', '{"n": 1.0}', '{"n": "1"}', "{'n': 1,}", '{"n": 1} ', '{"n": 1', '{"n":}'),
        *('```json\n{"n": 1}\n```', '```\n["x"]\n```', 'Sure: {"n": 1}', '{"n": 1}\nDone.'),
        *("yes", '"yes"', "I cannot.", "", " ", "[1, [2, [3,]]]", "5", "5.0", "true", "null"),
        *('{"n": 1, "n": 2}', '{"n": 1}{"n": 1}', "NaN", "[1e999]", "[" * 200, '"\\ud83d"', "😀"),
        *('{"answer": 5}', '{"answer": {"n": 1}}', '{"tool": "look", "arguments": {}}'),
    ]
)
TEXTS = ALMOST | FINITE_VALUES.map(json.dumps) | st.text(max_size=12)
REASONS = st.sampled_from(["stop", "stop", "stop", "length", "tool_calls", None])


def look(place: str = "here") -> str:
    """Look somewhere."""
    return place


def runner_of(model: ScriptedModel, output: Any, protocol: str, **more: Any) -> ToolLoopRunner[Any]:
    return ToolLoopRunner(
        client=model,
        model="m",
        tools=[look],
        output=output,
        config=presets.default_tool_calling().replace(call_protocol=protocol, max_turns=8),
        retry=RetryPolicy(attempts=1),
        **more,
    )


def outcome(runner: ToolLoopRunner[Any]) -> tuple[RunResult[Any], ErrorCode | None]:
    """Run to the end; return what there is then, and the code of a failure."""
    try:
        return asyncio.run(runner.run("Go.")), None
    except RunFailed as failed:
        return failed.result, failed.code


def spoken(result: RunResult[Any]) -> list[str]:
    """Return what was said on both sides, in order."""
    said = (item for item in result.run.messages if isinstance(item, User | Assistant))
    return [item.text if isinstance(item, Assistant) else str(item.content) for item in said]


def worded(protocol: str, written: str) -> str:
    return f'{{"answer": {written}}}' if protocol == "guided" else written


@settings(max_examples=150)
@given(
    st.sampled_from(SCHEMAS),
    st.lists(st.tuples(TEXTS, REASONS), max_size=9),
    st.sampled_from(PROTOCOLS),
    st.builds(Capabilities, json_schema=st.booleans()),
)
def test_whatever_a_model_says_the_output_fits_or_the_run_fails_with_a_code(
    schema: JSON, said: list[tuple[str, str | None]], protocol: str, can: Capabilities
) -> None:
    script = [says(text, finish_reason=reason) for text, reason in said]
    model = ScriptedModel(*script, *[says("Hm.")] * 8)
    result, code = outcome(runner_of(model, schema, protocol, capabilities=can))

    if code is None:
        assert jsonschema_rs.validator_for(schema).is_valid(result.output)
    else:
        assert result.output is None
    again = replay(result.trace)
    assert (again.run, again.output) == (result.run, result.output)
    corrections = [item for item in result.run.messages if getattr(item, "rung", "") == "output"]
    assert len(corrections) <= MAX_CORRECTIONS


@settings(max_examples=60)
@given(st.sampled_from(SCHEMAS), st.lists(TEXTS, max_size=5), st.integers(0, 20))
def test_a_run_that_is_cut_anywhere_goes_on_to_the_same_end(
    schema: JSON, texts: list[str], at: int
) -> None:
    script = [says(text) for text in [*texts, *["Hm."] * 8]]
    whole, code = outcome(runner_of(ScriptedModel(*script), schema, "native"))
    until = run_of(Trace(whole.trace.events[: at + 1]))
    rest = runner_of(ScriptedModel(*script[until.turn_count :]), schema, "native")
    try:
        result, again = asyncio.run(rest.resume(until)), None
    except RunFailed as failed:
        result, again = failed.result, failed.code

    assert (result.output, again) == (whole.output, code)
    assert spoken(result) == spoken(whole)


@settings(max_examples=150)
@given(TYPED, st.sampled_from(PROTOCOLS), st.sampled_from(["{}", "```json\n{}\n```", " {}\n"]))
def test_a_value_that_is_written_as_json_comes_back_as_it_was(
    typed: tuple[Any, Any], protocol: str, around: str
) -> None:
    kind, value = typed
    if "Person" in str(kind):
        written = TypeAdapter(kind).dump_json(value, by_alias=True).decode()
    else:
        written = msgspec.json.encode(value).decode()
    text = around.replace("{}", worded(protocol, written))
    result, code = outcome(runner_of(ScriptedModel(says(text)), kind, protocol))

    assert (result.output, code) == (value, None)
    assert type(result.output) is type(value)


@settings(max_examples=60)
@given(st.sampled_from(SCHEMAS), st.lists(TEXTS, max_size=4), st.sampled_from(PROTOCOLS))
def test_streamed_it_is_the_same(schema: JSON, texts: list[str], protocol: str) -> None:
    texts = [*texts, *["Hm."] * 8]
    plain, code = outcome(runner_of(ScriptedModel(*map(says, texts)), schema, protocol))
    model = ScriptedModel(*(streams(says(text), piece_bytes=9) for text in texts))

    async def watched() -> tuple[RunResult[Any], ErrorCode | None]:
        stream = runner_of(model, schema, protocol).stream("Go.")
        try:
            async for _ in stream:
                pass
        except RunFailed as failed:
            return failed.result, failed.code
        return stream.result, None

    result, streamed_code = asyncio.run(watched())
    assert (result.output, streamed_code) == (plain.output, code)
    assert spoken(result) == spoken(plain)
