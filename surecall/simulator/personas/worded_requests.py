"""Requests that say in words what others say in fields: read back, and answered in kind.

    guided     tools in the instructions, replies bound to a schema of calls and the answer
    prompted   tools in the instructions, calls in <tool_call>, results in <tool_response>
    schema     no tools, a reply that is bound to any other schema

`understood` gives such a request the fields that it would have had, so that a persona decides from
it as from any other; `worded` puts into words what it has decided.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

import msgspec

from surecall.simulator.personas.asked_forms import (
    answer_form,
    known_to,
    read_json,
    steps_in,
    takes_several,
)
from surecall.simulator.personas.clues import value_for
from surecall.simulator.personas.intent import (
    ASKED_BACK,
    COMPLAINTS,
    NOTHING_CAME,
    REMINDERS,
    Intent,
    Wanted,
)
from surecall.values.types import JSON
from surecall.wire.content_parts import text_of
from surecall.wire.messages import encode, named_choice
from surecall.wire.protocols.guided import ABOUT, guided
from surecall.wire.protocols.prompted import PROMPTED

# Separates what was said one after the other.
_BREAK = "\n\n"
_LISTED = "\nTools:\n"
_SCHEMA = " Arguments: "
# With these words the instructions begin to describe a form.
_OPENINGS: Final = {
    name: manner.opening((), None, False).partition("\n")[0]  # noqa: FBT003  # a manner's signature
    for name, manner in (("guided", guided(0)), ("prompted", PROMPTED))
}
_CALL = ("<tool_call>\n", "\n</tool_call>")
_RESULT = ("<tool_response>\n", "\n</tool_response>")
_STEPS: Final = frozenset({"tool", "arguments", "answer", "cannot"})
_THOUGHT = "This is what is needed now."


class ReadRequest(msgspec.Struct, frozen=True):
    """A request as it was sent, and with all its fields; and how it wants to be answered.

    `bound` says that a grammar enforces the form, so that nothing else can be written. `answer` is
    the schema of the final answer, where words ask for one.
    """

    sent: JSON
    request: JSON
    form: str = "native"
    bound: bool = False
    schema: JSON = {}
    answer: JSON | None = None


def understood(request: JSON) -> ReadRequest:
    """Read a request: what it says in words is put where it belongs."""
    messages = [item for item in request.get("messages", ()) if isinstance(item, dict)]
    schema = _schema_of(request)
    form, own, listed = _opening(messages)
    steps = steps_in(schema or {})
    if steps is not None:
        form = "guided"
    if not form:
        bound = schema is not None and "tools" not in request
        name = "schema" if bound else "native"
        return ReadRequest(request, request, name, bound, schema or {}, answer_form(messages))
    rest = [message for message in messages if message is not own[0]] if own else messages
    fields = {key: value for key, value in request.items() if key != "response_format"}
    opening = [own[0] | {"content": own[1]}] if own and own[1] else []
    fields["messages"] = [*opening, *_restored(rest, form)]
    if form == "guided":
        fields["parallel_tool_calls"] = takes_several(schema or {})
    fields |= _offer(listed, steps)
    asked = answer_form(messages)
    return ReadRequest(request, fields, form, steps is not None, schema or {}, asked)


def unbound(request: JSON) -> ReadRequest:
    """Read a request as a model does whose server does not know `response_format`."""
    rest = {key: value for key, value in request.items() if key != "response_format"}
    reading = understood(rest)
    form = "prompted" if reading.form == "guided" else reading.form
    return msgspec.structs.replace(reading, sent=request, form=form)


def worded(reading: ReadRequest, intent: Intent) -> str | None:
    """Put what was decided into the form that a request wants; None where fields do that."""
    match reading.form:
        case "guided":
            return _in_json(reading, intent)
        case "prompted" if intent.calls:
            return "\n".join(map(_tagged, intent.calls))
        case "schema":
            return encode(value_for(reading.schema, known_to(reading.request))).decode()
        case _ if reading.answer is not None and not intent.calls:
            return encode(value_for(reading.answer, known_to(reading.request))).decode()
        case _:
            return None


def _tagged(call: Wanted) -> str:
    opening, closing = _CALL
    return opening + encode({"name": call.tool, "arguments": call.arguments}).decode() + closing


def _in_json(reading: ReadRequest, intent: Intent) -> str:
    steps = steps_in(reading.schema) or ()
    if intent.calls:
        calls = [{"tool": call.tool, "arguments": _filled_in(call, steps)} for call in intent.calls]
        step = {"calls": calls} if takes_several(reading.schema) else calls[0]
        return encode(_before(steps, "tool") | step).decode()
    reasons = [step["cannot"]["enum"] for step in steps if "cannot" in step]
    if reasons:
        return encode(_before(steps, "cannot") | {"cannot": reasons[0][0]}).decode()
    form = next((step for step in steps if "answer" in step), {})
    wanted = form.get("answer")
    free = not isinstance(wanted, dict) or wanted == {"type": "string"}
    answer = intent.text if free else value_for(wanted, known_to(reading.request))
    written = encode(_before(steps, "answer") | {"answer": answer}).decode()
    # What the token limit cuts off, it cuts off anywhere.
    return written.removesuffix('"}') if intent.finish == "length" else written


def _before(steps: Sequence[JSON], kind: str) -> JSON:
    """Write what a form wants to have written before a step of a kind."""
    step = next((each for each in steps if kind in each), {})
    return {key: _words_for(field) for key, field in step.items() if key not in _STEPS}


def _words_for(field: JSON) -> str:
    """Return what may stand in a field: the only thing, the first of some, or anything."""
    return str(field.get("const", next(iter(field.get("enum", [_THOUGHT])))))


def _filled_in(call: Wanted, steps: Sequence[JSON]) -> JSON:
    """Return arguments as a form wants them: before a value, what it is."""
    forms = [step["arguments"] for step in steps if step.get("tool") == {"const": call.tool}]
    for form in forms:
        fields = form.get("properties", {})
        words = {ABOUT + name: value for name, value in call.arguments.items()}
        told = {key: _told(fields[key], words[key]) for key in words if key in fields}
        if told and None not in told.values():
            return {
                key: told.get(key, call.arguments.get(key))
                for key in fields
                if key in told or key in call.arguments
            }
    return call.arguments


def _told(field: JSON, value: Any) -> str | None:
    """Return the words of a field that are about a value: they end with it."""
    known = [field["const"]] if "const" in field else field.get("enum", ())
    return next((str(text) for text in known if str(text).endswith(f", {value}")), None)


# What a request offers.


def _schema_of(request: JSON) -> JSON | None:
    match request.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
        case _:
            return None


def _offer(listed: dict[str, JSON], steps: list[JSON] | None) -> JSON:
    """Return the tools that may be called, and whether one must be."""
    if steps is None:
        return {"tools": [_tool(function) for function in listed.values()]} if listed else {}
    calls = [step for step in steps if "tool" in step]
    if not calls:
        return {}
    functions = [
        listed.get(step["tool"]["const"], {})
        | {"name": step["tool"]["const"], "parameters": step["arguments"]}
        for step in calls
    ]
    offer: JSON = {"tools": [_tool(function) for function in functions]}
    if len(calls) == len(steps):
        only = len(calls) == 1
        offer["tool_choice"] = named_choice(functions[0]["name"]) if only else "required"
    return offer


def _tool(function: JSON) -> JSON:
    return {"type": "function", "function": function}


def _opening(messages: Sequence[JSON]) -> tuple[str, tuple[JSON, str] | None, dict[str, JSON]]:
    """Find the form that the instructions describe, what else they say, and the tools."""
    for message in messages:
        if message.get("role") != "system":
            continue
        text = text_of(message.get("content"))
        for form, words in _OPENINGS.items():
            at = text.rfind(words)
            if at >= 0:
                _, _, tools = text[at:].partition(_LISTED)
                return form, (message, text[:at].removesuffix(_BREAK)), dict(_functions(tools))
    return "", None, {}


def _functions(text: str) -> Iterator[tuple[str, JSON]]:
    """Read `- name: description Arguments: {schema}`, line by line or longer."""
    while text.startswith("- "):
        name, _, rest = text[2:].partition(": ")
        described = next(_described(rest), None)
        if described is None:
            return
        at, schema, end = described
        yield name, {"name": name, "description": rest[:at], "parameters": schema}
        text = rest[end:].lstrip("\n")


def _described(text: str) -> Iterator[tuple[int, JSON, int]]:
    """Yield where a description ends, the schema after it, and where that ends."""
    for at in _places(text, _SCHEMA):
        match read_json(text, at + len(_SCHEMA)):
            case (dict(schema), int(end)) if text[end : end + 1] in {"", "\n"}:
                yield at, schema, end
            case _:
                continue


# What was said so far.


def _restored(messages: Sequence[JSON], form: str) -> Iterator[JSON]:
    """Yield messages with calls and results where they belong."""
    waiting: list[tuple[str, str]] = []
    made = 0
    for message in messages:
        text = text_of(message.get("content"))
        if message.get("role") == "assistant":
            calls = list(_CALLS[form](text))
            waiting = [(f"call_{made + at}", name) for at, (name, _) in enumerate(calls)]
            made += len(calls)
            yield message | (_called(waiting, calls) if calls else _said(text, form))
        elif message.get("role") == "user":
            rest = yield from _results(text, waiting, form)
            waiting = []
            yield from (message | {"content": part} for part in _apart(rest) if part.strip())
        else:
            yield message


def _apart(text: str) -> Iterator[str]:
    """Take apart what was said one after the other: in words, it is one message."""
    notes = (*COMPLAINTS, ASKED_BACK, *NOTHING_CAME, *REMINDERS)
    begins = [at for words in notes for at in _places(text, _BREAK + words)]
    start = 0
    for at in sorted(begins):
        yield text[start:at]
        start = at + len(_BREAK)
    yield text[start:]


def _places(text: str, words: str) -> Iterator[int]:
    at = text.find(words)
    while at >= 0:
        yield at
        at = text.find(words, at + 1)


def _called(ids: list[tuple[str, str]], calls: list[tuple[str, str]]) -> JSON:
    made = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for (call_id, _), (name, arguments) in zip(ids, calls, strict=True)
    ]
    return {"content": None, "tool_calls": made}


def _said(text: str, form: str) -> JSON:
    read = read_json(text, 0) if form == "guided" else None
    match read:
        case ({"answer": str(answer)}, _):
            return {"content": answer}
        case _:
            return {"content": text}


def _results(text: str, waiting: list[tuple[str, str]], form: str) -> Generator[JSON, None, str]:
    """Yield the results at the beginning of a text; return what follows them."""
    for call_id, name in waiting:
        content, rest = _RESULTS[form](text, name)
        if content is None:
            break
        yield {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}
        text = rest.removeprefix(_BREAK)
    return text


def _json_calls(text: str) -> Iterator[tuple[str, str]]:
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


def _tagged_calls(text: str) -> Iterator[tuple[str, str]]:
    opening, closing = _CALL
    while text.startswith(opening):
        match read_json(text, len(opening)):
            case ({"name": str(name), "arguments": dict(arguments)}, int(end)):
                yield name, encode(arguments).decode()
                text = text[end:].removeprefix(closing).lstrip("\n")
            case _:
                return


def _named_result(text: str, name: str) -> tuple[str | None, str]:
    opening = f"Result of {name}: "
    if not text.startswith(opening):
        return None, text
    read = read_json(text, len(opening))
    end = len(text) if read is None else read[1]
    return text[len(opening) : end], text[end:]


def _tagged_result(text: str, _name: str) -> tuple[str | None, str]:
    opening, closing = _RESULT
    end = text.find(closing)
    if not text.startswith(opening) or end < 0:
        return None, text
    return text[len(opening) : end], text[end + len(closing) :]


_CALLS: Final[dict[str, Callable[[str], Iterator[tuple[str, str]]]]] = {
    "guided": _json_calls,
    "prompted": _tagged_calls,
}
_RESULTS: Final[dict[str, Callable[[str, str], tuple[str | None, str]]]] = {
    "guided": _named_result,
    "prompted": _tagged_result,
}
