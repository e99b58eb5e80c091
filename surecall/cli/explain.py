"""`surecall explain`: how a raw response or a text is read, and why.

It reads as a run would, with the default presets and every dialect: what was recognised, what was
healed, what was left alone. A text that is one whole object of the guided protocol is read as a
guided run would read it. `explain` and `render` are pure; only `command` reads files and prints.
"""

from collections.abc import Sequence
from typing import Any, BinaryIO

import click
import msgspec

from surecall.cli.common import say
from surecall.cli.listing import json_line
from surecall.core.inbound import inbound
from surecall.parsing.names import is_legal
from surecall.settings.config import ToolCallingConfig
from surecall.settings.presets import PRESET
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError, ErrorCode, Fault
from surecall.values.types import JSON, Plan, Reply, ToolCall, ToolSpec
from surecall.wire.content_parts import text_of
from surecall.wire.dialects import recover
from surecall.wire.messages import decode
from surecall.wire.protocols.guided import THOUGHT

GUIDED = "guided_reply"
# What a reply is explained with: everything that a run reads by default, and every dialect.
PRESETS = ("default_tool_calling", "content_tag_tool_call_fallback")
ANSWER_KEYS = frozenset({"choices", "error", "data", "object"})
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, file: BinaryIO, tools: BinaryIO | None, as_json: bool) -> int:
    """Explain a raw response, or a text, in FILE (or - for standard input).

    Shows which calls are in it, what was repaired, and why something is not taken for a call.
    """
    explanation = explain(file.read(), _tools_in(tools))
    if as_json:
        say(json_line(msgspec.to_builtins(explanation)))
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

    `claims` are the calls in text that a run would ask about, each with the rule that says so.
    """

    kind: str
    steps: tuple[str, ...] = ()
    calls: tuple[JSON, ...] = ()
    text: str = ""
    passed_over: tuple[JSON, ...] = ()
    fault: str = ""
    claims: tuple[JSON, ...] = ()


def explain(data: bytes, tools: Sequence[JSON] = ()) -> Explanation:
    """Explain a response body, or anything else as the text of one."""
    body = _body(data)
    kind = "response" if body is not None else "text"
    text = data.decode("utf-8", "replace")
    answer = {"choices": [{"message": {"content": text}}]} if body is None else body
    content = text if body is None else _content(body)
    guided = _is_guided(content)
    config = _config(guided=guided)
    specs, registry, reply = _read(answer, config, tools)
    if not tools and isinstance(reply, Reply):
        # Without a list of tools, those that are called exist; what else is wrong is told.
        names = dict.fromkeys(call.name for call in reply.calls if is_legal(call.name))
        specs, registry, reply = _read(answer, config, [{"name": name} for name in names])
    ruled = inbound(answer, _plan(specs), config, registry)
    if isinstance(reply, Fault) or isinstance(ruled, Fault):
        return Explanation(kind, fault=str(reply))
    left = recover(content, specs, weak=True).passed_over
    return Explanation(
        kind,
        (*([GUIDED] if guided else []), *reply.fired),
        tuple(_call(call, specs, judged=bool(tools)) for call in reply.calls),
        ruled.text,
        tuple({"at": item.start, "text": item.snippet, "reason": item.reason} for item in left),
        _nothing(reply, content),
        tuple({"name": claim.name, "rule": claim.rule} for claim in ruled.claims),
    )


def _read(
    answer: JSON, config: ToolCallingConfig, tools: Sequence[JSON]
) -> tuple[tuple[ToolSpec, ...], ToolRegistry, Reply | Fault]:
    """Read an answer as a run with these tools would, if it believed every call in text."""
    registry = ToolRegistry(tools)
    specs = tuple(tool.spec for tool in registry.definitions)
    reply = inbound(answer, _plan(specs), config.but(text_call_rules=()), registry)
    return specs, registry, reply


def _plan(specs: tuple[ToolSpec, ...]) -> Plan:
    return Plan("", (), specs, known_tools=specs or _SOME_TOOL)


def _config(*, guided: bool) -> ToolCallingConfig:
    config = ToolCallingConfig()
    for name in PRESETS:
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


def _body(data: bytes) -> JSON | None:
    try:
        value = decode(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) and ANSWER_KEYS & value.keys() else None


def _content(body: JSON) -> str:
    match body:
        case {"choices": [{"message": {"content": content}}, *_]}:
            return text_of(content)
        case _:
            return ""


def _call(call: ToolCall, specs: Sequence[ToolSpec], *, judged: bool) -> JSON:
    shown: JSON = {"name": call.name, "arguments": call.arguments}
    grounded = next((spec.grounded for spec in specs if spec.name == call.name), {})
    # A reply alone does not tell what was seen before it; a run checks it.
    if given := {name: tools for name, tools in grounded.items() if name in call.arguments}:
        shown["grounded"] = {name: list(tools) for name, tools in given.items()}
    if call.repairs:
        shown["repairs"] = list(call.repairs)
    # Without a list of tools no name can be known, and that is no problem of the call.
    unknown = call.problem is not None and call.problem.code is ErrorCode.TOOL_NOT_ALLOWED
    if call.problem is not None and (judged or not unknown):
        shown["problem"] = f"{call.problem.code}: {call.problem.message}"
    return shown


def _nothing(reply: Reply, content: str) -> str:
    if reply.calls or reply.text.strip() or content.strip():
        return ""
    return "the reply is empty"


def _place(tools: Sequence[str]) -> str:
    results = f"in a result of {' or '.join(tools)}"
    return results if tools else "in the user's words or in a result"


def render(explanation: Explanation) -> str:
    """Write an explanation for people."""
    lines = [f"read as: {explanation.kind}"]
    if explanation.fault:
        lines.append(f"fault: {explanation.fault}")
    lines += [f"step: {name}" for name in explanation.steps]
    for call in explanation.calls:
        lines.append(f"call: {call['name']} {msgspec.json.encode(call['arguments']).decode()}")
        lines += [
            f"  {name} must have been seen: {_place(tools)}"
            for name, tools in call.get("grounded", {}).items()
        ]
        if "problem" in call:
            lines.append(f"  would not run: {call['problem']}")
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
    return "\n".join(lines)
