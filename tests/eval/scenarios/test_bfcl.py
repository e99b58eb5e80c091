"""Tests of `surecall.eval.scenarios.bfcl`."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from surecall import ConfigError
from surecall.eval.scenarios.bfcl import (
    DOTTED_NAMES,
    OPTIONAL_FIELDS,
    SET_NAMES,
    AcceptedAnswer,
    BfclFunction,
    MappingCounts,
    SingleTurnCase,
    find_data,
    is_unanswerable,
    read_set,
    recorded_requests,
    sample_evenly,
)
from surecall.values.types import JSON
from tests.support.costly_inputs import DEPTHS, nested
from tests.support.scenario_packs import AREA, answer, case, data_folder, wheel

# Cases of BFCL as recorded requests: what is kept, what is mapped, what is refused


WANTED: JSON = {"base": [2.5], "type": ["square", ""]}


def requests(
    name: str,
    cases: Sequence[JSON],
    answers: Sequence[JSON] = (),
    mapped: MappingCounts | None = None,
) -> list[JSON]:
    found = recorded_requests(
        name,
        msgspec.convert(cases, list[SingleTurnCase]),
        msgspec.convert(answers, list[AcceptedAnswer]),
        mapped or MappingCounts(),
    )
    return list(found)


def function(parameters: Any) -> JSON:
    return {"name": "f", "parameters": parameters}


def wanting(wanted: JSON, **parameters: Any) -> JSON:
    """Return a request for one function with these parameters."""
    (one,) = requests(
        "parallel",
        [case("x_0", functions=[function({"type": "dict", **parameters})])],
        [{"id": "x_0", "ground_truth": [{"f": wanted}]}],
    )
    return one


def test_a_case_becomes_a_request_with_the_calls_it_accepts() -> None:
    (one,) = requests("parallel", [case("parallel_0")], [answer("parallel_0", WANTED, WANTED)])
    call = {"name": "shapes_area", "arguments": WANTED}
    assert one["id"] == "bfcl_parallel_0"
    assert one["tags"] == ["bfcl", "bfcl_parallel"]
    assert one["parallel_tool_calls"] is True, "the leaderboard asks for all calls at once"
    assert one["messages"] == [{"role": "user", "content": "How large is it?"}]
    assert one["expect"] == {"calls": [call, call], "fits_schema": False}


def test_without_answers_the_set_says_whether_there_should_be_a_call() -> None:
    for name, wanted in (("irrelevance", False), ("live_relevance", True)):
        (one,) = requests(name, [case(f"{name}_0")])
        assert one["expect"] == {"tool_call": wanted, "fits_schema": False}


def test_what_is_no_json_schema_is_mapped_and_counted() -> None:
    mapped = MappingCounts()
    (one,) = requests("irrelevance", [case("x_0", functions=[AREA, AREA])], mapped=mapped)
    about = one["tools"][0]["function"]
    number = {"type": "number"}
    assert about["name"] == "shapes_area"
    assert about["parameters"] == {
        "type": "object",
        "properties": {
            "base": number,
            "corner": {"type": "array", "items": number},
            "style": {"type": "object", "properties": {"dotted": {"type": "string"}}},
            "type": {"type": "string"},
        },
        "required": ["base"],
    }
    assert mapped.times == {
        DOTTED_NAMES: 2,
        OPTIONAL_FIELDS: 2,
        "type `dict`: `object`": 4,
        "type `float`: `number`": 4,
        "type `tuple`: `array`": 2,
        "type `any`: `string`": 2,
    }
    assert set(mapped.cases.values()) == {1}


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"type": "matrix"}, "x_0: f: unknown type 'matrix'"),
        ({"type": ["string"]}, "x_0: f: unknown type ['string']"),
        ({"properties": {"a": True}}, "x_0: f: a schema is not an object"),
    ],
)
def test_a_schema_that_cannot_be_mapped_is_told_with_its_case(parameters: JSON, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        requests("irrelevance", [case("x_0", functions=[function(parameters)])])
    assert str(error.value) == told


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_schema_that_is_nested_too_deeply_is_told_with_its_case(depth: int) -> None:
    too_deep = SingleTurnCase("x_0", ([],), [BfclFunction("f", {"items": nested(depth)})])
    with pytest.raises(ConfigError, match="x_0: f: nested too deeply: more than 128 levels"):
        list(recorded_requests("irrelevance", [too_deep], (), MappingCounts()))


def test_a_case_without_an_answer_is_refused() -> None:
    with pytest.raises(ConfigError, match="multiple_1: the case has no accepted answer"):
        requests("multiple", [case("multiple_1")], [answer("multiple_0", WANTED)])


NUMBER: JSON = {"type": "float"}
TEXT: JSON = {"type": "string"}


def test_a_case_that_can_be_met_is_within_reach() -> None:
    both: JSON = {"properties": {"a": NUMBER, "b": TEXT}, "required": ["a", "b"]}
    assert not is_unanswerable(wanting({"a": [1], "b": [""]}, **both))
    assert not is_unanswerable(wanting({"a": [1], "b": ["x"], "c": [1, ""]}, **both))
    assert not is_unanswerable(wanting({}, properties={}))
    (irrelevant,) = requests("irrelevance", [case("irrelevance_0")])
    assert not is_unanswerable(irrelevant)


def test_a_case_whose_answer_does_not_fit_its_function_is_out_of_reach() -> None:
    one: JSON = {"properties": {"a": NUMBER}, "required": ["a"]}
    assert is_unanswerable(wanting({"a": [1], "b": [1]}, **one))
    assert is_unanswerable(wanting({}, **one))
    assert is_unanswerable(wanting({"a": [""]}, **one))


# The data of BFCL, read from a wheel or a folder; what is broken is told with its place


def test_a_wheel_an_unpacked_one_and_a_checkout_hold_the_same(tmp_path: Path) -> None:
    unpacked = tmp_path / "unpacked"
    data_folder(unpacked / "bfcl_eval" / "data")
    places = (wheel(tmp_path), unpacked, unpacked / "bfcl_eval", unpacked / "bfcl_eval" / "data")
    read = [
        [read_set(find_data(each), name, MappingCounts(), None) for name in SET_NAMES]
        for each in places
    ]
    assert read[0] == read[1] == read[2] == read[3]
    assert [len(each) for each in read[0]].count(1) == len(SET_NAMES) - 2


def test_a_sample_is_spread_evenly_and_always_the_same() -> None:
    assert sample_evenly(range(10), 3) == [0, 3, 6]
    assert sample_evenly(range(2), 3) == [0, 1]
    assert sample_evenly([], 3) == []


def test_what_holds_no_data_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken.whl").write_bytes(b"no zip file")
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as target:
        target.writestr("other/__init__.py", "")
    for name, told in (
        ("broken.whl", "cannot read"),
        ("none.whl", "cannot read"),
        ("other.whl", "no BFCL_v4_simple_python.json in"),
        ("", "pass the wheel of bfcl-eval"),
    ):
        with pytest.raises(ConfigError, match=told):
            find_data(tmp_path / name)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"id": "x_0"}', "Object missing required field `question`"),
        ('{"id": "x_0", "question": [[], []]}', "Expected `array` of length 1"),
        ("{", "Input data was truncated"),
        *[
            ('{"id": "x_0", "question": [[{"content": ' + "[" * depth, "more than 128 levels")
            for depth in DEPTHS
        ],
    ],
)
def test_a_line_that_is_no_case_is_told_with_its_number(
    tmp_path: Path, line: str, told: str
) -> None:
    folder = data_folder(tmp_path)
    path = folder / "BFCL_v4_irrelevance.json"
    path.write_text(f"\n{line}\n", "utf-8")
    with pytest.raises(ConfigError) as error:
        read_set(folder, "irrelevance", MappingCounts(), None)
    assert str(error.value).startswith("BFCL_v4_irrelevance.json:2: ")
    assert told in str(error.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    folder = data_folder(tmp_path)
    (folder / "possible_answer" / "BFCL_v4_multiple.json").unlink()
    with pytest.raises(ConfigError, match=r"cannot read possible_answer/BFCL_v4_multiple.json"):
        read_set(folder, "multiple", MappingCounts(), None)
    (folder / "possible_answer" / "BFCL_v4_parallel.json").write_text(
        '{"id": "parallel_0", "ground_truth": [{}]}', "utf-8"
    )
    with pytest.raises(ConfigError, match=r"BFCL_v4_parallel.json:1: .* length >= 1"):
        read_set(folder, "parallel", MappingCounts(), None)
