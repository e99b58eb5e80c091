"""The corpus: malformed replies as they came, and what surecall must make of each."""

import json
from pathlib import Path

import pytest

from surecall import presets
from surecall.core.ambiguous_calls import accept_text_calls
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.testing import calls, says
from surecall.values.types import JSON, Plan, ToolSpec
from surecall.wire.chat_format import name_and_arguments
from surecall.wire.dialects import WRITERS
from surecall.wire.text_calls import extract_text_calls
from tests.support import corpus
from tests.support.project_files import CORPUS, TESTS

# The corpus: bent replies as they came from the wild, one file each, with what they must become.
# `tests/support/corpus.py` says what a case is made of, and checks one. Everything here is derived
# from the files: a new case needs no entry in any list. `known_sources.json` lists the sources that
# were collected before, so that none of them gets lost; it does not limit what may be added.


CASES = corpus.load()
CONVERSATIONS: list[JSON] = json.loads((CORPUS / "conversations.json").read_text("utf-8"))
KNOWN: JSON = json.loads((CORPUS / "known_sources.json").read_text("utf-8"))
WEATHER: JSON = {"name": "get_weather", "description": "", "parameters": {"type": "object"}}


@pytest.mark.parametrize("name", CASES)
def test_a_case_says_what_it_is_and_where_it_is_from(name: str) -> None:
    corpus.check_form(CASES[name], name)


@pytest.mark.parametrize("name", CASES)
def test_a_case_has_a_fault_or_says_why_not(name: str) -> None:
    corpus.check_fault(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_a_reply_from_the_wild_is_read_as_it_should_be(name: str) -> None:
    corpus.check_reading(CASES[name])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "ids" in case])
def test_a_reply_from_the_wild_gets_ids_that_are_its_own(name: str) -> None:
    corpus.check_ids(CASES[name])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "told" in case])
def test_the_model_is_told_enough_to_do_better(name: str) -> None:
    corpus.check_told(CASES[name])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "history_names" in case])
def test_the_history_holds_legal_names_only(name: str) -> None:
    corpus.check_history(CASES[name])


def test_every_fault_of_the_catalogue_has_a_case() -> None:
    assert corpus.uncovered(CASES.values()) == []
    sources = {case["source"] for case in CASES.values()}
    assert {source for drift in SHAPE_FAULTS.values() for source in drift.sources} <= sources


def test_no_source_that_was_collected_before_gets_lost() -> None:
    sources = {case["source"] for case in CASES.values()}
    bent = {source for drift in SHAPE_FAULTS.values() for source in drift.sources}

    assert sorted({*KNOWN["replies"]} - sources) == []
    assert sorted({*KNOWN["replies"]} - bent) == []
    assert sorted({*KNOWN["elsewhere"]} & (sources | bent)) == []
    assert all(KNOWN["elsewhere"].values())


def test_every_drift_beyond_a_single_reply_names_the_tests_that_prove_it() -> None:
    assert sorted({*KNOWN["conversations"]} - {row["source"] for row in CONVERSATIONS}) == []
    for row in CONVERSATIONS:
        assert row["tests"], row["source"]
        for name in row["tests"]:
            file, _, function = name.partition("::")
            assert f"def {function}(" in (TESTS / file).read_text("utf-8"), name


# What a contributor may write, and what is refused with which words


def case_of(**changes: object) -> JSON:
    """Describe a plain call that somebody saw, with changes."""
    return {
        "id": "seen-in-a-test",
        "source": "seen-in-a-test",
        "provenance": "seen at Acme",
        "no_fault": "nothing is bent",
        "tools": [WEATHER],
        "body": calls("get_weather", city="Paris"),
        "expected": {
            "text": "",
            "calls": [{"name": "get_weather", "arguments": {"city": "Paris"}}],
        },
    } | changes


