"""A persona: a scripted model that follows the conversation, and whose replies have faults.

    request ─ understood ─ next_intent ─ a behaviour ─► clean reply ─ one fault, by seed ─► sent

Everything is a pure function of the persona, the request and the seed, so the same seed and the
same request give the same reply. Only whether a fault that a retry cures was sent just before
(`spare`) comes from outside, because a retry is the same request again.

What is drawn depends on the instructions, on what the user asked first, and on how far the
conversation has come, but not on the options of a request: settings can be compared on the same
draws. What follows a tilde in a word of the user's does not count either, so that one
conversation can be held in several variants (`workspace_id=ws_7~baseline`).
"""

import hashlib
import string
from typing import Any, Final

import msgspec

from surecall.simulator.faults import SHAPE_FAULTS, apply_fault
from surecall.simulator.personas.behaviours import (
    CONVERSATION_BEHAVIOURS,
    Behaviour,
    says,
    with_behaviour,
)
from surecall.simulator.personas.intent import (
    DONE,
    Intent,
    Wanted,
    demands_call,
    injection_in,
    is_asked_back,
    next_intent,
)
from surecall.simulator.personas.quotes import ONLY_QUOTED, WAYS, quotation, with_thought
from surecall.simulator.personas.worded_requests import ReadRequest, unbound, understood, worded
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.request_checks import NINE, calls_of
from surecall.simulator.seals import sealed, signature
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, ToolCall
from surecall.wire.content_parts import text_of
from surecall.wire.dialects import WEAK_ROWS, WRITERS
from surecall.wire.messages import encode

# `quoted`: no call of the model's own is bent, and the one that it quotes must not run.
CURED, RETRIED, QUOTED, OPT_IN = "cured", "retried", "quoted", "opt_in:"
_OF_ANSWERS = "loop"
_CREATED = 1_700_000_000
_BYTES_PER_TOKEN = 4
_LETTERS = string.ascii_letters + string.digits
_ID_LENGTHS: Final = {
    "anthropic": ("toolu_", 24),
    "azure": ("call_", 24),
    "bedrock": ("tooluse_", 22),
    "minimax": ("call_function_", NINE),
    "mistral": ("", NINE),
    "openai": ("call_", 24),
}
_OWN_COUNTERS: Final = frozenset({"kimi", "moonshot"})


LAZY = Behaviour(
    "lazy", "answers immediately and calls nothing, even where it must", ErrorCode.NO_TOOL_CALLS
)
FORMLESS = Behaviour(
    "formless",
    "knows no `response_format`: writes calls as <tool_call> text, and answers in plain words",
    CURED,
)
TAGS = Behaviour(
    "tags",
    "writes calls as <tool_call> text instead of structured calls",
    CURED,
)
REFUSED = Behaviour(
    "failed-generation",
    "400 tool_use_failed with the call as text in `failed_generation`, as Groq answers",
    CURED,
)
NO_TOOLS = Behaviour(
    "no-tools",
    "404 to every request with tools, as a router answers that knows no endpoint for them",
    ErrorCode.NO_TOOL_USE_ENDPOINT,
)
# Every text dialect that has a writer, by the row of its grammar: `dialect-a1` and so on.
DIALECTS: Final = {f"dialect-{row.lower()}": row for row in WRITERS}
# Drawn for each reply, as faults are; those of a conversation are drawn once for all of it.
_PLAIN: Final = (LAZY, TAGS, FORMLESS, REFUSED, NO_TOOLS)
_IN_DIALECT: Final = tuple(
    Behaviour(
        name,
        f"writes calls as text, in dialect {row}",
        f"{OPT_IN}content_tag_tool_call_fallback" if row in WEAK_ROWS else CURED,
    )
    for name, row in DIALECTS.items()
)
_QUOTING: Final = tuple(
    Behaviour(name, f"quotes a call that stood in a tool's result: {way.summary}", QUOTED)
    for name, way in WAYS.items()
)
REPLY_BEHAVIOURS: Final = {each.id: each for each in (*_PLAIN, *_IN_DIALECT, *_QUOTING)}


