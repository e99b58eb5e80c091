"""Build the request of a plan.

    plan ─► call protocol ─► messages and tools as JSON ─► transforms ─► bytes and hash

No vendor is mentioned here: quirks are transforms, chosen by the config.
"""

import hashlib

import msgspec

from surecall.core.prompted import merge_contents
from surecall.core.protocols import plan_encoder
from surecall.settings.capabilities import Capabilities
from surecall.settings.config import ToolCallingConfig
from surecall.values.errors import ConfigError
from surecall.values.types import JSON, Message, Plan, ToolResult, ToolSpec, User
from surecall.wire.chat_format import encode, render_message, render_tool
from surecall.wire.request_adaptations import BRIDGE_TEXT, adapt_body
from surecall.wire.transforms import MESSAGE, TOOL

BRIDGE = msgspec.Raw(encode({"role": "assistant", "content": BRIDGE_TEXT}))


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request ready to be sent. `hash` is the SHA-256 of `body`."""

    body: bytes
    hash: str
    messages_count: int
    tools_count: int


class ToolDefinitionCache:
    """Caches tool definitions as JSON, shared by all runs with the same tools."""

    def __init__(self) -> None:
        self._cached: dict[tuple[str, ...], tuple[tuple[ToolSpec, ...], msgspec.Raw]] = {}

    def encoded_tools(
        self, tools: tuple[ToolSpec, ...], transforms: tuple[str, ...]
    ) -> msgspec.Raw:
        """Return tools as JSON, with transforms applied."""
        known = self._cached.get(transforms)
        if known is None or known[0] is not tools:
            rendered = [TOOL.apply(transforms, render_tool(spec), []) for spec in tools]
            known = self._cached[transforms] = (tools, msgspec.Raw(encode(rendered)))
        return known[1]


class RequestBuilder:
    """Builds the requests of one run and caches each encoded message.

    A transcript only grows and messages are frozen, so the same message at the same position has
    the same bytes. Without the cache, the n-th turn would encode n turns.
    """

    def __init__(
        self, config: ToolCallingConfig, surfaces: ToolDefinitionCache | None = None
    ) -> None:
        self._config = config
        self._tool_definitions = surfaces or ToolDefinitionCache()
        self._style = config.endpoint.wire_style
        self._cached: list[tuple[Message, msgspec.Raw | None]] = []
        # Rewrites a plan for the call protocol.
        self.encode_plan = plan_encoder(
            config.call_protocol,
            config.max_tool_args_bytes,
            config.endpoint.guided_thought,
            checks_fit=config.endpoint.guided_fit_check and config.demands_nothing,
        )

    def build(self, plan: Plan) -> Request:
        """Return the request of a plan that `encode_plan` has rewritten."""
        if plan.origin != self._style.origin:
            self._style = msgspec.structs.replace(self._style, origin=plan.origin)
            self._cached = []
        body: JSON = {"model": plan.model, "messages": self._encode_messages(plan.messages)}
        if plan.tools:
            transforms = self._config.endpoint.tool_transforms
            body["tools"] = self._tool_definitions.encoded_tools(plan.tools, transforms)
            body["tool_choice"] = plan.tool_choice
        if plan.response_format is not None:
            body["response_format"] = plan.response_format
        for key, value in plan.options.items():
            if key not in self._config.endpoint.unsupported_options:
                body[key] = value
        data = adapt_body(encode(body), plan.lessons)
        digest = hashlib.sha256(data).hexdigest()
        return Request(data, digest, len(body["messages"]), len(plan.tools))

    def _encode_messages(self, messages: tuple[Message, ...]) -> list[msgspec.Raw]:
        cached = self._cached
        for position, message in enumerate(messages):
            if position < len(cached) and cached[position][0] is message:
                continue
            del cached[position:]
            cached.append((message, self._encode_message(message)))
        del cached[len(messages) :]
        sent = self._sent_messages()
        if self._config.endpoint.bridge_user_after_tool:
            return self._with_bridges(sent)
        return [raw for _, raw in sent]

    def _sent_messages(self) -> list[tuple[Message, msgspec.Raw]]:
        """Return the messages to send, with a prompt right after a user message merged into it.

        Many chat templates reject two user messages in a row, which remain when the blank reply
        between them is omitted.
        """
        sent: list[tuple[Message, msgspec.Raw]] = []
        for message, raw in self._cached:
            if raw is None:
                continue
            before = sent[-1][0] if sent else None
            if isinstance(message, User) and message.nudge and isinstance(before, User):
                one = User(merge_contents((before, message)))
                sent[-1] = (one, self._encode_rendered({"role": "user", "content": one.content}))
            else:
                sent.append((message, raw))
        return sent

    def _with_bridges(self, sent: list[tuple[Message, msgspec.Raw]]) -> list[msgspec.Raw]:
        """Return the messages with an assistant message between tool and user messages."""
        rendered: list[msgspec.Raw] = []
        after_tool = False
        for message, raw in sent:
            if after_tool and isinstance(message, User):
                rendered.append(BRIDGE)
            rendered.append(raw)
            after_tool = isinstance(message, ToolResult)
        return rendered

    def _encode_message(self, message: Message) -> msgspec.Raw | None:
        rendered = render_message(message, self._style)
        return None if rendered is None else self._encode_rendered(rendered)

    def _encode_rendered(self, rendered: JSON) -> msgspec.Raw:
        rendered = MESSAGE.apply(self._config.endpoint.message_transforms, rendered, [])
        return msgspec.Raw(encode(rendered))


def preflight(plan: Plan, capabilities: Capabilities | None) -> None:
    """Refuse combinations that no endpoint, or not this one, supports."""
    if plan.tools and plan.response_format is not None:
        raise ConfigError("tools and response_format cannot be combined in one request")
    if plan.tools and capabilities is not None and not capabilities.tools:
        raise ConfigError(f"{plan.model} does not support tools; set tool_use_mode to disabled")
