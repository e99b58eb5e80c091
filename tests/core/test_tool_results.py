"""Tests of `surecall.core.tool_results`."""

import asyncio
import math
import types
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import presets
from surecall.core.outcome import RunResult
from surecall.core.state import Run
from surecall.core.tool_results import build_result, measure, success_envelope
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, says
from surecall.tools.registry import ToolDefinition, ToolRegistry
from surecall.values.errors import ErrorCode, ToolError
from surecall.values.events import ToolCallEndEvent
from surecall.values.types import JSON, ToolCall, ToolResult
from tests.support.spec import proves

# Results as a model sees them: one envelope, within its limit, whatever a tool returned


COMPACT = "tool_result_compact_envelope"


def run(function: Callable[[], Any], **settings: Any) -> RunResult:
    registry = ToolRegistry([ToolDefinition("t", handler=function)])
    runner = ToolLoopRunner(
        client=ScriptedModel(calls("t", "id_1"), says("done")),
        model="m",
        registry=registry,
        config=raw(**settings),
    )
    return asyncio.run(runner.run("go"))


def answer(function: Callable[[], Any], **settings: Any) -> ToolResult:
    result = run(function, **settings)
    assert result.assistant_text == "done"
    return result.run.results[0]


# Envelopes that tools write


@proves("C43")
@pytest.mark.parametrize(
    ("ok", "means"), [(True, True), ("yes", False), (1, False), ("true", False), (None, False)]
)
def test_only_a_literal_true_is_ok_in_an_envelope_that_a_tool_wrote(
    ok: Any, *, means: bool
) -> None:
    result = answer(lambda: {"ok": ok, "data": {"a": 1}})

    assert result.ok is means
    assert result.envelope["ok"] is means
    assert result.envelope["data"] == {"a": 1}


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ([{"code": "E", "message": "m"}], [{"code": "E", "message": "m"}]),
        ({"code": "E"}, [{"code": "E", "message": ""}]),
        ("bad", [{"code": "TOOL_FAILED", "message": "bad"}]),
        (["bad", None, {"message": "worse"}], ["bad", "worse"]),
    ],
)
def test_no_form_of_an_error_in_a_tools_own_envelope_is_lost(errors: Any, told: list[Any]) -> None:
    result = answer(lambda: {"ok": False, "errors": errors})
    expected = [
        {"code": "TOOL_FAILED", "message": one} if isinstance(one, str) else one for one in told
    ]

    assert result.envelope["errors"] == expected
    assert result.error_codes == tuple(one["code"] for one in expected)


def test_what_stands_beside_ok_in_a_tools_answer_is_kept() -> None:
    assert answer(lambda: {"ok": True, "rows": 3}).envelope["data"] == {"rows": 3}
    both = answer(lambda: {"ok": True, "rows": 3, "data": {"a": 1}, "warnings": ["w"]}).envelope
    assert both["data"] == {"rows": 3, "a": 1}
    assert both["warnings"] == ["w"]


# The guard


@proves("C47")
@pytest.mark.parametrize(
    "value",
    ["x" * 200_001, ["x" * 1_000] * 201, b"x" * 200_001, {"x" * 200_001: 1}],
    ids=["text", "list", "bytes", "key"],
)
def test_output_above_the_limit_is_replaced_and_not_sent(value: Any) -> None:
    result = answer(lambda: value)

    assert result.error_codes == (ErrorCode.TOOL_OUTPUT_TOO_LARGE,)
    assert not result.ok
    assert result.executed
    assert len(result.content) < 1_500


@proves("C47")
def test_the_limit_is_on_the_bytes_of_the_whole_envelope() -> None:
    exact = len(answer(lambda: "é" * 50).content.encode())

    assert answer(lambda: "é" * 50, max_tool_output_bytes=exact).ok
    assert not answer(lambda: "é" * 50, max_tool_output_bytes=exact - 1).ok


