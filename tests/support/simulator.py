"""Requests to the simulator, its streams, and what its personas answer."""

from typing import Any

import msgspec

from surecall import OpenAICompatible
from surecall.simulator.personas.intent import next_intent
from surecall.simulator.personas.persona import Persona, PersonaReply, answer_request
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.request_checks import check_request
from surecall.simulator.server import Simulator
from surecall.simulator.stream_events import Event, encode_frames
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.testing import calls, calls_many
from surecall.values.errors import Fault
from surecall.values.types import JSON
from surecall.wire.assembler import Assembler
from surecall.wire.response import parse_fault
from tests.support.replies import DEFAULT, REGISTRY, SAMPLES, events_of, meaning, read
from tests.support.scripted_runs import PATIENT, GivesUp

STRICT = [persona for persona in PERSONAS.values() if persona.kind == "strict"]


# What an endpoint refuses once and is then never sent again. No provider's name tells it.
LEARNED = {
    ("sim/strict-no-parallel", "baseline"): ["option_refused"],
    ("sim/strict-no-parallel", "production"): ["option_refused"],
    ("sim/strict-no-format", "guided"): ["option_refused"],
}


CLEAN = PERSONAS["sim/clean"]


ASKED: JSON = {"role": "user", "content": "Please set the draft. workspace_id=ws_7."}


def function(name: str, description: str = "", **properties: Any) -> JSON:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    described = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": described}


TEXT: JSON = {"type": "string"}


STATE = [
    function("state_get", workspace_id=TEXT),
    function("state_patch", workspace_id=TEXT, request_id=TEXT, ops={"type": "array"}),
]


WEATHER = function("get_weather", "Weather for a city.", city=TEXT, days={"type": "integer"})


def request_of(*messages: JSON, tools: list[JSON] | None = None, **options: Any) -> JSON:
    return (
        {"model": "m", "messages": list(messages)} | ({"tools": tools} if tools else {}) | options
    )


def message_of(said: PersonaReply) -> JSON:
    message: JSON = said.body["choices"][0]["message"]
    return message


def follow(persona: Persona, tools: list[JSON], asked: JSON, *contents: str) -> list[JSON]:
    """Play a conversation; each content answers one call. Return what the persona said."""
    messages, said = [asked], []
    for content in (*contents, ""):
        message = message_of(answer_request(persona, request_of(*messages, tools=tools), 0))
        said.append(message)
        if message.get("tool_calls"):
            (call,) = message["tool_calls"]
            result = {"role": "tool", "tool_call_id": call["id"], "content": content}
            messages += [message, result | {"name": call["function"]["name"]}]
    return said


def call_of(message: JSON) -> tuple[str, JSON]:
    called = message["tool_calls"][0]["function"]
    return called["name"], msgspec.json.decode(called["arguments"])


def system_text(*sentences: str) -> JSON:
    return {"role": "system", "content": "\n".join(sentences)}


LONG, TWO_CALLS = "Set it to a text of at least 300 characters.", "Make two calls at once."


def wanted(*messages: JSON, **options: Any) -> list[tuple[str, Any]]:
    intent = next_intent(request_of(*messages, ASKED, tools=STATE, **options))
    return [(call.tool, call.arguments.get("ops")) for call in intent.calls]


def answered(name: str, content: str, at: int = 0, arguments: str = "{}") -> list[JSON]:
    """Return a call with its answer, as they are in a conversation."""
    called = {"name": name, "arguments": arguments}
    call = {"id": f"call_{at}", "type": "function", "function": called}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    return [turn, {"role": "tool", "tool_call_id": f"call_{at}", "content": content}]


READ, READ_FAILED = answered("state_get", '{"ok":true}'), answered("state_get", '{"ok":false}')


def ping_tool(name: str = "ping") -> JSON:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def ping_call(
    call_id: str = "call_1", name: str = "ping", arguments: Any = "{}", **extra: Any
) -> JSON:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function} | extra


def ping_turn(*calls: JSON, **extra: Any) -> JSON:
    return {"role": "assistant", "content": "", "tool_calls": list(calls)} | extra


def pong(call_id: str = "call_1", **extra: Any) -> JSON:
    return {"role": "tool", "tool_call_id": call_id, "content": "pong"} | extra


USER: JSON = {"role": "user", "content": "Go."}


def checked_request(*messages: Any, **options: Any) -> JSON:
    return {"model": "m", "messages": list(messages), "tools": [ping_tool()]} | options


LEGAL = checked_request(
    {"role": "system", "content": "Be brief."}, USER, ping_turn(ping_call()), pong(), USER
)


def broken_rules(body: JSON, profile: str = "common") -> list[str]:
    return [violation.rule for violation in check_request(body, PROVIDER_RULES[profile])]


def signed(text: str) -> JSON:
    return {"extra_content": {"google": {"thought_signature": text}}}


OWN_ID = "function-call-7"


SAMPLE_NAMES = [definition.name for definition in REGISTRY.definitions]


TWINS = calls_many(calls("add", a=1, b=2), calls("add", a=3, b=4))


EQUAL_TWINS = calls_many(calls("add", a=1, b=2), calls("add", a=1, b=2))


STREAMED_REPLIES = (*SAMPLES, TWINS)


SEEDS = range(6)


def heard_stream(frames: list[bytes], names: list[str] = SAMPLE_NAMES) -> JSON | Fault:
    """Listen to a stream as a client would."""
    assembler = Assembler(
        names, DEFAULT.max_tool_args_bytes, lambda error: parse_fault(error, None, {}, 0.0)
    )
    for event in events_of(frames):
        assembler.add(event.data, event.event)
    return assembler.finish()


def understood_stream(events: list[Event]) -> Any:
    outcome = heard_stream(encode_frames(events))
    return meaning(outcome if isinstance(outcome, Fault) else read(outcome))


# What falls silent, or never comes to an end, without being so long that it is refused.
ENDLESS = {
    fault.id for fault in TRANSPORT_FAULTS.values() if fault.ending == "hang" or fault.pause_s
}


# What a run must ask for before there is anything to refuse; presets alone must do the rest.
PROVOKED: dict[str, JSON] = {"sim/strict-no-required": {"tool_choice": "required"}}


# Faults of empty arguments, which the state tools never have; they have a test of their own.
BLANK = {"sim/arguments_blank", "sim/arguments_null"}


# These runs ask for no form of replies either.
# These need a closed list, a closed schema, no parameters, or a text that is a number.
PICKY = {"sim/choices_escaped", "sim/choices_quoted", "sim/arguments_nothing"}


PICKY |= {"sim/texts_as_numbers", "sim/arguments_of_a_call"}


IDLE = BLANK | PICKY | {"sim/formless"}


# Endpoints that refuse an option are asked once with it, and then never again.
TEACHERS = {"sim/strict-no-parallel", "sim/strict-no-required"}


def client_for(simulator: Simulator, persona: Persona) -> OpenAICompatible:
    """Return a patient client; where silence is applied, one that does not wait for its end."""
    for fault, _ in persona.faults:
        if fault in ENDLESS:
            return GivesUp(simulator, fault)
    return OpenAICompatible(simulator.url, limits=PATIENT)
