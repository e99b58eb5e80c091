"""Inbound transforms: heal an answer before it is read.

body          the whole answer, if it is in an envelope of its own
response      the assistant message
tool call     one raw call, before its arguments are read
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from surecall.parsing.arguments import read_arguments
from surecall.values.family import Family
from surecall.values.nesting import check_depth, encode_json
from surecall.values.types import JSON, is_blank
from surecall.wire.calls_in_content import call_of, calls_in, parts_of
from surecall.wire.content_parts import text_of, thoughts_in
from surecall.wire.finish_reasons import ending_of, finish_reason
from surecall.wire.messages import call_parts, id_of, raw_calls
from surecall.wire.text_edges import says_nothing

BODY: Family[JSON] = Family("body transform")
RESPONSE: Family[JSON] = Family("response transform")
TOOL_CALL: Family[JSON] = Family("tool call transform")

# Longer arguments are compared as they are.
_MAX_ECHO = 20_000
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_UNREADABLE: JSON = {"id": "call_unreadable"}
_WRAPPERS = ("data", "result", "response")


@BODY.register
def response_body_unwrapped(body: JSON) -> JSON:
    """Take a completion out of `{"data": …}`, in which some gateways wrap it."""
    if "choices" in body or body.get("error"):
        return body
    for key in _WRAPPERS:
        inner = body.get(key)
        if isinstance(inner, dict) and isinstance(inner.get("choices"), list):
            return inner
    return body


@BODY.register
def failed_generation_to_message(body: JSON) -> JSON:
    """Read what the model wrote out of Groq's error about it: the generation failed, not we."""
    generation = failed_generation(body)
    if generation is None:
        return body
    message = {"role": "assistant", "content": _header_closed(generation)}
    return {"choices": [{"message": message, "finish_reason": "stop"}]}


def _header_closed(text: str) -> str:
    # Llama on Groq writes `<function=f{…}</function>`: the tag of the dialect, but for its `>`.
    head, brace, rest = text.partition("{")
    is_open = head.lstrip().startswith("<function=") and ">" not in head
    return f"{head}>{brace}{rest}" if brace and is_open else text


def failed_generation(body: Any) -> str | None:
    """Return the text that a provider could not read as a call, if an error carries one."""
    error = body.get("error") if isinstance(body, dict) else None
    text = error.get("failed_generation") if isinstance(error, dict) else None
    return text if isinstance(text, str) and not is_blank(text) else None


@BODY.register
def choice_delta_to_message(body: JSON) -> JSON:
    """Read a `delta` in a plain answer as the message, if there is no message or a blank one."""
    match body.get("choices"):
        case [{"delta": dict(delta)} as choice, *rest] if _speaks(delta):
            if _speaks(choice.get("message")):
                return body
            healed = {key: choice[key] for key in choice if key != "delta"} | {"message": delta}
            return body | {"choices": [healed, *rest]}
        case _:
            return body


@BODY.register
def choices_of_one_turn_joined(body: JSON) -> JSON:
    """Put a turn together that was split: words in the first choice, the calls in another one.

    If several others have calls, it is not known which are meant: the turn then ends as one whose
    call is missing, and the model is asked.
    """
    choices = body.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        return body
    calling = [choice for choice in choices if _has_calls(choice.get("message"))]
    if not calling or calling[0] is choices[0]:
        return body
    first: JSON = choices[0]
    if len(calling) > 1:
        return body | {"choices": [first | {"finish_reason": "tool_calls"}]}
    (other,) = calling
    message = other["message"]
    if is_blank(text_of(message.get("content"))) and not calls_in(message.get("content")):
        words = first.get("message")
        message = message | {"content": words.get("content") if isinstance(words, dict) else None}
    reasons = sorted(map(finish_reason, (other, first)), key=ending_of)
    joined = other | {"message": message, "finish_reason": reasons[-1]}
    return body | {"choices": [joined]}


def _speaks(message: object) -> bool:
    """Whether a message says anything."""
    return isinstance(message, dict) and any(
        value and not (isinstance(value, str) and is_blank(value))
        for key, value in message.items()
        if key != "role"
    )


def _has_calls(message: object) -> bool:
    if not isinstance(message, dict):
        return False
    calls = message.get("tool_calls")
    return bool(
        raw_calls(message)
        or (isinstance(calls, str) and not is_blank(calls))
        or message.get("function_call")
        or calls_in(message.get("content"))
    )


