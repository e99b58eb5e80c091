"""Parse requests that describe tools in text or in a schema, and encode replies to them.

    guided     tools in the instructions, replies bound to a schema of calls and the answer
    prompted   tools in the instructions, calls in <tool_call>, results in <tool_response>
    schema     no tools, a reply that is bound to any other schema

`parse_request` converts such a request to one with native fields, from which a persona decides what
to do. `text_reply` converts the decision back to text.
"""

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

import msgspec

from surecall.core.guided.protocol import ABOUT, guided_format
from surecall.core.prompted import ANSWER_SCHEMA_PROMPT, PROMPTED
from surecall.simulator.personas.clues import Clues, value_for
from surecall.simulator.personas.intent import (
    CALL_QUESTION,
    COMPLAINTS,
    EMPTY_REPLY_NOTES,
    REMINDERS,
    Intent,
    PlannedCall,
)
from surecall.simulator.request_checks import messages_of
from surecall.values.nesting import decode_prefix
from surecall.values.text import occurrences
from surecall.values.types import JSON
from surecall.wire.chat_format import encode, tool_choice_for
from surecall.wire.content_parts import text_of

# Schemas of the final answer.

_DECODER = json.JSONDecoder()


def answer_schema(messages: Sequence[JSON]) -> JSON | None:
    """Return the schema of the final answer if the instructions contain one, or None."""
    for message in messages:
        text = text_of(message.get("content")) if message.get("role") == "system" else ""
        # The first letter may be in either case.
        _, found, rest = text.partition(ANSWER_SCHEMA_PROMPT[1:])
        match read_json(rest.lstrip(), 0) if found else None:
            case (dict(schema), int()):
                return schema
            case _:
                continue
    return None


def answer_clues(request: JSON) -> Clues:
    """Return the values for an answer, from the last user message and the tool results."""
    messages = request["messages"]
    asked = [text_of(item.get("content")) for item in messages if item.get("role") == "user"]
    known: JSON = {}
    for item in messages:
        text = text_of(item.get("content")) if item.get("role") == "tool" else ""
        match read_json(text, 0):
            case ({"data": dict(data)}, int()):
                known |= data
            case _:
                continue
    return Clues(asked[-1] if asked else "", known)


def read_json(text: str, position: int) -> tuple[Any, int] | None:
    """Decode the JSON value at a position of a text; return it and its end, or None."""
    try:
        return decode_prefix(_DECODER, text, position)
    except ValueError:
        return None


# Schemas of guided replies.


def guided_steps(schema: JSON) -> list[JSON] | None:
    """Return the steps that a guided schema allows, as properties; None for other schemas."""
    found = [step for branch in _schema_branches(schema) for step in _branch_steps(branch)]
    if None in found:
        return None
    defined = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return [step | _expand_step(step, defined) for step in found if step is not None]


def _branch_steps(branch: Any) -> Iterator[JSON | None]:
    """Yield the steps of one branch, and None for an unknown one."""
    match branch:
        case {"properties": {"calls": {"items": dict(items)}} as several}:
            before = {key: several[key] for key in several if key != "calls"}
            for each in _schema_branches(items):
                yield from (step and before | step for step in _branch_steps(each))
        case {"properties": {"tool": {"const": str()}} as step}:
            yield step
        case {"properties": ({"answer": _} | {"cannot": {"enum": [str(), *_]}}) as step}:
            yield step
        case _:
            yield None


def _schema_branches(schema: JSON) -> list[Any]:
    """Return the alternatives of a schema; a schema without any is the only one."""
    branches = schema.get("anyOf", [schema])
    return branches if isinstance(branches, list) else [branches]


def allows_several_calls(schema: JSON) -> bool:
    """Return whether a guided reply may contain several calls."""
    return any(
        isinstance(branch, dict) and "calls" in branch.get("properties", ())
        for branch in _schema_branches(schema)
    )


def _expand_step(step: JSON, definitions: JSON) -> JSON:
    """Return the schemas of a step with the definitions that they reference."""
    inside = {"arguments": _expand_arguments(step.get("arguments"), definitions)}
    answer = step.get("answer")
    if isinstance(answer, dict) and "$ref" in answer:
        inside["answer"] = _expand_arguments(answer, definitions)
    return inside


