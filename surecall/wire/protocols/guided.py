"""The guided protocol: every reply is one JSON object, a call that is allowed now or the answer.

    {"tool": "state_get", "arguments": {"select": ["/draft"]}}
    {"answer": "Done."}
    {"cannot": "charge: The gateway is offline."}

With a thought about the results, a small model chooses better; so it does if it first says what
the thing is whose id it writes. Both are kept, and never sent again:

    {"thought": "The lamp is broken.", "tool": "refund",
     "arguments": {"about item_id": "name 'lamp', i-1", "item_id": "i-1"}}

Where there is a choice between a call and an answer, both may come after a thought: a model that
has begun to think is not bound to call.

The schema is written anew for each turn. While a final answer would be refused, there is no way to
write one; when no tool is on offer, there is no way to write a call. After a call has failed for
good the model may say that it cannot be done, for a reason that the tools have given.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from surecall.parsing.arguments import read_arguments
from surecall.values.types import JSON, Plan, ToolCall, ToolResult, ToolSpec, is_blank
from surecall.wire.content_parts import text_of
from surecall.wire.dialects import recover, without_thoughts
from surecall.wire.messages import chosen_name, encode, raw_calls
from surecall.wire.opaque_state import GUIDED_THOUGHT
from surecall.wire.protocols.bounded_schema import MOST_REPEATS, bounded
from surecall.wire.protocols.field_reader import FieldReader
from surecall.wire.protocols.in_words import Manner

TOOL: Final = "tool"
ARGUMENTS: Final = "arguments"
ANSWER: Final = "answer"
THOUGHT: Final = "thought"
CANNOT: Final = "cannot"
# The name of a field that tells the values of a parameter apart. It is no argument.
ABOUT: Final = "about "
# A call that was cut off must not run, however well its beginning reads.
_CUT_OFF = "{"
_HOW_TO_THINK = (
    f'Once there are results, begin with "{THOUGHT}": what was asked for, and what of it is found, '
    "in one short sentence."
)
_NO_LIMIT = 1 << 62
_STEPS = frozenset({TOOL, ANSWER, CANNOT})
_ANSWER: JSON = {
    "type": "object",
    "properties": {ANSWER: {"type": "string"}},
    "required": [ANSWER],
    "additionalProperties": False,
}


def _opening(tools: tuple[ToolSpec, ...], output: JSON | None, thought: int) -> str:
    lines = [
        "Reply with one JSON object and nothing else.",
        f'To call a tool: {{"{TOOL}": "name", "{ARGUMENTS}": {{...}}}}',
        f'To give the final answer: {{"{ANSWER}": {_what(output)}',
        *([_HOW_TO_THINK] if thought else []),
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


def _call(call: ToolCall) -> str:
    return encode({TOOL: call.name, ARGUMENTS: call.arguments}).decode()


def _result(result: ToolResult) -> str:
    return f"Result of {result.name}: {result.content}"


def _answer(text: str, typed: bool) -> str:  # noqa: FBT001  # a manner's signature
    return encode({ANSWER: _typed(text) if typed else text}).decode()


def _typed(text: str) -> Any:
    """Return an answer as it was written: as JSON, or as the text that it is instead."""
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text
    return msgspec.Raw(text.strip().encode())


def _form(plan: Plan, longest: int, thought: int) -> JSON:
    """Bind the reply to what the loop would accept now."""
    definitions: JSON = {}
    steps = [_step(tool, definitions, longest) for tool in _allowed(plan)]
    calls = len(steps)
    if plan.way_out:
        steps.append(_giving_up(plan.way_out))
    elif (plan.may_answer and plan.tool_choice != "required") or not steps:
        steps.append(_answering(plan.output, definitions))
    if thought and calls and any(isinstance(item, ToolResult) for item in plan.messages):
        steps = [_after_a_thought(step, thought) for step in steps]
    schema = steps[0] if len(steps) == 1 else {"anyOf": steps}
    if definitions:
        schema = schema | {"$defs": definitions}
    return {"type": "json_schema", "json_schema": {"name": "next_step", "schema": schema}}


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


def hear(
    message: JSON,
    tools: Sequence[ToolSpec] = (),
    known: Sequence[ToolSpec] = (),
    *,
    typed: bool = False,
) -> JSON:
    """Return a raw message with its call, or its answer, taken out of the JSON object.

    What is neither stays as it is: the dialects may know it, or it is an answer in plain words. An
    answer that is `typed` stays JSON, and only counts if it is whole and all that was said.
    """
    if raw_calls(message):
        return message
    text = text_of(message.get("content"))
    value = read_arguments(text, _NO_LIMIT).value
    if (
        value is not None
        and isinstance(thought := value.get(THOUGHT), str)
        and _STEPS & value.keys()
    ):
        value = {key: item for key, item in value.items() if key != THOUGHT}
        message = message | {GUIDED_THOUGHT: thought}
    match value:
        case {"tool": str(name), **rest} if name:
            if ARGUMENTS in rest or not rest:
                return _called(message, name, _without_words(rest.get(ARGUMENTS), name, known))
            # The dialects know other words for arguments. What cannot be read must not run.
            is_known = recover(text, tools, weak=True).calls
            return message if is_known else _called(message, name, [rest])
        case {"answer": answer, **rest} if typed:
            return message if rest else message | {"content": encode(answer).decode()}
        case {"answer": answer} | {"cannot": answer}:
            return message | {"content": _words(answer)}
        case None:
            return _after_thoughts(message, text, tools, known, typed=typed)
        case _:
            return message


def _without_words(arguments: Any, name: str, known: Sequence[ToolSpec]) -> Any:
    """Leave out what was written about a value before the value itself."""
    own = {
        key for tool in known if tool.name == name for key in tool.parameters.get("properties", {})
    }
    if not isinstance(arguments, dict):
        return arguments
    return {
        key: item
        for key, item in arguments.items()
        if key in own or not (key.startswith(ABOUT) and key.removeprefix(ABOUT) in own)
    }


def _words(answer: Any) -> str:
    match answer:
        case None:
            return ""
        case str():
            return answer
        case _:
            return encode(answer).decode()


def _after_thoughts(
    message: JSON, text: str, tools: Sequence[ToolSpec], known: Sequence[ToolSpec], *, typed: bool
) -> JSON:
    """Read what comes after thoughts, which are no part of the object."""
    found = without_thoughts(text)
    if found.text == text or is_blank(found.text):
        return _cut_off(message, text, typed=typed)
    bare = message | {"content": found.text}
    # Once only: thoughts inside of thoughts are not read.
    whole = read_arguments(found.text, _NO_LIMIT).value is not None
    heard = (
        hear(bare, tools, known, typed=typed) if whole else _cut_off(bare, found.text, typed=typed)
    )
    return message if heard is bare else {"reasoning_content": found.reasoning} | heard


def _cut_off(message: JSON, text: str, *, typed: bool) -> JSON:
    """Read the beginning of an object whose end is missing."""
    thought = FieldReader(THOUGHT)
    if thought.feed(text) or thought.ended:
        if not thought.ended:
            return message | {"content": ""}
        text = "{" + thought.rest.lstrip().removeprefix(",")
    tool = FieldReader(TOOL)
    name = tool.feed(text)
    if tool.ended and name:
        written = text.partition(f'"{ARGUMENTS}"')[2].lstrip(" :")
        is_whole = read_arguments(written, _NO_LIMIT).problem is None
        return _called(message, name, _CUT_OFF if is_whole else written)
    if typed:
        return message
    readers = FieldReader(ANSWER), FieldReader(CANNOT)
    words = "".join(reader.feed(text) for reader in readers)
    if words or any(reader.is_waiting for reader in (thought, tool, *readers)):
        return message | {"content": words}
    return message


def _called(message: JSON, name: str, arguments: Any) -> JSON:
    raw = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return message | {"content": "", "tool_calls": [raw]}


def guided(longest: int, thought: int = 0) -> Manner:
    """Return the manner of guided calls: arguments of so many bytes at most, and a thought."""
    opening = partial(_opening, thought=thought)
    form = partial(_form, longest=longest, thought=thought)
    return Manner(opening, _call, _result, _answer, form)