def test_a_new_case_needs_no_number(tmp_path: Path) -> None:
    for case in (
        case_of(),
        case_of(id="seen-in-a-test-again"),
        case_of(id="d23-again", source="D23") | {"no_fault": ""},
        case_of(id="d23-again", source="D23", fault="arguments_fenced") | {"no_fault": ""},
        case_of(expected={"text": "", "code": "TOOL_NOT_ALLOWED"}, tools=[]),
        case_of(body=says("Hi."), expected={"text": "Hi.", "calls": []}, to_check="everything"),
    ):
        (tmp_path / f"{case['id']}.json").write_text(json.dumps(case), "utf-8")
        for name, found in corpus.load(tmp_path).items():
            corpus.check_case(found, name)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"id": "another"}, "has the id 'another'"),
        ({"source": "a b"}, "a source has letters"),
        ({"source": ""}, "a source has letters"),
        ({"source": "seen-elsewhere"}, "should begin with its source"),
        ({"provenance": " "}, "where it was seen"),
        ({"expectd": {}}, r"no test looks at: \['expectd'\]"),
        ({"no_fault": ""}, "say in `no_fault` why there is none"),
        ({"fault": "arguments_fenced"}, "arguments_fenced is none of"),
        (
            {"expected": {"text": "", "calls": []}},
            r"calls should be \[\], but .*get_weather",
        ),
        ({"expected": {"text": "?", "calls": []}}, r'text should be "\?", but read ""'),
        ({"expected": {"text": "", "code": "TOOL_NOT_ALLOWED"}}, "TOOL_NOT_ALLOWED"),
        ({"expected": {"text": "", "code": "NO_SUCH"}}, "there is no code 'NO_SUCH'"),
        ({"ids": ["x"]}, r'ids should be \["x"\]'),
        ({"told": ["x"]}, "no problem to tell"),
        ({"history_names": ["x"]}, r'history should be \["x"\]'),
        ({"body": {}}, 'the fault should be null, but read "EMPTY_RESPONSE"'),
    ],
)
def test_a_case_that_does_not_hold_is_refused_with_the_reason(changes: JSON, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        corpus.check_case(case_of(**changes), "seen-in-a-test")


def test_a_note_that_there_is_no_fault_must_go_when_there_is_one() -> None:
    with pytest.raises(AssertionError, match="delete `no_fault`, there is arguments_fenced"):
        corpus.check_fault(case_of(source="D23"))


def test_a_case_may_lack_nothing() -> None:
    with pytest.raises(AssertionError, match=r"lacks \['body'\]"):
        corpus.check_form({key: case_of()[key] for key in case_of() if key != "body"}, "wild")


def test_of_several_calls_each_may_have_its_own_end() -> None:
    body = {"choices": [{"message": {"tool_calls": [_call("get_weather"), _call("nothing")]}}]}
    expected = [
        {"name": "get_weather", "arguments": {}},
        {"name": "nothing", "code": "TOOL_NOT_ALLOWED"},
    ]

    corpus.check_reading(case_of(body=body, expected={"text": "", "calls": expected}))


def _call(name: str) -> JSON:
    return {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}


def test_words_that_the_model_is_not_told_are_named() -> None:
    unknown = case_of(tools=[], expected={"text": "", "code": "TOOL_NOT_ALLOWED"})

    corpus.check_told(unknown | {"told": ["no tool 'get_weather'"]})
    with pytest.raises(AssertionError, match=r"is not told \['nothing'\]: There is no tool"):
        corpus.check_told(unknown | {"told": ["nothing"]})
    with pytest.raises(AssertionError, match="is read as EMPTY_RESPONSE"):
        corpus.check_told(unknown | {"body": {}, "told": ["nothing"]})


def test_a_fault_without_a_case_is_named() -> None:
    without = [case for case in CASES.values() if case["source"] != "D51"]

    assert corpus.uncovered(without) == ["parallel_wrapper"]


# Which calls of the corpus of dialects are asked about instead of run, each with its rule


DIALECTS = CORPUS / "dialects"
SHAPES = json.loads((DIALECTS / "shapes.json").read_text("utf-8"))
ROWS = json.loads((DIALECTS / "rows.json").read_text("utf-8"))
DETAILS = json.loads((DIALECTS / "details.json").read_text("utf-8"))
TOOLS = tuple(ToolSpec(tool["name"], "", tool["parameters"]) for tool in SHAPES["tools"])
CONFIG = presets.default_tool_calling()

CALL = '<tool_call>{"name": "shell", "arguments": {"line": "ls"}}</tool_call>'
TAGGED = '<invoke name="shell"><parameter name="line">ls</parameter></invoke>'
ASKED = {
    # Words follow the call, or what may be more of it.
    "last_words": [
        f"{CALL.removesuffix('</tool_call>').replace('l>{', 'l>[{')}, {{oops}}]",
        "<|tool_call_start|>[shell(line='ls'), shell(line=)]",
        "<|tool_call_start|>[shell(line='ls'), nobody(line='ls')]",
        '<|python_tag|>{"name": "shell", "parameters": {"line": "ls"}} ] x',
        f"`a`` b`` `{CALL}`",
        f"` {CALL}\n`",
        f"` a `` b ` {CALL} ``` c",
        f"`` a ` {CALL}\n`` ` ``",
        f"``` {CALL} `` `",
        f"{CALL}\nDSML is what it speaks.",
        f"{CALL} DSML",
    ],
    # Another call beside it is broken.
    "whole": [
        f'{TAGGED}<invoke name="shell">so</invoke>',
        f"<tool_call>{{nonsense}}</tool_call>\n{CALL}",
        f'<tool_call>{{"name": "shell"\n{CALL}',
    ],
}


def rule_of(case: JSON) -> str:
    """Return the rule that keeps a reply, which is all of a conversation, from running."""
    reading = extract_text_calls(
        {"content": case["text"]}, TOOLS, "any" if case["weak"] else "marked"
    )
    claims = accept_text_calls(reading, Plan("m", (), TOOLS), CONFIG, name_and_arguments).claims
    return claims[0].rule if claims else ""


def test_of_the_shapes_seen_in_the_wild_one_is_asked_about() -> None:
    asked = {case["shape"]: rule_of(case | {"weak": True}) for case in SHAPES["cases"]}

    assert {shape: names for shape, names in asked.items() if names} == {
        "naked object, then prose": "last_words"
    }


def test_of_the_rows_those_with_words_after_the_calls_are_asked_about() -> None:
    asked = {(case["row"], case["kind"]): rule_of(case) for case in ROWS if case["calls"]}

    assert {case: names for case, names in asked.items() if names} == {
        (row, "text around"): "last_words" for row in WRITERS
    }


def test_of_the_details_these_are_asked_about() -> None:
    asked = {case["text"]: rule_of({"weak": False} | case) for case in DETAILS if case["calls"]}

    assert {text: rule for text, rule in asked.items() if rule} == {
        text: rule for rule, texts in ASKED.items() for text in texts
    }