def _expand_arguments(arguments: Any, definitions: JSON) -> JSON:
    """Return a tool's parameters with the definitions that they reference."""
    match arguments:
        case {"$ref": str(pointer)}:
            name = pointer.removeprefix("#/$defs/")
            return dict(definitions.get("$defs", {}).get(name, {})) | definitions
        case dict():
            return arguments
        case _:
            return {}


# Separates parts of a message.
_PARAGRAPH = "\n\n"
_TOOLS_HEADING = "\nTools:\n"
_SCHEMA_MARK = " Arguments: "
# How the instructions begin to describe a protocol.
_PROTOCOL_OPENINGS: Final = {
    name: manner.opening((), None, False).partition("\n")[0]  # noqa: FBT003  # a manner's signature
    for name, manner in (("guided", guided_format(0)), ("prompted", PROMPTED))
}
_CALL_TAGS = ("<tool_call>\n", "\n</tool_call>")
_RESULT_TAGS = ("<tool_response>\n", "\n</tool_response>")
_STEP_FIELDS: Final = frozenset({"tool", "arguments", "answer", "cannot"})
_FILLER_TEXT = "This is what is needed now."


class ParsedRequest(msgspec.Struct, frozen=True):
    """A request as it was sent, the same request with native fields, and the form of its reply.

    `bound` means that a grammar enforces the form. `answer` is the schema of the final answer if
    the instructions contain one.
    """

    sent: JSON
    request: JSON
    form: str = "native"
    bound: bool = False
    schema: JSON = {}
    answer: JSON | None = None


def parse_request(request: JSON) -> ParsedRequest:
    """Parse a request; convert tools, calls, and results in text to native fields."""
    messages = messages_of(request)
    schema = _response_schema(request)
    form, own, listed = _find_protocol(messages)
    steps = guided_steps(schema or {})
    if steps is not None:
        form = "guided"
    if not form:
        bound = schema is not None and "tools" not in request
        name = "schema" if bound else "native"
        return ParsedRequest(request, request, name, bound, schema or {}, answer_schema(messages))
    rest = [message for message in messages if message is not own[0]] if own else messages
    fields = {key: value for key, value in request.items() if key != "response_format"}
    opening = [own[0] | {"content": own[1]}] if own and own[1] else []
    fields["messages"] = [*opening, *_restore_messages(rest, form)]
    if form == "guided":
        fields["parallel_tool_calls"] = allows_several_calls(schema or {})
    fields |= _tool_fields(listed, steps)
    answer = answer_schema(messages)
    return ParsedRequest(request, fields, form, steps is not None, schema or {}, answer)


def parse_unbound_request(request: JSON) -> ParsedRequest:
    """Parse a request like a server that ignores `response_format`."""
    rest = {key: value for key, value in request.items() if key != "response_format"}
    reading = parse_request(rest)
    form = "prompted" if reading.form == "guided" else reading.form
    return msgspec.structs.replace(reading, sent=request, form=form)


def text_reply(parsed: ParsedRequest, intent: Intent) -> str | None:
    """Return the text of a reply in the form that the request demands; None for native fields."""
    match parsed.form:
        case "guided":
            return _guided_reply(parsed, intent)
        case "prompted" if intent.calls:
            opening, closing = _CALL_TAGS
            calls = ({"name": call.tool, "arguments": call.arguments} for call in intent.calls)
            return "\n".join(f"{opening}{encode(call).decode()}{closing}" for call in calls)
        case "schema":
            return encode(value_for(parsed.schema, answer_clues(parsed.request))).decode()
        case _ if parsed.answer is not None and not intent.calls:
            return encode(value_for(parsed.answer, answer_clues(parsed.request))).decode()
        case _:
            return None


def _guided_reply(parsed: ParsedRequest, intent: Intent) -> str:
    """Return a reply as text that fits the guided schema."""
    steps = guided_steps(parsed.schema) or ()
    if intent.calls:
        calls = [
            {"tool": call.tool, "arguments": _guided_arguments(call, steps)}
            for call in intent.calls
        ]
        step = {"calls": calls} if allows_several_calls(parsed.schema) else calls[0]
        return encode(_leading_fields(steps, "tool") | step).decode()
    reasons = [step["cannot"]["enum"] for step in steps if "cannot" in step]
    if reasons:
        return encode(_leading_fields(steps, "cannot") | {"cannot": reasons[0][0]}).decode()
    form = next((step for step in steps if "answer" in step), {})
    wanted = form.get("answer")
    free = not isinstance(wanted, dict) or wanted == {"type": "string"}
    answer = intent.text if free else value_for(wanted, answer_clues(parsed.request))
    written = encode(_leading_fields(steps, "answer") | {"answer": answer}).decode()
    # The token limit truncates JSON as well.
    return written.removesuffix('"}') if intent.finish == "length" else written


