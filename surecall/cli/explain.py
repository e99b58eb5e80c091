"""`surecall explain`: how a raw response, a stream or a text is read, and why.

It reads as a run would, with the default presets and every dialect: what was recognised, what was
healed, what was left alone. A text that is one whole object of the guided protocol is read as a
guided run would read it. `explain` and `render` are pure; only `command` reads files and prints.
"""

import re
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import click
import msgspec

from surecall.cli.advice import FALLBACK, advice_on_fault, advice_on_reply, meaning
from surecall.cli.common import say, say_exactly
from surecall.cli.listing import json_line
from surecall.core.inbound import inbound
from surecall.core.streaming.body_reader import Listener
from surecall.parsing.names import is_legal
from surecall.settings.config import ToolCallingConfig
from surecall.settings.presets import PRESET
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError, ErrorCode, Fault
from surecall.values.types import JSON, Plan, Reply, ToolCall, ToolSpec
from surecall.wire.assembler import Assembler
from surecall.wire.content_parts import text_of
from surecall.wire.dialects import recover
from surecall.wire.finish_reasons import PROMISES, ending_of
from surecall.wire.messages import decode, id_of
from surecall.wire.protocols.guided import THOUGHT
from surecall.wire.response import fault_of

GUIDED = "guided_reply"
# What a reply is explained with: everything that a run reads by default, and every dialect.
PRESETS = ("default_tool_calling", FALLBACK)
ANSWER_KEYS = frozenset({"choices", "error", "data", "object"})
# The events of a stream begin with the name of a field, or with a comment.
_STREAM = re.compile(rb"\A\s*(?:(?:event|id|retry)?:[^\n]*\s+)*data:\s*[\[{]")
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
@click.option("--status", type=int, help="The HTTP status that an error came with.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, file: BinaryIO, tools: BinaryIO | None, status: int | None, as_json: bool) -> int:
    """Explain a raw response, a stream or a text in FILE (or - for standard input).

    Shows which calls are in it, what was repaired, why something is not taken for a call, and
    what to do about it.
    """
    explanation = explain(file.read(), _tools_in(tools), status)
    if as_json:
        say_exactly(json_line(msgspec.to_builtins(explanation)))
    else:
        say(render(explanation))
    return 0


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
    the rule that says so.
    """

    kind: str
    steps: tuple[str, ...] = ()
    calls: tuple[JSON, ...] = ()
    text: str = ""
    passed_over: tuple[JSON, ...] = ()
    fault: str = ""
    claims: tuple[JSON, ...] = ()
    advice: tuple[str, ...] = ()


def explain(data: bytes, tools: Sequence[JSON] = (), status: int | None = None) -> Explanation:
    """Explain a response body or the events of a stream, or anything else as the text of one.

    An error is judged by the status that it came with, if that is given.
    """
    kind, answer = _answer(data)
    read = answer if isinstance(answer, Fault) else _read(answer, tools)
    if isinstance(read, Fault):
        if status is not None and isinstance(answer, dict):
            read = fault_of(answer, status, {}, 0.0)
        return Explanation(kind, fault=str(read), advice=advice_on_fault(read))
    reply, content = read.believed, _content(read.answer)
    left = recover(content, read.specs, weak=True).passed_over
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


class _Read(NamedTuple):
    """An answer in three readings: see `advice_on_reply`."""

    answer: JSON
    is_guided: bool
    specs: tuple[ToolSpec, ...]
    believed: Reply
    ruled: Reply
    usual: Reply


def _read(answer: JSON, tools: Sequence[JSON]) -> _Read | Fault:
    guided = _is_guided(_content(answer))
    every, usual = _config(PRESETS, guided=guided), _config(PRESETS[:1], guided=guided)
    believing = every.but(text_call_rules=())
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
    return config.but(call_protocol="guided") if guided else config


def _is_guided(content: str) -> bool:
    """Whether a text is one whole object of the guided protocol, and nothing beside it."""
    try:
        value = decode(content.encode("utf-8", "surrogatepass"))
    except ValueError:
        return False
    match value:
        case {"tool": str(), "arguments": dict(), **rest}:
            return rest.keys() <= {THOUGHT}
        case {"answer": str(), **rest} | {"cannot": str(), **rest}:
            return rest.keys() <= {THOUGHT}
        case _:
            return False


def _answer(data: bytes) -> tuple[str, JSON | Fault]:
    """Say what was sent, and return it as the body of a response."""
    if (body := _body(data)) is not None:
        return "response", body
    if _STREAM.match(data):
        assembler = Assembler(judge=lambda error: fault_of(error, None, {}, 0.0))
        listener = Listener(assembler)
        listener.feed(data)
        listener.close()
        return "stream", assembler.finish()
    text = data.decode("utf-8", "replace")
    return "text", {"choices": [{"message": {"content": text}}]}


def _body(data: bytes) -> JSON | None:
    try:
        value = decode(data)
    except ValueError:
        return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]  # an error in a list, as Google sends it
    return value if isinstance(value, dict) and ANSWER_KEYS & value.keys() else None


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
    """Write an explanation for people."""
    lines = [f"read as: {explanation.kind}"]
    if explanation.fault:
        lines.append(f"fault: {explanation.fault}")
    for name in explanation.steps:
        lines.append(f"repaired by: {name}")
        lines += [f"  {sentence}" for sentence in meaning(name)]
    for call in explanation.calls:
        lines += _call_lines(call)
    lines += [
        f"asked about, not run: {claim['name']} (rule {claim['rule']}: {_RULES[claim['rule']]})"
        for claim in explanation.claims
    ]
    lines += [
        f"not a call, at {item['at']}: {item['reason']}: {item['text']}"
        for item in explanation.passed_over
    ]
    if not explanation.calls and not explanation.fault and not explanation.passed_over:
        lines.append("no calls, and nothing that looks like one")
    if explanation.text.strip():
        lines.append(f"text: {explanation.text}")
    lines += ["in short:", *[f"  {sentence}" for sentence in explanation.advice]]
    return "\n".join(lines)


def _call_lines(call: JSON) -> list[str]:
    found = [f"call: {call['name']} {msgspec.json.encode(call['arguments']).decode()}"]
    found += [
        f"  {name} must have been seen: {_place(tools)}"
        for name, tools in call.get("grounded", {}).items()
    ]
    if "asked" in call:
        found.append(f"  its name came as: {call['asked']}")
    if "id" in call:
        found.append(f"  its id {'came twice' if call['id'] else 'is missing'}: it gets a new one")
    if "problem" in call:
        found.append(f"  would not run: {call['problem']}")
    return found