@RESPONSE.register
def assistant_function_call_to_tool_calls(message: JSON) -> JSON:
    """Lift the deprecated `function_call` object into a `tool_calls` array of one."""
    if "function_call" not in message:
        return message
    rest = {key: value for key, value in message.items() if key != "function_call"}
    legacy = message["function_call"]
    match legacy:
        case {"name": str(name)} if name.strip() and not message.get("tool_calls"):
            function = {"name": name, "arguments": _as_text(legacy.get("arguments"))}
            return rest | {"tool_calls": [{"type": "function", "function": function}]}
        case _:
            return rest


@RESPONSE.register
def assistant_tool_calls_object_to_array(message: JSON) -> JSON:
    """Wrap a bare `tool_calls` object: some routes drop the array around a single call."""
    calls = message.get("tool_calls")
    return message | {"tool_calls": [calls]} if isinstance(calls, dict) else message


@RESPONSE.register
def assistant_content_call_parts_to_tool_calls(message: JSON) -> JSON:
    """Lift calls that are parts of the content into `tool_calls`; one that is there is an echo."""
    content, known = message.get("content"), message.get("tool_calls")
    found = calls_in(content)
    if not found:
        return message
    rest = [part for part in parts_of(content) if call_of(part) is None]
    calls = known if isinstance(known, list) else []
    fresh = _not_among(calls, found)
    if not any(_name(call) for call in (*found, *filter(_is_mapping, calls))):
        # It says that it is a call and cannot run; with an id the model is told so.
        fresh = [_UNREADABLE | call for call in fresh]
    return message | {"content": rest or None, "tool_calls": [*calls, *fresh]}


def _not_among(calls: list[Any], found: list[JSON]) -> list[JSON]:
    """Leave out calls that are there already; each of those is the echo of one."""
    known = [call for call in calls if isinstance(call, dict)]
    ids = {id_of(call) for call in known} - {""}
    made = [_meaning(call) for call in known]
    fresh: list[JSON] = []
    for call in found:
        meaning = _meaning(call) if made else None
        if meaning in made:
            made.remove(meaning)
        elif id_of(call) not in ids:
            fresh.append(call)
    return fresh


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict)


def _meaning(call: JSON) -> tuple[str, object]:
    """Return the name and the arguments of a call, decoded where they are JSON and not too long."""
    name, arguments = call_parts(_nested(call))
    value = read_arguments(arguments, _MAX_ECHO).value
    return name, arguments if value is None else value


@RESPONSE.register
def assistant_tool_calls_json_text_to_array(message: JSON) -> JSON:
    """Decode `tool_calls` that arrive as JSON text; text that is no JSON becomes a bad call."""
    text = message.get("tool_calls")
    if not isinstance(text, str) or is_blank(text):
        return message
    try:
        check_depth(text)
        calls = json.loads(text)
    except ValueError:
        calls = text
    if isinstance(calls, dict | list | None):
        return message | {"tool_calls": calls}
    # It has an id and no name: it cannot run, and the model is told so.
    function = {"name": "", "arguments": text}
    return message | {"tool_calls": [_UNREADABLE | {"function": function}]}


@RESPONSE.register
def assistant_tool_calls_flat_to_function(message: JSON) -> JSON:
    """Put the `name` and `arguments` of a call where they belong: under `function`."""
    return _each_call(message, _nested)


@RESPONSE.register
def assistant_tool_calls_name_tags_to_arguments(message: JSON) -> JSON:
    """Split a name that swallowed the arguments: `read<arg_key>path</arg_key>…` (GLM)."""
    return _each_call(message, _split_name)


@RESPONSE.register
def assistant_tool_calls_parallel_expanded(message: JSON) -> JSON:
    """Turn a call of `multi_tool_use.parallel`, which was not offered, into the calls in it."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    uses = [_uses(call) for call in calls]
    if not any(uses):
        return message
    pairs = zip(calls, uses, strict=True)
    return message | {"tool_calls": [one for call, inner in pairs for one in inner or [call]]}


@RESPONSE.register
def assistant_tool_calls_blank_dropped(message: JSON) -> JSON:
    """Drop calls without id and name, if they say nothing or stand beside real ones."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    blank = [isinstance(call, dict) and not id_of(call) and not _name(call) for call in calls]
    # A blank call that is all there is, and that has arguments, is told to the model instead.
    real = any(isinstance(call, dict) and _name(call) for call in calls)
    kept = [
        call
        for call, is_blank in zip(calls, blank, strict=True)
        if not is_blank or not (real or _is_empty(call_parts(call)[1]))
    ]
    return message if len(kept) == len(calls) else message | {"tool_calls": kept}


@RESPONSE.register
def assistant_tool_calls_arguments_json_string_if_hash(message: JSON) -> JSON:
    """Serialise `arguments` that arrive as an object; the contract is JSON text."""
    return _each_call(message, _with_text_arguments)


