"""What the upstream is sent: the client's request, and of it only what must change, changed.

A request that needs no change goes out byte for byte. In one that does, every message, tool and
field that is left as it was keeps its own bytes and its place.
"""

import hashlib
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final

import msgspec

from surecall.core.outbound import BRIDGE, Request
from surecall.parsing.names import legal
from surecall.proxy.faces.face import Asked
from surecall.proxy.healing.history import Entry
from surecall.proxy.healing.tools import Offer
from surecall.settings.config import ToolCallingConfig
from surecall.values.types import JSON, Assistant, Message, Plan, ToolResult, User, is_blank
from surecall.wire.history_codec import NAME, NINE, taught, taught_tool
from surecall.wire.messages import encode, named_choice, render_message
from surecall.wire.protocols.in_words import in_one
from surecall.wire.transforms import MESSAGE, TOOL

# What the runner owns; everything else in a request is an option of the client's.
OWNED: Final = frozenset({"model", "messages", "tools", "tool_choice"})
_SPLIT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


class Outbound:
    """Writes the requests of one exchange with the upstream."""

    def __init__(
        self, asked: Asked, entries: tuple[Entry, ...], offer: Offer, config: ToolCallingConfig
    ) -> None:
        self._asked = asked
        self._offer = offer
        self._config = config
        self._style = config.endpoint.wire_style
        self._known = {id(entry.value): entry for entry in entries}
        self._whole = len(asked.body["messages"])

    @property
    def speak(self) -> Callable[[Plan], Plan]:
        """Leave a plan as it is: calls are asked for as the client does."""
        return lambda plan: plan

    def compose(self, plan: Plan) -> Request:
        """Write one request."""
        messages = self._messages(plan)
        changes: JSON = {} if messages is None else {"messages": messages}
        changes |= self._tools(plan) | self._choice(plan)
        dropped = {
            key
            for key in self._asked.body
            if key not in OWNED
            and (key not in plan.options or key in self._config.endpoint.unsupported_options)
        }
        data = self._spliced(changes, dropped)
        digest = hashlib.sha256(data).hexdigest()
        return Request(data, digest, len(plan.messages), len(plan.tools))

    def _spliced(self, changes: JSON, dropped: set[str]) -> bytes:
        if not changes and not dropped and self._asked.data:
            return self._asked.data
        fields = self._raw if self._asked.data else self._asked.body
        return encode(
            {key: value for key, value in (fields | changes).items() if key not in dropped}
        )

    @cached_property
    def _raw(self) -> dict[str, Any]:
        return dict(_SPLIT.decode(self._asked.data))

    @cached_property
    def _pieces(self) -> list[Any]:
        """The messages of the client, each with its own bytes where there are any."""
        if not self._asked.data:
            return list(self._asked.body["messages"])
        return list(_LIST.decode(self._raw["messages"]))

    def _messages(self, plan: Plan) -> list[Any] | None:
        """Return the messages that are sent; None if they are those of the client."""
        sent = list(self._sent(plan))
        if sent == list(range(self._whole)):
            return None
        return [self._pieces[item] if isinstance(item, int) else item for item in sent]

    def _sent(self, plan: Plan) -> Iterator[JSON | msgspec.Raw | int]:
        after_tool = False
        for message in self._spoken(plan):
            if (
                after_tool
                and isinstance(message, User)
                and self._config.endpoint.bridge_user_after_tool
            ):
                yield BRIDGE
            yield self._message(message, plan.lessons)
            after_tool = isinstance(message, ToolResult)

    def _spoken(self, plan: Plan) -> list[Message]:
        """Leave out blank turns of the model, and join what the loop says to the user's words.

        Only what came after the client's own messages: those are as the client wants them.
        """
        spoken: list[Message] = []
        for message in plan.messages:
            if id(message) in self._known or not isinstance(message, User | Assistant):
                spoken.append(message)
            elif isinstance(message, Assistant):
                spoken += [message] if message.calls or not is_blank(message.text) else []
            elif message.nudge and isinstance(before := spoken[-1], User):
                spoken[-1] = User(in_one((before, message)))
            else:
                spoken.append(message)
        return spoken

    def _message(self, message: Message, lessons: tuple[str, ...]) -> JSON | int:
        """Return a message as it is sent, or its place in the client's request."""
        entry = self._known.get(id(message))
        if entry is None:
            entry = Entry(message, render_message(message, self._style) or {})
        fields = self._fitted(self._named(entry, lessons), lessons)
        return fields if fields is not entry.fields or entry.place is None else entry.place

    def _named(self, entry: Entry, lessons: tuple[str, ...]) -> JSON:
        """Add the name of the tool to its result, for upstreams that want it."""
        wanted = self._config.endpoint.name_tool_messages or NAME in lessons
        if not wanted or "name" in entry.fields or not isinstance(entry.value, ToolResult):
            return entry.fields
        return entry.fields | {"name": legal(entry.value.name)}

    def _fitted(self, fields: JSON, lessons: tuple[str, ...]) -> JSON:
        """Write a message as this upstream wants to see it; the same one if it does."""
        config = self._config
        fitted = MESSAGE.apply(config.endpoint.message_transforms, fields, [])
        taken = (*lessons, NINE) if config.endpoint.short_call_ids else lessons
        return _same_or(fields, taught(fitted, taken)) if taken else fitted

    def _tools(self, plan: Plan) -> JSON:
        given = self._asked.body.get("tools")
        if not isinstance(given, list):
            return {}
        names = self._config.endpoint.tool_transforms
        fitted = [self._tool(tool, names, plan.lessons) for tool in self._offer.sent]
        return {} if fitted == given else {"tools": fitted}

    def _tool(self, tool: Any, names: tuple[str, ...], lessons: tuple[str, ...]) -> Any:
        match tool:
            case {"type": "function", "function": {"name": str(), "parameters": dict()}}:
                return taught_tool(TOOL.apply(names, tool, []), lessons)
            case _:
                return tool

    def _choice(self, plan: Plan) -> JSON:
        given = self._asked.body.get("tool_choice")
        if given is None:
            return {}
        if plan.tool_choice != self._config.tool_choice:  # the upstream was found to refuse it
            return {"tool_choice": plan.tool_choice}
        match given:
            case {"function": {"name": str(name)}} if name in self._offer.renamed:
                return {"tool_choice": named_choice(self._offer.renamed[name])}
            case _:
                return {}


def _same_or(fields: JSON, written: JSON) -> JSON:
    return fields if written == fields else written
