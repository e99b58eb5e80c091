"""Recipes: steps in order, each with what the earlier ones have found."""

from typing import Any

import pytest

from surecall.simulator.personas.intent import next_intent
from surecall.simulator.personas.recipes import (
    RECIPES,
    CallOutcome,
    next_step,
    recipe_for,
    step_arguments,
)
from surecall.values.types import JSON

PARCEL = "Send it to the pickup point at Market Square."


def tool(name: str) -> JSON:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


TOOLS = [tool(name) for name in ("find_parcels", "find_pickup_points", "redirect_parcel")]


def found(name: str, content: str) -> CallOutcome:
    return CallOutcome(name, content)


def test_no_two_recipes_are_known_by_the_same_words() -> None:
    for one in RECIPES:
        assert [each for each in RECIPES if each.request_words in one.request_words] == [one]
    assert recipe_for("Read the state.") is None


def test_a_step_that_failed_is_taken_again_unless_it_is_final() -> None:
    recipe = recipe_for(PARCEL)
    assert recipe is not None
    failed = [found("find_parcels", '{"ok": false}')]
    assert next_step(recipe, failed) == recipe.steps[0]
    dead = recipe_for("Print the label of the parcel for Ivo.")
    assert dead is not None
    done = [found("find_parcels", "[]"), found("print_label", '{"ok": false}')]
    assert next_step(dead, done) is None


@pytest.mark.parametrize("content", ["plain words", "[]", "7", '{"ok": true}', "[[[]]]"])
def test_what_was_not_found_is_not_made_up_from_something_else(content: str) -> None:
    recipe = recipe_for(PARCEL)
    assert recipe is not None
    arguments = step_arguments(recipe.steps[2], [found("find_parcels", content)])
    assert arguments == {"parcel_id": "unknown", "point_id": "unknown"}


def asked(tools: list[JSON], **more: Any) -> JSON:
    return {"messages": [{"role": "user", "content": PARCEL}], "tools": tools} | more


def test_a_tool_that_is_not_on_offer_is_not_called() -> None:
    assert next_intent(asked(TOOLS)).calls[0].tool == "find_parcels"
    assert next_intent(asked(TOOLS[1:])).text.startswith("The parcel P-4478")
    assert next_intent(asked([])).text.startswith("The parcel P-4478")


def test_a_call_that_is_demanded_is_made_even_when_all_is_done() -> None:
    messages: list[JSON] = [{"role": "user", "content": PARCEL}]
    for each in ("find_parcels", "find_pickup_points", "redirect_parcel"):
        call = {"id": each, "type": "function", "function": {"name": each, "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": each, "content": '{"ok": true}'})
    request = {"messages": messages, "tools": TOOLS, "tool_choice": "required"}
    assert next_intent(request).calls[0].tool == "redirect_parcel"
    assert not next_intent(request | {"tools": [tool("other")]}).calls