@RESPONSE.register
def assistant_content_parts_to_text(message: JSON) -> JSON:
    """Join content that comes in parts; what the model thought goes to `reasoning_content`."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    thoughts = thoughts_in(content)
    healed = message | {"content": text_of(content)}
    if thoughts and not message.get("reasoning_content"):
        healed["reasoning_content"] = thoughts
    return healed


@RESPONSE.register
def assistant_content_edges_trimmed(message: JSON) -> JSON:
    """Take end tokens and invisible characters off the edges of an answer.

    Here only a content of nothing else is emptied. The rest is done when calls and thoughts have
    been taken out of the text, since their marks may be at its edges, too.
    """
    content = message.get("content")
    if not isinstance(content, str) or is_blank(content) or not says_nothing(content):
        return message
    return message | {"content": ""}


@RESPONSE.register
def assistant_content_tool_call_tags_to_tool_calls(message: JSON) -> JSON:
    """Switch `text_calls` on, wherever this is named; there is one reader of calls in text."""
    return message


def _each_call(message: JSON, heal: Callable[[JSON], JSON]) -> JSON:
    """Heal each call of a list; the message is the same one if no call needed it."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    healed = [heal(call) if isinstance(call, dict) else call for call in calls]
    if all(after is before for after, before in zip(healed, calls, strict=True)):
        return message
    return message | {"tool_calls": healed}


def _name(call: JSON) -> str:
    return call_parts(call)[0]


def _is_empty(arguments: object) -> bool:
    return (
        arguments is None
        or arguments == {}
        or (isinstance(arguments, str) and arguments.strip() in {"", "{}"})
    )


def _nested(call: JSON) -> JSON:
    name = call.get("name")
    if isinstance(call.get("function"), dict) or not isinstance(name, str) or not name.strip():
        return call
    given = next((key for key in ("arguments", "parameters", "input") if key in call), "")
    function = {"name": name, "arguments": call.get(given)}
    rest = {key: call[key] for key in call if key not in {"name", given}}
    return rest | {"function": function}


def _split_name(call: JSON) -> JSON:
    name, arguments = call_parts(call)
    if "<arg_key>" not in name or not _is_empty(arguments):
        return call
    head, *pairs = name.split("<arg_key>")
    found: JSON = {}
    for pair in pairs:
        key, _, rest = pair.partition("</arg_key>")
        before, _, rest = rest.partition("<arg_value>")
        value, closed, after = rest.partition("</arg_value>")
        if not closed or before.strip() or after.strip() not in {"", "</tool_call>"}:
            return call
        found[key.strip()] = value
    if len(found) < len(pairs) or not head.strip():
        return call
    return call | {"function": call["function"] | {"name": head.strip(), "arguments": found}}


def _uses(call: object) -> list[JSON]:
    """Return the calls inside a parallel one; none if it is another or cannot be read."""
    name, arguments = call_parts(call) if isinstance(call, dict) else ("", None)
    if not _is_parallel(name):
        return []
    uses = (read_arguments(arguments, sys.maxsize).value or {}).get("tool_uses")
    inner = [_use(use) for use in uses] if isinstance(uses, list) else []
    return inner if all(inner) else []


def _use(use: object) -> JSON:
    match use:
        case {"recipient_name": str(name), **rest} if not _is_parallel(name):
            function = {"name": name, "arguments": rest.get("parameters")}
            return {"type": "function", "function": function}
        case _:
            return {}


def _is_parallel(name: str) -> bool:
    return name.strip().removeprefix("functions.") == "multi_tool_use.parallel"


def _with_text_arguments(call: JSON) -> JSON:
    function = call.get("function")
    if not isinstance(function, dict) or "arguments" not in function:
        return call
    text = _as_text(function["arguments"])
    if text is function["arguments"]:
        return call
    return call | {"function": function | {"arguments": text}}


def _as_text(arguments: object) -> object:
    """Write an object as JSON. What JSON cannot carry stays: the argument reader judges it."""
    if not isinstance(arguments, dict | list):
        return arguments
    try:
        return encode_json(arguments, _COMPACT.encode)
    except ValueError:
        return arguments


@TOOL_CALL.register
def assistant_tool_calls_arguments_blank_to_empty_object(call: JSON) -> JSON:
    """Read blank argument text as an empty object: models write it for tools without arguments."""
    match call:
        case {"function": {"arguments": str(text)} as function} if not text.strip():
            return call | {"function": function | {"arguments": "{}"}}
        case _:
            return call
