"""Adapter for OpenAI's Responses API: responses, stream events, and errors.

The events of a stream, in the order that clients require:

    response.created, response.in_progress
    per item    output_item.added, its parts or its arguments, output_item.done
    per part    …part.added, ….delta, ….done, …part.done
    response.completed | response.incomplete | response.failed

One item is open at a time. Leading whitespace is held, because reasoning may still follow it.
Reasoning after the first text is sent at the end, because the message item is open until then.
There is no `[DONE]`.
"""

from typing import Any, Final

import msgspec

from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, is_blank, object_or_empty
from surecall.wire.apis.adapter import (
    ClientRequest,
    ErrorReply,
    EventWriter,
    decode_request,
    encode_event,
)
from surecall.wire.apis.responses_items import (
    ParsedCompletion,
    call_items,
    exposed_tools,
    has_unsent_state,
    id_suffix,
    message_item,
    message_parts,
    output_items,
    parse_completion,
    reasoning_item,
    state_item,
)
from surecall.wire.apis.responses_request import chat_request

# Fields of the request that a response repeats, with their defaults.
_ECHOED_FIELDS: Final[JSON] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
# Codes that clients act on: they shorten the history, wait, or give up.
_ERROR_CODES: Final[dict[str, str]] = {
    ErrorCode.CONTEXT_TOO_LONG: "context_length_exceeded",
    ErrorCode.PAYMENT_REQUIRED: "insufficient_quota",
    ErrorCode.RATE_LIMIT: "rate_limit_exceeded",
}
_RATE_LIMITED: Final = 429
_SERVER_ERRORS: Final = 500
# Client errors that may succeed on a retry.
_RETRYABLE: Final = frozenset({408, 409, 425})


def response_object(
    client_request: ClientRequest, head: JSON, status: str, output: list[JSON]
) -> JSON:
    """Return a response object; `head` has the `id` without its prefix, `created`, and `model`."""
    return {
        "id": f"resp_{head['id']}",
        "object": "response",
        "created_at": head.get("created") or 0,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": head.get("model") or client_request.client_body.get("model") or "",
        "output": output,
        "usage": None,
        "background": False,
        "previous_response_id": None,
        "store": False,
    } | {
        key: _value_or(client_request.client_body.get(key), default)
        for key, default in _ECHOED_FIELDS.items()
    }


def _value_or(value: Any, default: Any) -> Any:
    return default if value is None else value


def with_ending(response: JSON, body: JSON, incomplete_reason: str | None) -> JSON:
    """Return a response with its final status and usage."""
    tier = body.get("service_tier")
    return response | {
        "status": "incomplete" if incomplete_reason else "completed",
        "incomplete_details": {"reason": incomplete_reason} if incomplete_reason else None,
        "service_tier": _value_or(tier, response["service_tier"]),
        "usage": _response_usage(object_or_empty(body.get("usage"))),
    }


def _response_usage(usage: JSON) -> JSON:
    spent = object_or_empty(usage.get("prompt_tokens_details"))
    made = object_or_empty(usage.get("completion_tokens_details"))
    client_request, answered = (
        _count_or_zero(usage, "prompt_tokens"),
        _count_or_zero(usage, "completion_tokens"),
    )
    return {
        "input_tokens": client_request,
        "input_tokens_details": {
            "cached_tokens": _count_or_zero(spent, "cached_tokens"),
            "cache_write_tokens": _count_or_zero(spent, "cache_write_tokens"),
        },
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": _count_or_zero(made, "reasoning_tokens")},
        "total_tokens": _count_or_zero(usage, "total_tokens") or client_request + answered,
    }


def _count_or_zero(mapping: JSON, key: str) -> int:
    value = mapping.get(key)
    return value if isinstance(value, int) else 0


def failed_response(response: JSON, failure: ErrorReply) -> JSON:
    """Return a response with its error."""
    error = {
        "code": _stream_error_code(failure),
        "message": failure.message,
        "param": failure.param,
        "type": failure.code,
    }
    return response | {"status": "failed", "error": error}


def _stream_error_code(failure: ErrorReply) -> str:
    """Return the error code; an unknown one tells clients whether to retry."""
    if (code := _known_error_code(failure)) is not None:
        return code
    # Clients retry unless the code says that the request is invalid.
    is_final = failure.status < _SERVER_ERRORS and failure.status not in _RETRYABLE
    return "invalid_prompt" if is_final else "server_error"


def _known_error_code(failure: ErrorReply) -> str | None:
    limit = _ERROR_CODES[ErrorCode.RATE_LIMIT] if failure.status == _RATE_LIMITED else None
    return _ERROR_CODES.get(failure.code, limit)


def error_response(failure: ErrorReply) -> JSON:
    """Render an error body in the format of the Responses API."""
    is_client_error = failure.status < _SERVER_ERRORS
    return {
        "error": {
            "message": failure.message,
            "type": "invalid_request_error" if is_client_error else "server_error",
            "param": failure.param,
            "code": _known_error_code(failure) or failure.code,
        }
    }