@proves("I19")
@pytest.mark.parametrize(
    ("value", "preview"),
    [
        ("x" * 3_000, '{"value":"xxxxx'),
        (list(range(900)), '{"value":[0,1,2,3,4,5,6,7,8,9,"…"]}'),
        ({3} | {"x" * 2_000}, '{"value":['),
        ({"rows": [{"n": 1}] * 900}, '{"rows":[{"n":1},'),
        ({"rows": [[["deep"]] * 300]}, '{"rows":[["…",'),
        ({str(n): n for n in range(900)}, '"8":8,"9":9,"…":"…"}'),
    ],
    ids=["text", "list", "set", "rows", "deep", "keys"],
)
def test_oversized_output_says_that_the_tool_ran_with_a_preview_within_the_limit(
    value: Any, preview: str
) -> None:
    result = answer(lambda: value, max_tool_output_bytes=1_000)
    data = result.envelope["data"]

    assert result.executed
    assert data["executed"] is True
    assert preview in data["preview"]
    assert data["max_bytes"] == 1_000
    assert "The tool ran" in result.envelope["errors"][0]["message"]
    assert len(result.content.encode()) <= 1_000


@proves("C48")
def test_result_transforms_also_shape_the_replacement() -> None:
    result = answer(lambda: "x" * 300_000, tool_result_transforms=(COMPACT,))
    assert list(result.envelope) == ["ok", "tool_name", "data", "errors"]


@proves("C49")
@pytest.mark.parametrize(("length", "replaced"), [(300_000, True), (3, False)])
def test_the_event_of_a_replaced_output_says_so(length: int, *, replaced: bool) -> None:
    trace = run(lambda: "x" * length).trace
    ended = [event for event in trace if isinstance(event, ToolCallEndEvent)]
    assert [event.output_replaced for event in ended] == [replaced]


@proves("C54")
@pytest.mark.parametrize("value", [object(), {1j: 2}, [print], [10**5_000], (n for n in [1])])
def test_output_that_is_no_json_is_replaced_and_the_run_goes_on(value: Any) -> None:
    result = answer(lambda: value)

    assert result.error_codes == (ErrorCode.TOOL_OUTPUT_SERIALIZATION_ERROR,)
    assert result.envelope["data"]["executed"] is True


@pytest.mark.parametrize("limit", [1, 11, 12, 50, 70, 120, 200, 300])
@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda: "x" * 1_000, "TOOL_OUTPUT_TOO_LARGE"),
        (lambda: ['\n"é'] * 500, "TOOL_OUTPUT_TOO_LARGE"),
        (lambda: 1 / 0, "INTERNAL_ERROR"),
        (lambda: {"ok": False, "errors": ["x" * 1_000]}, "TOOL_FAILED"),
        (lambda: {"ok": True, "tool_name": "x" * 1_000}, "TOOL_OUTPUT_TOO_LARGE"),
        (lambda: {"ok": True, "warnings": ["x" * 1_000]}, "TOOL_OUTPUT_TOO_LARGE"),
    ],
)
def test_even_a_tiny_limit_holds_for_the_replacement(
    function: Callable[[], Any], code: str, limit: int
) -> None:
    result = answer(function, max_tool_output_bytes=limit)

    # The shortest envelope there is has twelve bytes.
    assert len(result.content.encode()) <= max(limit, 12)
    assert result.envelope["ok"] is False
    assert result.error_codes == (code,)


@pytest.mark.parametrize("limit", [1, 50, 120, 200_000])
def test_a_refusal_stays_one_under_any_limit_and_never_claims_that_the_tool_ran(
    limit: int,
) -> None:
    config = raw(max_tool_output_bytes=limit)
    registry = ToolRegistry([ToolDefinition("t", handler=lambda: 1)])
    model = ScriptedModel(calls("fly"), says("done"))
    runner = ToolLoopRunner(client=model, model="m", registry=registry, config=config)
    result = asyncio.run(runner.run("go")).run.results[0]

    assert result.error_codes == (ErrorCode.TOOL_NOT_ALLOWED,)
    assert not result.executed
    assert "ran" not in result.content