def _leading_fields(steps: Sequence[JSON], kind: str) -> JSON:
    """Return the fields that a schema requires before a kind of step."""
    step = next((each for each in steps if kind in each), {})
    return {key: _field_text(field) for key, field in step.items() if key not in _STEP_FIELDS}


def _field_text(field: JSON) -> str:
    """Return an allowed text for a field: its constant, its first option, or a filler."""
    return str(field.get("const", next(iter(field.get("enum", [_FILLER_TEXT])))))


def _guided_arguments(call: PlannedCall, steps: Sequence[JSON]) -> JSON:
    """Return arguments with the descriptions that a schema requires before their values."""
    forms = [step["arguments"] for step in steps if step.get("tool") == {"const": call.tool}]
    for form in forms:
        fields = form.get("properties", {})
        words = {ABOUT + name: value for name, value in call.arguments.items()}
        texts = {key: _text_about_value(fields[key], words[key]) for key in words if key in fields}
        if texts and None not in texts.values():
            return {
                key: texts.get(key, call.arguments.get(key))
                for key in fields
                if key in texts or key in call.arguments
            }
    return call.arguments


def _text_about_value(field: JSON, value: Any) -> str | None:
    """Return the allowed text of a field that ends with a value, or None."""
    known = [field["const"]] if "const" in field else field.get("enum", ())
    return next((str(text) for text in known if str(text).endswith(f", {value}")), None)


# Parsing: response schema and tools.


def _response_schema(request: JSON) -> JSON | None:
    match request.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
        case _:
            return None


def _tool_fields(tools: dict[str, JSON], steps: list[JSON] | None) -> JSON:
    """Return the fields `tools` and `tool_choice` for the allowed steps."""
    if steps is None:
        return (
            {"tools": [_tool_definition(function) for function in tools.values()]} if tools else {}
        )
    calls = [step for step in steps if "tool" in step]
    if not calls:
        return {}
    functions = [
        tools.get(step["tool"]["const"], {})
        | {"name": step["tool"]["const"], "parameters": step["arguments"]}
        for step in calls
    ]
    offer: JSON = {"tools": [_tool_definition(function) for function in functions]}
    if len(calls) == len(steps):
        only = len(calls) == 1
        offer["tool_choice"] = tool_choice_for(functions[0]["name"]) if only else "required"
    return offer


def _tool_definition(function: JSON) -> JSON:
    return {"type": "function", "function": function}


def _find_protocol(
    messages: Sequence[JSON],
) -> tuple[str, tuple[JSON, str] | None, dict[str, JSON]]:
    """Return the protocol, blank if native; its message with the text before it; and the tools."""
    for message in messages:
        if message.get("role") != "system":
            continue
        text = text_of(message.get("content"))
        for form, words in _PROTOCOL_OPENINGS.items():
            at = text.rfind(words)
            if at >= 0:
                _, _, tools = text[at:].partition(_TOOLS_HEADING)
                return (
                    form,
                    (message, text[:at].removesuffix(_PARAGRAPH)),
                    dict(_parse_tools(tools)),
                )
    return "", None, {}


def _parse_tools(text: str) -> Iterator[tuple[str, JSON]]:
    """Parse items of the form `- name: description Arguments: {schema}`."""
    while text.startswith("- "):
        name, _, rest = text[2:].partition(": ")
        described = next(_schema_positions(rest), None)
        if described is None:
            return
        at, schema, end = described
        yield name, {"name": name, "description": rest[:at], "parameters": schema}
        text = rest[end:].lstrip("\n")


def _schema_positions(text: str) -> Iterator[tuple[int, JSON, int]]:
    """Yield the end of a description, the schema after it, and the end of the schema."""
    for at in occurrences(text, _SCHEMA_MARK):
        match read_json(text, at + len(_SCHEMA_MARK)):
            case (dict(schema), int(end)) if text[end : end + 1] in {"", "\n"}:
                yield at, schema, end
            case _:
                continue


