"""The prompted protocol: calls in a form that is described in words, and that most models know.

    <tool_call>
    {"name": "state_get", "arguments": {"select": ["/draft"]}}
    </tool_call>

Nothing binds the model to it. What it writes is read by the dialects, like any call that came as
text, whichever of their forms it is.
"""

from typing import Final

from surecall.values.types import JSON, Plan, ToolCall, ToolResult, ToolSpec
from surecall.wire.messages import encode
from surecall.wire.protocols.in_words import IN_FORM, Manner

_CALL = "<tool_call>\n{}\n</tool_call>"
_SEVERAL = "To call several at once, write one after the other."
_RESULT = "<tool_response>\n{}\n</tool_response>"


def _opening(tools: tuple[ToolSpec, ...], output: JSON | None, several: bool) -> str:  # noqa: FBT001  # a manner's signature
    example = _CALL.format('{"name": "the tool\'s name", "arguments": {...}}')
    lines = [
        "You can call tools. To call one, write this and nothing after it:",
        example,
        *([_SEVERAL] if several else []),
        "The result comes in the next message, in <tool_response>.",
        f"When everything is done, {_ending(output)}",
        "",
        "Tools:",
        *(
            f"- {tool.name}: {tool.description} Arguments: {encode(tool.parameters).decode()}"
            for tool in tools
        ),
    ]
    return "\n".join(lines)


def _ending(output: JSON | None) -> str:
    if output is None:
        return "give the final answer as plain text."
    return f"{IN_FORM} {encode(output).decode()}"


def _calls(calls: tuple[ToolCall, ...], several: bool) -> str:  # noqa: ARG001, FBT001  # a manner's signature
    return "\n".join(map(_call, calls))


def _call(call: ToolCall) -> str:
    return _CALL.format(encode({"name": call.name, "arguments": call.arguments}).decode())


def _result(result: ToolResult) -> str:
    # In JSON this is the same character; a result must not be able to end itself.
    content = result.content.replace("</tool_", "\\u003c/tool_").replace("<tool_", "\\u003ctool_")
    return _RESULT.format(content)


def _answer(text: str, typed: bool) -> str:  # noqa: ARG001, FBT001  # a manner's signature
    return text


def _form(plan: Plan) -> JSON | None:  # noqa: ARG001  # a manner's signature
    return None


PROMPTED: Final = Manner(_opening, _calls, _result, _answer, _form)
