"""The corpus: bent replies as they came from the wild, one file each, with what they must become.

A case has an `id`, its `source`, the `provenance` in words, the `tools` on offer, the `body` as
it came, and the `expected` text, calls or code. It may name `presets` and `config`, the ids taken
`earlier`, and what else to look at: `ids`, words that the model is `told`, `history_names`.
"""

import json

import pytest

from surecall import ToolCallingConfig, ToolRegistry, presets
from surecall.core.inbound import inbound
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.values.errors import Fault
from surecall.values.types import JSON, Assistant, Reply
from surecall.wire.messages import WireStyle, render_message
from tests.support.fault_samples import plan
from tests.support.paths import CORPUS

FOLDER = CORPUS / "replies"
CASES: list[JSON] = [json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))]
# What is no shape of a plain reply.
ELSEWHERE = {
    "D09": "a line of a stream",
    "D10": "a chunk of a stream",
    "D11": "a chunk of a stream",
    "D13": "the end of a stream",
    "D14": "the end of a stream",
    "D55": "a tool's declared name: illegal ones are refused at registration",
}
IN_SCOPE = {f"D{number:02}" for number in (*range(1, 63), 64, 101, 102, 103, 104, 110)}


def read(case: JSON) -> Reply | Fault:
    config = ToolCallingConfig.from_mapping(case.get("config", {}))
    for name in case.get("presets", ["default_tool_calling"]):
        config = presets.PRESET[name](config)
    return inbound(
        case["body"], plan(*case.get("earlier", ())), config, ToolRegistry(case["tools"])
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_a_reply_from_the_wild_is_read_as_it_should_be(case: JSON) -> None:
    reply, expected = read(case), case["expected"]

    if isinstance(reply, Fault):
        assert reply.code == expected.get("code")
        return
    assert reply.text == expected["text"]
    if "code" in expected:
        assert {call.problem and call.problem.code for call in reply.calls} == {expected["code"]}
        return
    assert [call.problem for call in reply.calls] == [None] * len(reply.calls)
    found = [{"name": call.name, "arguments": call.arguments} for call in reply.calls]
    # As text, because 1, 1.0 and true are equal in Python.
    assert json.dumps(found) == json.dumps(expected["calls"])


@pytest.mark.parametrize("case", [c for c in CASES if "ids" in c], ids=lambda case: str(case["id"]))
def test_a_reply_from_the_wild_gets_ids_that_are_its_own(case: JSON) -> None:
    reply = read(case)

    assert isinstance(reply, Reply)
    assert [call.id for call in reply.calls] == case["ids"]


@pytest.mark.parametrize(
    "case", [c for c in CASES if "told" in c], ids=lambda case: str(case["id"])
)
def test_the_model_is_told_enough_to_do_better(case: JSON) -> None:
    reply = read(case)

    assert isinstance(reply, Reply)
    assert reply.calls[0].problem is not None
    assert all(words in reply.calls[0].problem.message for words in case["told"])


@pytest.mark.parametrize(
    "case", [c for c in CASES if "history_names" in c], ids=lambda case: str(case["id"])
)
def test_the_history_holds_legal_names_only(case: JSON) -> None:
    reply = read(case)

    assert isinstance(reply, Reply)
    sent = render_message(Assistant(reply.text, reply.calls), WireStyle())
    assert sent is not None
    assert [call["function"]["name"] for call in sent["tool_calls"]] == case["history_names"]


def test_every_source_in_scope_has_a_case_and_no_case_has_another_name() -> None:
    sources = {case["source"] for case in CASES}

    assert sources == IN_SCOPE - ELSEWHERE.keys()
    assert [case["id"] for case in CASES] == [path.stem for path in sorted(FOLDER.glob("*.json"))]
    assert all(
        case["provenance"] and case["id"].startswith(case["source"].lower()) for case in CASES
    )


def test_every_source_in_scope_has_a_fault() -> None:
    assert {source for drift in SHAPE_FAULTS.values() for source in drift.sources} == (
        IN_SCOPE - ELSEWHERE.keys()
    )


CONVERSATIONS: list[JSON] = json.loads((FOLDER.parent / "conversations.json").read_text("utf-8"))
# What is no shape of one reply, but of a history, an endpoint or a whole run.
BEYOND_ONE_REPLY = {
    f"D{number}" for number in (63, *range(65, 68), *range(92, 101), *range(105, 110))
}


def test_every_drift_beyond_a_single_reply_names_the_tests_that_prove_it() -> None:
    assert {row["source"] for row in CONVERSATIONS} == BEYOND_ONE_REPLY
    for row in CONVERSATIONS:
        for name in row["tests"]:
            file, _, function = name.partition("::")
            assert f"def {function}(" in (FOLDER.parents[1] / file).read_text("utf-8"), name
