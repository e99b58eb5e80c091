"""`surecall explain`: how a raw response, a stream or a text is read, and why.

It reads as a run would, with the default presets and every dialect: what was recognised, what was
healed, what was left alone. A text that is one whole object of the guided protocol is read as a
guided run would read it. `explain` and `render` are pure; only `command` reads files and prints.
"""

import codecs
import re
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

import click
import msgspec

from surecall.cli.advice import FALLBACK, advice_on_fault, advice_on_reply, meaning
from surecall.cli.bodies_without_reply import (
    body_fault,
    cut_off,
    cut_off_stream,
    is_error_object,
    refuse_other_encodings,
    too_large,
    unreadable_json,
)
from surecall.cli.common import FAILED, WholeNumber, note, say, say_exactly
from surecall.cli.listing import count, json_line
from surecall.core.inbound import inbound
from surecall.core.streaming.body_reader import Listener
from surecall.parsing.budget import FRAMING, MAX_BYTES
from surecall.parsing.names import is_legal
from surecall.runtime.request import is_success
from surecall.settings.config import ToolCallingConfig
from surecall.settings.presets import PRESET
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError, ErrorCode, Fault, ProviderError
from surecall.values.types import JSON, Plan, Reply, ToolCall, ToolSpec
from surecall.wire.assembler import Assembler
from surecall.wire.content_parts import text_of
from surecall.wire.dialects import recover
from surecall.wire.finish_reasons import PROMISES, ending_of
from surecall.wire.messages import decode, id_of
from surecall.wire.protocols.guided import BEFORE_A_STEP
from surecall.wire.response import fault_of
from surecall.wire.transforms.inbound import failed_generation

