"""The guided protocol: every reply is one JSON object, a call that is allowed now or the answer.

    {"tool": "state_get", "arguments": {"select": ["/draft"]}}
    {"answer": "Done."}
    {"cannot": "charge: The gateway is offline."}

Where several calls at once are asked for, with `parallel_tool_calls`, they are in a list:

    {"for each of": "Rome; Bern", "calls": [{"tool": "get_weather", "arguments": …}, …]}

With a thought about the results, a small model chooses better; so it does if it first says what
the thing is whose id it writes. Both are kept, and never sent again:

    {"thought": "The lamp is broken.", "tool": "refund",
     "arguments": {"about item_id": "name 'lamp', i-1", "item_id": "i-1"}}

Where there is a choice between a call and an answer, both may come after a thought: a model that
has begun to think is not bound to call. Before its first step it may have to say whether the
closest tool gives what is asked for; a small model decides badly with the first word it writes:

    {"asked for": "year in which a city was founded",
     "closest tool": "city_population: Get the number of people who live in a city.",
     "gives exactly that": "no", "answer": "…"}

The schema is written anew for each turn. While a final answer would be refused, there is no way to
write one; when no tool is on offer, there is no way to write a call. After a call has failed for
good the model may say that it cannot be done, for a reason that the tools have given.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from surecall.values.nesting import decode_json
from surecall.values.types import JSON, Plan, ToolCall, ToolResult, ToolSpec, User
from surecall.wire.messages import chosen_name, encode
from surecall.wire.protocols.bounded_schema import MOST_REPEATS, bounded
from surecall.wire.protocols.fit_check import CHECKED, checked_steps, how_to_check
from surecall.wire.protocols.in_words import Manner, may_have_several

# What the calls of a list are for, one after the other: who has counted, forgets none.
EACH: Final = "for each of"
CALLS: Final = "calls"
TOOL: Final = "tool"
ARGUMENTS: Final = "arguments"
ANSWER: Final = "answer"
THOUGHT: Final = "thought"
CANNOT: Final = "cannot"
# The name of a field that tells the values of a parameter apart. It is no argument.
ABOUT: Final = "about "
# A small model that may go on for ever, does.
MOST_AT_ONCE: Final = 16
_HOW_TO_THINK = (
    f'Once there are results, begin with "{THOUGHT}": what was asked for, and what of it is found, '
    "in one short sentence."
)
BEFORE_A_STEP: Final = (THOUGHT, *CHECKED, EACH)
_COUNTED: Final[JSON] = {"type": "string", "maxLength": 240}
_A_CALL = f'{{"{TOOL}": "name", "{ARGUMENTS}": {{...}}}}'
_HOW_TO_CALL_SEVERAL = (
    f'To call tools: {{"{EACH}": "Rome; Bern; Graz", "{CALLS}": [{_A_CALL}, ...]}}, in which there '
    "is a call for each thing that is asked for."
)
_ANSWER: JSON = {
    "type": "object",
    "properties": {ANSWER: {"type": "string"}},
    "required": [ANSWER],
    "additionalProperties": False,
}


class Ways(NamedTuple):
    """How a model is led: the longest arguments and thought, and whether it checks the fit."""

    longest: int
    thought: int = 0
    checks_fit: bool = False


def _opening(
    tools: tuple[ToolSpec, ...],
    output: JSON | None,
    several: bool,  # noqa: FBT001  # a manner's signature
    ways: Ways,
) -> str:
    lines = [
        "Reply with one JSON object and nothing else.",
        _HOW_TO_CALL_SEVERAL if several else f"To call a tool: {_A_CALL}",
        f'To give the final answer: {{"{ANSWER}": {_what(output)}',
        *([_HOW_TO_THINK] if ways.thought else []),
        *([how_to_check(EACH if several else "")] if ways.checks_fit else []),
        "",
        "Tools:",
        *(
            f"- {tool.name}: {tool.description} Arguments: {encode(tool.parameters).decode()}"
            for tool in tools
        ),
    ]
    return "\n".join(lines)


def _what(output: JSON | None) -> str:
    if output is None:
        return '"text"}'
    return f"...}}, in which ... is JSON of this schema: {encode(output).decode()}"


def _calls(calls: tuple[ToolCall, ...], several: bool) -> str:  # noqa: FBT001  # a manner's signature
    each: list[JSON] = [{TOOL: call.name, ARGUMENTS: call.arguments} for call in calls]
    return "\n".join(encode(one).decode() for one in ([{CALLS: each}] if several else each))


def _result(result: ToolResult) -> str:
    return f"Result of {result.name}: {result.content}"


def _answer(text: str, typed: bool) -> str:  # noqa: FBT001  # a manner's signature
    return encode({ANSWER: _typed(text) if typed else text}).decode()


def _typed(text: str) -> Any:
    """Return an answer as it was written: as JSON, or as the text that it is instead."""
    try:
        decode_json(text)
    except ValueError:
        return text
    return msgspec.Raw(text.strip().encode())


def _form(plan: Plan, ways: Ways) -> JSON:
    """Bind the reply to what the loop would accept now."""
    definitions: JSON = {}
    tools = _allowed(plan)
    calls = [_step(tool, definitions, ways.longest) for tool in tools]
    steps = [_several(calls)] if calls and may_have_several(plan) else [*calls]
    if plan.way_out:
        steps.append(_giving_up(plan.way_out))
    elif (plan.may_answer and plan.tool_choice != "required") or not steps:
        steps.append(_answering(plan.output, definitions))
        if ways.checks_fit and calls and isinstance(plan.messages[-1], User):
            steps = checked_steps(steps, tools)
    if ways.thought and calls and any(isinstance(item, ToolResult) for item in plan.messages):
        steps = [_after_a_thought(step, ways.thought) for step in steps]
    schema = _one_of(steps)
    if definitions:
        schema = schema | {"$defs": definitions}
    return {"type": "json_schema", "json_schema": {"name": "next_step", "schema": schema}}


def _one_of(steps: Sequence[JSON]) -> JSON:
    return steps[0] if len(steps) == 1 else {"anyOf": list(steps)}


def _several(calls: Sequence[JSON]) -> JSON:
    """Return a step with one call or more."""
    listed = {"type": "array", "minItems": 1, "maxItems": MOST_AT_ONCE, "items": _one_of(calls)}
    return _ANSWER | {"properties": {EACH: _COUNTED, CALLS: listed}, "required": [EACH, CALLS]}


def _answering(output: JSON | None, definitions: JSON) -> JSON:
    if output is None:
        return _ANSWER
    return _ANSWER | {"properties": {ANSWER: _placed(output, ANSWER, definitions)}}


def _giving_up(reasons: Sequence[str]) -> JSON:
    return _ANSWER | {"properties": {CANNOT: {"enum": list(reasons)}}, "required": [CANNOT]}


def _allowed(plan: Plan) -> tuple[ToolSpec, ...]:
    if plan.tool_choice == "none":
        return ()
    name = chosen_name(plan.tool_choice)
    return tuple(tool for tool in plan.tools if name is None or tool.name == name)


def _step(tool: ToolSpec, definitions: JSON, longest: int) -> JSON:
    arguments = bounded(tool.parameters, longest) if longest <= MOST_REPEATS else tool.parameters
    placed = _placed(arguments, tool.name, definitions)
    return {
        "type": "object",
        "properties": {TOOL: {"const": tool.name}, ARGUMENTS: placed},
        "required": [TOOL, ARGUMENTS],
        "additionalProperties": False,
    }


def _placed(schema: JSON, name: str, definitions: JSON) -> JSON:
    """Return a schema that may stand anywhere.

    References count from the root, so a schema that has some gets a place of its own there.
    """
    if not _has_reference(schema):
        return schema
    place = f"{name}_{len(definitions)}" if name in definitions else name
    definitions[place] = _moved(schema, f"#/$defs/{place}")
    return {"$ref": f"#/$defs/{place}"}


def _after_a_thought(step: JSON, longest: int) -> JSON:
    """Put a thought before a step: the order of keys is an order of decisions."""
    thought = {THOUGHT: {"type": "string", "maxLength": longest}}
    return step | {
        "properties": thought | step["properties"],
        "required": [THOUGHT, *step["required"]],
    }


def _has_reference(schema: Any) -> bool:
    match schema:
        case dict():
            return "$ref" in schema or any(map(_has_reference, schema.values()))
        case list():
            return any(map(_has_reference, schema))
        case _:
            return False


def _moved(schema: Any, root: str) -> Any:
    match schema:
        case dict():
            moved = {key: _moved(item, root) for key, item in schema.items()}
            pointer = schema.get("$ref")
            if isinstance(pointer, str) and pointer.startswith("#"):
                moved["$ref"] = root + pointer[1:]
            return moved
        case list():
            return [_moved(item, root) for item in schema]
        case _:
            return schema


def guided(longest: int, thought: int = 0, *, checks_fit: bool = False) -> Manner:
    """Return the manner of guided calls: arguments of so many bytes at most, and a thought."""
    ways = Ways(longest, thought, checks_fit)
    opening, form = partial(_opening, ways=ways), partial(_form, ways=ways)
    return Manner(opening, _calls, _result, _answer, form)
