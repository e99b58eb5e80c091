"""Writes upstream requests: the client's request, with only the necessary changes."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from surecall.core.prompted import merge_contents
from surecall.core.request_building import BRIDGE, Request
from surecall.parsing.names import is_legal_name, legalized_name
from surecall.proxy.repair.request_history import HistoryEntry
from surecall.settings.config import ToolCallingConfig
from surecall.tools.registry import Toolbox, ToolDefinition, ToolRegistry, specs_of
from surecall.tools.schema import MAX_NODES
from surecall.values.errors import ConfigError
from surecall.values.types import (
    JSON,
    Assistant,
    Message,
    Plan,
    ToolResult,
    ToolSpec,
    User,
    is_blank,
)
from surecall.wire.apis.adapter import ClientRequest
from surecall.wire.chat_format import encode, render_message, render_tool, tool_choice_for
from surecall.wire.request_adaptations import SHORT_IDS, adapt_body, rewrite_message
from surecall.wire.transforms import MESSAGE, TOOL

# The tools of a request: calls are validated against them, and the upstream receives them.
#
# A tool with an unusable schema, or one that is not a function, is sent unchanged and its calls are
# not validated. A name that many endpoints reject, such as one with a dot, is replaced, and mapped
# back for the client. The result is cached, because agents send the same tools with every request.

_MAX_CACHED: Final = 256
_MAX_CACHED_BYTES: Final = 512 * 1024
# Schema nodes and pattern states, over all tools of a request. Tools beyond this limit are not
# validated.
_MAX_TOTAL_NODES: Final = 200_000
_tools_cache: OrderedDict[bytes, "RequestTools"] = OrderedDict()


class RequestTools:
    """The tools of a request. `upstream_names` maps the client's names to the names sent.

    Equal definitions are sent once. Different ones with the same name get names of their own, as
    most endpoints reject duplicates and a model could not tell them apart.
    """

    def __init__(self, tools: Sequence[Any]) -> None:
        tools = _without_repeated(tools)
        self.upstream_names = _legal_names(tools)
        sent_names = _distinct_names([self._sent_name(tool) for tool in tools])
        named = [(tool, name) for tool, name in zip(tools, sent_names, strict=True) if name]
        self.client_names = {
            name: function_name(tool) for tool, name in named if name != function_name(tool)
        }
        definitions, left = [], _MAX_TOTAL_NODES
        for tool, name in named:
            definition = _tool_definition(tool, name) if left > 0 else None
            definitions.append(definition or _unchecked_definition(tool, name))
            left -= MAX_NODES if definition is None else definition.validate.size
        self.toolbox: Toolbox = _build_toolbox(definitions)
        self.specs = specs_of(self.toolbox)
        self.upstream_tools = [
            _with_name(tool, name) for tool, name in zip(tools, sent_names, strict=True)
        ]

    @cached_property
    def other_tools(self) -> list[Any]:
        """The tools that are no functions. They are always sent, and limits count them."""
        return [tool for tool in self.upstream_tools if not function_name(tool)]

    def sent_tools(self, specs: tuple[ToolSpec, ...]) -> list[Any]:
        """Return the tools for a request: all, or those of a plan that has only some."""
        if not specs or specs is self.specs:
            return self.upstream_tools
        by_name = {function_name(tool): tool for tool in self.upstream_tools}
        return [
            *self.other_tools,
            *(by_name.get(spec.name) or render_tool(spec) for spec in specs),
        ]

    def _sent_name(self, tool: Any) -> str:
        name = function_name(tool)
        return self.upstream_names.get(name, name)


def _without_repeated(tools: Sequence[Any]) -> list[Any]:
    """Return the tools without repetitions of equal functions."""
    kept: list[Any] = []
    by_name: dict[str, list[Any]] = {}
    for tool in tools:
        same = by_name.setdefault(function_name(tool), [])
        if not function_name(tool) or tool not in same:
            same.append(tool)
            kept.append(tool)
    return kept


def _distinct_names(names: Sequence[str]) -> list[str]:
    """Return the names with a number after those that occurred before; blank ones stay."""
    taken, seen, distinct = set(names), set[str](), list[str]()
    for name in names:
        sent, number = name, 2
        while name and sent in seen:
            candidate = f"{name[:60]}_{number}"
            sent = name if candidate in taken else candidate
            number += 1
        seen.add(sent)
        distinct.append(sent)
    return distinct


def _with_name(tool: Any, name: str) -> Any:
    if function_name(tool) == name:
        return tool
    return tool | {"function": tool["function"] | {"name": name}}


def cached_tools(tools: Sequence[Any]) -> RequestTools | None:
    """Return the cached tools of an earlier request with the same list, if any."""
    return _tools_cache.get(encode(tools))


def build_tools(tools: Sequence[Any]) -> RequestTools:
    """Return the tools of a request, and cache them. Compiling new schemas may take a while."""
    data = encode(tools)
    offer = _tools_cache.pop(data, None) or RequestTools(msgspec.json.decode(data))
    if len(data) <= _MAX_CACHED_BYTES:
        _tools_cache[data] = offer
    while len(_tools_cache) > _MAX_CACHED:
        _tools_cache.popitem(last=False)
    return offer


def function_name(tool: Any) -> str:
    """Return the name of a function; blank for any other tool."""
    match tool:
        case {"type": "function", "function": {"name": str(name)}}:
            return name
        case _:
            return ""


def _legal_names(tools: Iterable[Any]) -> dict[str, str]:
    """Return the names that providers reject, each with the legal name to send instead."""
    names = [name for tool in tools if (name := function_name(tool))]
    taken = {name for name in names if is_legal_name(name)}
    renamed: dict[str, str] = {}
    for name in names:
        if name in taken or name in renamed:
            continue
        sent = plain = legalized_name(name)
        number = 2
        while sent in taken:
            sent = f"{plain[:60]}_{number}"
            number += 1
        taken.add(sent)
        renamed[name] = sent
    return renamed


def _tool_definition(tool: JSON, name: str) -> ToolDefinition | None:
    """Define a tool with its schema; None if the schema is unusable."""
    function = tool["function"]
    bare = _unchecked_definition(tool, name)
    try:
        definition = ToolDefinition(
            bare.name, bare.spec.description, parameters=function.get("parameters")
        )
        definition.validate({})  # compiles the schema
    except ConfigError:
        return None
    return definition


def _unchecked_definition(tool: JSON, name: str) -> ToolDefinition:
    """Define a tool without a schema, whose calls are not validated."""
    description = tool["function"].get("description")
    return ToolDefinition(name, description if isinstance(description, str) else "")


class _ExactNames:
    """A toolbox for names that are too similar: it resolves only exact names."""

    def __init__(self, definitions: Sequence[ToolDefinition]) -> None:
        self._by_name = {each.name: each for each in definitions}

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        return tuple(self._by_name.values())

    def resolve(self, written_name: str) -> ToolDefinition | None:
        return self._by_name.get(written_name)


def _build_toolbox(definitions: Sequence[ToolDefinition]) -> Toolbox:
    try:
        return ToolRegistry(definitions, whole=False)
    except ConfigError:
        return _ExactNames(definitions)


# A request that needs no change is forwarded byte for byte. In a changed request, each unchanged
# message, tool, and field keeps its bytes and its position.

# Fields that the runner sets. All other fields are the client's options.
RUNNER_FIELDS: Final = frozenset({"model", "messages", "tools", "tool_choice"})
_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST_DECODER = msgspec.json.Decoder(list[msgspec.Raw])


class UpstreamRequestWriter:
    """Writes the upstream requests for one client request."""

    def __init__(
        self,
        client_request: ClientRequest,
        entries: tuple[HistoryEntry, ...],
        request_tools: RequestTools,
        config: ToolCallingConfig,
    ) -> None:
        self._client_request = client_request
        self._request_tools = request_tools
        self._config = config
        self._style = config.endpoint.wire_style
        self._entries_by_id = {id(entry.value): entry for entry in entries}
        self._message_count = len(client_request.body["messages"])

    @property
    def encode_plan(self) -> Callable[[Plan], Plan]:
        """Return a function that leaves a plan unchanged: the client sets the call protocol."""
        return lambda plan: plan

    def build(self, plan: Plan) -> Request:
        """Encode one request."""
        messages = self._changed_messages(plan)
        changes: JSON = {} if messages is None else {"messages": messages}
        changes |= self._changed_tools(plan) | self._changed_choice(plan)
        dropped = {
            key
            for key in self._client_request.body
            if key not in RUNNER_FIELDS
            and (key not in plan.options or key in self._config.endpoint.unsupported_options)
        }
        data = adapt_body(self._encode_body(changes, dropped), plan.lessons)
        digest = hashlib.sha256(data).hexdigest()
        return Request(data, digest, len(plan.messages), len(plan.tools))

    def _encode_body(self, changes: JSON, dropped: set[str]) -> bytes:
        """Encode the client's request with changed fields, and without the dropped ones."""
        if not changes and not dropped and self._client_request.client_bytes:
            return self._client_request.client_bytes
        fields = (
            self._raw_fields if self._client_request.client_bytes else self._client_request.body
        )
        return encode(
            {key: value for key, value in (fields | changes).items() if key not in dropped}
        )

    @cached_property
    def _raw_fields(self) -> dict[str, Any]:
        return dict(_FIELDS_DECODER.decode(self._client_request.client_bytes))

    @cached_property
    def _raw_messages(self) -> list[Any]:
        """The client's messages, as raw bytes if available."""
        if not self._client_request.client_bytes:
            return list(self._client_request.body["messages"])
        return list(_LIST_DECODER.decode(self._raw_fields["messages"]))

    def _changed_messages(self, plan: Plan) -> list[Any] | None:
        """Return the messages to send; None if the client's are unchanged."""
        sent = list(self._upstream_messages(plan))
        if sent == list(range(self._message_count)):
            return None
        return [self._raw_messages[item] if isinstance(item, int) else item for item in sent]

    def _upstream_messages(self, plan: Plan) -> Iterator[JSON | msgspec.Raw | int]:
        """Yield the messages to send; an unchanged one as its position in the request."""
        after_tool = False
        for message in self._merged_messages(plan):
            if (
                after_tool
                and isinstance(message, User)
                and self._config.endpoint.bridge_user_after_tool
            ):
                yield BRIDGE
            yield self._upstream_message(message)
            after_tool = isinstance(message, ToolResult)

    def _merged_messages(self, plan: Plan) -> list[Message]:
        """Drop blank assistant turns, and merge follow-up prompts into the user message before.

        The client's own messages stay unchanged.
        """
        spoken: list[Message] = []
        for message in plan.messages:
            if id(message) in self._entries_by_id or not isinstance(message, User | Assistant):
                spoken.append(message)
            elif isinstance(message, Assistant):
                spoken += [message] if message.calls or not is_blank(message.text) else []
            elif message.nudge and isinstance(before := spoken[-1], User):
                spoken[-1] = User(merge_contents((before, message)))
            else:
                spoken.append(message)
        return spoken

    def _upstream_message(self, message: Message) -> JSON | int:
        """Return the message to send, or its position in the client's request if unchanged."""
        entry = self._entries_by_id.get(id(message))
        if entry is None:
            entry = HistoryEntry(message, render_message(message, self._style) or {})
        fields = self._transform_message(self._with_tool_name(entry))
        return fields if fields is not entry.fields or entry.position is None else entry.position

    def _with_tool_name(self, entry: HistoryEntry) -> JSON:
        """Add the tool name to a result, for upstreams that require it."""
        wanted = self._config.endpoint.name_tool_messages
        if not wanted or "name" in entry.fields or not isinstance(entry.value, ToolResult):
            return entry.fields
        return entry.fields | {"name": legalized_name(entry.value.name)}

    def _transform_message(self, fields: JSON) -> JSON:
        """Apply the upstream's transforms; return the same object if nothing changes."""
        config = self._config
        fitted = MESSAGE.apply(config.endpoint.message_transforms, fields, [])
        if not config.endpoint.short_call_ids:
            return fitted
        return _original_if_equal(fields, rewrite_message(fitted, (SHORT_IDS,)))

    def _changed_tools(self, plan: Plan) -> JSON:
        """Return the `tools` field if it differs from the client's; else no field."""
        given = self._client_request.body.get("tools")
        if not isinstance(given, list):
            return {}
        names = self._config.endpoint.tool_transforms
        fitted = [
            self._upstream_tool(tool, names) for tool in self._request_tools.sent_tools(plan.tools)
        ]
        return {} if fitted == given else {"tools": fitted}

    def _upstream_tool(self, tool: Any, transforms: tuple[str, ...]) -> Any:
        """Apply transforms to a function with a schema; return any other tool unchanged."""
        match tool:
            case {"type": "function", "function": {"name": str(), "parameters": dict()}}:
                return TOOL.apply(transforms, tool, [])
            case _:
                return tool

    def _changed_choice(self, plan: Plan) -> JSON:
        """Return the `tool_choice` field if it differs from the client's; else no field."""
        given = self._client_request.body.get("tool_choice")
        if given is None:
            return {}
        if plan.tool_choice != self._config.tool_choice:  # the upstream rejected the client's
            return {"tool_choice": plan.tool_choice}
        match given:
            case {"function": {"name": str(name)}} if name in self._request_tools.upstream_names:
                return {"tool_choice": tool_choice_for(self._request_tools.upstream_names[name])}
            case _:
                return {}


def _original_if_equal(fields: JSON, written: JSON) -> JSON:
    """Return the original fields if the written ones are equal, so that identity tells."""
    return fields if written == fields else written