GUIDED = "guided_reply"
ERROR = "error"
# Faults of a body that is neither a reply nor an error in the form of the API.
_UNREAD = frozenset(
    {ErrorCode.CONNECTION_ERROR, ErrorCode.DECODE_ERROR, ErrorCode.RESPONSE_TOO_LARGE}
)
# What a reply is explained with: everything that a run reads by default, and every dialect.
PRESETS = ("default_tool_calling", FALLBACK)
ANSWER_KEYS = frozenset({"choices", "error", "data", "object"})
# The events of a stream begin with the name of a field, or with a comment.
_STREAM = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*(?:(?:event|id|retry)?:[^\r\n]*[\r\n]\s*)*data:\s*[\[{]"
    # An error may be no JSON, and a stream may end before its first data.
    rb"|\A(?:event:\s*error\s*[\r\n]|(?:(?:event)?:[^\r\n]*[\r\n]\s*)+\Z)"
)
# No answer has more bytes, streamed or not; it is fed to the reader of streams in chunks.
_MOST: Final = FRAMING * MAX_BYTES
_CHUNK: Final = 65_536
# A text may have some bytes that are no UTF-8: not more than one character in so many.
_SOUND: Final = 10
# How much of each text, and how many of each list, people are shown.
SHOWN: Final = 500
LISTED: Final = 20
# What a call in text lacks that breaks a rule.
_RULES = {
    "whole": "it is not complete, or a closing mark is left over",
    "own_words": "it may be quoted",
    "marked": "its marks may mean something else",
    "last_words": "something follows it",
    "only_way": "the model calls natively",
    "not_destructive": "the tool is destructive",
}
# The protocol reads nothing where no tool is known at all.
_SOME_TOOL = (ToolSpec("-", "", {}),)


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--tools", type=click.File("rb"), help="JSON list of the tools that were offered.")
@click.option(
    "--status", type=WholeNumber(100, 599), help="The HTTP status that an error came with."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, file: BinaryIO, tools: BinaryIO | None, status: int | None, as_json: bool) -> int:
    """Explain a raw response, a stream or a text in FILE (or - for standard input).

    Shows which calls are in it, what was repaired, why something is not taken for a call, and
    what to do about it. Long texts and lists are cut, and it says by how much; --json has all.
    Exits with 1 if there is no reply to read: a page of a gateway, or a response that is cut off.
    """
    if file.isatty():
        note("reading standard input; Ctrl-D ends it")
    explanation = explain(file.read(_MOST + 1), _tools_in(tools), status)
    if as_json:
        say_exactly(json_line(msgspec.to_builtins(explanation)))
    else:
        say(render(explanation))
    return FAILED if explanation.unreadable else 0


def _tools_in(file: BinaryIO | None) -> list[Any]:
    if file is None:
        return []
    try:
        tools = decode(file.read())
    except ValueError:
        raise ConfigError("--tools is not JSON") from None
    if not isinstance(tools, list):
        raise ConfigError("--tools must be a JSON list of tool definitions")
    return tools


class Explanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """How an answer was read. `problem` of a call says why it would not run.

    `asked` of a call is its name as it came, if it came otherwise; `id` is an id that came twice,
    or null where none came. `claims` are the calls in text that a run would ask about, each with
    the rule that says so. `unreadable` means that there was no reply, and no error in the form of
    the API either.
    """

    kind: str
    steps: tuple[str, ...] = ()
    calls: tuple[JSON, ...] = ()
    text: str = ""
    passed_over: tuple[JSON, ...] = ()
    fault: str = ""
    claims: tuple[JSON, ...] = ()
    advice: tuple[str, ...] = ()
    unreadable: bool = False


def explain(data: bytes, tools: Sequence[JSON] = (), status: int | None = None) -> Explanation:
    """Explain a response body or the events of a stream, or anything else as the text of one.

    An error is judged by the status that it came with, if that is given.
    """
    failure = None if status is None or is_success(status) else status
    kind, answer = _answer(data, failure)
    read = answer if isinstance(answer, Fault) else _judge(answer, tools, failure)
    if isinstance(read, Fault):
        return _on_fault(kind, read)
    reply, content = read.believed, _content(read.answer)
    left = recover(content, read.specs, weak=True).passed_over
    found = (*reply.calls, *left, *read.ruled.claims)
    if kind == "text" and not found and (cut := cut_off(data)):
        return _on_fault(kind, cut)
    shown = [_call(call, read, judged=bool(tools)) for call in reply.calls]
    steps = (*([GUIDED] if read.is_guided else []), *reply.fired)
    is_bent = bool(reply.fired) or any(call.keys() & {"asked", "id"} for call in shown)
    return Explanation(
        kind,
        steps,
        tuple(shown),
        read.ruled.text,
        tuple({"at": item.start, "text": item.snippet, "reason": item.reason} for item in left),
        _nothing(reply, content),
        tuple({"name": claim.name, "rule": claim.rule} for claim in read.ruled.claims),
        advice_on_reply(reply, read.ruled, read.usual, is_bent=is_bent, has_tools=bool(tools)),
    )


def _on_fault(kind: str, fault: Fault) -> Explanation:
    unreadable = kind == ERROR or fault.code in _UNREAD
    return Explanation(kind, fault=str(fault), advice=advice_on_fault(fault), unreadable=unreadable)


class _Read(NamedTuple):
    """An answer in three readings: see `advice_on_reply`."""

    answer: JSON
    is_guided: bool
    specs: tuple[ToolSpec, ...]
    believed: Reply
    ruled: Reply
    usual: Reply


def _judge(answer: JSON, tools: Sequence[JSON], failure: int | None) -> _Read | Fault:
    """Read a body as a run would: after a failure it is an error, whatever it holds."""
    failed = failure is not None and failed_generation(answer) is None
    return (
        fault_of(answer, failure, {}, 0.0)
        if failed or is_error_object(answer)
        else _read(answer, tools)
    )


def _read(answer: JSON, tools: Sequence[JSON]) -> _Read | Fault:
    guided = _is_guided(_content(answer))
    every, usual = _config(PRESETS, guided=guided), _config(PRESETS[:1], guided=guided)
    believing = every.replace(text_call_rules=())
    registry = ToolRegistry(tools)
    believed = inbound(answer, _plan(_specs(registry)), believing, registry)
    if not tools and isinstance(believed, Reply):
        # Without a list of tools, those that are called exist; what else is wrong is told.
        names = dict.fromkeys(call.name for call in believed.calls if is_legal(call.name))
        registry = ToolRegistry([{"name": name} for name in names])
    specs = _specs(registry)
    readings = [inbound(answer, _plan(specs), how, registry) for how in (believing, every, usual)]
    faults = [reading for reading in readings if isinstance(reading, Fault)]
    replies = [reading for reading in readings if isinstance(reading, Reply)]
    return faults[0] if faults else _Read(answer, guided, specs, *replies)


def _specs(registry: ToolRegistry) -> tuple[ToolSpec, ...]:
    return tuple(tool.spec for tool in registry.definitions)


def _plan(specs: tuple[ToolSpec, ...]) -> Plan:
    return Plan("", (), specs, known_tools=specs or _SOME_TOOL)


def _config(presets: Sequence[str], *, guided: bool) -> ToolCallingConfig:
    config = ToolCallingConfig()
    for name in presets:
        config = PRESET[name](config)
    return config.replace(call_protocol="guided") if guided else config


def _is_guided(content: str) -> bool:
    """Whether a text is one whole object of the guided protocol, and nothing beside it."""
    try:
        value = decode(content.encode("utf-8", "surrogatepass"))
    except ValueError:
        return False
    match value:
        case {"tool": str(), "arguments": dict(), **rest}:
            return rest.keys() <= {*BEFORE_A_STEP}
        case {"answer": str(), **rest} | {"cannot": str(), **rest}:
            return rest.keys() <= {*BEFORE_A_STEP}
        case _:
            return False


def _answer(data: bytes, failure: int | None) -> tuple[str, JSON | Fault]:
    """Say what was sent, and return it as the body of a response."""
    refuse_other_encodings(data)
    if _STREAM.match(data):
        return "stream", _streamed(data)
    if data.removeprefix(codecs.BOM_UTF8).lstrip()[:1] not in {b"{", b"["}:
        return _as_text(data, failure)
    if len(data) > MAX_BYTES:
        return "response", too_large(f"more than {MAX_BYTES} bytes")
    body = _body(data, failure)
    return _as_text(data, failure) if body is None else ("response", body)


def _streamed(data: bytes) -> JSON | Fault:
    """Read the events of a stream as they would arrive: piece by piece."""
    assembler = Assembler(judge=lambda error: fault_of(error, None, {}, 0.0))
    listener = Listener(assembler)
    try:
        for start in range(0, len(data), _CHUNK):
            listener.feed(data[start : start + _CHUNK])
        listener.close()
    except ProviderError as error:
        return error.fault
    answer: JSON | Fault = assembler.finish()
    is_unread = isinstance(answer, Fault) and answer.code is ErrorCode.DECODE_ERROR
    return (cut_off_stream(data) if is_unread else None) or answer


def _body(data: bytes, failure: int | None) -> JSON | Fault | None:
    """Read the body of a response; a fault if it is JSON that no run would read; None otherwise."""
    try:
        value = decode(data)
    except ValueError as error:
        return unreadable_json(data, error)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]  # an error in a list, as Google sends it
    if not isinstance(value, dict):
        return None
    is_answer = ANSWER_KEYS & value.keys() or is_error_object(value)
    return value if is_answer or failure is not None else None


