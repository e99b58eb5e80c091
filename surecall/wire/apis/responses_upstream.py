"""OpenAI's Responses API as an upstream: requests, replies, and events.

Requests are stateless: nothing is stored, and encrypted reasoning travels with each request.

    system, developer at the beginning   ─► `instructions`, if it is plain text
    assistant                            ─► its items, with the saved items of the turn in place
    tool                                 ─► function_call_output, with images
    max_tokens                           ─► max_output_tokens
    response_format, verbosity           ─► `text`
    reasoning_effort                     ─► `reasoning.effort`
    any other option                     ─► unchanged; the endpoint may refuse it

Replies: message items are joined, calls become tool calls, and all other items are saved in the
message. The reasoning or its summary is also `reasoning_content`, for people to read. It is never
sent back.

Events carry sequence numbers: they are read in that order, and the last one holds the whole reply.
"""

from collections.abc import Iterator
from typing import Any, Final

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
    list_of,
    message_text,
    role_of,
    save_turn,
    saved_items,
    token_count,
    type_of,
    upstream_id,
)
from surecall.wire.chat_format import encode, raw_calls
from surecall.wire.content_parts import text_of

RESPONSES: Final = "responses"
_REASONING_INCLUDE: Final = "reasoning.encrypted_content"
_LOGPROBS_INCLUDE: Final = "message.output_text.logprobs"
# OpenAI's minimum.
_MIN_OUTPUT_TOKENS: Final = 16
# Models without reasoning, which refuse to encrypt it.
_PLAIN_MODELS: Final = ("gpt-3", "gpt-4", "chatgpt-")
_HANDLED: Final = frozenset(
    {
        *("model", "messages", "tools", "tool_choice", "max_tokens", "max_completion_tokens"),
        *("response_format", "verbosity", "reasoning_effort", "reasoning", "stream", "include"),
        *("stream_options", "logprobs", "store", "text"),
    }
)
_MEDIA_TYPES: Final = {"image_url": "input_image", "file": "input_file"}


def encode_responses_request(body: JSON) -> JSON:
    """Convert a chat request; raise `InvalidRequest` if the Responses API cannot express it."""
    instructions, messages = _split_instructions(history_messages(body))
    native: JSON = {"model": body.get("model"), "store": False}
    if instructions:
        native["instructions"] = instructions
    native["input"] = [item for message in messages for item in _input_items(message)]
    if include := _include(body):
        native["include"] = include
    native |= _tool_fields(body) | _option_fields(body) | _text_field(body)
    return native | {
        key: value
        for key, value in body.items()
        if key not in _HANDLED and value is not None and not (key == "n" and value == 1)
    }


def _split_instructions(messages: list[JSON]) -> tuple[str, list[JSON]]:
    """Return the system text at the beginning, and the other messages."""
    match messages:
        case [{"role": "system" | "developer", "content": str(text)}, *rest] if rest:
            return text, rest
        case _:
            return "", messages


def _include(body: JSON) -> list[str]:
    """Return what to include in the response, such as encrypted reasoning."""
    given = body.get("include")
    include = [each for each in given if isinstance(each, str)] if isinstance(given, list) else []
    name = str(body.get("model")).rpartition("/")[2]
    if not name.startswith(_PLAIN_MODELS):
        include.append(_REASONING_INCLUDE)
    if body.get("logprobs"):
        include.append(_LOGPROBS_INCLUDE)
    return list(dict.fromkeys(include))


def _tool_fields(body: JSON) -> JSON:
    tools = body.get("tools")
    fields: JSON = {"tools": [_native_tool(tool) for tool in list_of(tools)]} if tools else {}
    choice = body.get("tool_choice")
    if choice is not None:
        name = choice_name(choice)
        fields["tool_choice"] = choice if name is None else {"type": "function", "name": name}
    return fields


def _native_tool(tool: Any) -> Any:
    match tool:
        case {"type": "function", "function": dict(function)}:
            # Strict mode is the default of this API, and would reject most schemas.
            known = {key: value for key, value in function.items() if value is not None}
            return {"type": "function", "parameters": EMPTY_SCHEMA, "strict": False} | known
        case {"type": "custom", "custom": dict(custom)}:
            return {"type": "custom"} | custom
        case _:
            return tool


