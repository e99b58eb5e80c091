"""What the upstream APIs other than chat completions have in common: their turns and streams.

Chat completions are the internal form. A translator converts the requests to another API, and its
replies and events back. Nothing here reads a network; malformed replies stay malformed, so that the
same repairs apply as to a chat completion.

A turn of such an API is a list of items. What a chat message cannot hold of them, such as signed
reasoning, is saved in one undocumented field of the message:

    {"native_turn": {"api": "messages", "items": [...]}}

The items are complete, except that texts are replaced by their lengths, and arguments are left out:
those are in the message, where they may have been repaired. Only the same API gets them back.
"""

import json
import string
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec

from surecall.parsing.budget import FRAMING_FACTOR, MAX_BYTES, MAX_VALUES, has_too_many_values
from surecall.values.nesting import MAX_WRAPPED_DEPTH, TooDeep, decode_json
from surecall.values.text import join_surrogates
from surecall.values.types import JSON, HttpResponse, is_blank
from surecall.wire.apis.adapter import ErrorReply, InvalidRequest
from surecall.wire.apis.chat_api import error_body
from surecall.wire.chat_format import decode, encode, normalize_id, plain_id, replace_non_finite
from surecall.wire.content_parts import text_of
from surecall.wire.provider_state import NATIVE_TURN
from surecall.wire.response import find_error
from surecall.wire.sse import SseDecoder, SseEvent, stream_limit_error

REASONING: Final = "reasoning_content"
# Between texts that the model wrote as separate items.
SEPARATOR: Final = "\n\n"
EMPTY_SCHEMA: Final[JSON] = {"type": "object", "properties": {}}
# The key for history arguments that are not a JSON object.
UNPARSED: Final = "input"
MAX_ID: Final = 64
_ID_CHARS: Final = frozenset(string.ascii_letters + string.digits + "_-")
_PLAIN_STARTS: Final = (b"{", b"[", b"<", b'"')
_BLANKS: Final = b"\xef\xbb\xbf \t\r\n"


class NativeApi(Protocol):
    """Translates between chat completions and another upstream API."""

    name: str
    path: str

    def encode_request(self, body: JSON) -> JSON:
        """Convert a chat request; raise `InvalidRequest` if the API cannot express it."""
        ...

    def decode_response(self, body: JSON, data: bytes = b"") -> JSON:
        """Convert a reply to a chat completion; `data` are the bytes it was decoded from."""
        ...

    def event_reader(self) -> "EventReader":
        """Return the reader for one streamed reply."""
        ...


class EventReader(Protocol):
    """Collects the events of one streamed reply."""

    def read(self, kind: str, event: JSON) -> "Iterable[Delta]":
        """Read one event and return what it adds to the text or the reasoning."""
        ...

    @property
    def head(self) -> JSON | None:
        """The id and the model, once they are known."""
        ...

    def completion(self, *, is_end: bool) -> JSON | None:
        """Return the chat completion; None before the terminal event. At the end, it may lack."""
        ...


class Delta(msgspec.Struct, frozen=True):
    """New text or reasoning. `source` names the part of the reply that it belongs to."""

    text: str
    source: tuple[Any, ...]
    is_reasoning: bool = False


# Requests and plain replies.


def encode_native_request(api: NativeApi, data: bytes) -> bytes:
    """Convert the bytes of a chat request; raise `InvalidRequest` if that is impossible."""
    try:
        body = decode_json(data, limit=MAX_WRAPPED_DEPTH)
    except ValueError as problem:
        raise InvalidRequest(f"The request is not valid JSON: {problem}") from None
    if not isinstance(body, dict):
        raise InvalidRequest("The request must be a JSON object.")
    return encode(api.encode_request(body))


def refusal_answer(problem: InvalidRequest) -> HttpResponse:
    """Return the answer to a request that an API cannot express."""
    failure = ErrorReply(problem.status, problem.message, "invalid_request", problem.param)
    headers = {"content-type": "application/json"}
    return HttpResponse(problem.status, headers, encode(error_body(failure)))


