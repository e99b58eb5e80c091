"""A chat completion, as a message of the Messages API: its blocks, why it ended, what it took."""

import msgspec

from surecall.proxy.faces.face import Asked, Failure
from surecall.proxy.faces.messages_state import seal, state_of, thought_of
from surecall.values.nesting import decode_json
from surecall.values.types import JSON, is_blank
from surecall.wire.content_parts import text_of
from surecall.wire.finish_reasons import Ending, ending_of
from surecall.wire.messages import parse_usage, plain_id, raw_calls

NO_USAGE: JSON = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}
_ERRORS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_CLIENT, _SERVER = 400, 500
_TOO_LONG = "prompt is too long"
_OVERFLOWS = ("context length", "context_length", "context window", "context size")


def head_of(asked: Asked, head: JSON) -> JSON:
    """Write a message of which nothing has come yet."""
    return {
        "id": plain_id(str(head.get("id") or ""), "msg_"),
        "type": "message",
        "role": "assistant",
        "model": head.get("model") or asked.given.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": dict(NO_USAGE),
    }


def message_of(asked: Asked, body: JSON) -> JSON:
    """Write the message that a chat completion is."""
    filled = {"content": _blocks(said_in(body)), "usage": usage_of(body)}
    return head_of(asked, body) | ending(asked, body) | filled


def said_in(body: JSON) -> JSON:
    """Return the assistant message of a chat completion."""
    message: JSON = body["choices"][0]["message"]
    return message


def _blocks(message: JSON) -> list[JSON]:
    text = answer_text(message)
    blocks = [*_thinking(message), *map(call_block, raw_calls(message))]
    if not is_blank(text) or not blocks:
        blocks.insert(len(blocks) - len(raw_calls(message)), {"type": "text", "text": text})
    return blocks


def _thinking(message: JSON) -> list[JSON]:
    state, thought = state_of(message), thought_of(message)
    if not state:
        return []
    if not thought:
        return [redacted_block(state)]
    return [{"type": "thinking", "thinking": thought, "signature": seal(state)}]


def redacted_block(state: JSON) -> JSON:
    """Write a block that shows nothing and brings a state back."""
    return {"type": "redacted_thinking", "data": seal(state)}


def answer_text(message: JSON) -> str:
    """Return what a message says: its text, or else why it says none."""
    refusal = message.get("refusal")
    return text_of(message.get("content")) or (refusal if isinstance(refusal, str) else "")


def call_block(call: JSON) -> JSON:
    """Write a call."""
    given = msgspec.json.decode(arguments_of(call))
    return {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": given}


def arguments_of(call: JSON) -> str:
    """Return the arguments of a call, as the JSON text of an object."""
    text = call["function"].get("arguments")
    try:
        is_object = isinstance(text, str) and isinstance(decode_json(text), dict)
    except ValueError:
        is_object = False
    return text if is_object else "{}"


def ending(asked: Asked, body: JSON) -> JSON:
    """Return why a message ended, and the stop sequence if the upstream named it."""
    choice = body["choices"][0]
    matched = choice.get("stop_reason")  # vLLM and SGLang name the text that they stopped at
    if isinstance(matched, str) and matched in (asked.given.get("stop_sequences") or ()):
        return {"stop_reason": "stop_sequence", "stop_sequence": matched}
    return {"stop_reason": _reason(choice), "stop_sequence": None}


def _reason(choice: JSON) -> str:
    match ending_of(choice.get("finish_reason")):
        case Ending.CUT_OFF:
            return "max_tokens"
        case Ending.FILTERED:
            return "refusal"
        case _:
            return "tool_use" if raw_calls(choice["message"]) else "end_turn"


def usage_of(body: JSON) -> JSON:
    """Return what a message took. What was read from a cache is counted apart from the rest."""
    usage = parse_usage(body.get("usage"))
    if usage is None:
        return dict(NO_USAGE)
    cached = min(max(usage.cached_tokens, 0), usage.prompt_tokens)
    return NO_USAGE | {
        "input_tokens": usage.prompt_tokens - cached,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.completion_tokens,
    }


def error_of(failure: Failure) -> JSON:
    """Write why there is no answer."""
    return {"type": "error", "error": {"type": _kind(failure.status), "message": _told(failure)}}


def _kind(status: int) -> str:
    other = "invalid_request_error" if _CLIENT <= status < _SERVER else "api_error"
    return _ERRORS.get(status, other)


def _told(failure: Failure) -> str:
    said = f"{failure.code} {failure.message}".casefold()
    is_overflow = failure.status in {400, 413} and any(word in said for word in _OVERFLOWS)
    # Claude Code makes the conversation shorter and asks again where it reads these words.
    return f"{_TOO_LONG}: {failure.message}" if is_overflow else failure.message
