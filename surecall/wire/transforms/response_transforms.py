"""Inbound transforms: repair a response before it is parsed.

body          the whole response
response      the assistant message
tool call     one raw call, before its arguments are parsed
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from surecall.parsing.arguments import parse_arguments
from surecall.values.family import Family
from surecall.values.nesting import check_depth, encode_json
from surecall.values.types import JSON, is_blank
from surecall.wire.chat_format import name_and_arguments, raw_call_id, raw_calls
from surecall.wire.content_parts import call_of, calls_in, parts_of, reasoning_in, text_of
from surecall.wire.finish_reasons import finish_kind, worst_finish_reason
from surecall.wire.text_edges import is_without_content

BODY: Family[JSON] = Family("body transform")
RESPONSE: Family[JSON] = Family("response transform")
TOOL_CALL: Family[JSON] = Family("tool call transform")

# Longer arguments are compared without decoding.
_MAX_COMPARED_BYTES = 20_000
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_UNREADABLE_CALL: JSON = {"id": "call_unreadable"}
_WRAPPER_KEYS = ("data", "result", "response")


@BODY.register
def response_body_unwrapped(body: JSON) -> JSON:
    """Unwrap a completion from `{"data": …}`, as some gateways send it."""
    if "choices" in body or body.get("error"):
        return body
    for key in _WRAPPER_KEYS:
        inner = body.get(key)
        if isinstance(inner, dict) and isinstance(inner.get("choices"), list):
            return inner
    return body


@BODY.register
def failed_generation_to_message(body: JSON) -> JSON:
    """Recover the model's text from Groq's `failed_generation` error."""
    generation = failed_generation(body)
    if generation is None:
        return body
    message = {"role": "assistant", "content": _close_function_tag(generation)}
    return {"choices": [{"message": message, "finish_reason": "stop"}]}


def _close_function_tag(text: str) -> str:
    """Add the `>` that a call is missing."""
    # Llama on Groq omits the `>` of the tag: `<function=f{…}</function>`.
    head, brace, rest = text.partition("{")
    is_open = head.lstrip().startswith("<function=") and ">" not in head
    return f"{head}>{brace}{rest}" if brace and is_open else text


def failed_generation(body: Any) -> str | None:
    """Return the text that a provider could not parse as a call, if an error has one."""
    error = body.get("error") if isinstance(body, dict) else None
    text = error.get("failed_generation") if isinstance(error, dict) else None
    return text if isinstance(text, str) and not is_blank(text) else None


@BODY.register
def choice_delta_to_message(body: JSON) -> JSON:
    """Use the `delta` of a non-streaming response as its message if the message is blank."""
    match body.get("choices"):
        case [{"delta": dict(delta)} as choice, *rest] if _has_content(delta):
            if _has_content(choice.get("message")):
                return body
            repaired = {key: choice[key] for key in choice if key != "delta"} | {"message": delta}
            return body | {"choices": [repaired, *rest]}
        case _:
            return body


@BODY.register
def choices_of_one_turn_joined(body: JSON) -> JSON:
    """Join a turn that was split: text in the first choice, calls in another one.

    If several other choices have calls, the turn is ambiguous. It is then treated as one whose call
    is missing, and the model is re-prompted.
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
        text = first.get("message")
        message = message | {"content": text.get("content") if isinstance(text, dict) else None}
    reasons = sorted(map(worst_finish_reason, (other, first)), key=finish_kind)
    joined = other | {"message": message, "finish_reason": reasons[-1]}
    return body | {"choices": [joined]}


def _has_content(message: object) -> bool:
    """Whether a message has anything but its role."""
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
    """Convert the deprecated `function_call` object to a `tool_calls` array of one."""
    if "function_call" not in message:
        return message
    rest = {key: value for key, value in message.items() if key != "function_call"}
    legacy = message["function_call"]
    match legacy:
        case {"name": str(name)} if name.strip() and not message.get("tool_calls"):
            function = {"name": name, "arguments": _arguments_to_json(legacy.get("arguments"))}
            return rest | {"tool_calls": [{"type": "function", "function": function}]}
        case _:
            return rest