def _as_text(data: bytes, failure: int | None) -> tuple[str, JSON | Fault]:
    text = data.decode("utf-8", "replace")
    if "\0" in text or text.count("\ufffd") * _SOUND > len(text):
        raise ConfigError("this is no text: explain reads what a model or an endpoint wrote")
    if len(data) > MAX_BYTES:
        return "text", too_large(f"more than {MAX_BYTES} bytes")
    if fault := body_fault(text.removeprefix("\ufeff"), failure):
        return ERROR, fault
    return "text", {"choices": [{"message": {"content": text}}]}


def _content(body: JSON) -> str:
    match body:
        case {"choices": [{"message": {"content": content}}, *_]}:
            return text_of(content)
        case _:
            return ""


def _ids_in(answer: JSON) -> list[str | None]:
    match answer:
        case {"choices": [{"message": {"tool_calls": list(calls)}}, *_]}:
            return [id_of(call) for call in calls if isinstance(call, dict)]
        case _:
            return []


def _call(call: ToolCall, read: _Read, *, judged: bool) -> JSON:
    shown: JSON = {"name": call.name, "arguments": call.arguments}
    grounded = next((spec.grounded for spec in read.specs if spec.name == call.name), {})
    # A reply alone does not tell what was seen before it; a run checks it.
    if given := {name: tools for name, tools in grounded.items() if name in call.arguments}:
        shown["grounded"] = {name: list(tools) for name, tools in given.items()}
    if call.repairs:
        shown["repairs"] = list(call.repairs)
    if call.asked is not None:
        shown["asked"] = call.asked
    ids = _ids_in(read.answer)
    if ids and call.id not in ids:
        shown["id"] = call.first_id
    # Without a list of tools no name can be known, and that is no problem of the call.
    unknown = call.problem is not None and call.problem.code is ErrorCode.TOOL_NOT_ALLOWED
    if call.problem is not None and (judged or not unknown):
        shown["problem"] = f"{call.problem.code}: {call.problem.message}"
    return shown


