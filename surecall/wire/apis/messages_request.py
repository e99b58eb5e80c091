"""Converts a Messages request to a chat completion request.

Messages:

    assistant   text, tool_use, thinking ─► one message: text, calls, and the echoed state
    user        tool_result, the rest    ─► tool messages, then one user message
    assistant   blocks of other types    ─► the same, each after a label
    system      at the beginning, or between the others

Chat endpoints require the results of calls directly after the calls. So of everything that follows
an assistant message, the results come first. Ids may be missing or wrong: `legal_places` corrects
the history later, for all APIs.

Fields:

    forwarded   model, messages, system, tools, tool_choice, max_tokens, temperature, top_p,
                stop_sequences, stream, metadata.user_id, the format of output_config
    dropped     what only Anthropic's servers support: `NATIVE_OPTIONS`, effort, and the like, and
                tools without a schema
    rejected    what changes the meaning of the request: mcp_servers, container
"""

from typing import Any

from surecall.values.types import JSON
from surecall.wire.apis.adapter import (
    InvalidRequest,
    ProviderState,
    content_from_parts,
    decode_state,
    text_part,
    with_provider_state,
)
from surecall.wire.apis.messages_content import (
    CACHE_CONTROL,
    block_parts,
    content_blocks,
    is_text_part,
    result_parts,
    with_cache_control,
)
from surecall.wire.chat_format import BLOCK_LABEL, encode, normalize_id, plain_id, tool_choice_for

_CALL_FAILED = "The tool call failed:"
_ASSISTANT_BLOCKS = frozenset(
    {"text", "tool_use", "thinking", "redacted_thinking", "server_tool_use"}
)
_RESULT_FOLLOWS = "The result is in the next message."


def chat_messages(request: JSON) -> list[JSON]:
    """Convert the messages of a request; raise `InvalidRequest` if one cannot be converted."""
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise InvalidRequest("messages: at least one message is required.", "messages")
    written = _system_messages(request.get("system"), "system")
    later: list[JSON] = []
    shown = _SentMedia()
    for at, message in enumerate(messages):
        where = f"messages.{at}"
        if _message_role(message, where) == "assistant":
            written = _append_assistant([*written, *later], message, where)
            shown.forget(content_blocks(message.get("content"), where))
            results, later = _misplaced_blocks(message, where)
        else:
            results, rest = _split_message(message, where, shown)
            later += rest
        written += results
    if not written and not later:
        raise InvalidRequest("messages: no message has content to send.", "messages")
    return [*written, *later]


def _message_role(message: Any, where: str) -> str:
    match message:
        case {"role": "user" | "assistant" | "system" as role}:
            return str(role)
        case _:
            raise InvalidRequest(
                f"{where}: a message must be an object with role user, assistant, or system.",
                where,
            )


def _system_messages(content: Any, where: str) -> list[JSON]:
    if content is None:
        return []
    parts = [part for block in content_blocks(content, where) for part in block_parts(block, where)]
    return [{"role": "system", "content": content_from_parts(parts)}] if parts else []


class _SentMedia:
    """Images and files of tool results that were sent; a repeated result sends them once."""

    def __init__(self) -> None:
        self._seen: dict[str, set[bytes]] = {}
        self._call_ids: set[str] = set()

    def forget(self, blocks: list[JSON]) -> None:
        """Forget the results of calls whose ids are reused."""
        ids = {normalize_id(block.get("id")) for block in blocks if block["type"] == "tool_use"}
        for call_id in ids & self._call_ids:
            self._seen.pop(call_id, None)
        self._call_ids |= ids

    def add(self, result: JSON, media: list[JSON]) -> list[JSON]:
        """Return the media, unless the same result with the same id was sent before."""
        call_id = result["tool_call_id"]
        if not media or not call_id:
            return media
        seen = self._seen.setdefault(call_id, set())
        data = encode([result, media])
        if data in seen:
            return []
        seen.add(data)
        return media


def _split_message(
    message: JSON, where: str, sent_media: _SentMedia
) -> tuple[list[JSON], list[JSON]]:
    """Return the tool results in a message, and its other content."""
    content = message.get("content")
    if message["role"] == "system":
        return [], _system_messages(content, where)
    if isinstance(content, str):
        return [], [{"role": "user", "content": content}]
    results: list[JSON] = []
    beside: list[JSON] = []
    said: list[JSON] = []
    for block, place in _blocks_with_paths(content, where):
        if block["type"] == "tool_result":
            result, media = _tool_message(block, place)
            results.append(result)
            beside += sent_media.add(result, media)
        else:
            said += block_parts(block, place)
    return results, _user_messages([*beside, *said])