class _PartEvents(msgspec.Struct, frozen=True):
    """Event names and field names of one type of part, and the part without text."""

    holder: str
    name: str
    index: str
    key: str
    empty: JSON


_PART_EVENTS: Final = {
    "summary_text": _PartEvents(
        *("reasoning_summary_part", "reasoning_summary_text", "summary_index", "text"),
        {"type": "summary_text", "text": ""},
    ),
    "output_text": _PartEvents(
        *("content_part", "output_text", "content_index", "text"),
        {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    ),
    "refusal": _PartEvents(
        "content_part", "refusal", "content_index", "refusal", {"type": "refusal", "refusal": ""}
    ),
}
# The field with the parts of an item. For calls: the field with the text, and its event name.
_PART_FIELDS: Final = {"reasoning": "summary", "message": "content"}
_CALL_EVENTS: Final = {
    "function_call": ("arguments", "function_call_arguments"),
    "custom_tool_call": ("input", "custom_tool_call_input"),
}


class ResponseEventWriter:
    """Writes the events of one streamed response."""

    def __init__(self, client_request: ClientRequest) -> None:
        self._client_request = client_request
        self._head: JSON = {"id": ""}
        self._sequence_number = 0
        self._output: list[JSON] = []
        self._item_id = ""
        self._reasoning_field = ""
        self._reasoning = ""
        self._held_text = ""  # held until it is not blank
        self._sent_chars = 0  # characters of the text
        self._has_text = False
        self._sent_state: JSON = {}

    def begin(self, head: JSON) -> bytes:
        """Encode the opening events."""
        self._head = head | {"id": id_suffix(head)}
        response = self._response("in_progress")
        created = self._encode_event("response.created", response=response)
        return created + self._encode_event("response.in_progress", response=response)

    def write_reasoning(self, text: str, field: str) -> bytes:
        """Encode a reasoning delta, unless the text has begun."""
        if not text or self._has_text or self._reasoning_field not in {"", field}:
            return b""
        opening = b"" if self._reasoning else self._open_reasoning(field)
        self._reasoning += text
        return opening + self._encode_delta(0, "summary_text", text)

    def write_text(self, text: str) -> bytes:
        """Encode a text delta; leading whitespace is held until other text follows."""
        self._sent_chars += len(text)
        if self._has_text:
            return self._encode_delta(0, "output_text", text) if text else b""
        self._held_text += text
        if is_blank(self._held_text):
            return b""
        thought = self._end_reasoning(self._reasoning_field, self._reasoning)
        self._has_text = True
        opening = self._begin_item(message_item(self._suffix, [])) + self._begin_part(
            0, "output_text"
        )
        return thought + opening + self._encode_delta(0, "output_text", self._held_text)

    def finish(self, body: JSON) -> bytes:
        """Encode the unsent items, and the end."""
        completion = parse_completion(body, self._suffix, self._reasoning_field)
        rest = [
            self._finish_reasoning(completion),
            self._finish_message(completion),
            self._write_state(completion),
        ]
        calls = call_items(
            self._suffix, completion, exposed_tools(self._client_request.client_body)
        )
        rest += [self._finish_item(item) for item in calls]
        response = with_ending(self._response("completed"), body, completion.incomplete_reason)
        return b"".join(rest) + self._encode_event(
            f"response.{response['status']}", response=response
        )

    def fail(self, failure: ErrorReply) -> bytes:
        """Encode the failure; an open item stays open."""
        response = failed_response(self._response("failed"), failure)
        return self._encode_event("response.failed", response=response)

    @property
    def _suffix(self) -> str:
        """The suffix that all item ids share."""
        return str(self._head["id"])

    def _response(self, status: str) -> JSON:
        """Return the response object so far."""
        return response_object(self._client_request, self._head, status, list(self._output))

    def _open_reasoning(self, field: str) -> bytes:
        """Encode the beginning of the reasoning item."""
        self._reasoning_field = field
        item = reasoning_item(self._suffix, field, "")
        return self._begin_item(item) + self._begin_part(0, "summary_text")

    def _end_reasoning(self, field: str, text: str) -> bytes:
        """Encode the rest of the reasoning item; `text` is all of it."""
        if not text:
            return b""
        self._sent_state = {field: text}
        return self._finish_item(
            reasoning_item(self._suffix, field, text), len(self._reasoning) or None
        )

    def _finish_reasoning(self, completion: ParsedCompletion) -> bytes:
        """Encode the rest of the reasoning, unless the text has begun."""
        if self._has_text:
            return b""
        return self._end_reasoning(
            completion.reasoning_field or self._reasoning_field,
            self._reasoning + self._unsent_reasoning(completion),
        )

    def _unsent_reasoning(self, completion: ParsedCompletion) -> str:
        is_more = completion.reasoning.startswith(self._reasoning)
        return completion.reasoning[len(self._reasoning) :] if is_more else ""

    def _finish_message(self, completion: ParsedCompletion) -> bytes:
        """Encode the rest of the message item, if there is one."""
        if not (self._has_text or completion.has_message):
            return b""
        item = message_item(self._suffix, message_parts(completion), completion.incomplete_reason)
        return self._finish_item(item, self._sent_chars if self._has_text else None)

    def _write_state(self, completion: ParsedCompletion) -> bytes:
        """Encode the item with the state that was not sent, if there is any."""
        if not has_unsent_state(completion, self._sent_state):
            return b""
        late = self._unsent_reasoning(completion) if self._has_text else ""
        return self._finish_item(state_item(self._suffix, completion, late))

    def _finish_item(self, item: JSON, sent: int | None = None) -> bytes:
        """Encode the rest of an item; `sent` counts the sent characters if it is open."""
        events = [self._begin_item(item)] if sent is None else []
        if item["type"] in _CALL_EVENTS:
            key, name = _CALL_EVENTS[item["type"]]
            events.append(self._encode_item_event(f"response.{name}.delta", delta=item[key]))
            events.append(self._encode_item_event(f"response.{name}.done", **{key: item[key]}))
        else:
            for index, part in enumerate(item[_PART_FIELDS[item["type"]]]):
                events.append(self._finish_part(index, part, None if index else sent))
        index = len(self._output)
        self._output.append(item)
        done = self._encode_event("response.output_item.done", output_index=index, item=item)
        return b"".join(events) + done

    def _finish_part(self, index: int, part: JSON, sent: int | None) -> bytes:
        """Encode the rest of a part; `sent` counts the sent characters if it is open."""
        kind = part["type"]
        opening = self._begin_part(index, kind) if sent is None else b""
        rest = part[_PART_EVENTS[kind].key][sent or 0 :]
        delta = self._encode_delta(index, kind, rest) if rest else b""
        return opening + delta + self._end_part(index, part)

    def _begin_item(self, item: JSON) -> bytes:
        """Encode the event that begins an item."""
        self._item_id = item["id"]
        kind = item["type"]
        begun = {key: value for key, value in item.items() if key != "encrypted_content"}
        empty: JSON = (
            {_CALL_EVENTS[kind][0]: ""} if kind in _CALL_EVENTS else {_PART_FIELDS[kind]: []}
        )
        begun |= empty | {"status": "in_progress"}
        index = len(self._output)
        return self._encode_event("response.output_item.added", output_index=index, item=begun)

    def _begin_part(self, index: int, kind: str) -> bytes:
        """Encode the event that begins a part."""
        part = _PART_EVENTS[kind]
        place = {part.index: index, "part": part.empty}
        return self._encode_item_event(f"response.{part.holder}.added", **place)

    def _encode_delta(self, index: int, kind: str, text: str) -> bytes:
        part = _PART_EVENTS[kind]
        beside: JSON = {"logprobs": []} if kind == "output_text" else {}
        place = {part.index: index, "delta": text} | beside
        return self._encode_item_event(f"response.{part.name}.delta", **place)

    def _end_part(self, index: int, whole_part: JSON) -> bytes:
        """Encode the events that end a part."""
        part = _PART_EVENTS[whole_part["type"]]
        text = {key: whole_part[key] for key in (part.key, "logprobs") if key in whole_part}
        place: JSON = {part.index: index}
        ends = self._encode_item_event(f"response.{part.name}.done", **place, **text)
        return ends + self._encode_item_event(
            f"response.{part.holder}.done", **place, part=whole_part
        )

    def _encode_item_event(self, name: str, **fields: Any) -> bytes:
        """Encode an event about the current output item."""
        index = len(self._output)
        return self._encode_event(name, item_id=self._item_id, output_index=index, **fields)

    def _encode_event(self, name: str, **fields: Any) -> bytes:
        number, self._sequence_number = self._sequence_number, self._sequence_number + 1
        return encode_event({"type": name, "sequence_number": number} | fields, name)


class ResponsesApi:
    """Adapter for OpenAI's Responses API. Stateless: each request contains the whole history."""

    name = "responses"

    def parse(self, data: bytes) -> ClientRequest:
        """Parse a request; raise `InvalidRequest` if a chat completion cannot express it."""
        given = decode_request(data)
        return ClientRequest(chat_request(given), given, given.get("stream") is True)

    def render(self, client_request: ClientRequest, body: JSON) -> JSON:
        """Render a chat completion as a response."""
        suffix = id_suffix(body)
        completion = parse_completion(body, suffix)
        output = output_items(completion, suffix, exposed_tools(client_request.client_body))
        return with_ending(
            response_object(client_request, body | {"id": suffix}, "completed", output),
            body,
            completion.incomplete_reason,
        )

    def event_writer(self, client_request: ClientRequest) -> EventWriter:
        """Return the event writer for a streamed reply."""
        return ResponseEventWriter(client_request)

    def render_error(self, failure: ErrorReply) -> JSON:
        """Render an error body."""
        return error_response(failure)