def _nothing(reply: Reply, content: str) -> str:
    if reply.calls or reply.text.strip() or content.strip():
        return ""
    promised = ending_of(reply.finish_reason) in PROMISES
    return "the reply announces a call, and there is none" if promised else "the reply is empty"


def _place(tools: Sequence[str]) -> str:
    results = f"in a result of {' or '.join(tools)}"
    return results if tools else "in the user's words or in a result"


def render(explanation: Explanation) -> str:
    """Write an explanation for people; long texts and lists are cut, and it says by how much."""
    lines = [f"read as: {explanation.kind}"]
    if explanation.fault:
        lines.append(f"fault: {_cut(explanation.fault)}")
    for name in dict.fromkeys(explanation.steps):
        lines.append(f"repaired by: {name}")
        lines += [f"  {sentence}" for sentence in meaning(name)]
    lines += _listed(explanation.calls, _call_lines, "calls")
    lines += _listed(explanation.claims, _claim_lines, "that are asked about")
    lines += _listed(explanation.passed_over, _passed_over_lines, "that are not calls")
    if not explanation.calls and not explanation.fault and not explanation.passed_over:
        lines.append("no calls, and nothing that looks like one")
    if explanation.text.strip():
        lines.append(f"text: {_cut(explanation.text)}")
    lines += ["in short:", *[f"  {sentence}" for sentence in explanation.advice]]
    return "\n".join(lines)


def _cut(text: str) -> str:
    more = len(text) - SHOWN
    return f"{text[:SHOWN]} … and {count(more, 'more character')}" if more > 0 else text


def _listed(items: Sequence[JSON], write: Callable[[JSON], list[str]], what: str) -> list[str]:
    """Write the first of some items, and say how many more there are."""
    lines = [line for item in items[:LISTED] for line in write(item)]
    more = len(items) - LISTED
    return [*lines, f"… and {more} more {what}"] if more > 0 else lines


def _claim_lines(claim: JSON) -> list[str]:
    rule = claim["rule"]
    return [f"asked about, not run: {_cut(claim['name'])} (rule {rule}: {_RULES[rule]})"]


def _passed_over_lines(item: JSON) -> list[str]:
    return [f"not a call, at {item['at']}: {item['reason']}: {_cut(item['text'])}"]


def _call_lines(call: JSON) -> list[str]:
    arguments = msgspec.json.encode(call["arguments"]).decode()
    found = [f"call: {_cut(call['name'])} {_cut(arguments)}"]
    found += [
        f"  {name} must have been seen: {_place(tools)}"
        for name, tools in call.get("grounded", {}).items()
    ]
    if "asked" in call:
        found.append(f"  its name came as: {_cut(call['asked'])}")
    if "id" in call:
        found.append(f"  its id {'came twice' if call['id'] else 'is missing'}: it gets a new one")
    if "problem" in call:
        found.append(f"  would not run: {_cut(call['problem'])}")
    return found