@RESPONSE.register
def assistant_tool_calls_object_to_array(message: JSON) -> JSON:
    """Wrap a bare `tool_calls` object in an array; some routes omit it for a single call."""
    calls = message.get("tool_calls")
    return message | {"tool_calls": [calls]} if isinstance(calls, dict) else message


@RESPONSE.register
def assistant_content_call_parts_to_tool_calls(message: JSON) -> JSON:
    """Move calls from content parts to `tool_calls`, dropping those already there."""
    content, known = message.get("content"), message.get("tool_calls")
    found = calls_in(content)
    if not found:
        return message
    rest = [part for part in parts_of(content) if call_of(part) is None]
    calls = known if isinstance(known, list) else []
    fresh = _drop_echoes(calls, found)
    if not any(_call_name(call) for call in (*found, *filter(_is_mapping, calls))):
        # The id makes sure that the call, which cannot run, is reported to the model.
        fresh = [_UNREADABLE_CALL | call for call in fresh]
    return message | {"content": rest or None, "tool_calls": [*calls, *fresh]}


def _drop_echoes(calls: list[Any], part_calls: list[JSON]) -> list[JSON]:
    """Drop calls that are already in `calls`; each of those matches one echo."""
    known = [call for call in calls if isinstance(call, dict)]
    ids = {raw_call_id(call) for call in known} - {""}
    meanings = [_comparable_call(call) for call in known]
    fresh: list[JSON] = []
    for call in part_calls:
        meaning = _comparable_call(call) if meanings else None
        if meaning in meanings:
            meanings.remove(meaning)
        elif raw_call_id(call) not in ids:
            fresh.append(call)
    return fresh


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict)


def _comparable_call(call: JSON) -> tuple[str, object]:
    """Return the name and arguments of a call, decoded if they are JSON and not too long."""
    name, arguments = name_and_arguments(_nest_function(call))
    value = parse_arguments(arguments, _MAX_COMPARED_BYTES).value
    return name, arguments if value is None else value


@RESPONSE.register
def assistant_tool_calls_json_text_to_array(message: JSON) -> JSON:
    """Decode `tool_calls` sent as JSON text; other text becomes an invalid call."""
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
    # With an id and no name it cannot run, and is reported to the model.
    function = {"name": "", "arguments": text}
    return message | {"tool_calls": [_UNREADABLE_CALL | {"function": function}]}


@RESPONSE.register
def assistant_tool_calls_flat_to_function(message: JSON) -> JSON:
    """Move the `name` and `arguments` of a call under `function`."""
    return _repair_each_call(message, _nest_function)


@RESPONSE.register
def assistant_tool_calls_name_tags_to_arguments(message: JSON) -> JSON:
    """Split a name that contains the arguments: `read<arg_key>path</arg_key>…` (GLM)."""
    return _repair_each_call(message, _split_name)


@RESPONSE.register
def assistant_tool_calls_parallel_expanded(message: JSON) -> JSON:
    """Expand a call of `multi_tool_use.parallel` into the calls it contains."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    uses = [_parallel_uses(call) for call in calls]
    if not any(uses):
        return message
    pairs = zip(calls, uses, strict=True)
    return message | {"tool_calls": [one for call, inner in pairs for one in inner or [call]]}


@RESPONSE.register
def assistant_tool_calls_blank_dropped(message: JSON) -> JSON:
    """Drop calls without id and name if they are empty or beside real calls."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    blank = [
        isinstance(call, dict) and not raw_call_id(call) and not _call_name(call) for call in calls
    ]
    # A lone blank call with arguments is reported to the model instead.
    real = any(isinstance(call, dict) and _call_name(call) for call in calls)
    kept = [
        call
        for call, is_blank in zip(calls, blank, strict=True)
        if not is_blank or not (real or _has_no_arguments(name_and_arguments(call)[1]))
    ]
    return message if len(kept) == len(calls) else message | {"tool_calls": kept}


@RESPONSE.register
def assistant_tool_calls_arguments_json_string_if_hash(message: JSON) -> JSON:
    """Serialize `arguments` that arrive as an object; the format requires JSON text."""
    return _repair_each_call(message, _with_text_arguments)


