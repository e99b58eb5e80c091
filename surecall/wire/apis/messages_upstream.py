"""Anthropic's Messages API as an upstream: requests, replies, and events.

Requests:

    system, developer               ─► `system`, all of them at the beginning
    assistant                       ─► text, tool_use, and the saved blocks of the turn in place
    tool, then user                 ─► one user message, results first
    max_tokens missing              ─► `DEFAULT_MAX_TOKENS`, which the API requires
    parallel_tool_calls: false      ─► `disable_parallel_tool_use`
    reasoning_effort                ─► `output_config.effort`
    options of OpenAI's accounts    ─► dropped
    any other option                ─► unchanged, such as `thinking`; the endpoint may refuse it

Replies: text is joined, `input` keeps its bytes, and blocks of other types are saved in the
message. The text of thinking blocks is also `reasoning_content`, for people to read. It is not sent
back.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from surecall.values.types import JSON, is_blank, object_or_empty
from surecall.wire.apis.adapter import InvalidRequest
from surecall.wire.apis.native_turns import (
    EMPTY_SCHEMA,
    REASONING,
    SEPARATOR,
    Delta,
    TextPieces,
    argument_json,
    chat_completion,
    choice_name,
    history_messages,
    message_text,
    role_of,
    save_turn,
    saved_items,
    token_count,
    type_of,
    upstream_id,
)
from surecall.wire.chat_format import encode, raw_calls
from surecall.wire.content_parts import call_of, text_of

MESSAGES: Final = "messages"
# What every current model can write. Longer replies need `max_tokens` in the request.
DEFAULT_MAX_TOKENS: Final = 8192
_CACHE_CONTROL: Final = "cache_control"
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_HANDLED: Final = frozenset(
    {
        *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "max_tokens"),
        *("max_completion_tokens", "stop", "stream", "stream_options", "response_format"),
        *("reasoning_effort", "user", "metadata", "output_config"),
        # What only OpenAI's accounts and caches know.
        *("store", "prompt_cache_key", "safety_identifier", "verbosity"),
    }
)
_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}
_FIRST_USER: Final[JSON] = {"role": "user", "content": [{"type": "text", "text": "Continue."}]}


def encode_messages_request(body: JSON) -> JSON:
    """Convert a chat request; raise `InvalidRequest` if the Messages API cannot express it."""
    messages = history_messages(body)
    system = [part for each in messages if _is_system(each) for part in _blocks(each["content"])]
    native: JSON = {"model": body.get("model"), "messages": _turns(messages)}
    native["max_tokens"] = _max_tokens(body)
    if system:
        native["system"] = _plain_text(system)
    native |= _tool_fields(body) | _option_fields(body)
    return native | {
        key: value
        for key, value in body.items()
        if key not in _HANDLED and value is not None and not _is_default(key, value)
    }


def _is_system(message: JSON) -> bool:
    return role_of(message) in {"system", "developer"} and message.get("content") is not None


def _is_default(key: str, value: Any) -> bool:
    """Whether an option has the value that the Messages API implies."""
    return (key == "n" and value == 1) or (key == "logprobs" and not value)


def _max_tokens(body: JSON) -> Any:
    """Return the limit of output tokens, which the Messages API requires."""
    given = body.get("max_tokens", body.get("max_completion_tokens"))
    budget = object_or_empty(body.get("thinking")).get("budget_tokens")
    if given is not None:
        return given
    # The limit includes the thinking.
    return DEFAULT_MAX_TOKENS + (budget if type(budget) is int and budget > 0 else 0)


def _option_fields(body: JSON) -> JSON:
    options: JSON = {}
    if stop := body.get("stop"):
        options["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if body.get("stream") is True:
        options["stream"] = True
    user = object_or_empty(body.get("metadata")).get("user_id") or body.get("user")
    if isinstance(user, str) and user:
        options["metadata"] = {"user_id": user}
    output: JSON = dict(object_or_empty(body.get("output_config")))
    if body.get("reasoning_effort") not in (None, "none"):
        output["effort"] = body["reasoning_effort"]
    match body.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            output["format"] = {"type": "json_schema", "schema": schema}
        case None | {"type": "text"}:
            pass
        case form:
            options["response_format"] = form  # the endpoint refuses it by name
    return options | ({"output_config": output} if output else {})


def _tool_fields(body: JSON) -> JSON:
    tools = body.get("tools")
    if not isinstance(tools, list) or not tools:
        return {}
    fields: JSON = {"tools": [_native_tool(tool) for tool in tools]}
    choice = body.get("tool_choice")
    name = choice_name(choice)
    if name is not None:
        wanted: JSON = {"type": "tool", "name": name}
    else:
        wanted = {"type": _CHOICES.get(choice, "auto") if isinstance(choice, str) else "auto"}
    if body.get("parallel_tool_calls") is False and wanted["type"] != "none":
        wanted["disable_parallel_tool_use"] = True
    if choice is not None or len(wanted) > 1:
        fields["tool_choice"] = wanted
    return fields


def _native_tool(tool: Any) -> Any:
    match tool:
        case {"type": "function", "function": {"name": name, **function}}:
            schema = function.get("parameters")
            native: JSON = {"name": name}
            if function.get("description"):
                native["description"] = function["description"]
            native["input_schema"] = schema if isinstance(schema, dict) and schema else EMPTY_SCHEMA
            return native | _cache_control(tool)
        case _:
            return tool


def _cache_control(holder: JSON) -> JSON:
    mark = holder.get(_CACHE_CONTROL)
    return {_CACHE_CONTROL: mark} if isinstance(mark, dict) else {}


def _plain_text(blocks: list[JSON]) -> str | list[JSON]:
    """Return blocks as a string if they are one plain text."""
    match blocks:
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            return text
        case _:
            return blocks


# The history.


def _turns(messages: list[JSON]) -> list[JSON]:
    """Return the messages with those of one role in a row merged; the first one is a user's."""
    turns: list[JSON] = []
    for message in messages:
        role = role_of(message)
        if role in {"system", "developer"}:
            continue
        if role == "assistant":
            blocks, role = _assistant_blocks(message), "assistant"
        elif role == "tool":
            blocks, role = [_result_block(message)], "user"
        else:
            blocks, role = _blocks(message.get("content")), "user"
        if blocks and turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": list(blocks)})
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, _FIRST_USER)
    return [turn | {"content": _final_blocks(turn)} for turn in turns]


