"""Convert completion bodies to event streams, and check the streaming options of requests.

    check_streaming(request)   violations of OpenAI's rules for `stream` and `stream_options`
    build_events(body)         role, reasoning, content, calls in pieces, finish, usage, [DONE]
    encode_frames(events)      the events as bytes, one frame each

A faulty body makes a faulty stream: every field keeps its form in the deltas, so a parser that
reassembles them gets the same fault as in the body.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from surecall.simulator.faults.shape_fault import encode_json
from surecall.simulator.violations import Violation
from surecall.values.types import JSON

# A chunk, or a block of lines to send unchanged.
Event: TypeAlias = JSON | str

DONE: Final = "data: [DONE]\n\n"
MAX_PIECE_CHARS: Final = 12
MAX_PIECES: Final = 200
_STEP: Final = 5
_STREAMING_FIELDS: Final = ("stream", "stream_options")
_OPTION_FIELDS: Final = ("include_usage", "include_obfuscation")
_TYPE_NAMES: Final = {bool: "a boolean", int: "an integer", float: "a decimal", str: "a string"}
_CONTAINER_NAMES: Final = {dict: "an object", list: "an array", type(None): "null"}


def check_streaming(request: JSON) -> Iterator[Violation]:
    """Yield violations of OpenAI's rules for streaming options, with OpenAI's messages."""
    streams, options = request.get("stream"), request.get("stream_options")
    if streams is not None and not isinstance(streams, bool):
        yield _type_violation("stream", "a boolean", streams)
    if options is None:
        return
    if streams is not True:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield Violation("stream_options_alone", "stream_options", message)
    if not isinstance(options, dict):
        yield _type_violation("stream_options", "an object", options)
        return
    for key, value in options.items():
        where = f"stream_options.{key}"
        if key not in _OPTION_FIELDS:
            yield Violation("stream_option_unknown", where, f"Unknown parameter: '{where}'.")
        elif not isinstance(value, bool):
            yield _type_violation(where, "a boolean", value)


def _type_violation(where: str, expected_type: str, value: object) -> Violation:
    got = (_TYPE_NAMES | _CONTAINER_NAMES)[type(value)]
    message = f"Invalid type for '{where}': expected {expected_type}, but got {got} instead."
    return Violation("stream_type", where, message)


def wants_usage(request: JSON) -> bool:
    """Return whether the client requested a usage chunk."""
    return (request.get("stream_options") or {}).get("include_usage") is True


def without_streaming(request: JSON) -> JSON:
    """Return a request without streaming options, so that both forms get the same reply."""
    return {key: value for key, value in request.items() if key not in _STREAMING_FIELDS}


def is_streamable(body: Any) -> bool:
    """Return whether a body can be split into chunks; error bodies cannot."""
    return isinstance(body, dict) and "choices" in body


def build_events(body: JSON, *, usage: bool = False, seed: int = 0) -> list[Event]:
    """Split a body into stream events; `seed` decides where texts are split."""
    head = {key: value for key, value in body.items() if key not in {"choices", "usage"}}
    if head.get("object"):
        head["object"] = "chat.completion.chunk"
    choices = body["choices"]
    if isinstance(choices, list) and choices and all(isinstance(each, dict) for each in choices):
        cut = (each for choice in choices for each in _choice_chunks(choice, seed))
        chunks = [head | {"choices": [each]} for each in cut]
    else:
        chunks = [head | {"choices": choices}]
    if usage:
        chunks = [chunk | {"usage": None} for chunk in chunks]
        chunks.append(head | {"choices": [], "usage": body.get("usage")})
    return [*chunks, DONE]


def encode_frames(events: Sequence[Event]) -> list[bytes]:
    """Encode events as bytes, one frame each."""
    return [
        (event if isinstance(event, str) else f"data: {encode_json(event)}\n\n").encode()
        for event in events
    ]


def split_text(text: str, seed: int = 0) -> list[str]:
    """Split a text into short pieces by the seed; very long texts get longer pieces.

    The first piece is the longest: a longer second piece could begin with the first, and would be
    indistinguishable from cumulative arguments.
    """
    longest = max(MAX_PIECE_CHARS, -(-len(text) // MAX_PIECES))
    cut, at = [text[:longest]], longest
    while at < len(text):
        size = 1 + (seed + _STEP * len(cut)) % longest
        cut.append(text[at : at + size])
        at += size
    return cut


def _choice_chunks(choice: JSON, seed: int) -> Iterator[JSON]:
    rest = {key: choice[key] for key in choice if key not in {"message", "delta", "finish_reason"}}
    index = {"index": rest.get("index", 0)}
    message = choice.get("message") or choice.get("delta")
    for delta in _deltas(message if isinstance(message, dict) else {}, seed):
        yield index | {"delta": delta, "finish_reason": None}
    yield rest | index | {"delta": {}, "finish_reason": choice.get("finish_reason")}


def _deltas(message: JSON, seed: int) -> Iterator[JSON]:
    """Yield one delta with the fixed fields, then the streamed fields piece by piece."""
    grown = {key: list(grow(message.get(key), seed)) for key, grow in _STREAMED_FIELDS.items()}
    opening = {key: value for key, value in message.items() if not grown.get(key)}
    if isinstance(message.get("content"), str):
        opening["content"] = ""
    yield opening
    for key, values in grown.items():
        yield from ({key: value} for value in values)


def _text_pieces(value: Any, seed: int) -> list[Any]:
    return list(split_text(value, seed)) if value and isinstance(value, str) else []


def _content_pieces(value: Any, seed: int) -> Iterator[Any]:
    """Yield the content in pieces, whether it is a string or a list of parts."""
    if not isinstance(value, list):
        yield from _text_pieces(value, seed)
        return
    for part in value:
        match part:
            case {"type": "text", "text": str(text)}:
                yield from ([part | {"text": piece}] for piece in split_text(text, seed))
            case {"type": "thinking", "thinking": str()}:
                yield from _detail_pieces([part], seed)
            case _:
                yield [part]


def _detail_pieces(value: Any, seed: int) -> Iterator[list[Any]]:
    """Yield reasoning details in pieces, each as a list of one."""
    for detail in value if isinstance(value, list) else []:
        match detail:
            case {"text": str(text)}:
                yield from _signed_pieces(detail, "text", text, seed)
            case {"thinking": str(text)}:
                yield from _signed_pieces(detail, "thinking", text, seed)
            case _:
                yield [detail]


def _signed_pieces(detail: JSON, key: str, text: str, seed: int) -> Iterator[list[Any]]:
    """Yield a text in pieces, followed by its signature."""
    rest = {name: detail[name] for name in detail if name != "signature"}
    yield from ([rest | {key: piece}] for piece in split_text(text, seed))
    if "signature" in detail:
        yield [detail | {key: ""}]


def _tool_call_pieces(value: Any, seed: int) -> Iterator[Any]:
    """Yield the values of `tool_calls`, whatever form the calls have."""
    match value:
        case dict():
            yield from _call_fragments(value, 0, seed)
        case list():
            index = 0
            for item in value:
                if not isinstance(item, dict):
                    yield [item]
                    continue
                yield from ([fragment] for fragment in _call_fragments(item, index, seed))
                index += 1
        case _:
            yield from _text_pieces(value, seed)


def _call_fragments(call: JSON, index: int, seed: int) -> Iterator[JSON]:
    function = call.get("function")
    if not isinstance(function, dict):
        yield from ({"index": index} | flat for flat in _function_pieces(call, seed))
        return
    first, *others = _function_pieces(function, seed)
    yield {"index": index} | call | {"function": first}
    yield from ({"index": index, "function": other} for other in others)


def _function_pieces(function: Any, seed: int) -> Iterator[JSON]:
    """Yield a function with empty arguments, then the arguments in pieces."""
    if not isinstance(function, dict):
        return
    arguments = function.get("arguments")
    match arguments:
        case str() if arguments:
            yield function | {"arguments": ""}
            yield from ({"arguments": piece} for piece in split_text(arguments, seed))
        case dict() if arguments:
            yield function | {"arguments": {}}
            yield {"arguments": arguments}
        case _:
            yield function


# The streamed fields of a message, in the order in which models send them.
_STREAMED_FIELDS: Final[dict[str, Callable[[Any, int], Iterator[Any] | list[Any]]]] = {
    "reasoning": _text_pieces,
    "reasoning_content": _text_pieces,
    "reasoning_details": _detail_pieces,
    "thinking_blocks": _detail_pieces,
    "refusal": _text_pieces,
    "content": _content_pieces,
    "tool_calls": _tool_call_pieces,
    "function_call": _function_pieces,
}