@RESPONSE.register
def assistant_content_parts_to_text(message: JSON) -> JSON:
    """Join content parts to text and move reasoning to `reasoning_content`."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    thoughts = reasoning_in(content)
    repaired = message | {"content": text_of(content)}
    if thoughts and not message.get("reasoning_content"):
        repaired["reasoning_content"] = thoughts
    return repaired


@RESPONSE.register
def assistant_content_edges_trimmed(message: JSON) -> JSON:
    """Trim end tokens and invisible characters from the edges of an answer.

    This step only empties content that has nothing else. Other content is trimmed after its calls
    and reasoning are extracted, because their marks may also be at the edges.
    """
    content = message.get("content")
    if not isinstance(content, str) or is_blank(content) or not is_without_content(content):
        return message
    return message | {"content": ""}


@RESPONSE.register
def assistant_content_tool_call_tags_to_tool_calls(message: JSON) -> JSON:
    """Enable `text_calls`; the calls are extracted by its parser, not here."""
    return message


def _repair_each_call(message: JSON, repair: Callable[[JSON], JSON]) -> JSON:
    """Repair each call; return the same message if nothing changed."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    repaired = [repair(call) if isinstance(call, dict) else call for call in calls]
    if all(after is before for after, before in zip(repaired, calls, strict=True)):
        return message
    return message | {"tool_calls": repaired}


def _call_name(call: JSON) -> str:
    return name_and_arguments(call)[0]


def _has_no_arguments(arguments: object) -> bool:
    return (
        arguments is None
        or arguments == {}
        or (isinstance(arguments, str) and arguments.strip() in {"", "{}"})
    )


def _nest_function(call: JSON) -> JSON:
    """Return a call with its name and arguments under `function`."""
    name = call.get("name")
    if isinstance(call.get("function"), dict) or not isinstance(name, str) or not name.strip():
        return call
    given = next((key for key in ("arguments", "parameters", "input") if key in call), "")
    function = {"name": name, "arguments": call.get(given)}
    rest = {key: call[key] for key in call if key not in {"name", given}}
    return rest | {"function": function}


def _split_name(call: JSON) -> JSON:
    """Return a call with the arguments in its name split off."""
    name, arguments = name_and_arguments(call)
    if "<arg_key>" not in name or not _has_no_arguments(arguments):
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


def _parallel_uses(call: object) -> list[JSON]:
    """Return the calls inside a parallel call; none if it is another call or unparsable."""
    name, arguments = name_and_arguments(call) if isinstance(call, dict) else ("", None)
    if not _is_parallel(name):
        return []
    uses = (parse_arguments(arguments, sys.maxsize).value or {}).get("tool_uses")
    inner = [_parallel_use(use) for use in uses] if isinstance(uses, list) else []
    return inner if all(inner) else []


def _parallel_use(use: object) -> JSON:
    """Return one use in a parallel call as a call; empty if it is not one."""
    match use:
        case {"recipient_name": str(name), **rest} if not _is_parallel(name):
            function = {"name": name, "arguments": rest.get("parameters")}
            return {"type": "function", "function": function}
        case _:
            return {}


def _is_parallel(name: str) -> bool:
    """Whether a name is that of the parallel call."""
    return name.strip().removeprefix("functions.") == "multi_tool_use.parallel"


def _with_text_arguments(call: JSON) -> JSON:
    function = call.get("function")
    if not isinstance(function, dict) or "arguments" not in function:
        return call
    text = _arguments_to_json(function["arguments"])
    if text is function["arguments"]:
        return call
    return call | {"function": function | {"arguments": text}}


def _arguments_to_json(arguments: object) -> object:
    """Encode an object as JSON; leave what JSON cannot express to the arguments parser."""
    if not isinstance(arguments, dict | list):
        return arguments
    try:
        return encode_json(arguments, _COMPACT.encode)
    except ValueError:
        return arguments


@TOOL_CALL.register
def assistant_tool_calls_arguments_blank_to_empty_object(call: JSON) -> JSON:
    """Replace blank argument text, written for tools without arguments, with an empty object."""
    match call:
        case {"function": {"arguments": str(text)} as function} if not text.strip():
            return call | {"function": function | {"arguments": "{}"}}
        case _:
            return call