def _option_fields(body: JSON) -> JSON:
    options: JSON = {}
    limit = body.get("max_tokens", body.get("max_completion_tokens"))
    if limit is not None:
        options["max_output_tokens"] = (
            max(limit, _MIN_OUTPUT_TOKENS) if type(limit) is int else limit
        )
    reasoning = dict(object_or_empty(body.get("reasoning")))
    if body.get("reasoning_effort") is not None:
        reasoning["effort"] = body["reasoning_effort"]
    if reasoning:
        options["reasoning"] = reasoning
    if body.get("stream") is True:
        options["stream"] = True
    return options


def _text_field(body: JSON) -> JSON:
    """Return the `text` option, with the verbosity and the response format."""
    text = dict(object_or_empty(body.get("text")))
    if body.get("verbosity") is not None:
        text["verbosity"] = body["verbosity"]
    match body.get("response_format"):
        case {"type": "json_schema", "json_schema": dict(form)}:
            text["format"] = {"type": "json_schema"} | form
        case dict(form):
            text["format"] = form
        case _:
            pass
    return {"text": text} if text else {}


# The history.


def _input_items(message: JSON) -> list[JSON]:
    role = role_of(message)
    if role == "assistant":
        return _assistant_items(message)
    content = _content(message.get("content"))
    if role == "tool":
        call_id = upstream_id(message.get("tool_call_id"))
        return [{"type": "function_call_output", "call_id": call_id, "output": content}]
    sent = role if role in {"system", "developer"} else "user"
    return [{"type": "message", "role": sent, "content": content}] if content else []


def _content(content: Any) -> str | list[JSON]:
    if isinstance(content, list):
        return [_input_part(part) for part in content]
    return content if isinstance(content, str) else ""