def _final_blocks(turn: JSON) -> str | list[JSON]:
    """Return the content of a merged turn: results first, and a single text as a string."""
    blocks: list[JSON] = turn["content"]
    if turn["role"] == "assistant":
        return _plain_text(blocks)
    return _plain_text(sorted(blocks, key=lambda block: type_of(block) != "tool_result"))


def _result_block(message: JSON) -> JSON:
    block: JSON = {
        "type": "tool_result",
        "tool_use_id": upstream_id(message.get("tool_call_id")),
    }
    content = message.get("content")
    inner: Any = content if isinstance(content, str) else _plain_text(_blocks(content))
    return block | {"content": inner} if inner else block


def _blocks(content: Any) -> list[JSON]:
    parts = content if isinstance(content, list) else [content]
    blocks = [block for part in parts if (block := _block(part)) is not None]
    return [block for block in blocks if type_of(block) != "text" or _has_text(block)]


def _has_text(block: JSON) -> bool:
    text = block.get("text")
    return isinstance(text, str) and not is_blank(text)


def _block(part: Any) -> JSON | None:
    """Convert a content part; raise `InvalidRequest` if the API has no block for it."""
    match part:
        case None:
            return None
        case str(text) | {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            block: JSON = {"type": "text", "text": text}
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            block = {"type": "image", "source": _source(url)}
        case {"type": "file", "file": {"file_data": str(url), **file}}:
            block = {"type": "document", "source": _source(url)}
            if file.get("filename"):
                block["title"] = file["filename"]
        case {"type": "file" | "input_audio" as kind}:
            raise InvalidRequest(f"The Messages API cannot hold this {kind} part.", "messages")
        case {"type": str()}:
            return dict(part)  # a block of the API itself
        case _:
            return {"type": "text", "text": encode(part).decode()}
    return block | (_cache_control(part) if isinstance(part, dict) else {})


def _source(url: str) -> JSON:
    """Return the source of a file: its URL, or the data that a data URL contains."""
    head, comma, data = url.partition(",")
    if not head.startswith("data:") or not comma:
        return {"type": "url", "url": url}
    media = head.removeprefix("data:").split(";")[0] or "application/octet-stream"
    return {"type": "base64", "media_type": media, "data": data}


def _assistant_blocks(message: JSON) -> list[JSON]:
    calls = {upstream_id(call.get("id")): call for call in raw_calls(message)}
    saved = saved_items(message, MESSAGES)
    if saved:
        blocks = _saved_blocks(message, saved, calls)
    else:
        given = _blocks(message.get("content")) or _blocks(message_text(message))
        blocks = [block for block in given if call_of(block) is None]
    blocks += map(_tool_use, calls.values())
    # A turn may not end with thinking.
    while blocks and type_of(blocks[-1]) in _THINKING:
        blocks.pop()
    return blocks


def _saved_blocks(message: JSON, saved: list[JSON], calls: dict[str, JSON]) -> list[JSON]:
    """Return the saved blocks with their texts and inputs; remove their calls from `calls`."""
    lengths = [item.get("text") for item in saved if type_of(item) == "text"]
    pieces = TextPieces(message_text(message), lengths, "")
    blocks: list[JSON] = []
    for item in saved:
        if type_of(item) == "text":
            blocks += _text_blocks(item, pieces.take(item.get("text")))
        elif type_of(item) == "tool_use":
            if (call := calls.pop(upstream_id(item.get("id")), None)) is not None:
                blocks.append(item | _tool_use(call))
        else:
            blocks.append(item)
    kinds = [type_of(block) for block in blocks]
    place = kinds.index("tool_use") if "tool_use" in kinds else len(blocks)
    blocks[place:place] = _text_blocks({"type": "text"}, pieces.rest)
    return _with_cache_control(blocks, message.get("content"))


def _with_cache_control(blocks: list[JSON], content: Any) -> list[JSON]:
    """Return blocks with the last cache marker of the content on the last text."""
    parts = content if isinstance(content, list) else []
    marks = [mark for part in parts if isinstance(part, dict) and (mark := _cache_control(part))]
    texts = [at for at, block in enumerate(blocks) if type_of(block) == "text"]
    if marks and texts:
        blocks[texts[-1]] = blocks[texts[-1]] | marks[-1]
    return blocks


def _text_blocks(item: JSON, text: str) -> list[JSON]:
    """Return a text block with the other fields of an item; none for blank text."""
    return [] if is_blank(text) else [item | {"text": text}]


def _tool_use(call: JSON) -> JSON:
    function = object_or_empty(call.get("function"))
    return {
        "type": "tool_use",
        "id": upstream_id(call.get("id")),
        "name": function.get("name"),
        "input": argument_json(function.get("arguments")),
    }


# Replies.

_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


class _RawBlock(msgspec.Struct):
    input: msgspec.Raw = msgspec.Raw(b"")


class _RawMessage(msgspec.Struct):
    content: list[_RawBlock]


def _raw_inputs(data: bytes) -> dict[int, str]:
    """Return the text of each `input` by position; none if the body is not strict JSON."""
    try:
        blocks = msgspec.json.decode(data, type=_RawMessage).content
        return {at: bytes(block.input).decode() for at, block in enumerate(blocks)}
    except ValueError:
        return {}


def decode_message(body: JSON, inputs: Mapping[int, str]) -> JSON:
    """Convert a message to a chat completion; `inputs` are the texts of arguments by position."""
    content = body.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return body
    blocks = [each if isinstance(each, dict) else {"text": each} for each in content]
    message: JSON = {"role": "assistant", "content": None}
    calls = [
        call
        for at, block in enumerate(blocks)
        if (call := _chat_call(block, inputs.get(at, ""))) is not None
    ]
    text = "".join(map(_block_text, blocks))
    message["content"] = text if text or not calls else None
    thoughts = [block["thinking"] for block in blocks if isinstance(block.get("thinking"), str)]
    if thought := SEPARATOR.join(filter(None, thoughts)):
        message[REASONING] = thought
    if calls:
        message["tool_calls"] = calls
    items = [_saved_block(block) for block in blocks]
    if any(map(_is_state, items)):
        message |= save_turn(MESSAGES, items)
    reason = body.get("stop_reason")
    beside = {"stop_reason": body["stop_sequence"]} if body.get("stop_sequence") else {}
    reply = chat_completion(body, message, _chat_reason(reason), **beside)
    usage = object_or_empty(body.get("usage"))
    return reply | {"usage": _chat_usage(usage)} if usage else reply


def _chat_reason(reason: Any) -> str | None:
    """Return the finish reason for a stop reason."""
    return _REASONS.get(reason, reason) if isinstance(reason, str) else None


def _block_text(block: JSON) -> str:
    return text_of([block]) if type_of(block) in {"", "text"} else ""


def _chat_call(block: JSON, raw: str) -> JSON | None:
    """Return a tool call; None for other blocks. Whatever is no JSON object stays as it came."""
    if type_of(block) != "tool_use":
        return call_of(block)
    function: JSON = {"name": block.get("name")}
    if "input" in block:
        given = block["input"]
        is_object = isinstance(given, dict)
        function["arguments"] = (raw or encode(given).decode()) if is_object else given
    call: JSON = {"type": "function", "function": function}
    return {"id": block["id"]} | call if block.get("id") is not None else call


def _saved_block(block: JSON) -> JSON:
    """Return a block to save, with the length of its text and without its arguments."""
    match block:
        case {"type": "text", "text": str(text)}:
            return block | {"text": len(text)}
        case {"type": "tool_use"}:
            return {key: value for key, value in block.items() if key != "input"}
        case _:
            return block


def _is_state(item: JSON) -> bool:
    """Whether an item holds more than a chat message can."""
    match item:
        case {"type": "text", "text": int(), **rest}:
            return any(value not in (None, []) for value in rest.values())
        case {"type": "tool_use", **rest}:
            return bool(rest.keys() - {"id", "name"})
        case {"type": str()}:
            return call_of(item) is None
        case _:
            return False


def _chat_usage(usage: JSON) -> JSON:
    cached, written = (
        token_count(usage, key)
        for key in ("cache_read_input_tokens", "cache_creation_input_tokens")
    )
    asked = token_count(usage, "input_tokens") + cached + written
    answered = token_count(usage, "output_tokens")
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
    }


