"""Probes which call protocols an endpoint supports, with one request for each.

    native     `tool_choice` is `required`
    guided     `response_format` is a schema that contains a word no prompt mentions
    prompted   the prompt describes the form of a call, and nothing enforces it

The raw reply is judged, before any repair. A model may write the right form on its own, so only a
word that it cannot know shows that the schema was enforced.
"""

import asyncio
from typing import Any, Final, get_args

import msgspec

from surecall.core.lessons import (
    JSON_OBJECT,
    RESPONSE_FORMAT,
    TOOL_CHOICE,
    apply_lessons,
    is_refusal,
    lesson_from,
)
from surecall.core.reply_parsing import parse_reply
from surecall.core.request_building import RequestBuilder
from surecall.eval.running.cells import PlannedCell
from surecall.runtime.retrying_requests import PromptRunner
from surecall.runtime.transport import Client
from surecall.settings.overlay import deep_merge
from surecall.settings.presets import content_tag_tool_call_fallback
from surecall.tools.registry import ToolRegistry, specs_of, tool
from surecall.tools.validation import compile_schema
from surecall.values.errors import Fault, ProviderError
from surecall.values.types import JSON, Plan, Reply, User, object_or_empty
from surecall.wire.call_styles import CallProtocol
from surecall.wire.chat_format import decode, raw_calls
from surecall.wire.content_parts import text_of
from surecall.wire.response import parse_choice

PROTOCOLS: Final[tuple[CallProtocol, ...]] = get_args(CallProtocol)
PROMPT: Final = "Call the tool echo once, with the text hello. Then reply exactly: Done."
MAGIC_WORD: Final = "teal-otter-41"
_BOUND_SCHEMA: Final[JSON] = {
    "type": "object",
    "properties": {
        "tool": {"const": "echo"},
        "arguments": {
            "type": "object",
            "properties": {"text": {"const": MAGIC_WORD}},
            "required": ["text"],
            "additionalProperties": False,
        },
    },
    "required": ["tool", "arguments"],
    "additionalProperties": False,
}
# The request feature that each protocol needs, and that an endpoint may refuse.
_REQUIREMENTS: Final[dict[CallProtocol, str]] = {
    "native": TOOL_CHOICE,
    "guided": RESPONSE_FORMAT,
    "prompted": "the request",
}
# Message fields that hold calls outside the text.
_CALL_FIELDS: Final = ("tool_calls", "function_call")
_MAX_QUOTED: Final = 160


class ProtocolProbe(msgspec.Struct, frozen=True):
    """The result for one protocol: whether calls work, and what was observed."""

    protocol: CallProtocol
    works: bool
    said: str


@tool
def echo(text: str) -> str:
    """Return the text."""
    return text


async def probe_protocols(
    planned_cell: PlannedCell, client: Client, timeout_s: float
) -> tuple[ProtocolProbe, ...]:
    """Send one request in each protocol, dividing the total time evenly."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + timeout_s
    found: list[ProtocolProbe] = []
    async with client.opened():
        for protocol in PROTOCOLS:
            share_s = (deadline - clock()) / (len(PROTOCOLS) - len(found))
            try:
                async with asyncio.timeout(share_s):
                    found.append(await _probe_protocol(protocol, planned_cell, client))
            except TimeoutError:
                said = f"no answer within {share_s:.1f} s"
                found.append(ProtocolProbe(protocol, works=False, said=said))
    return tuple(found)


async def _probe_protocol(
    protocol: CallProtocol, planned_cell: PlannedCell, client: Client
) -> ProtocolProbe:
    config = content_tag_tool_call_fallback(planned_cell.config)
    config = config.replace(call_protocol=protocol, contract=None)
    registry = ToolRegistry([echo])
    tools = specs_of(registry)
    plan = Plan(
        planned_cell.model.sent_id,
        (User(PROMPT),),
        tools,
        "required",
        options=deep_merge(planned_cell.options, config.request_overrides),
        known_tools=tools,
    )
    runner, composer = PromptRunner(client), RequestBuilder(config)
    rendered = composer.encode_plan(plan)
    if protocol == "guided":
        form = {"name": "next_step", "schema": _BOUND_SCHEMA}
        rendered = msgspec.structs.replace(
            rendered, response_format={"type": "json_schema", "json_schema": form}
        )
    # Earlier lessons must not remove the feature that is probed.
    lessons = set(runner.lessons.get(plan.model, ())) - {TOOL_CHOICE, RESPONSE_FORMAT}
    sent = apply_lessons(rendered, sorted(lessons))
    body = await _fetch_body(client, runner, composer.build(sent).body)
    if isinstance(body, Fault) and lesson_from(body, sent) == JSON_OBJECT:
        resent = apply_lessons(sent, [JSON_OBJECT])
        body = await _fetch_body(client, runner, composer.build(resent).body)
    reply = body if isinstance(body, Fault) else parse_reply(body, plan, config, registry)
    if isinstance(reply, Fault):
        return ProtocolProbe(
            protocol, works=False, said=_refusal_text(protocol, runner.sender.redact_fault(reply))
        )
    return _judge_reply(protocol, _raw_message(body), reply)


async def _fetch_body(client: Client, runner: PromptRunner, request: bytes) -> Any:
    """Return the raw body of the response, or its fault."""
    try:
        return runner.sender.decode_answer(await client.send(request))
    except ProviderError as error:
        return error.fault


def _refusal_text(protocol: CallProtocol, fault: Fault) -> str:
    """Describe a refusal; other faults are not about the protocol."""
    message = (
        fault.message if len(fault.message) <= _MAX_QUOTED else f"{fault.message[:_MAX_QUOTED]}…"
    )
    if is_refusal(fault):
        return f"{_REQUIREMENTS[protocol]} refused (HTTP {fault.status}: {message})"
    status = "" if fault.status is None else f" (HTTP {fault.status})"
    return f"not answered: {fault.code}{status}: {message}"


def _raw_message(body: Any) -> JSON:
    """Return the message before any repair; empty if there is none."""
    choice = parse_choice(body)
    return {} if isinstance(choice, Fault) else object_or_empty(choice.get("message"))


def _judge_reply(protocol: CallProtocol, message: JSON, reply: Reply) -> ProtocolProbe:
    """Judge whether a protocol works by the raw message and the parsed reply."""
    if protocol == "guided":
        if _follows_schema(message):
            return ProtocolProbe(protocol, works=True, said="reply bound to the schema")
        said = "ignored: the reply does not follow the schema"
        return ProtocolProbe(protocol, works=False, said=said)
    if not reply.calls:
        return ProtocolProbe(protocol, works=False, said="answered without a call")
    if not any(message.get(field) for field in _CALL_FIELDS):
        return ProtocolProbe(protocol, works=True, said="wrote a call as text")
    how = "structured" if raw_calls(message) else "in a shape that had to be repaired"
    return ProtocolProbe(
        protocol, works=True, said=f"called {reply.calls[0].name[:_MAX_QUOTED]}, {how}"
    )


def _follows_schema(message: JSON) -> bool:
    """Whether the text of a message is JSON that the schema allows."""
    try:
        value = decode(text_of(message.get("content")).encode("utf-8", "replace"))
    except ValueError:
        return False
    return isinstance(value, dict) and not compile_schema(_BOUND_SCHEMA)(value)