def _input_part(part: Any) -> JSON:
    """Convert a content part; raise `InvalidRequest` if the API has none for it."""
    match part:
        case str(text) | {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return {"type": "input_text", "text": text}
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            image = {"type": "input_image", "image_url": url}
            return image | {"detail": part["image_url"].get("detail", "auto")}
        case {"type": "image_url", "image_url": str(url)}:
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case {"type": "file", "file": dict(file)}:
            return {"type": "input_file"} | file
        case {"type": "input_audio"}:
            raise InvalidRequest("The Responses API cannot hold this input_audio part.", "messages")
        case {"type": str()}:
            return dict(part)  # a part of the API itself
        case _:
            return {"type": "input_text", "text": encode(part).decode()}


def _assistant_items(message: JSON) -> list[JSON]:
    calls = {upstream_id(call.get("id")): call for call in raw_calls(message)}
    saved = saved_items(message, RESPONSES)
    text = message_text(message)
    items = _saved_turn(text, saved, calls) if saved else _message_items(text)
    items += map(_call_item, calls.values())
    # Reasoning must be followed by what it led to.
    while items and type_of(items[-1]) == "reasoning":
        items.pop()
    return items


def _saved_turn(text: str, saved: list[JSON], calls: dict[str, JSON]) -> list[JSON]:
    """Return the saved items with their texts and arguments; remove their calls from `calls`."""
    lengths = [_text_length(item) for item in saved if type_of(item) == "message"]
    pieces = TextPieces(text, lengths, SEPARATOR)
    items: list[JSON] = []
    for item in saved:
        if type_of(item) == "message":
            items += _saved_message(item, pieces.take(_text_length(item)))
        elif type_of(item) in _CALL_FIELDS:
            if (call := calls.pop(upstream_id(item.get("call_id")), None)) is not None:
                items.append(item | _call_item(call))
        else:
            items.append(item)
    kinds = [type_of(item) for item in items]
    place = next((at for at, kind in enumerate(kinds) if kind in _CALL_FIELDS), len(items))
    items[place:place] = _message_items(pieces.rest)
    return items


def _text_length(item: JSON) -> int:
    return sum(map(_part_length, list_of(item.get("content"))))


def _part_length(part: Any) -> int:
    match part:
        case {"type": "output_text", "text": int(size)} | {"type": "refusal", "refusal": int(size)}:
            return max(size, 0)
        case _:
            return 0


def _saved_message(item: JSON, text: str) -> list[JSON]:
    """Return a saved message item with its text; none if the text was left out."""
    if is_blank(text):
        return []
    if _text_length(item) != len(text):
        return [item | {"content": [_output_text(text)]}]
    filled: list[JSON] = []
    for part in map(object_or_empty, item["content"]):
        size = _part_length(part)
        key = "refusal" if type_of(part) == "refusal" else "text"
        filled.append(part | {key: text[:size]} if size else part)
        text = text[size:]
    return [item | {"content": filled}]


def _output_text(text: str) -> JSON:
    return {"type": "output_text", "text": text, "annotations": []}


def _message_items(text: str) -> list[JSON]:
    if is_blank(text):
        return []
    return [{"type": "message", "role": "assistant", "content": text}]


def _call_item(call: JSON) -> JSON:
    match call:
        case {"custom": {"name": name, "input": given}}:
            item: JSON = {"type": "custom_tool_call", "name": name, "input": given}
        case _:
            function = object_or_empty(call.get("function"))
            given = function.get("arguments")
            text = given if isinstance(given, str) else bytes(argument_json(given)).decode()
            item = {"type": "function_call", "name": function.get("name"), "arguments": text}
    return item | {"call_id": upstream_id(call.get("id"))}


# Replies.

_CALL_FIELDS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
_REASONS: Final = {"max_output_tokens": "length", "content_filter": "content_filter"}
_FAILED: Final = frozenset({"failed", "cancelled"})


def decode_responses_reply(body: JSON) -> JSON:
    """Convert a response to a chat completion, or to an error body if it failed."""
    output: Any = body.get("output")
    status = str(body.get("status"))
    if status in _FAILED or not isinstance(output, list):
        error = body.get("error")
        if error or status in _FAILED:
            return {"error": error or {"message": f"The response was {status}.", "code": 502}}
        return body
    items = [item for item in output if isinstance(item, dict)]
    message = _chat_message(items)
    reason = _chat_reason(body, has_calls="tool_calls" in message)
    logprobs = [entry for part in _text_parts(items) for entry in list_of(part.get("logprobs"))]
    beside = {"logprobs": {"content": logprobs}} if logprobs else {}
    reply = chat_completion(body, message, reason, **beside)
    usage = object_or_empty(body.get("usage"))
    return reply | {"usage": _chat_usage(usage)} if usage else reply


def _chat_message(items: list[JSON]) -> JSON:
    texts = [text for item in items if (text := _item_text(item))]
    calls = [_chat_call(item) for item in items if type_of(item) in _CALL_FIELDS]
    text = SEPARATOR.join(texts)
    message: JSON = {"role": "assistant", "content": text if text or not calls else None}
    thoughts = [thought for item in items for thought in _thoughts(item)]
    if thoughts:
        message[REASONING] = SEPARATOR.join(thoughts)
    refusals = [part.get("refusal") for part in _message_parts(items)]
    if refusal := "".join(each for each in refusals if isinstance(each, str)):
        message["refusal"] = refusal
    notes = [note for part in _text_parts(items) for note in list_of(part.get("annotations"))]
    if citations := [cited for note in notes if (cited := _citation(note))]:
        message["annotations"] = citations
    if calls:
        message["tool_calls"] = calls
    if any(map(_is_state, items)):
        message |= save_turn(RESPONSES, [_saved_item(item) for item in items])
    return message


def _message_parts(items: list[JSON]) -> Iterator[JSON]:
    for item in items:
        parts = list_of(item.get("content")) if type_of(item) in {"", "message"} else ()
        yield from (part for part in parts if isinstance(part, dict))


def _text_parts(items: list[JSON]) -> Iterator[JSON]:
    return (part for part in _message_parts(items) if "refusal" not in part)


def _item_text(item: JSON) -> str:
    content = item.get("content")
    if type_of(item) not in {"", "message"}:
        return ""
    return content if isinstance(content, str) else text_of(content)


def _thoughts(item: JSON) -> Iterator[str]:
    """Yield the texts of a reasoning item."""
    if type_of(item) != "reasoning":
        return
    for key in ("summary", "content"):
        for part in list_of(item.get(key)):
            text = part.get("text") if isinstance(part, dict) else None
            if isinstance(text, str) and text:
                yield text


def _citation(annotation: Any) -> JSON | None:
    """Return a URL citation in chat format; None for any other annotation."""
    match annotation:
        case {"type": "url_citation"}:
            cited = {key: value for key, value in annotation.items() if key != "type"}
            return {"type": "url_citation", "url_citation": cited}
        case _:
            return None


def _chat_call(item: JSON) -> JSON:
    given = item.get("call_id", item.get("id"))
    known: JSON = {} if given is None else {"id": given}
    if item["type"] == "custom_tool_call":
        custom = {"name": item.get("name"), "input": item.get("input")}
        return known | {"type": "custom", "custom": custom}
    function: JSON = {"name": item.get("name")}
    if "arguments" in item:
        function["arguments"] = item["arguments"]
    return known | {"type": "function", "function": function}


def _is_state(item: JSON) -> bool:
    """Whether an item holds more than a chat message can."""
    kind = type_of(item)
    known = {"id", "type", "role", "status", "content", "name", "call_id", "arguments"}
    if kind in {"message", "function_call"}:
        return any(item[key] is not None for key in item.keys() - known)
    return bool(kind)


def _saved_item(item: JSON) -> JSON:
    kind = type_of(item)
    if kind in _CALL_FIELDS:
        return {key: value for key, value in item.items() if key != _CALL_FIELDS[kind]}
    parts = item.get("content")
    if kind != "message" or not isinstance(parts, list):
        return item
    return item | {"content": [_saved_part(part) for part in parts]}


def _saved_part(part: Any) -> JSON:
    held = object_or_empty(part)
    for kind, key in (("output_text", "text"), ("refusal", "refusal")):
        if type_of(held) == kind and isinstance(held.get(key), str):
            return held | {key: len(held[key])}
    return held


def _chat_reason(body: JSON, *, has_calls: bool) -> str | None:
    match body:
        case {"incomplete_details": {"reason": str(reason)}}:
            return _REASONS.get(reason, reason)
        case {"status": "incomplete"}:
            return "length"
        case {"status": "in_progress" | "queued"}:
            return None
        case _:
            return "tool_calls" if has_calls else "stop"


def _chat_usage(usage: JSON) -> JSON:
    asked, answered = token_count(usage, "input_tokens"), token_count(usage, "output_tokens")
    spent = object_or_empty(usage.get("input_tokens_details"))
    made = object_or_empty(usage.get("output_tokens_details"))
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": token_count(usage, "total_tokens") or asked + answered,
        "prompt_tokens_details": {
            "cached_tokens": token_count(spent, "cached_tokens"),
            "cache_write_tokens": token_count(spent, "cache_write_tokens"),
        },
        "completion_tokens_details": {"reasoning_tokens": token_count(made, "reasoning_tokens")},
    }