def _blocks_with_paths(content: Any, where: str) -> list[tuple[JSON, str]]:
    """Return the blocks of a message, each with its path in the request."""
    blocks = content_blocks(content, where)
    return [(block, f"{where}.content.{at}") for at, block in enumerate(blocks)]


def _user_messages(parts: list[JSON]) -> list[JSON]:
    return [{"role": "user", "content": content_from_parts(parts)}] if parts else []


def _misplaced_blocks(message: JSON, where: str) -> tuple[list[JSON], list[JSON]]:
    """Return the results in an assistant message, and its blocks that only a user may send."""
    results: list[JSON] = []
    parts: list[JSON] = []
    for block, place in _blocks_with_paths(message.get("content"), where):
        if block["type"] == "tool_result":
            result, media = _tool_message(block, place)
            results.append(result)
            parts += media
        elif block["type"] not in _ASSISTANT_BLOCKS:
            kind = encode(block["type"]).decode()
            label = f"{BLOCK_LABEL}{kind} in the assistant's message:"
            parts += [text_part(label), *result_parts(block, place)]
    return results, _user_messages(parts)


def _tool_message(block: JSON, where: str) -> tuple[JSON, list[JSON]]:
    """Return the tool message for a result, and the media that need a user message."""
    call_id = normalize_id(block.get("tool_use_id"))
    content = block.get("content")
    inner = content_blocks(content, where) if content is not None else []
    parts = [part for each in inner for part in result_parts(each, where)]
    texts = [part for part in parts if is_text_part(part)]
    media = [part for part in parts if not is_text_part(part)]
    if media:
        texts = texts or [text_part(_RESULT_FOLLOWS)]
        media = [text_part(f"From the result of the call {call_id}".rstrip() + ":"), *media]
    if block.get("is_error") is True:
        texts = [text_part(_CALL_FAILED), *texts]
    return {
        "role": "tool",
        "tool_call_id": call_id,
        "content": _result_content(texts, block),
    }, media


def _result_content(texts: list[JSON], block: JSON) -> str | list[JSON]:
    parts = with_cache_control(texts, block)
    if any(CACHE_CONTROL in part for part in parts):
        return parts
    return "\n".join(part["text"] for part in parts)


def _append_assistant(messages: list[JSON], message: JSON, where: str) -> list[JSON]:
    """Return the messages with an assistant message, merged into the last one if that calls."""
    answer = _assistant_message(message.get("content"), where)
    if not answer.get("content") and answer.keys() == {"role", "content"}:
        return messages
    if messages and "tool_calls" in messages[-1]:
        return [*messages[:-1], _merge_assistant(messages[-1], answer)]
    return [*messages, answer]


def _merge_assistant(first: JSON, second: JSON) -> JSON:
    """Merge two assistant messages, because the results of both follow the second one."""
    contents = [message["content"] for message in (first, second) if message["content"]]
    parts = [
        part
        for content in contents
        for part in ([text_part(content)] if isinstance(content, str) else content)
    ]
    calls = [*first["tool_calls"], *second.get("tool_calls", ())]
    return first | second | {"content": content_from_parts(parts) or None, "tool_calls": calls}


def _assistant_message(content: Any, where: str) -> JSON:
    parts: list[JSON] = []
    calls: list[JSON] = []
    state = ProviderState()
    for block, place in _blocks_with_paths(content, where):
        match block:
            case {"type": "text"}:
                parts += block_parts(block, place)
            case {"type": "tool_use"}:
                calls.append(_chat_call(block, place))
            case {"type": "thinking", "signature": sealed} | {
                "type": "redacted_thinking",
                "data": sealed,
            }:
                # Each state holds everything known when it was encoded: the last one counts.
                found = decode_state(sealed)
                state = state if found is None else found
            case _:
                pass  # another model's thinking, empty searches, or see `_misplaced_blocks`
    message: JSON = {"role": "assistant", "content": _assistant_content(parts, calls)}
    message |= {"tool_calls": calls} if calls else {}
    return with_provider_state(message, state)


def _assistant_content(parts: list[JSON], calls: list[JSON]) -> str | list[JSON] | None:
    if any(CACHE_CONTROL in part for part in parts):
        return parts
    # The text blocks of a message are one text, split where another block came between.
    text = "".join(part["text"] for part in parts)
    return text or (None if calls else "")


def _chat_call(block: JSON, where: str) -> JSON:
    match block:
        case {"name": str(name), "input": dict(given)}:
            function = {"name": name, "arguments": encode(given).decode()}
            return {"id": normalize_id(block.get("id")), "type": "function", "function": function}
        case _:
            raise InvalidRequest(
                f"{where}: a tool_use block must have a `name` and an `input` object.",
                where,
            )


