"""Which call protocols an endpoint really honours: each is asked for once, and the reply judged.

    native     a call is demanded: `tool_choice` is `required`
    guided     the reply is bound to a schema, and to a word in it that no prompt mentions
    prompted   the form of a call is described, and nothing binds the model to it

What counts is the reply as it came. A model may well write the right form by itself; only a word
that it cannot know shows that the schema was obeyed.
"""

import asyncio
from typing import Any, Final, get_args

import msgspec

from surecall.core.endpoint_lessons import (
    JSON_OBJECT,
    RESPONSE_FORMAT,
    TOOL_CHOICE,
    applied,
    is_refusal,
    lesson_of,
)
from surecall.core.inbound import inbound
from surecall.core.outbound import Composer
from surecall.eval.running.cells import PlannedCell
from surecall.runtime.requests import PromptRunner
from surecall.runtime.transport import Client
from surecall.settings.overlay import deep_merge
from surecall.settings.presets import content_tag_tool_call_fallback
from surecall.tools.registry import ToolRegistry, tool
from surecall.tools.validation import compile_schema
from surecall.values.errors import Fault, ProviderError
from surecall.values.types import JSON, Plan, Reply, User
from surecall.wire.call_styles import CallProtocol
from surecall.wire.content_parts import text_of
from surecall.wire.messages import decode, raw_calls
from surecall.wire.response import read_choice

PROTOCOLS: Final[tuple[CallProtocol, ...]] = get_args(CallProtocol)
ASKED: Final = "Call the tool echo once, with the text hello. Then reply exactly: Done."
UNHEARD_OF: Final = "teal-otter-41"
_BOUND: Final[JSON] = {
    "type": "object",
    "properties": {
        "tool": {"const": "echo"},
        "arguments": {
            "type": "object",
            "properties": {"text": {"const": UNHEARD_OF}},
            "required": ["text"],
            "additionalProperties": False,
        },
    },
    "required": ["tool", "arguments"],
    "additionalProperties": False,
}
# What each protocol asks of an endpoint, and what it may refuse.
_DEMANDS: Final[dict[CallProtocol, str]] = {
    "native": TOOL_CHOICE,
    "guided": RESPONSE_FORMAT,
    "prompted": "the request",
}
# Where calls are that are not in the text.
_FIELDS: Final = ("tool_calls", "function_call")
_SHOWN: Final = 160


class Probe(msgspec.Struct, frozen=True):
    """The outcome of one protocol: whether calls can be made in it, and what was seen."""

    protocol: CallProtocol
    works: bool
    said: str


@tool
def echo(text: str) -> str:
    """Return the text."""
    return text


async def probe_all(planned: PlannedCell, client: Client, longest_s: float) -> tuple[Probe, ...]:
    """Ask a model once in each protocol, within a total time that is shared fairly."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + longest_s
    found: list[Probe] = []
    async with client.opened():
        for protocol in PROTOCOLS:
            share_s = (deadline - clock()) / (len(PROTOCOLS) - len(found))
            try:
                async with asyncio.timeout(share_s):
                    found.append(await _probe(protocol, planned, client))
            except TimeoutError:
                said = f"no answer within {share_s:.1f} s"
                found.append(Probe(protocol, works=False, said=said))
    return tuple(found)


async def _probe(protocol: CallProtocol, planned: PlannedCell, client: Client) -> Probe:
    config = content_tag_tool_call_fallback(planned.config)
    config = config.replace(call_protocol=protocol, contract=None)
    registry = ToolRegistry([echo])
    tools = tuple(definition.spec for definition in registry.definitions)
    plan = Plan(
        planned.model.asked,
        (User(ASKED),),
        tools,
        "required",
        options=deep_merge(planned.options, config.request_overrides),
        known_tools=tools,
    )
    runner, composer = PromptRunner(client), Composer(config)
    spoken = composer.speak(plan)
    if protocol == "guided":
        form = {"name": "next_step", "schema": _BOUND}
        spoken = msgspec.structs.replace(
            spoken, response_format={"type": "json_schema", "json_schema": form}
        )
    # What is asked about here must not be left out, whatever was learned of it before.
    lessons = set(runner.lessons.get(plan.model, ())) - {TOOL_CHOICE, RESPONSE_FORMAT}
    asked = applied(spoken, sorted(lessons))
    body = await _answer(client, runner, composer.compose(asked).body)
    if isinstance(body, Fault) and lesson_of(body, asked) == JSON_OBJECT:
        again = applied(asked, [JSON_OBJECT])
        body = await _answer(client, runner, composer.compose(again).body)
    reply = body if isinstance(body, Fault) else inbound(body, plan, config, registry)
    if isinstance(reply, Fault):
        return Probe(protocol, works=False, said=_refused(protocol, runner.sender.redacted(reply)))
    return _judged(protocol, _message_in(body), reply)


async def _answer(client: Client, runner: PromptRunner, request: bytes) -> Any:
    """Return the body of an answer as it came, or the fault that it is."""
    try:
        return runner.sender.read(await client.send(request))
    except ProviderError as error:
        return error.fault


def _refused(protocol: CallProtocol, fault: Fault) -> str:
    """Say what an endpoint refused; other faults say nothing about the protocol."""
    message = fault.message if len(fault.message) <= _SHOWN else f"{fault.message[:_SHOWN]}…"
    if is_refusal(fault):
        return f"{_DEMANDS[protocol]} refused (HTTP {fault.status}: {message})"
    status = "" if fault.status is None else f" (HTTP {fault.status})"
    return f"not answered: {fault.code}{status}: {message}"


def _message_in(body: Any) -> JSON:
    """Return the message as it came, before any repair; blank if there is none."""
    choice = read_choice(body)
    message = {} if isinstance(choice, Fault) else choice.get("message")
    return message if isinstance(message, dict) else {}


def _judged(protocol: CallProtocol, message: JSON, reply: Reply) -> Probe:
    if protocol == "guided":
        if _is_bound(message):
            return Probe(protocol, works=True, said="reply bound to the schema")
        said = "ignored: the reply does not follow the schema"
        return Probe(protocol, works=False, said=said)
    if not reply.calls:
        return Probe(protocol, works=False, said="answered without a call")
    if not any(message.get(field) for field in _FIELDS):
        return Probe(protocol, works=True, said="wrote a call as text")
    how = "structured" if raw_calls(message) else "in a shape that had to be mended"
    return Probe(protocol, works=True, said=f"called {reply.calls[0].name[:_SHOWN]}, {how}")


def _is_bound(message: JSON) -> bool:
    """Whether a reply is what the schema allows, to the letter."""
    try:
        value = decode(text_of(message.get("content")).encode("utf-8", "replace"))
    except ValueError:
        return False
    return isinstance(value, dict) and not compile_schema(_BOUND)(value)