def test_a_note_of_the_loop_survives_the_replacement() -> None:
    call = ToolCall("a", "t", warnings=("You made this call before.",))
    kept = build_result(call, success_envelope("t", 5), raw(), executed=True)
    replaced = build_result(call, success_envelope("t", "x" * 300_000), raw(), executed=True)

    assert kept.envelope["warnings"] == ["You made this call before."]
    assert replaced.envelope["warnings"] == ["You made this call before."]


# The measure


@proves("C50")
def test_the_measure_refuses_a_long_text() -> None:
    assert "TOO_LARGE" in str(measure("x" * 1_000, 100).reason)
    assert measure(b"x" * 1_000, 100).reason == "MAX_BYTES"


@proves("C51")
def test_the_measure_refuses_deep_nesting() -> None:
    assert measure({"a": {"b": [1]}}, 100, max_depth=2).reason == "MAX_DEPTH"
    assert measure({"a": {"b": [1]}}, 100, max_depth=3).reason is None


@proves("C52")
@pytest.mark.parametrize(
    "value",
    [[{"a": 1}] * 100, [[1] * 4, [2] * 4], [0, 0, 0, [1] * 6], {str(n): n for n in range(10)}],
)
def test_the_measure_refuses_too_many_nodes(value: Any) -> None:
    assert measure(value, 100_000, max_nodes=10).reason == "MAX_NODES"


def test_the_measure_does_not_look_into_what_is_too_long() -> None:
    class Untouchable(list[int]):
        def __iter__(self) -> Iterator[int]:
            raise AssertionError

    assert measure(Untouchable([0] * 10), 100, max_nodes=10).reason == "MAX_NODES"


@proves("C53")
def test_the_measure_passes_a_small_value_with_an_integer_estimate() -> None:
    small = measure({"a": [1, "two", None]}, 100)
    assert (small.reason, small.estimated_bytes) == (None, 4)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON_VALUES, st.integers(1, 400))
def test_any_value_ends_in_an_envelope_within_the_limit(value: Any, limit: int) -> None:
    config = raw(max_tool_output_bytes=limit)
    result = build_result(ToolCall("a", "t"), success_envelope("t", value), config, executed=True)

    assert len(result.content.encode()) <= max(limit, 12)
    assert result.envelope["ok"] is result.ok
    assert result.replaced is not result.ok or "ok" in value


@given(JSON_VALUES)
def test_the_estimate_never_exceeds_the_real_size(value: Any) -> None:
    envelope = success_envelope("t", value)
    result = build_result(ToolCall("a", "t"), envelope, raw(), executed=True)
    assert measure(envelope, 10**9).estimated_bytes <= len(result.content.encode())


# Values that no tool should return, and some: each costs its call at most, never the run


def odd_run(function: Callable[[], Any]) -> RunResult:
    registry = ToolRegistry([ToolDefinition("t", handler=function)])
    client = ScriptedModel(calls("t"), says("done"))
    runner = ToolLoopRunner(client=client, model="m", tools=registry, config=presets.raw())
    return asyncio.run(runner.run("go"))


def odd_answer(function: Callable[[], Any]) -> ToolResult:
    result = odd_run(function)
    assert result.assistant_text == "done"
    return result.run.results[0]