def decode_native_response(api: NativeApi, data: bytes) -> bytes:
    """Convert the bytes of a reply; an error or an unknown body is returned unchanged."""
    try:
        body = decode(data)
    except ValueError:
        return data
    if not isinstance(body, dict) or "choices" in body or find_error(body) is not None:
        return data
    return encode(api.decode_response(body, data))


def history_messages(body: JSON) -> list[JSON]:
    """Return the messages of a chat request; raise `InvalidRequest` if they are malformed."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        raise InvalidRequest("`messages` must be a list of objects.", "messages")
    return messages


def type_of(holder: JSON) -> str:
    """Return the type of a part or an item; blank if it has none."""
    kind = holder.get("type")
    return kind if isinstance(kind, str) else ""


def role_of(message: JSON) -> str:
    """Return the role of a message; blank if it has none."""
    role = message.get("role")
    return role if isinstance(role, str) else ""


def list_of(value: Any) -> list[Any]:
    """Return a list; empty if the value is none."""
    return value if isinstance(value, list) else []


def choice_name(choice: Any) -> str | None:
    """Return the function that a chat `tool_choice` names, if any."""
    match choice:
        case {"type": "function", "function": {"name": str(name)}}:
            return name
        case _:
            return None


def upstream_id(raw_id: Any) -> str:
    """Return a call id that both APIs accept; the same id for a call and its result."""
    call_id = normalize_id(raw_id)
    is_accepted = 0 < len(call_id) <= MAX_ID and _ID_CHARS.issuperset(call_id)
    return call_id if is_accepted else plain_id(call_id)


def argument_json(arguments: Any) -> msgspec.Raw:
    """Return the arguments of a call in the history as a JSON object, its numbers unchanged."""
    if isinstance(arguments, dict):
        return msgspec.Raw(encode(arguments))
    text = arguments if isinstance(arguments, str) else encode(arguments).decode()
    if is_blank(text):
        return msgspec.Raw(b"{}")
    try:
        is_object = isinstance(decode_json(text), dict)
        return msgspec.Raw(text.encode() if is_object else encode({UNPARSED: text}))
    except ValueError:  # also text with lone surrogates
        return msgspec.Raw(encode({UNPARSED: text}))


# Saved turns.


def save_turn(api: str, items: list[JSON]) -> JSON:
    """Return the field that holds the items of a turn."""
    return {NATIVE_TURN: {"api": api, "items": items}}


def saved_items(message: JSON, api: str) -> list[JSON]:
    """Return the saved items of a turn of this API; none for a turn of another one."""
    match message.get(NATIVE_TURN):
        case {"api": str(name), "items": list(items)} if name == api:
            return [item for item in items if isinstance(item, dict)]
        case _:
            return []


class TextPieces:
    """Puts the text of a message back into items that hold only the lengths of their texts."""

    def __init__(self, text: str, lengths: Sequence[Any], separator: str) -> None:
        self._text, self._separator = text, separator
        sizes = [each for each in lengths if isinstance(each, int) and each >= 0]
        whole = sum(sizes) + len(separator) * max(0, len(sizes) - 1)
        self._is_known = len(sizes) == len(lengths) and whole == len(text)
        self._at = 0

    def take(self, length: Any) -> str:
        """Return the next piece; all of a text that was changed goes into the first one."""
        at = self._at
        if not self._is_known:
            self._at = len(self._text)
            return self._text[at:]
        self._at += length + len(self._separator)
        return self._text[at : at + length]

    @property
    def rest(self) -> str:
        """The text for which there was no item."""
        return self._text[self._at :]


def message_text(message: JSON) -> str:
    """Return the text of an assistant message, or its refusal."""
    refusal = message.get("refusal")
    return text_of(message.get("content")) or (refusal if isinstance(refusal, str) else "")


def chat_completion(head: JSON, message: JSON, reason: str | None, **fields: Any) -> JSON:
    """Return a chat completion with one choice; `fields` belong to the choice."""
    choice = {"index": 0, "message": message, "finish_reason": reason} | fields
    known = {key: head[key] for key in ("id", "model", "service_tier") if head.get(key)}
    created = head.get("created_at")
    if isinstance(created, int | float) and not isinstance(created, bool):
        known["created"] = int(created)
    return known | {"object": "chat.completion", "choices": [choice]}


def token_count(usage: JSON, key: str) -> int:
    """Return a number of tokens; zero if it is missing."""
    value = usage.get(key)
    return value if type(value) is int and value > 0 else 0


# Streams.

_NO_REPLY: Final = "The stream's last event holds no reply."
_CHANGED: Final = "The stream's text differs from the text in its last event."


class ChatStream:
    """Translates the bytes of a streamed reply to chat completion chunks.

    A plain body, as from a server that ignores `stream`, is translated at the end. After a stream
    without its terminal event, no finish reason and no `[DONE]` follow: it counts as broken off.
    """

    def __init__(self, api: NativeApi, max_bytes: int = MAX_BYTES) -> None:
        self._api = api
        self._reader = api.event_reader()
        self._decoder = SseDecoder(max_total_bytes=FRAMING_FACTOR * max_bytes)
        self._max_bytes = max_bytes
        self._is_plain: bool | None = None
        self._plain = bytearray()
        self._head: JSON | None = None
        self._is_finished = False
        self._shown: dict[bool, list[str]] = {False: [], True: []}
        self._sources: dict[bool, tuple[Any, ...]] = {}

    def feed(self, chunk: bytes) -> bytes:
        """Add bytes and return the chunks they complete; raise `ProviderError` above a limit."""
        if self._is_plain is not False:
            self._plain += chunk
            if len(self._plain) > self._max_bytes:
                raise stream_limit_error(self._max_bytes, "bytes")
            if self._is_plain is None and (begin := chunk.lstrip(_BLANKS)):
                self._is_plain = begin.startswith(_PLAIN_STARTS)
            if self._is_plain is not False:
                return b""
            chunk = bytes(self._plain)
        return b"".join(map(self._translate, self._decoder.feed(chunk)))

    def close(self) -> bytes:
        """End the stream and return the rest."""
        if self._is_plain is not False:
            return decode_native_response(self._api, bytes(self._plain))
        rest = b"".join(map(self._translate, self._decoder.close()))
        return rest + (b"" if self._is_finished else self._finish(is_end=True))

    def _translate(self, event: SseEvent) -> bytes:
        if self._is_finished or event.data.strip() == "[DONE]":
            return b""
        payload = _decode_event(event.data)
        if not isinstance(payload, dict) or "choices" in payload:
            # Not an event of this API. The assembler skips it, or reports it.
            return b"data: " + event.data.encode("utf-8", "replace") + b"\n\n"
        kind = payload.get("type")
        kind = kind if isinstance(kind, str) else event.event
        if kind == "error" or (kind == "message" and find_error(payload) is not None):
            return self._fail(payload)
        shown = b"".join(map(self._show, self._reader.read(kind, payload)))
        return self._begin() + shown + self._finish(is_end=False)

    def _fail(self, error: JSON) -> bytes:
        """Encode an error and end the stream."""
        self._is_finished = True
        inner = error.get("error")
        return _encode_chunk(error if inner else {"error": error})

    def _begin(self) -> bytes:
        """Encode the first chunk, once the head is known."""
        if self._head is not None or (head := self._reader.head) is None:
            return b""
        self._head = head | {"object": "chat.completion.chunk"}
        return self._encode_delta({"role": "assistant"})

    def _show(self, delta: Delta) -> bytes:
        """Encode a delta, after the first chunk."""
        before = self._sources.get(delta.is_reasoning, delta.source)
        self._sources[delta.is_reasoning] = delta.source
        text = delta.text if before == delta.source else SEPARATOR + delta.text
        self._shown[delta.is_reasoning].append(text)
        field = REASONING if delta.is_reasoning else "content"
        return self._begin() + self._encode_delta({field: text})

    def _finish(self, *, is_end: bool) -> bytes:
        """Encode what was not sent and the end, if the reply is complete."""
        body = self._reader.completion(is_end=is_end)
        if body is None:
            return b""
        self._is_finished = True
        if (error := find_error(body)) is not None:
            return _encode_chunk(error)
        if "choices" not in body:
            return _encode_chunk({"error": {"message": _NO_REPLY, "code": 502}})
        choice = body["choices"][0]
        message = choice["message"]
        text = join_surrogates(message.get("content") or "")
        shown = join_surrogates("".join(self._shown[False]))
        if not text.startswith(shown):
            return _encode_chunk({"error": {"message": _CHANGED, "code": 502}})
        deltas = list(self._last_deltas(message, text[len(shown) :]))
        beside = {key: choice[key] for key in choice if key not in {"index", "message"}}
        usage = {"usage": body["usage"]} if "usage" in body else {}
        last = {"index": 0, "delta": {}, "finish_reason": None} | beside
        end = _encode_chunk((self._head or {}) | {"choices": [last]} | usage)
        return b"".join((self._begin(), *map(self._encode_delta, deltas), end, b"data: [DONE]\n\n"))

    def _last_deltas(self, message: JSON, text: str) -> Iterator[JSON]:
        """Yield what was not sent of a message; `text` is the rest of its text."""
        thought, shown = message.get(REASONING) or "", "".join(self._shown[True])
        if thought.startswith(shown) and len(thought) > len(shown):
            yield {REASONING: thought[len(shown) :]}
        if text:
            yield {"content": text}
        handled = {"role", "content", "tool_calls", REASONING}
        for key in message.keys() - handled:
            yield {key: message[key]}
        if calls := message.get("tool_calls"):
            yield {"tool_calls": [{"index": at} | call for at, call in enumerate(calls)]}

    def _encode_delta(self, delta: JSON) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        return _encode_chunk((self._head or {}) | {"choices": [choice]})


def _encode_chunk(chunk: JSON) -> bytes:
    try:
        data = msgspec.json.encode(chunk)
    except UnicodeEncodeError:  # half of a surrogate pair, which the assembler joins
        data = json.dumps(chunk).encode()
    return b"data: " + data + b"\n\n"


def _decode_event(data: str) -> Any:
    if len(data) > MAX_VALUES and has_too_many_values(data.encode(), MAX_VALUES):
        return data
    try:
        return decode_json(data)
    except TooDeep:
        return data
    except ValueError:
        pass
    try:
        return replace_non_finite(json.loads(data, strict=False))
    except ValueError:
        return data


_MARK: Final = f'"{NATIVE_TURN}"'.encode()
_FIELDS_DECODER: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST_DECODER: Final = msgspec.json.Decoder(list[msgspec.Raw])


def without_native_turns(data: bytes) -> bytes:
    """Return a chat request without saved turns; the same bytes if it has none."""
    if _MARK not in data:
        return data
    try:
        fields = _FIELDS_DECODER.decode(data)
        messages = [_without_turn(each) for each in _LIST_DECODER.decode(fields["messages"])]
    except (ValueError, KeyError):
        return data
    return encode(fields | {"messages": messages})


def _without_turn(message: msgspec.Raw) -> Any:
    """Return a message without its saved turn; the same object if it has none."""
    if _MARK not in bytes(message):
        return message
    fields = _FIELDS_DECODER.decode(message)
    fields.pop(NATIVE_TURN, None)
    return fields
