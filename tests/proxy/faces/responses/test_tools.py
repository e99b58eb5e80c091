"""Tools become functions, and calls of them find back to the tool that the client knows."""

from typing import Any

import pytest

from surecall.parsing.names import is_legal
from surecall.proxy.faces.face import Refused
from surecall.proxy.faces.responses.tools import chat_name, offered, render_tools
from surecall.values.types import JSON
from tests.support.responses import ADD, CRATE, PATCH

BUILT_IN = ("web_search", "file_search", "mcp", "code_interpreter", "local_shell", "tool_search")


def sent(*tools: Any, **fields: Any) -> JSON:
    given = {"tools": list(tools)} | fields
    return render_tools(given, offered(given))


def names(body: JSON) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", ())]


def test_a_flat_function_becomes_a_nested_one() -> None:
    tool = {**ADD, "description": "Adds.", "strict": False, "defer_loading": True}

    assert sent(tool) == {
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "add",
                    "description": "Adds.",
                    "parameters": {"type": "object"},
                    "strict": False,
                },
            }
        ]
    }


def test_what_a_function_does_not_say_is_not_said() -> None:
    tool = {"type": "function", "name": "add", "parameters": None, "strict": None}

    assert sent(tool)["tools"] == [{"type": "function", "function": {"name": "add"}}]


def test_a_custom_tool_becomes_a_function_of_one_text() -> None:
    (tool,) = sent(PATCH)["tools"]

    assert tool["function"]["description"] == "Patch files."
    assert list(tool["function"]["parameters"]["properties"]) == ["input"]


def test_the_grammar_of_a_custom_tool_is_told() -> None:
    form = {"type": "grammar", "syntax": "lark", "definition": "start: WORD"}
    (tool,) = sent(PATCH | {"format": form})["tools"]

    told = tool["function"]["parameters"]["properties"]["input"]["description"]
    assert told.endswith("lark grammar:\nstart: WORD")


def test_the_functions_of_a_namespace_are_named_after_it() -> None:
    assert names(sent(ADD, CRATE)) == ["add", "mcp__crate__add"]
    assert offered({"tools": [CRATE]})["mcp__crate__add"].namespace == "mcp__crate"


@pytest.mark.parametrize(
    ("name", "namespace", "seen"),
    [
        ("add", None, "add"),
        ("add", "", "add"),
        ("add", "add", "add"),
        ("add", "mcp__crate__", "mcp__crate__add"),
        ("a.b", None, "a.b"),
        ("a.b", "n", "n__a_b"),
    ],
)
def test_a_name_is_seen_by_the_model(name: str, namespace: Any, seen: str) -> None:
    assert chat_name(name, namespace) == seen


def test_long_names_that_begin_alike_stay_apart_and_legal() -> None:
    seen = {chat_name(f"{'long_' * 20}{end}", "namespace") for end in "ab"}

    assert len(seen) == 2
    assert all(map(is_legal, seen))


@pytest.mark.parametrize("kind", BUILT_IN)
def test_what_only_a_service_can_run_is_left_out(kind: str) -> None:
    assert names(sent({"type": kind}, ADD)) == ["add"]
    assert sent({"type": kind}, tool_choice="auto", parallel_tool_calls=True) == {}


def test_of_two_tools_with_one_name_the_first_is_offered() -> None:
    assert not offered({"tools": [ADD, PATCH | {"name": "add"}]})["add"].custom


def test_items_of_the_input_bring_tools() -> None:
    items = [{"role": "user", "content": "a"}, {"type": "additional_tools", "tools": [ADD]}, "?"]

    assert names(sent(PATCH, input=items)) == ["apply_patch", "add"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tools": {}}, "must be a list"),
        ({"tools": [{"type": "function"}]}, "needs a `name`"),
        ({"tools": [{"name": "add"}]}, "needs a `type`"),
        ({"tools": [None]}, "needs a `type`"),
        ({"tools": [CRATE | {"tools": [1]}]}, "needs a `type`"),
    ],
)
def test_a_tool_without_a_form_is_refused(given: JSON, words: str) -> None:
    with pytest.raises(Refused, match=words):
        offered(given)


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ("none", "none"),
        ("auto", "auto"),
        ("required", "required"),
        ({"type": "function", "name": "add"}, "add"),
        ({"type": "custom", "name": "apply_patch"}, "apply_patch"),
        ({"type": "function", "name": "add", "namespace": "mcp__crate"}, "mcp__crate__add"),
    ],
)
def test_a_choice_is_made_among_functions(given: Any, choice: str) -> None:
    found = sent(ADD, PATCH, CRATE, tool_choice=given, parallel_tool_calls=False)

    assert found["tool_choice"] in (choice, {"type": "function", "function": {"name": choice}})
    assert found["parallel_tool_calls"] is False


@pytest.mark.parametrize(
    ("allowed", "left"),
    [
        ([{"type": "function", "name": "add"}], ["add"]),
        ([{"type": "custom", "name": "apply_patch"}, {"type": "web_search"}], ["apply_patch"]),
        ([{"type": "namespace", "name": "mcp__crate"}], ["mcp__crate__sum"]),
    ],
)
def test_tools_that_are_not_allowed_are_not_offered(allowed: list[JSON], left: list[str]) -> None:
    crate = CRATE | {"tools": [ADD | {"name": "sum"}]}
    choice = {"type": "allowed_tools", "mode": "required", "tools": allowed}
    found = sent(ADD, PATCH, crate, tool_choice=choice)

    assert (names(found), found["tool_choice"]) == (left, "required")


def test_no_tool_at_all_may_be_allowed() -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": []}

    assert sent(ADD, tool_choice=choice) == {}


@pytest.mark.parametrize(
    "choice",
    [
        *("any", 1, {}, {"type": "web_search_preview"}, {"type": "mcp", "server_label": "s"}),
        *({"type": "function", "name": "other"}, {"type": "function"}, {"type": "allowed_tools"}),
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]},
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(choice: Any) -> None:
    with pytest.raises(Refused) as refused:
        sent(ADD, tool_choice=choice)
    assert refused.value.param == "tool_choice"


def test_a_call_cannot_be_demanded_without_tools() -> None:
    with pytest.raises(Refused):
        sent({"type": "web_search"}, tool_choice="required")