class Persona(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the simulator: its rules, its faults with their rates, and what to expect.

    `provider` and `imitates` are what a client's presets should be chosen for.
    """

    id: str
    kind: str
    summary: str
    sources: tuple[str, ...] = ()
    rules: str = "common"
    provider: str = "openrouter"
    imitates: str = ""
    faults: tuple[tuple[str, float], ...] = ()
    outcome: str = CURED


class Said(msgspec.Struct, frozen=True):
    """What a persona answers: the body, and the fault that shaped it, blank when there is none."""

    body: Any
    fault: str = ""


def outcome_of(fault: str) -> str:
    """Return the documented outcome of a fault."""
    for catalogue in (SHAPE_FAULTS, REPLY_BEHAVIOURS, CONVERSATION_BEHAVIOURS, TRANSPORT_FAULTS):
        if fault in catalogue:
            return str(catalogue[fault].outcome)
    raise KeyError(fault)


def say(persona: Persona, request: JSON, seed: int, *, spare: bool = False) -> Said:
    """Answer a request. With `spare`, a fault that a retry cures is not sent again."""
    reading = understood(request)
    thread, place = _thread(reading.request)
    key = encode([seed, persona.id, thread, place]).decode()
    fault = _drawn(persona, key)
    if fault == FORMLESS.id:
        reading = unbound(request)
    meant = next_intent(reading.request)
    if fault in WAYS:
        return _quoting(fault, persona, reading, meant, key)
    intent, behaviour = _with_behaviour(persona, meant, reading.request, f"{seed}\0{thread}")
    shows = bool(fault) and _may_show(fault, intent, spare=spare)
    if fault in SHAPE_FAULTS and SHAPE_FAULTS[fault].only_first:
        shows = shows and not _prior_calls(reading.request)
    if shows and fault == LAZY.id and intent.calls and not _prior_calls(reading.request):
        intent, behaviour = says(intent, DONE), fault
    if not intent.calls and _is_forced(reading, behaviour):
        intent, behaviour = meant, ""
    body = _clean(persona, reading, intent, key)
    if not shows or fault == LAZY.id:
        return Said(body, behaviour)
    if fault in TRANSPORT_FAULTS:
        skips = TRANSPORT_FAULTS[fault].only_first and _prior_calls(reading.request)
        return Said(body, behaviour) if skips else Said(body, fault)
    faulty = _with_fault(fault, body, reading, intent, key)
    return Said(faulty, fault) if faulty is not body else Said(body, behaviour)


def _quoting(fault: str, persona: Persona, reading: ReadRequest, meant: Intent, key: str) -> Said:
    """Do what a good model does, but quote in the answer a call that a tool has returned."""
    injected = None if meant.calls else injection_in(reading.request)
    if injected is None:
        return Said(_clean(persona, reading, meant, key))
    if is_asked_back(reading.request):
        return Said(_clean(persona, reading, says(meant, f"{meant.text} {ONLY_QUOTED}"), key))
    if not _is_told_by_tool(reading.request):
        return Said(_clean(persona, reading, meant, key))
    quoted = quotation(WAYS[fault], meant.text, injected)
    body = _clean(persona, reading, says(meant, quoted.text), key)
    return Said(with_thought(body, quoted.thought) if quoted.thought else body, fault)


def _is_told_by_tool(request: JSON) -> bool:
    """Whether the last word is a tool's, and not what a client says to an answer."""
    messages = request.get("messages") or [None]
    return isinstance(messages[-1], dict) and messages[-1].get("role") == "tool"


def _is_forced(reading: ReadRequest, behaviour: str) -> bool:
    """Whether a call must be made; some models do not care, unless a grammar binds them."""
    known = CONVERSATION_BEHAVIOURS.get(behaviour)
    deaf = behaviour == LAZY.id or (known is not None and known.deaf)
    return demands_call(reading.request) and (reading.bound or not deaf)


def _thread(request: JSON) -> tuple[str, int]:
    """Return what the conversation is known by, and how far it has come."""
    messages = [item for item in request.get("messages", ()) if isinstance(item, dict)]
    first = next((item for item in messages if item.get("role") == "user"), {})
    texts = [item.get("content") for item in messages if item.get("role") == "system"]
    words = text_of(first.get("content")).split()
    asked = [word.partition("~")[0] for word in words]
    data = encode([*(text_of(text) for text in texts), *asked])
    return hashlib.sha256(data).hexdigest(), len(messages)


def _with_behaviour(
    persona: Persona, intent: Intent, request: JSON, thread: str
) -> tuple[Intent, str]:
    """Apply the first behaviour that was drawn for the conversation and shows here."""
    for fault, rate in persona.faults:
        if fault in CONVERSATION_BEHAVIOURS and _number(thread, persona.id, fault) / 2.0**64 < rate:
            changed = with_behaviour(fault, intent, request)
            if changed is not intent:
                return changed, fault
    return intent, ""


def _number(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8])


def _drawn(persona: Persona, key: str) -> str:
    """Draw at most one fault for this reply, by the persona's rates."""
    rest = _number(key, "draw") / 2.0**64
    for fault, rate in persona.faults:
        if fault in CONVERSATION_BEHAVIOURS:
            continue
        if rest < rate:
            return fault
        rest -= rate
    return ""


def _may_show(fault: str, intent: Intent, *, spare: bool) -> bool:
    outcome = outcome_of(fault)
    if outcome == RETRIED:
        return not spare
    # A model that was told about its mistake does not make it again.
    return outcome == CURED or outcome.startswith(OPT_IN) or not intent.told