# Events.

# Events that arrived too early. A gap in the numbers is not waited for any longer than this.
_MAX_EARLY: Final = 16
_ENDINGS: Final = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_TEXT_EVENTS: Final = frozenset({"response.output_text.delta"})
_THOUGHT_EVENTS: Final = frozenset(
    {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
)
_ARGUMENT_EVENTS: Final = {
    "response.function_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
}


class ResponseEventReader:
    """Collects the events of one streamed response."""

    def __init__(self) -> None:
        self._response: JSON = {}
        self._items: dict[int, JSON] = {}
        self._places: dict[str, int] = {}
        self._texts: dict[int, dict[str, list[str]]] = {}
        self._early: dict[int, tuple[str, JSON]] = {}
        self._next: int | None = None
        self._is_ended = False

    @property
    def head(self) -> JSON | None:
        """The id and the model, once they are known."""
        known = {key: self._response[key] for key in ("id", "model") if self._response.get(key)}
        return known or None

    def read(self, kind: str, event: JSON) -> Iterator[Delta]:
        """Read one event, and those that waited for it; yield what they add."""
        number = event.get("sequence_number")
        if type(number) is not int:
            yield from self._read(kind, event)
            return
        if self._next is None:
            self._next = number if kind == "response.created" else 0
        if number >= self._next:
            self._early[number] = (kind, event)
        else:
            yield from self._read(kind, event)
        is_impatient = kind in _ENDINGS or len(self._early) > _MAX_EARLY
        while self._early and (self._next in self._early or is_impatient):
            first = min(self._early)
            self._next = first + 1
            yield from self._read(*self._early.pop(first))

    def _read(self, kind: str, event: JSON) -> Iterator[Delta]:
        """Read one event and yield what it adds."""
        if isinstance(event.get("response"), dict):
            self._read_response(kind, event["response"])
            return
        item = event.get("item")
        place = self._place(event, item)
        if kind in {"response.output_item.added", "response.output_item.done"}:
            if isinstance(item, dict):
                self._items[place] = item
            return
        base, _, step = kind.rpartition(".")
        if base in _ARGUMENT_EVENTS:
            self._read_arguments(place, _ARGUMENT_EVENTS[base], step, event)
        elif isinstance(delta := event.get("delta"), str) and delta:
            yield from self._read_text(place, kind, delta, event)

    def _read_text(self, place: int, kind: str, delta: str, event: JSON) -> Iterator[Delta]:
        if kind in _TEXT_EVENTS:
            self._append(place, "text", delta)
            yield Delta(delta, (place,))
        elif kind in _THOUGHT_EVENTS:
            part = (place, event.get("summary_index"), event.get("content_index"))
            yield Delta(delta, part, is_reasoning=True)
        elif kind == "response.refusal.delta":
            self._append(place, "refusal", delta)

    def _read_response(self, kind: str, response: JSON) -> None:
        output = response.get("output") or self._response.get("output")
        self._response |= response | {"output": output}
        if kind in _ENDINGS:
            self._response.setdefault("status", _ENDINGS[kind])
            self._is_ended = True

    def _place(self, event: JSON, item: Any) -> int:
        """Return the position of the item that an event belongs to."""
        held = item.get("id") if isinstance(item, dict) else None
        key = str(event.get("item_id") or held or "")
        index = event.get("output_index")
        if type(index) is not int:
            index = self._places.get(key, len(self._items) - (item is None and bool(self._items)))
        self._places[key] = index
        return index

    def _read_arguments(self, place: int, key: str, step: str, event: JSON) -> None:
        whole = event.get(key)
        if step == "done" and whole is not None:
            self._texts.setdefault(place, {})[key] = [whole]
        elif step == "delta" and isinstance(event.get("delta"), str):
            self._append(place, key, event["delta"])

    def _append(self, place: int, key: str, text: str) -> None:
        self._texts.setdefault(place, {}).setdefault(key, []).append(text)

    def completion(self, *, is_end: bool) -> JSON | None:  # noqa: ARG002  # the end is an event
        """Return the chat completion or the error; None before the last event."""
        if not self._is_ended:
            return None
        if not self._response.get("output"):
            places = sorted(self._items.keys() | self._texts.keys())
            self._response["output"] = [self._rendered_item(place) for place in places]
        return decode_responses_reply(self._response)

    def _rendered_item(self, place: int) -> JSON:
        """Return an item that may never have been sent as a whole."""
        texts = self._texts.get(place, {})
        item = self._items.get(place) or {"type": _guessed_type(texts)}
        for key in _CALL_FIELDS.values():
            pieces = texts.get(key)
            if pieces and not item.get(key):
                item = item | {key: pieces[0] if len(pieces) == 1 else "".join(pieces)}
        if type_of(item) == "message" and not item.get("content"):
            parts = [_output_text("".join(texts["text"]))] if "text" in texts else []
            refusal = "".join(texts.get("refusal", ()))
            parts += [{"type": "refusal", "refusal": refusal}] if refusal else []
            item = item | {"content": parts}
        return item


def _guessed_type(texts: dict[str, list[str]]) -> str:
    """Return the type of an item of which only texts arrived."""
    found = (kind for kind, key in _CALL_FIELDS.items() if key in texts)
    return next(found, "message")


class ResponsesUpstream:
    """OpenAI's Responses API."""

    name = RESPONSES
    path = "responses"

    def encode_request(self, body: JSON) -> JSON:
        """Convert a chat request; raise `InvalidRequest` if the API cannot express it."""
        return encode_responses_request(body)

    def decode_response(self, body: JSON, data: bytes = b"") -> JSON:  # noqa: ARG002  # JSON is enough
        """Convert a response to a chat completion."""
        return decode_responses_reply(body)

    def event_reader(self) -> ResponseEventReader:
        """Return the reader for one streamed response."""
        return ResponseEventReader()
