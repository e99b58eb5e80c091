"""The `prompted` protocol: describe tools in the prompt and parse calls from the text.

The format is one that most models know:

    <tool_call>
    {"name": "state_get", "arguments": {"select": ["/draft"]}}
    </tool_call>

Nothing enforces it. The reply is parsed by the dialects, like any call written as text, in
whichever of their formats it is.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Final, TypeAlias

import msgspec

from surecall.values.types import (
    JSON,
    Assistant,
    Message,
    Plan,
    Refusal,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
    is_blank,
)
from surecall.wire.chat_format import encode

# Tools, calls, and results as text, for protocols that do not use the endpoint's own fields.
#
# Only the request is rewritten, never the transcript. An unchanged message is rewritten to the same
# object again, so that its encoding stays cached.

MergedMessages: TypeAlias = tuple[tuple[Message, ...], User]
PARALLEL_TOOL_CALLS: Final = "parallel_tool_calls"
# Requests a typed answer; the schema follows.
ANSWER_SCHEMA_PROMPT: Final = (
    "give the final answer as JSON of this schema, with nothing before or after it:"
)


def allows_several_calls(plan: Plan) -> bool:
    """Whether a reply may have several calls: only if parallel calls are enabled."""
    return plan.options.get(PARALLEL_TOOL_CALLS) is True


class PromptFormat(msgspec.Struct, frozen=True):
    """The text format of a protocol; `response_format` constrains the reply, if anything does.

    `opening` takes the tools, the schema of the answer, if any, and whether a reply may have
    several calls. The flag of `answer` says whether the answer has a schema.
    """

    opening: Callable[[tuple[ToolSpec, ...], JSON | None, bool], str]
    calls: Callable[[tuple[ToolCall, ...], bool], str]
    result: Callable[[ToolResult], str]
    answer: Callable[[str, bool], str]
    response_format: Callable[[Plan], JSON | None]


class PlanEncoder:
    """Rewrites the plans of one conversation, and caches the rewritten messages."""

    def __init__(self, manner: PromptFormat) -> None:
        self._format = manner
        self._encoded: list[tuple[Message, Message]] = []
        self._system: tuple[System | None, tuple[ToolSpec, ...], System] | None = None
        self._output: JSON | None = None
        self._several = False
        # Merged messages by the ids of their parts; keeping the parts keeps the ids valid.
        self._merge_cache: dict[tuple[int, ...], MergedMessages] = {}

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan with tools, calls, and results as text; unchanged without tools."""
        if not plan.known_tools:
            return plan
        several = allows_several_calls(plan)
        if (plan.output, several) != (self._output, self._several):
            self._encoded, self._system = [], None
            self._output, self._several = plan.output, several
        first = plan.messages[0] if plan.messages else None
        system = first if isinstance(first, System) else None
        words = self._encode_messages(plan.messages if system is None else plan.messages[1:])
        if plan.reminder:
            words.append(User(plan.reminder))
        options = {key: item for key, item in plan.options.items() if key != PARALLEL_TOOL_CALLS}
        return msgspec.structs.replace(
            plan,
            messages=(
                self._encode_system(system, plan.known_tools),
                *self._merge_user_messages(words),
            ),
            tools=(),
            tool_choice=None,
            response_format=self._format.response_format(plan),
            options=options,
        )

    def _encode_system(self, system: System | None, tools: tuple[ToolSpec, ...]) -> System:
        """Return the system message with the instructions of the protocol appended."""
        known = self._system
        if known is None or known[0] is not system or known[1] is not tools:
            text = "" if system is None else f"{system.text}\n\n"
            self._system = known = (
                system,
                tools,
                System(text + self._format.opening(tools, self._output, self._several)),
            )
        return known[2]

    def _encode_messages(self, messages: tuple[Message, ...]) -> list[Message]:
        encoded = self._encoded
        for position, message in enumerate(messages):
            if position < len(encoded) and encoded[position][0] is message:
                continue
            del encoded[position:]
            encoded.append((message, self._encode_message(message)))
        del encoded[len(messages) :]
        return [rewritten for _, rewritten in encoded]

    def _encode_message(self, message: Message) -> Message:
        match message:
            case Assistant(calls=(_, *_)):
                text = self._format.calls(message.calls, self._several)
                return msgspec.structs.replace(message, text=text, calls=(), dropped=())
            case Assistant() if not is_blank(message.text):
                typed = self._output is not None
                return msgspec.structs.replace(
                    message, text=self._format.answer(message.text, typed)
                )
            case ToolResult():
                return User(self._format.result(message))
            case _:
                return message

    def _merge_user_messages(self, messages: Iterable[Message]) -> list[Message]:
        """Merge consecutive user messages, as many chat templates require.

        Messages that are never sent do not separate them.
        """
        sent = (message for message in messages if not _is_never_sent(message))
        joined: dict[tuple[int, ...], MergedMessages] = {}
        merged: list[Message] = []
        for of_user, group in groupby(sent, lambda message: isinstance(message, User)):
            row = tuple(group)
            if not of_user or len(row) == 1:
                merged += row
                continue
            key = tuple(map(id, row))
            joined[key] = self._merge_cache.get(key) or (row, User(merge_contents(row)))
            merged.append(joined[key][1])
        self._merge_cache = joined
        return merged