def _with_fault(fault: str, body: JSON, reading: ReadRequest, intent: Intent, key: str) -> Any:
    tools = reading.sent.get("tools")
    if fault == NO_TOOLS.id:
        return dict(_NO_ENDPOINT) if tools else body
    if fault == FORMLESS.id:
        # Its effect is in the body already; a copy says so.
        return dict(body) if "response_format" in reading.sent else body
    if fault == REFUSED.id:
        return _as_failed_generation(body, intent) if intent.calls and tools else body
    if fault == TAGS.id or fault in DIALECTS:
        # What a grammar binds cannot be written otherwise; who was asked back calls as it should.
        is_free = bool(intent.calls) and not reading.bound
        is_free = is_free and not is_asked_back(reading.request)
        return _as_text(fault, body, intent) if is_free else body
    if intent.calls and reading.form != "native" and SHAPE_FAULTS[fault].family == _OF_ANSWERS:
        return body  # a call in words is no answer
    known = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    # "bend" is part of the draw: another word would give other replies for the same seed.
    return apply_fault(fault, body, _number(key, "bend"), known)


def _as_text(fault: str, body: JSON, intent: Intent) -> JSON:
    if fault == TAGS.id:
        return _as_tags(body, intent)
    return _as_dialect(body, intent, DIALECTS[fault])


def _as_tags(body: JSON, intent: Intent) -> JSON:
    calls = (encode({"name": one.tool, "arguments": one.arguments}) for one in intent.calls)
    return _text_body(
        body, "\n".join(f"<tool_call>\n{call.decode()}\n</tool_call>" for call in calls)
    )


def _as_dialect(body: JSON, intent: Intent, row: str) -> JSON:
    calls = tuple(
        ToolCall(f"{_number(one.tool, row) % 10**9:09}", one.tool, one.arguments)
        for one in intent.calls
    )
    return _text_body(body, WRITERS[row](calls, ""))


_NO_ENDPOINT: Final[JSON] = {
    "error": {
        "message": "No endpoints found that support tool use. To learn more about provider "
        "routing, see the documentation.",
        "code": 404,
    }
}


def _as_failed_generation(_body: JSON, intent: Intent) -> JSON:
    message = (
        "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more "
        "details."
    )
    written = "\n".join(
        f"<function={one.tool}{encode(one.arguments).decode()}</function>" for one in intent.calls
    )
    kind = {"type": "invalid_request_error", "code": "tool_use_failed"}
    return {"error": {"message": message, "failed_generation": written} | kind}


def _text_body(body: JSON, text: str) -> JSON:
    choice = body["choices"][0]
    message = {"role": "assistant", "content": text}
    return body | {"choices": [choice | {"message": message, "finish_reason": "stop"}]}


def _clean(persona: Persona, reading: ReadRequest, intent: Intent, key: str) -> JSON:
    words = worded(reading, intent)
    has_calls = bool(intent.calls) and words is None
    text = intent.text if words is None else words
    message: JSON = {"role": "assistant", "content": None if has_calls else text}
    if has_calls:
        prior = _prior_calls(reading.request)
        message["tool_calls"] = [
            _call(persona, one, prior + at, key) for at, one in enumerate(intent.calls)
        ]
        if PROVIDER_RULES[persona.rules].seals_turns:
            message = sealed(message, f"{_number(key, 'seal'):016x}")
    if field := PROVIDER_RULES[persona.rules].thinks_in:
        next_steps = " and ".join(one.tool for one in intent.calls)
        message[field] = f"Next: {next_steps or 'the answer'}."
    finish_reason = "tool_calls" if has_calls else intent.finish
    said = encode(message)
    asked, answered = len(encode(reading.sent)), len(said)
    prompt, completion = asked // _BYTES_PER_TOKEN + 1, answered // _BYTES_PER_TOKEN + 1
    return {
        # With what is said: a proxy that asks again hides messages, so places can come back.
        "id": f"chatcmpl-sim-{_number(key, 'id', said.decode()):016x}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": persona.id,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    }


def _call(persona: Persona, wanted: Wanted, position: int, key: str) -> JSON:
    function = {"name": wanted.tool, "arguments": encode(wanted.arguments).decode()}
    call_id = _call_id(persona.rules, wanted.tool, position, key)
    call: JSON = {"id": call_id, "type": "function", "function": function}
    if PROVIDER_RULES[persona.rules].wants_signatures:
        signed = {"thought_signature": signature(f"{_number(key, 'thought'):016x}")}
        call["extra_content"] = {"google": signed}
    return call


def _prior_calls(request: JSON) -> int:
    messages = [item for item in request.get("messages", ()) if isinstance(item, dict)]
    return sum(len(calls_of(message)) for message in messages)


def _call_id(rules: str, name: str, prior: int, key: str) -> str:
    """Mint an id in the provider's own style, unique in the conversation."""
    if rules in _OWN_COUNTERS:
        return f"functions.{name}:{prior}"
    number = _number(key, "call", str(prior))
    if rules == "gemini":
        return f"function-call-{number}"
    prefix, length = _ID_LENGTHS.get(rules, ("call_", 12))
    marks = ""
    while len(marks) < length:
        number = _number(str(number))
        marks += _LETTERS[number % len(_LETTERS)]
    return prefix + marks