# Events.


class _StreamedBlock:
    """A block under construction."""

    def __init__(self) -> None:
        self.start: JSON = {}
        self.is_open = True
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}
        self._others: JSON = {}

    def add(self, delta: JSON) -> None:
        """Add a delta: its texts are appended, whatever they are called."""
        for key, value in delta.items():
            if key == "type":
                continue
            if isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif key == "citation":
                self._lists.setdefault("citations", []).append(value)
            else:
                self._others[key] = value

    @property
    def arguments(self) -> str:
        """The streamed arguments, as JSON text."""
        return "".join(self._texts.get("partial_json", ()))

    def render(self) -> JSON:
        """Return the block."""
        block: JSON = {"type": self._guessed_type()} | self.start | self._others
        for key, pieces in self._texts.items():
            if key != "partial_json":
                first = self.start.get(key)
                block[key] = (first if isinstance(first, str) else "") + "".join(pieces)
        for key, items in self._lists.items():
            before = self.start.get(key)
            block[key] = [*(before if isinstance(before, list) else ()), *items]
        return block | {"input": self.arguments} if self.arguments else block

    def _guessed_type(self) -> str:
        """Return the type of a block whose beginning is missing."""
        if "partial_json" in self._texts:
            return "tool_use"
        return "thinking" if "thinking" in self._texts else "text"