# Parsing: messages, calls, and results.


def _restore_messages(messages: Sequence[JSON], form: str) -> Iterator[JSON]:
    """Yield the messages with calls and results in native fields."""
    waiting: list[tuple[str, str]] = []
    made = 0
    for message in messages:
        text = text_of(message.get("content"))
        if message.get("role") == "assistant":
            calls = list(_CALL_PARSERS[form](text))
            waiting = [(f"call_{made + at}", name) for at, (name, _) in enumerate(calls)]
            made += len(calls)
            yield message | (
                _native_call_fields(waiting, calls)
                if calls
                else {"content": _answer_text(text, form)}
            )
        elif message.get("role") == "user":
            rest = yield from _restore_results(text, waiting, form)
            waiting = []
            yield from (message | {"content": part} for part in _split_notes(rest) if part.strip())
        else:
            yield message


def _split_notes(text: str) -> Iterator[str]:
    """Split a text message at the beginning of client notes."""
    notes = (*COMPLAINTS, CALL_QUESTION, *EMPTY_REPLY_NOTES, *REMINDERS)
    begins = [at for words in notes for at in occurrences(text, _PARAGRAPH + words)]
    start = 0
    for at in sorted(begins):
        yield text[start:at]
        start = at + len(_PARAGRAPH)
    yield text[start:]


def _native_call_fields(ids: list[tuple[str, str]], calls: list[tuple[str, str]]) -> JSON:
    """Return the message fields for calls, given their ids with names."""
    made = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for (call_id, _), (name, arguments) in zip(ids, calls, strict=True)
    ]
    return {"content": None, "tool_calls": made}


def _answer_text(text: str, form: str) -> str:
    """Return the text of an answer, without the object around it in the guided form."""
    match read_json(text, 0) if form == "guided" else None:
        case ({"answer": str(answer)}, _):
            return answer
        case _:
            return text


def _restore_results(
    text: str, unanswered_calls: list[tuple[str, str]], form: str
) -> Generator[JSON, None, str]:
    """Yield the results at the beginning of a text; return the rest."""
    for call_id, name in unanswered_calls:
        content, rest = _RESULT_PARSERS[form](text, name)
        if content is None:
            break
        yield {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}
        text = rest.removeprefix(_PARAGRAPH)
    return text


def _parse_guided_calls(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and arguments of each call in a guided reply."""
    for line in text.split("\n"):
        read = read_json(line, 0)
        value = read[0] if read is not None else None
        listed = value.get("calls", [value]) if isinstance(value, dict) else []
        for one in listed:
            match one:
                case {"tool": str(name), "arguments": dict(arguments)}:
                    yield name, encode(arguments).decode()
                case _:
                    return


def _parse_tagged_calls(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and arguments of each call in tags."""
    opening, closing = _CALL_TAGS
    while text.startswith(opening):
        match read_json(text, len(opening)):
            case ({"name": str(name), "arguments": dict(arguments)}, int(end)):
                yield name, encode(arguments).decode()
                text = text[end:].removeprefix(closing).lstrip("\n")
            case _:
                return


def _parse_named_result(text: str, name: str) -> tuple[str | None, str]:
    """Return the result at the beginning of a text, None if there is none, and the rest."""
    opening = f"Result of {name}: "
    if not text.startswith(opening):
        return None, text
    read = read_json(text, len(opening))
    end = len(text) if read is None else read[1]
    return text[len(opening) : end], text[end:]


def _parse_tagged_result(text: str, _name: str) -> tuple[str | None, str]:
    """Return the tagged result at the beginning of a text, None if there is none, and the rest."""
    opening, closing = _RESULT_TAGS
    end = text.find(closing)
    if not text.startswith(opening) or end < 0:
        return None, text
    return text[len(opening) : end], text[end + len(closing) :]


_CALL_PARSERS: Final[dict[str, Callable[[str], Iterator[tuple[str, str]]]]] = {
    "guided": _parse_guided_calls,
    "prompted": _parse_tagged_calls,
}
_RESULT_PARSERS: Final[dict[str, Callable[[str, str], tuple[str | None, str]]]] = {
    "guided": _parse_named_result,
    "prompted": _parse_tagged_result,
}