def nested(depth: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = None
    for _ in range(depth):
        value = wrap(value)
    return value


def cyclic_list() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def cyclic_mapping() -> Any:
    value: JSON = {}
    value["self"] = value
    return value


@dataclass
class Node:
    child: Any = None
    tags: set[str] = field(default_factory=lambda: {"a"})


def cyclic_node() -> Any:
    node = Node()
    node.child = node
    return node


class BadMapping(Mapping[str, Any]):
    """A mapping that cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no keys today")

    def __len__(self) -> int:
        return 1


class BadText:
    def __str__(self) -> str:
        raise RuntimeError("no text today")

    __repr__ = __str__


class BadModel:
    def model_dump(self, **_: Any) -> Any:
        raise RuntimeError("no dump today")


class BadAttributes:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Marked(str):
    """Text with a class of its own, as template engines have it."""

    __slots__ = ()


class Exact(float):
    """A number with a class of its own, as NumPy has it."""


class Size(Enum):
    SMALL = "s"


class Room(pydantic.BaseModel):
    beds: int
    free: date


LARGE = "TOOL_OUTPUT_TOO_LARGE"
DEEP = "TOOL_OUTPUT_TOO_DEEP"
UNREADABLE = "TOOL_OUTPUT_SERIALIZATION_ERROR"


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda: nested(100_000, lambda inner: [inner]), DEEP),
        (lambda: nested(100_000, lambda inner: {"a": inner}), DEEP),
        (lambda: nested(100_000, Node), UNREADABLE),
        (cyclic_list, DEEP),
        (cyclic_mapping, DEEP),
        (cyclic_node, UNREADABLE),
        (lambda: [0] * 10_000_000, LARGE),
        (BadText, UNREADABLE),
        (BadModel, UNREADABLE),
        (BadAttributes, UNREADABLE),
        (lambda: [BadMapping()], UNREADABLE),
        (BadMapping, UNREADABLE),
        (lambda: {"ok": True, "tool_name": BadText()}, UNREADABLE),
        (lambda: {"ok": False, "errors": [BadText()]}, UNREADABLE),
        (lambda: ["x" * 300_000, object()], LARGE),
        (lambda: [BadMapping(), "x" * 300_000], LARGE),
        (lambda: math.nan, UNREADABLE),
        (lambda: [math.inf], UNREADABLE),
        (lambda: Node(-math.inf), UNREADABLE),
        (lambda: {"ok": True, "data": {"a": [{"b": math.nan}]}}, UNREADABLE),
        (lambda: Exact("nan"), UNREADABLE),
        (lambda: ["half \ud800", math.nan], UNREADABLE),
    ],
)
def test_a_hostile_value_costs_its_call_and_not_the_run(
    function: Callable[[], Any], code: str
) -> None:
    result = odd_answer(function)

    assert result.error_codes == (code,)
    assert result.executed
    assert len(result.content) < 1_500


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (b"\xff", {"value": "/w=="}),
        ({3}, {"value": [3]}),
        (frozenset({3}), {"value": [3]}),
        ((1, (2,)), {"value": [1, [2]]}),
        ([None, "null"], {"value": [None, "null"]}),
        (10**30, {"value": 10**30}),
        ({1: "a"}, {"1": "a"}),
        (Node(), {"value": {"child": None, "tags": ["a"]}}),
        (Room(beds=2, free=date(2030, 1, 2)), {"value": {"beds": 2, "free": "2030-01-02"}}),
        (Size.SMALL, {"value": "s"}),
        (Marked("x"), {"value": "x"}),
        (Exact(1.5), {"value": 1.5}),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        ([ChainMap({"a": 1})], {"value": [{"a": 1}]}),
        ("half \ud800", {"value": "half \ufffd"}),
        ({"\udc00": ["\ud83d\ude00", Node()]}, {"\ufffd": ["😀", {"child": None, "tags": ["a"]}]}),
    ],
)
def test_what_json_can_express_is_written(value: Any, data: JSON) -> None:
    result = odd_answer(lambda: value)

    assert result.ok
    assert result.envelope["data"] == data


@pytest.mark.parametrize(
    "function",
    [
        lambda: {"ok": False, "tool_name": "\ud800", "errors": [{"code": "\ud800"}]},
        lambda: "\ud800",
    ],
)
def test_a_run_with_half_characters_can_be_written_down(function: Callable[[], Any]) -> None:
    run_ = odd_run(function).run
    assert Run.from_json(run_.to_json()) == run_


@pytest.mark.parametrize("error", [ToolError("\ud800", code="\ud800"), RuntimeError("\ud800")])
def test_a_run_whose_tool_raised_half_characters_can_be_written_down(error: Exception) -> None:
    def function() -> None:
        raise error

    run_ = odd_run(function).run
    assert Run.from_json(run_.to_json()) == run_