_SHARED_FIELDS = ("max_tokens", "temperature", "top_p", CACHE_CONTROL)
# Options without a counterpart. They are forwarded only to an upstream with the same API.
NATIVE_OPTIONS = ("thinking", "top_k", "service_tier", "context_management", "output_config")
_UNSUPPORTED_FIELDS = {
    "mcp_servers": "a chat completion cannot call MCP servers. Connect to them in the client and "
    "send their tools in `tools`.",
    "container": "containers and skills run only on Anthropic's servers. Leave out `container`.",
}
# OpenAI's limit. The user id that Claude Code sends is more than twice as long.
_MAX_USER_CHARS = 64
_TOOL_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def chat_request(request: JSON) -> JSON:
    """Convert a request; raise `InvalidRequest` if a chat completion cannot express it."""
    if not isinstance(request.get("model"), str):
        raise InvalidRequest("model: a string is required.", "model")
    for field, reason in _UNSUPPORTED_FIELDS.items():
        if request.get(field):
            raise InvalidRequest(f"{field}: {reason}", field)
    body: JSON = {"model": request["model"], "messages": chat_messages(request)}
    body |= {key: request[key] for key in _SHARED_FIELDS if request.get(key) is not None}
    body |= _tool_fields(request) | _option_fields(request)
    if request.get("stream") is True:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def _option_fields(request: JSON) -> JSON:
    options: JSON = {}
    if request.get("stop_sequences"):
        options["stop"] = request["stop_sequences"]
    match request.get("metadata"):
        case {"user_id": str(user)} if user:
            options["user"] = user if len(user) <= _MAX_USER_CHARS else plain_id(user, "user_")
    schema = _output_schema(request)
    if schema is not None:
        # Not `strict`, with which OpenAI rejects many schemas that Anthropic accepts.
        form = {"name": "output", "schema": schema}
        options["response_format"] = {"type": "json_schema", "json_schema": form}
    return options


def _output_schema(request: JSON) -> JSON | None:
    match request:
        case {"output_config": {"format": {"type": "json_schema", "schema": dict(schema)}}}:
            return schema
        case {"output_format": {"type": "json_schema", "schema": dict(schema)}}:
            return schema
        case _:
            return None


def _tool_fields(request: JSON) -> JSON:
    tools = _chat_tools(request.get("tools"))
    choice = request.get("tool_choice")
    wanted = _chat_tool_choice(choice, [tool["function"]["name"] for tool in tools])
    if not tools:
        return {}
    offer: JSON = {"tools": tools}
    if wanted is not None:
        offer["tool_choice"] = wanted
    if isinstance(choice, dict) and choice.get("disable_parallel_tool_use") is True:
        offer["parallel_tool_calls"] = False
    return offer


def _chat_tools(tools: Any) -> list[JSON]:
    if tools is None:
        return []
    if not isinstance(tools, list):
        raise InvalidRequest("tools: a list is required.", "tools")
    read = [_chat_tool(tool, f"tools.{at}") for at, tool in enumerate(tools)]
    return [tool for tool in read if tool is not None]


def _chat_tool(tool: Any, where: str) -> JSON | None:
    match tool:
        case {"name": str(name), "input_schema": dict(schema)}:
            described = {"description": tool["description"]} if tool.get("description") else {}
            function = {"name": name} | described | {"parameters": schema}
            mark = (
                {CACHE_CONTROL: tool[CACHE_CONTROL]}
                if isinstance(tool.get(CACHE_CONTROL), dict)
                else {}
            )
            return {"type": "function", "function": function} | mark
        case {"type": str(kind)} if kind != "custom":
            return None
        case _:
            raise InvalidRequest(
                f"{where}: a tool must have a `name` and an `input_schema`.", where
            )


def _chat_tool_choice(choice: Any, names: list[str]) -> str | JSON | None:
    match choice:
        case None:
            return None
        case {"type": "any"} if not names:
            raise InvalidRequest(
                "tool_choice: any requires a tool, but `tools` has none that a chat completion "
                "can call.",
                "tool_choice",
            )
        case {"type": "auto" | "any" | "none" as kind}:
            return _TOOL_CHOICES[kind]
        case {"type": "tool", "name": str(name)} if name in names:
            return tool_choice_for(name)
        case {"type": "tool", "name": str(name)}:
            raise InvalidRequest(
                f"tool_choice: `tools` has no tool {name} that a chat completion can call.",
                "tool_choice",
            )
        case _:
            raise InvalidRequest(
                "tool_choice: type must be auto, any, tool, or none.", "tool_choice"
            )
