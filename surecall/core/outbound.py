"""Outbound: a plan becomes a request.

    plan ─► call protocol ─► messages and tools as JSON ─► transforms ─► bytes and hash

No vendor is mentioned here: quirks are transforms, chosen by the config.
"""

import hashlib
from typing import TypeAlias

import msgspec

from surecall.settings.capabilities import Capabilities
from surecall.settings.config import ToolCallingConfig
from surecall.values.errors import ConfigError
from surecall.values.types import (
    JSON,
    Message,
    Plan,
    ToolResult,
    ToolSpec,
    User,
)
from surecall.wire.history_codec import NAME, taught, taught_tool
from surecall.wire.messages import (
    encode,
    render_message,
    render_tool,
)
from surecall.wire.protocols import speaker
from surecall.wire.protocols.in_words import in_one
from surecall.wire.transforms import MESSAGE, TOOL

_Style: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
BRIDGE = msgspec.Raw(b'{"role":"assistant","content":"Understood."}')


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request, ready to be sent. `hash` is the SHA-256 of exactly these bytes."""

    body: bytes
    hash: str
    messages_count: int
    tools_count: int


class Surfaces:
    """Tools as JSON: written once for as long as they are the same ones, whichever run asks."""

    def __init__(self) -> None:
        self._newest: dict[_Style, tuple[tuple[ToolSpec, ...], msgspec.Raw]] = {}

    def written(self, tools: tuple[ToolSpec, ...], style: _Style) -> msgspec.Raw:
        """Return tools as JSON, in a style: the transforms and the lessons that apply."""
        known = self._newest.get(style)
        if known is None or known[0] is not tools:
            names, lessons = style
            rendered = [
                taught_tool(TOOL.apply(names, render_tool(spec), []), lessons) for spec in tools
            ]
            known = self._newest[style] = (tools, msgspec.Raw(encode(rendered)))
        return known[1]


class Composer:
    """Writes the requests of one run. What was written before is not written again.

    A transcript only grows, and messages are frozen, so a message in the same place as in
    the last plan has the same bytes. Without this, the n-th turn would pay for n turns.
    """

    def __init__(self, config: ToolCallingConfig, surfaces: Surfaces | None = None) -> None:
        self._config = config
        self._surfaces = surfaces or Surfaces()
        self._style = config.endpoint.wire_style
        self._lessons: tuple[str, ...] = ()
        self._written: list[tuple[Message, msgspec.Raw | None]] = []
        # Puts a plan into the words of the call protocol.
        self.speak = speaker(
            config.call_protocol,
            config.max_tool_args_bytes,
            config.endpoint.guided_thought,
            checks_fit=config.endpoint.guided_fit_check and config.demands_nothing,
        )

    def compose(self, plan: Plan) -> Request:
        """Write one request, of a plan that is in the words of the protocol."""
        self._heed(plan)
        body: JSON = {"model": plan.model, "messages": self._messages(plan.messages)}
        if plan.tools:
            style = (self._config.endpoint.tool_transforms, self._lessons)
            body["tools"] = self._surfaces.written(plan.tools, style)
            body["tool_choice"] = plan.tool_choice
        if plan.response_format is not None:
            body["response_format"] = plan.response_format
        for key, value in plan.options.items():
            if key not in self._config.endpoint.unsupported_options:
                body[key] = value
        data = encode(body)
        digest = hashlib.sha256(data).hexdigest()
        return Request(data, digest, len(body["messages"]), len(plan.tools))

    def _heed(self, plan: Plan) -> None:
        """Forget what was written for another endpoint, or before a lesson was learned."""
        if (plan.origin, plan.lessons) != (self._style.origin, self._lessons):
            names = self._config.endpoint.name_tool_messages or NAME in plan.lessons
            self._style = msgspec.structs.replace(
                self._style, origin=plan.origin, name_tool_messages=names
            )
            self._lessons = plan.lessons
            self._written = []

    def _messages(self, messages: tuple[Message, ...]) -> list[msgspec.Raw]:
        written = self._written
        for position, message in enumerate(messages):
            if position < len(written) and written[position][0] is message:
                continue
            del written[position:]
            written.append((message, self._message(message)))
        del written[len(messages) :]
        sent = self._sent()
        if self._config.endpoint.bridge_user_after_tool:
            return self._bridged(sent)
        return [raw for _, raw in sent]

    def _sent(self) -> list[tuple[Message, msgspec.Raw]]:
        """Leave out what is never sent. What the loop says right after the user becomes part of it.

        Many templates refuse two messages of the user in a row, which is what is left when the
        model's reply between them was blank.
        """
        sent: list[tuple[Message, msgspec.Raw]] = []
        for message, raw in self._written:
            if raw is None:
                continue
            before = sent[-1][0] if sent else None
            if isinstance(message, User) and message.nudge and isinstance(before, User):
                one = User(in_one((before, message)))
                sent[-1] = (one, self._encoded({"role": "user", "content": one.content}))
            else:
                sent.append((message, raw))
        return sent

    def _bridged(self, sent: list[tuple[Message, msgspec.Raw]]) -> list[msgspec.Raw]:
        """Put an assistant's word between a tool's result and what the user says next."""
        rendered: list[msgspec.Raw] = []
        after_tool = False
        for message, raw in sent:
            if after_tool and isinstance(message, User):
                rendered.append(BRIDGE)
            rendered.append(raw)
            after_tool = isinstance(message, ToolResult)
        return rendered

    def _message(self, message: Message) -> msgspec.Raw | None:
        rendered = render_message(message, self._style)
        return None if rendered is None else self._encoded(rendered)

    def _encoded(self, rendered: JSON) -> msgspec.Raw:
        rendered = MESSAGE.apply(self._config.endpoint.message_transforms, rendered, [])
        return msgspec.Raw(encode(taught(rendered, self._lessons)))


def preflight(plan: Plan, capabilities: Capabilities | None) -> None:
    """Refuse combinations that no endpoint, or not this one, can serve."""
    if plan.tools and plan.response_format is not None:
        raise ConfigError("tools and response_format cannot go into one request")
    if plan.tools and capabilities is not None and not capabilities.tools:
        raise ConfigError(f"{plan.model} does not support tools; set tool_use_mode to disabled")
