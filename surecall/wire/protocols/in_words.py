"""Tools, calls and results put into words, for protocols that use no fields of the endpoint.

The transcript itself does not change: what is rewritten is only what is sent. A message that
is where it was is the same object again, so that it need not be written anew.
"""

from collections.abc import Callable, Iterable
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

Joined: TypeAlias = tuple[tuple[Message, ...], User]
PARALLEL: Final = "parallel_tool_calls"
# How the form of the answer is asked for; its schema follows.
IN_FORM: Final = "give the final answer as JSON of this schema, with nothing before or after it:"


def may_have_several(plan: Plan) -> bool:
    """Whether a reply may have several calls: only where that was asked for."""
    return plan.options.get(PARALLEL) is True


class Manner(msgspec.Struct, frozen=True):
    """How a protocol says things. `form` is what binds the reply, if anything does.

    The opening tells the tools, the schema of the answer if there is one, and whether a reply may
    have several calls. An answer with a schema is `typed`.
    """

    opening: Callable[[tuple[ToolSpec, ...], JSON | None, bool], str]
    calls: Callable[[tuple[ToolCall, ...], bool], str]
    result: Callable[[ToolResult], str]
    answer: Callable[[str, bool], str]
    form: Callable[[Plan], JSON | None]


class Speaker:
    """Goes with one conversation, and remembers how it has put things."""

    def __init__(self, manner: Manner) -> None:
        self._manner = manner
        self._said: list[tuple[Message, Message]] = []
        self._opened: tuple[System | None, tuple[ToolSpec, ...], System] | None = None
        self._output: JSON | None = None
        self._several = False
        # What was put together, by what it was made of; both are kept, so that ids stay theirs.
        self._joined: dict[tuple[int, ...], Joined] = {}

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan in words. Without tools there is nothing to put into words."""
        if not plan.known_tools:
            return plan
        several = may_have_several(plan)
        if (plan.output, several) != (self._output, self._several):
            self._said, self._opened = [], None
            self._output, self._several = plan.output, several
        first = plan.messages[0] if plan.messages else None
        system = first if isinstance(first, System) else None
        words = self._words(plan.messages if system is None else plan.messages[1:])
        if plan.reminder:
            words.append(User(plan.reminder))
        options = {key: item for key, item in plan.options.items() if key != PARALLEL}
        return msgspec.structs.replace(
            plan,
            messages=(self._opening(system, plan.known_tools), *self._merged(words)),
            tools=(),
            tool_choice=None,
            response_format=self._manner.form(plan),
            options=options,
        )

    def _opening(self, system: System | None, tools: tuple[ToolSpec, ...]) -> System:
        """Describe the tools after what the application says."""
        known = self._opened
        if known is None or known[0] is not system or known[1] is not tools:
            text = "" if system is None else f"{system.text}\n\n"
            self._opened = known = (
                system,
                tools,
                System(text + self._manner.opening(tools, self._output, self._several)),
            )
        return known[2]

    def _words(self, messages: tuple[Message, ...]) -> list[Message]:
        said = self._said
        for position, message in enumerate(messages):
            if position < len(said) and said[position][0] is message:
                continue
            del said[position:]
            said.append((message, self._in_words(message)))
        del said[len(messages) :]
        return [spoken for _, spoken in said]

    def _in_words(self, message: Message) -> Message:
        match message:
            case Assistant(calls=(_, *_)):
                text = self._manner.calls(message.calls, self._several)
                return msgspec.structs.replace(message, text=text, calls=(), dropped=())
            case Assistant() if not is_blank(message.text):
                typed = self._output is not None
                return msgspec.structs.replace(
                    message, text=self._manner.answer(message.text, typed)
                )
            case ToolResult():
                return User(self._manner.result(message))
            case _:
                return message

    def _merged(self, messages: Iterable[Message]) -> list[Message]:
        """Put consecutive messages of the user's side into one; many templates demand it.

        What is never sent does not stand between.
        """
        sent = (message for message in messages if not _is_silent(message))
        joined: dict[tuple[int, ...], Joined] = {}
        merged: list[Message] = []
        for of_user, group in groupby(sent, lambda message: isinstance(message, User)):
            row = tuple(group)
            if not of_user or len(row) == 1:
                merged += row
                continue
            key = tuple(map(id, row))
            joined[key] = self._joined.get(key) or (row, User(in_one(row)))
            merged.append(joined[key][1])
        self._joined = joined
        return merged


def _is_silent(message: Message) -> bool:
    """Whether a message is never sent."""
    blank = isinstance(message, Assistant) and is_blank(message.text)
    return blank or isinstance(message, Refusal)


def in_one(row: Iterable[Message]) -> str | list[JSON]:
    """Put what the user's side says in several messages into one."""
    contents = [message.content for message in row if isinstance(message, User)]
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(map(str, contents))
    return [part for content in contents for part in _parts(content)]


def _parts(content: str | list[JSON]) -> list[JSON]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