def _is_never_sent(message: Message) -> bool:
    """Whether a message is never sent."""
    blank = isinstance(message, Assistant) and is_blank(message.text)
    return blank or isinstance(message, Refusal)


def merge_contents(messages: Iterable[Message]) -> str | list[JSON]:
    """Merge the contents of several user messages into one."""
    contents = [message.content for message in messages if isinstance(message, User)]
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(map(str, contents))
    return [part for content in contents for part in _content_parts(content)]


def _content_parts(content: str | list[JSON]) -> list[JSON]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


_CALL = "<tool_call>\n{}\n</tool_call>"
_HOW_TO_CALL_SEVERAL = "To call several at once, write one after the other."
_RESULT = "<tool_response>\n{}\n</tool_response>"


def _instructions(tools: tuple[ToolSpec, ...], output: JSON | None, several: bool) -> str:  # noqa: FBT001  # signature of `PromptFormat`
    example = _CALL.format('{"name": "the tool\'s name", "arguments": {...}}')
    lines = [
        "You can call tools. To call one, write this and nothing after it:",
        example,
        *([_HOW_TO_CALL_SEVERAL] if several else []),
        "The result comes in the next message, in <tool_response>.",
        f"When everything is done, {_answer_instructions(output)}",
        *tool_lines(tools),
    ]
    return "\n".join(lines)


def tool_lines(tools: Iterable[ToolSpec]) -> Iterator[str]:
    """Yield the lines of a prompt that describe the tools."""
    yield from ("", "Tools:")
    for tool in tools:
        yield f"- {tool.name}: {tool.description} Arguments: {encode(tool.parameters).decode()}"


def _answer_instructions(output: JSON | None) -> str:
    if output is None:
        return "give the final answer as plain text."
    return f"{ANSWER_SCHEMA_PROMPT} {encode(output).decode()}"


def _encode_calls(calls: tuple[ToolCall, ...], several: bool) -> str:  # noqa: ARG001, FBT001  # signature of `PromptFormat`
    return "\n".join(map(_encode_call, calls))


def _encode_call(call: ToolCall) -> str:
    return _CALL.format(encode({"name": call.name, "arguments": call.arguments}).decode())


def _encode_result(result: ToolResult) -> str:
    # Escaped, as a result must not contain its own end tag.
    content = result.content.replace("</tool_", "\\u003c/tool_").replace("<tool_", "\\u003ctool_")
    return _RESULT.format(content)


def _encode_answer(text: str, typed: bool) -> str:  # noqa: ARG001, FBT001  # signature of `PromptFormat`
    return text


def _no_response_format(plan: Plan) -> JSON | None:  # noqa: ARG001  # signature of `PromptFormat`
    return None


PROMPTED: Final = PromptFormat(
    _instructions, _encode_calls, _encode_result, _encode_answer, _no_response_format
)