class MessageEventReader:
    """Collects the events of one streamed message."""

    def __init__(self) -> None:
        self._message: JSON = {}
        self._blocks: dict[Any, _StreamedBlock] = {}
        self._last: Any = 0
        self._is_stopped = False

    @property
    def head(self) -> JSON | None:
        """The id and the model, once they are known."""
        known = {key: self._message[key] for key in ("id", "model") if self._message.get(key)}
        return known or None

    def read(self, kind: str, event: JSON) -> Iterator[Delta]:
        """Read one event and yield the text or the reasoning that it adds."""
        match kind:
            case "message_start":
                self._message |= object_or_empty(event.get("message"))
            case "message_delta":
                self._read_message_delta(event)
            case "message_stop":
                self._is_stopped = True
            case "content_block_start":
                block = self._block(event)
                block.start = object_or_empty(event.get("content_block"))
                yield from self._deltas(block.start)
            case "content_block_delta":
                delta = object_or_empty(event.get("delta"))
                self._block(event).add(delta)
                yield from self._deltas(delta)
            case "content_block_stop":
                self._block(event).is_open = False
            case _:
                pass  # `ping`, and events that this version does not know

    def _read_message_delta(self, event: JSON) -> None:
        usage = object_or_empty(self._message.get("usage"))
        usage |= object_or_empty(event.get("usage"))
        self._message |= object_or_empty(event.get("delta")) | {"usage": usage}

    def _block(self, event: JSON) -> _StreamedBlock:
        """Return the block that an event belongs to."""
        index = event.get("index")
        self._last = index if type(index) is int else self._last
        return self._blocks.setdefault(self._last, _StreamedBlock())

    def _deltas(self, holder: JSON) -> Iterator[Delta]:
        """Yield the text and the reasoning of a block or a delta."""
        if type_of(holder) in {"", "text", "text_delta"}:
            text = holder.get("text")
            if isinstance(text, str) and text:
                yield Delta(text, ())
        thought = holder.get("thinking")
        if isinstance(thought, str) and thought:
            yield Delta(thought, (self._last,), is_reasoning=True)

    def completion(self, *, is_end: bool) -> JSON | None:
        """Return the chat completion; None before the message stops.

        Without the last event, a message with a stop reason and without an open block is complete.
        """
        is_open = any(block.is_open for block in self._blocks.values())
        has_ended = is_end and self._message.get("stop_reason") is not None and not is_open
        if not (self._is_stopped or has_ended):
            return None
        order = sorted(self._blocks)
        content = [self._blocks[index].render() for index in order]
        texts = {at: self._blocks[index].arguments for at, index in enumerate(order)}
        streamed = [
            block | {"input": {}} if texts[at] and block["type"] == "tool_use" else block
            for at, block in enumerate(content)
        ]
        return decode_message(self._message | {"content": streamed}, texts)


class MessagesUpstream:
    """Anthropic's Messages API."""

    name = MESSAGES
    path = "messages"

    def encode_request(self, body: JSON) -> JSON:
        """Convert a chat request; raise `InvalidRequest` if the API cannot express it."""
        return encode_messages_request(body)

    def decode_response(self, body: JSON, data: bytes = b"") -> JSON:
        """Convert a message to a chat completion."""
        return decode_message(body, _raw_inputs(data))

    def event_reader(self) -> MessageEventReader:
        """Return the reader for one streamed message."""
        return MessageEventReader()
