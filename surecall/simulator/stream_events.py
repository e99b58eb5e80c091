"""A reply as a stream: what a client may ask for, and the events that say what a body says.

    stream_rules(request)   what OpenAI refuses about `stream` and `stream_options`
    events_of(body)         role, thoughts, content, calls in pieces, finish, usage, [DONE]
    frames_of(events)       the same as bytes, one block for each event

A faulty body makes a faulty stream: each field goes into the deltas in the form it has in the
body, so that a reader who undoes the streaming gets the same fault as in the plain form.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from surecall.simulator.faults.shape_fault import written
from surecall.simulator.violations import Violation
from surecall.values.types import JSON

# A chunk, or a block of lines exactly as it is sent.
Event: TypeAlias = JSON | str

DONE: Final = "data: [DONE]\n\n"
LONGEST_PIECE: Final = 12
MOST_PIECES: Final = 200
_STEP: Final = 5
_OPTIONS: Final = ("stream", "stream_options")
_OPTION_FIELDS: Final = ("include_usage", "include_obfuscation")
_KINDS: Final = {bool: "a boolean", int: "an integer", float: "a decimal", str: "a string"}
_KINDS_OF_CONTAINERS: Final = {dict: "an object", list: "an array", type(None): "null"}


def stream_rules(request: JSON) -> Iterator[Violation]:
    """Yield what OpenAI refuses about the streaming of a request, in its words."""
    streams, options = request.get("stream"), request.get("stream_options")
    if streams is not None and not isinstance(streams, bool):
        yield _wrong_type("stream", "a boolean", streams)
    if options is None:
        return
    if streams is not True:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield Violation("stream_options_alone", "stream_options", message)
    if not isinstance(options, dict):
        yield _wrong_type("stream_options", "an object", options)
        return
    for key, value in options.items():
        where = f"stream_options.{key}"
        if key not in _OPTION_FIELDS:
            yield Violation("stream_option_unknown", where, f"Unknown parameter: '{where}'.")
        elif not isinstance(value, bool):
            yield _wrong_type(where, "a boolean", value)


def _wrong_type(where: str, wanted: str, found: object) -> Violation:
    got = (_KINDS | _KINDS_OF_CONTAINERS)[type(found)]
    message = f"Invalid type for '{where}': expected {wanted}, but got {got} instead."
    return Violation("stream_type", where, message)


def wants_usage(request: JSON) -> bool:
    """Whether the client asked for the chunk with the usage."""
    return (request.get("stream_options") or {}).get("include_usage") is True


def without_streaming(request: JSON) -> JSON:
    """Return a request as its plain form would be, so that both forms get one reply."""
    return {key: value for key, value in request.items() if key not in _OPTIONS}


def is_streamable(body: Any) -> bool:
    """Whether a body can be cut into chunks: errors and foreign envelopes are sent as they are."""
    return isinstance(body, dict) and "choices" in body


def events_of(body: JSON, *, usage: bool = False, seed: int = 0) -> list[Event]:
    """Cut a body into the events of a stream; `seed` decides where texts are cut."""
    head = {key: value for key, value in body.items() if key not in {"choices", "usage"}}
    if head.get("object"):
        head["object"] = "chat.completion.chunk"
    choices = body["choices"]
    if isinstance(choices, list) and choices and all(isinstance(each, dict) for each in choices):
        cut = (each for choice in choices for each in _choices(choice, seed))
        chunks = [head | {"choices": [each]} for each in cut]
    else:
        chunks = [head | {"choices": choices}]
    if usage:
        chunks = [chunk | {"usage": None} for chunk in chunks]
        chunks.append(head | {"choices": [], "usage": body.get("usage")})
    return [*chunks, DONE]


def frames_of(events: Sequence[Event]) -> list[bytes]:
    """Write events as bytes, one frame each."""
    return [
        (event if isinstance(event, str) else f"data: {written(event)}\n\n").encode()
        for event in events
    ]


def pieces(text: str, seed: int = 0) -> list[str]:
    """Cut a text, by the seed, into pieces of a few characters, more if it is very long.

    The first piece is the longest. A longer second one might begin with all of the first, and
    could not be told from arguments that are sent again in full with every chunk.
    """
    longest = max(LONGEST_PIECE, -(-len(text) // MOST_PIECES))
    cut, at = [text[:longest]], longest
    while at < len(text):
        size = 1 + (seed + _STEP * len(cut)) % longest
        cut.append(text[at : at + size])
        at += size
    return cut


def _choices(choice: JSON, seed: int) -> Iterator[JSON]:
    rest = {key: choice[key] for key in choice if key not in {"message", "delta", "finish_reason"}}
    index = {"index": rest.get("index", 0)}
    message = choice.get("message") or choice.get("delta")
    for delta in _deltas(message if isinstance(message, dict) else {}, seed):
        yield index | {"delta": delta, "finish_reason": None}
    yield rest | index | {"delta": {}, "finish_reason": choice.get("finish_reason")}


def _deltas(message: JSON, seed: int) -> Iterator[JSON]:
    """Yield what does not grow in one delta, and then what grows, piece by piece."""
    grown = {key: list(grow(message.get(key), seed)) for key, grow in _GROWING.items()}
    opening = {key: value for key, value in message.items() if not grown.get(key)}
    if isinstance(message.get("content"), str):
        opening["content"] = ""
    yield opening
    for key, values in grown.items():
        yield from ({key: value} for value in values)


def _texts(value: Any, seed: int) -> list[Any]:
    return list(pieces(value, seed)) if value and isinstance(value, str) else []


def _contents(value: Any, seed: int) -> Iterator[Any]:
    if not isinstance(value, list):
        yield from _texts(value, seed)
        return
    for part in value:
        match part:
            case {"type": "text", "text": str(text)}:
                yield from ([part | {"text": piece}] for piece in pieces(text, seed))
            case {"type": "thinking", "thinking": str()}:
                yield from _details([part], seed)
            case _:
                yield [part]


def _details(value: Any, seed: int) -> Iterator[list[Any]]:
    for detail in value if isinstance(value, list) else []:
        match detail:
            case {"text": str(text)}:
                yield from _signed_last(detail, "text", text, seed)
            case {"thinking": str(text)}:
                yield from _signed_last(detail, "thinking", text, seed)
            case _:
                yield [detail]


def _signed_last(detail: JSON, key: str, text: str, seed: int) -> Iterator[list[Any]]:
    """Yield a text in pieces, and then its signature."""
    rest = {name: detail[name] for name in detail if name != "signature"}
    yield from ([rest | {key: piece}] for piece in pieces(text, seed))
    if "signature" in detail:
        yield [detail | {key: ""}]


def _calls(value: Any, seed: int) -> Iterator[Any]:
    """Yield the values of `tool_calls`, in whichever form the calls have."""
    match value:
        case dict():
            yield from _fragments(value, 0, seed)
        case list():
            index = 0
            for item in value:
                if not isinstance(item, dict):
                    yield [item]
                    continue
                yield from ([fragment] for fragment in _fragments(item, index, seed))
                index += 1
        case _:
            yield from _texts(value, seed)


def _fragments(call: JSON, index: int, seed: int) -> Iterator[JSON]:
    function = call.get("function")
    if not isinstance(function, dict):
        yield from ({"index": index} | flat for flat in _functions(call, seed))
        return
    first, *others = _functions(function, seed)
    yield {"index": index} | call | {"function": first}
    yield from ({"index": index, "function": other} for other in others)


def _functions(function: Any, seed: int) -> Iterator[JSON]:
    """Yield a function with arguments that only begin, and then the arguments in pieces."""
    if not isinstance(function, dict):
        return
    arguments = function.get("arguments")
    match arguments:
        case str() if arguments:
            yield function | {"arguments": ""}
            yield from ({"arguments": piece} for piece in pieces(arguments, seed))
        case dict() if arguments:
            yield function | {"arguments": {}}
            yield {"arguments": arguments}
        case _:
            yield function


# What of a message grows from delta to delta, in the order in which models speak.
_GROWING: Final[dict[str, Callable[[Any, int], Iterator[Any] | list[Any]]]] = {
    "reasoning": _texts,
    "reasoning_content": _texts,
    "reasoning_details": _details,
    "thinking_blocks": _details,
    "refusal": _texts,
    "content": _contents,
    "tool_calls": _calls,
    "function_call": _functions,
}
