"""The guided protocol: every reply is one JSON object, a call that is allowed now or the answer.

    {"tool": "state_get", "arguments": {"select": ["/draft"]}}
    {"answer": "Done."}

The schema is written anew for each turn. While a final answer would be refused, there is no way to
write one; when no tool is on offer, there is no way to write a call.
"""

from typing import Any, Final

from surecall.arguments import read_arguments
from surecall.protocols.fields import FieldReader
from surecall.protocols.spoken import Manner
from surecall.types import JSON, Plan, ToolCall, ToolResult, ToolSpec
from surecall.wire import chosen_name, encode, raw_calls, text_of

TOOL: Final = "tool"
ARGUMENTS: Final = "arguments"
ANSWER: Final = "answer"
# A call that was cut off must not run, however well its beginning reads.
_CUT_OFF = "{"
_NO_LIMIT = 1 << 62
_ANSWER: JSON = {
    "type": "object",
    "properties": {ANSWER: {"type": "string"}},
    "required": [ANSWER],
    "additionalProperties": False,
}


def _opening(tools: tuple[ToolSpec, ...]) -> str:
    lines = [
        "Reply with one JSON object and nothing else.",
        f'To call a tool: {{"{TOOL}": "name", "{ARGUMENTS}": {{...}}}}',
        f'To give the final answer: {{"{ANSWER}": "text"}}',
        "",
        "Tools:",
        *(
            f"- {tool.name}: {tool.description} Arguments: {encode(tool.parameters).decode()}"
            for tool in tools
        ),
    ]
    return "\n".join(lines)


def _call(call: ToolCall) -> str:
    return encode({TOOL: call.name, ARGUMENTS: call.arguments}).decode()


def _result(result: ToolResult) -> str:
    return f"Result of {result.name}: {result.content}"


def _answer(text: str) -> str:
    return encode({ANSWER: text}).decode()


def _form(plan: Plan) -> JSON:
    """Bind the reply to what the loop would accept now."""
    definitions: JSON = {}
    steps = [_step(tool, definitions) for tool in _allowed(plan)]
    if (plan.may_answer and plan.tool_choice != "required") or not steps:
        steps.append(_ANSWER)
    schema = steps[0] if len(steps) == 1 else {"anyOf": steps}
    if definitions:
        schema = schema | {"$defs": definitions}
    return {"type": "json_schema", "json_schema": {"name": "next_step", "schema": schema}}


def _allowed(plan: Plan) -> tuple[ToolSpec, ...]:
    if plan.tool_choice == "none":
        return ()
    name = chosen_name(plan.tool_choice)
    return tuple(tool for tool in plan.tools if name is None or tool.name == name)


def _step(tool: ToolSpec, definitions: JSON) -> JSON:
    arguments = tool.parameters
    if _has_reference(arguments):
        # References count from the root, so the schema they belong to gets a place of its own.
        definitions[tool.name] = _moved(arguments, f"#/$defs/{tool.name}")
        arguments = {"$ref": f"#/$defs/{tool.name}"}
    return {
        "type": "object",
        "properties": {TOOL: {"const": tool.name}, ARGUMENTS: arguments},
        "required": [TOOL, ARGUMENTS],
        "additionalProperties": False,
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
        case {"$ref": str(pointer)} if pointer.startswith("#"):
            return schema | {"$ref": root + pointer[1:]}
        case dict():
            return {key: _moved(item, root) for key, item in schema.items()}
        case list():
            return [_moved(item, root) for item in schema]
        case _:
            return schema


def hear(message: JSON) -> JSON:
    """Return a raw message with its call, or its answer, taken out of the JSON object.

    What is neither stays as it is: the dialects may know it, or it is an answer in plain words.
    """
    if raw_calls(message):
        return message
    text = text_of(message.get("content"))
    read = read_arguments(text, _NO_LIMIT)
    match read.value:
        case {"tool": str(name), **rest} if name:
            return _called(message, name, rest.get(ARGUMENTS))
        case {"answer": answer}:
            words = answer if isinstance(answer, str) else encode(answer).decode()
            return message | {"content": words}
        case None:
            return _cut_off(message, text)
        case _:
            return message


def _cut_off(message: JSON, text: str) -> JSON:
    """Read the beginning of an object whose end is missing."""
    tool = FieldReader(TOOL)
    name = tool.feed(text)
    if tool.ended and name:
        return _called(message, name, _CUT_OFF)
    answer = FieldReader(ANSWER).feed(text)
    return message | {"content": answer} if answer else message


def _called(message: JSON, name: str, arguments: Any) -> JSON:
    raw = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return message | {"content": "", "tool_calls": [raw]}


GUIDED: Final = Manner(_opening, _call, _result, _answer, _form)
