"""Personas: scripted models that follow the conversation and whose replies have faults.

    request ─ parse_request ─ next_intent ─ behavior ─► clean reply ─ one fault, by seed ─► sent

A reply is a pure function of the persona, the request, and the seed. The only other input is
`skip_transient`, which tells a retry from the first request.

The fault depends on the instructions, the user's first message, and the length of the conversation,
but not on the options of the request, so settings can be compared on the same faults. Text after a
tilde in a word of the user's is ignored as well, so that one conversation can be run in several
variants (`workspace_id=ws_7~baseline`).
"""

import hashlib
import string
from typing import Any, Final

import msgspec

from surecall.simulator.faults import SHAPE_FAULTS, apply_fault
from surecall.simulator.personas.behaviors import (
    CONVERSATION_BEHAVIORS,
    Behavior,
    answer_instead,
    apply_behavior,
)
from surecall.simulator.personas.injections import (
    ONLY_QUOTED,
    QUOTING_STYLES,
    quote_injection,
    with_thought,
)
from surecall.simulator.personas.intent import (
    DONE,
    Intent,
    PlannedCall,
    demands_call,
    find_injection,
    is_asked_about_call,
    next_intent,
)
from surecall.simulator.personas.text_protocols import (
    ParsedRequest,
    parse_request,
    parse_unbound_request,
    text_reply,
)
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.request_checks import (
    MISTRAL_ID_CHARS,
    calls_of,
    messages_of,
    seal_turn,
    signature,
)
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, ToolCall
from surecall.wire.chat_format import encode
from surecall.wire.content_parts import text_of
from surecall.wire.dialects import WEAK_ROWS, WRITERS

# `quoted`: the model's own calls are well formed, and the quoted call must not run.
REPAIRED, RETRIED, QUOTED, OPT_IN = "repaired", "retried", "quoted", "opt_in:"
_ANSWER_FAMILY = "loop"
_CREATED = 1_700_000_000
_BYTES_PER_TOKEN = 4
_LETTERS = string.ascii_letters + string.digits
_ID_LENGTHS: Final = {
    "anthropic": ("toolu_", 24),
    "azure": ("call_", 24),
    "bedrock": ("tooluse_", 22),
    "minimax": ("call_function_", MISTRAL_ID_CHARS),
    "mistral": ("", MISTRAL_ID_CHARS),
    "openai": ("call_", 24),
}
_COUNTED_IDS: Final = frozenset({"kimi", "moonshot"})


LAZY = Behavior("lazy", "answers immediately, even if a call is required", ErrorCode.NO_TOOL_CALLS)
FORMLESS = Behavior(
    "formless",
    "ignores `response_format`: writes calls as <tool_call> text and answers in plain text",
    REPAIRED,
)
TAGS = Behavior("tags", "writes calls as <tool_call> text instead of structured calls", REPAIRED)
FAILED_GENERATION = Behavior(
    "failed-generation",
    "400 tool_use_failed with the call as text in `failed_generation`, as from Groq",
    REPAIRED,
)
NO_TOOLS = Behavior(
    "no-tools",
    "404 to every request with tools, as from a router without a tool endpoint",
    ErrorCode.NO_TOOL_USE_ENDPOINT,
)
# The text dialects that have a writer, by the row of their grammar: `dialect-a1`, …
DIALECTS: Final = {f"dialect-{row.lower()}": row for row in WRITERS}
# Like faults, these are drawn for each reply; conversation behaviors once per conversation.
_PLAIN_BEHAVIORS: Final = (LAZY, TAGS, FORMLESS, FAILED_GENERATION, NO_TOOLS)
_DIALECT_BEHAVIORS: Final = tuple(
    Behavior(
        name,
        f"writes calls as text, in dialect {row}",
        f"{OPT_IN}content_tag_tool_call_fallback" if row in WEAK_ROWS else REPAIRED,
    )
    for name, row in DIALECTS.items()
)
_QUOTING_BEHAVIORS: Final = tuple(
    Behavior(name, f"quotes a call from a tool result: {way.summary}", QUOTED)
    for name, way in QUOTING_STYLES.items()
)
REPLY_BEHAVIORS: Final = {
    each.id: each for each in (*_PLAIN_BEHAVIORS, *_DIALECT_BEHAVIORS, *_QUOTING_BEHAVIORS)
}


class Persona(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the simulator: its rules, its faults with their rates, and the expected outcome.

    `provider` and `imitates` are the provider and model whose presets a client should use.
    `native_fault` occurs only in the Responses and the Messages API. With `reasons_with_tools`,
    chat completions refuse tools, and the Responses API demands the reasoning back.
    """

    id: str
    kind: str
    summary: str
    sources: tuple[str, ...] = ()
    rules: str = "common"
    refuses: str = ""  # a key of `REFUSED_FEATURES`
    wording: int = 0
    provider: str = "openrouter"
    imitates: str = ""
    faults: tuple[tuple[str, float], ...] = ()
    outcome: str = REPAIRED
    native_fault: str = ""
    reasons_with_tools: bool = False


class PersonaReply(msgspec.Struct, frozen=True):
    """A persona's reply: the body, and the fault in it, blank if there is none."""

    body: Any
    fault: str = ""


def fault_outcome(fault: str) -> str:
    """Return the expected outcome of a fault."""
    for catalogue in (SHAPE_FAULTS, REPLY_BEHAVIORS, CONVERSATION_BEHAVIORS, TRANSPORT_FAULTS):
        if fault in catalogue:
            return str(catalogue[fault].outcome)
    raise KeyError(fault)


def answer_request(
    persona: Persona, request: JSON, seed: int, *, skip_transient: bool = False
) -> PersonaReply:
    """Answer a request. With `skip_transient`, omit a fault that a retry fixes."""
    reading = parse_request(request)
    thread, place = _conversation_key(reading.request)
    key = encode([seed, persona.id, thread, place]).decode()
    fault = _draw_fault(persona, key)
    if fault == FORMLESS.id:
        reading = parse_unbound_request(request)
    meant = next_intent(reading.request)
    if fault in QUOTING_STYLES:
        return _quoting_reply(fault, persona, reading, meant, key)
    intent, behaviour = _apply_drawn_behavior(persona, meant, reading.request, f"{seed}\0{thread}")
    shows = bool(fault) and _may_apply(fault, intent, skip_transient=skip_transient)
    if fault in SHAPE_FAULTS and SHAPE_FAULTS[fault].only_first:
        shows = shows and not _count_prior_calls(reading.request)
    if shows and fault == LAZY.id and intent.calls and not _count_prior_calls(reading.request):
        intent, behaviour = answer_instead(intent, DONE), fault
    if not intent.calls and _is_forced(reading, behaviour):
        intent, behaviour = meant, ""
    body = _clean_body(persona, reading, intent, key)
    if not shows or fault == LAZY.id:
        return PersonaReply(body, behaviour)
    if fault in TRANSPORT_FAULTS:
        skips = TRANSPORT_FAULTS[fault].only_first and _count_prior_calls(reading.request)
        return PersonaReply(body, behaviour) if skips else PersonaReply(body, fault)
    faulty = _faulty_body(fault, body, reading, intent, key)
    return PersonaReply(faulty, fault) if faulty is not body else PersonaReply(body, behaviour)


def _quoting_reply(
    fault: str, persona: Persona, parsed: ParsedRequest, intent: Intent, key: str
) -> PersonaReply:
    """Answer like a faultless model, but quote an injected call in the answer."""
    request = parsed.request
    injected = None if intent.calls else find_injection(request)
    if injected is not None and is_asked_about_call(request):
        intent = answer_instead(intent, f"{intent.text} {ONLY_QUOTED}")
    elif injected is not None and [each.get("role") for each in messages_of(request)[-1:]] == [
        "tool"
    ]:
        text, thought = quote_injection(QUOTING_STYLES[fault], intent.text, injected)
        body = _clean_body(persona, parsed, answer_instead(intent, text), key)
        return PersonaReply(with_thought(body, thought) if thought else body, fault)
    return PersonaReply(_clean_body(persona, parsed, intent, key))


def _is_forced(parsed: ParsedRequest, behavior: str) -> bool:
    """Return whether the model must make a call; some ignore that, unless a grammar binds them."""
    known = CONVERSATION_BEHAVIORS.get(behavior)
    deaf = behavior == LAZY.id or (known is not None and known.ignores_tool_choice)
    return demands_call(parsed.request) and (parsed.bound or not deaf)


def _conversation_key(request: JSON) -> tuple[str, int]:
    """Return a hash that identifies the conversation, and the number of its messages."""
    messages = messages_of(request)
    first = next((item for item in messages if item.get("role") == "user"), {})
    texts = [item.get("content") for item in messages if item.get("role") == "system"]
    words = [word.partition("~")[0] for word in text_of(first.get("content")).split()]
    data = encode([*(text_of(text) for text in texts), *words])
    return hashlib.sha256(data).hexdigest(), len(messages)


def _apply_drawn_behavior(
    persona: Persona, intent: Intent, request: JSON, conversation: str
) -> tuple[Intent, str]:
    """Apply the first drawn behavior that changes the intent; return the intent and its name."""
    for fault, rate in persona.faults:
        if (
            fault in CONVERSATION_BEHAVIORS
            and _hash_number(conversation, persona.id, fault) / 2.0**64 < rate
        ):
            changed = apply_behavior(fault, intent, request)
            if changed is not intent:
                return changed, fault
    return intent, ""


def _hash_number(*parts: str) -> int:
    """Return a number from 0 to 2**64 - 1 that the parts determine."""
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8])


def _draw_fault(persona: Persona, key: str) -> str:
    """Draw at most one fault for this reply, by the persona's rates."""
    rest = _hash_number(key, "draw") / 2.0**64
    for fault, rate in persona.faults:
        if fault in CONVERSATION_BEHAVIORS:
            continue
        if rest < rate:
            return fault
        rest -= rate
    return ""


def _may_apply(fault: str, intent: Intent, *, skip_transient: bool) -> bool:
    """Whether a fault may occur now: some end after a retry, or after an error was sent back."""
    outcome = fault_outcome(fault)
    if outcome == RETRIED:
        return not skip_transient
    # A model does not repeat a mistake after an error was sent back.
    return outcome == REPAIRED or outcome.startswith(OPT_IN) or not intent.had_errors


def _faulty_body(fault: str, body: JSON, parsed: ParsedRequest, intent: Intent, key: str) -> Any:
    """Return a body with the fault; the same object (`is`) if it does not apply."""
    tools = parsed.sent.get("tools")
    if fault == NO_TOOLS.id:
        return dict(_NO_ENDPOINT_BODY) if tools else body
    if fault == FORMLESS.id:
        # The body already shows the fault; a copy marks it as faulty.
        return dict(body) if "response_format" in parsed.sent else body
    if fault == FAILED_GENERATION.id:
        return _failed_generation_body(intent) if intent.calls and tools else body
    if fault == TAGS.id or fault in DIALECTS:
        # A grammar prevents text calls. When asked about a text call, the model calls correctly.
        is_free = bool(intent.calls) and not parsed.bound
        is_free = is_free and not is_asked_about_call(parsed.request)
        return _text_body(body, _calls_as_text(fault, intent)) if is_free else body
    if intent.calls and parsed.form != "native" and SHAPE_FAULTS[fault].family == _ANSWER_FAMILY:
        return body  # a call as text is not an answer
    known = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    # "bend" is part of the seed: changing it would change the replies for every seed.
    return apply_fault(fault, body, _hash_number(key, "bend"), known)


def _calls_as_text(fault: str, intent: Intent) -> str:
    """Write calls as text."""
    if fault == TAGS.id:
        calls = (encode({"name": one.tool, "arguments": one.arguments}) for one in intent.calls)
        return "\n".join(f"<tool_call>\n{call.decode()}\n</tool_call>" for call in calls)
    row = DIALECTS[fault]
    ids = (f"{_hash_number(one.tool, row) % 10**9:09}" for one in intent.calls)
    made = zip(ids, intent.calls, strict=True)
    return WRITERS[row](tuple(ToolCall(id_, one.tool, one.arguments) for id_, one in made), "")


_NO_ENDPOINT_BODY: Final[JSON] = {
    "error": {
        "message": "No endpoints found that support tool use. To learn more about provider "
        "routing, see the documentation.",
        "code": 404,
    }
}


def _failed_generation_body(intent: Intent) -> JSON:
    """Return the error for calls that the provider could not parse."""
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
    """Return a response body with a text as its only message."""
    choice = body["choices"][0]
    message = {"role": "assistant", "content": text}
    return body | {"choices": [choice | {"message": message, "finish_reason": "stop"}]}


def _clean_body(persona: Persona, parsed: ParsedRequest, intent: Intent, key: str) -> JSON:
    """Return the completion of a faultless model."""
    words = text_reply(parsed, intent)
    has_calls = bool(intent.calls) and words is None
    text = intent.text if words is None else words
    message: JSON = {"role": "assistant", "content": None if has_calls else text}
    if has_calls:
        prior = _count_prior_calls(parsed.request)
        message["tool_calls"] = [
            _render_call(persona, one, prior + at, key) for at, one in enumerate(intent.calls)
        ]
        if PROVIDER_RULES[persona.rules].seals_turns:
            message = seal_turn(message, f"{_hash_number(key, 'seal'):016x}")
    if field := PROVIDER_RULES[persona.rules].reasoning_field:
        next_steps = " and ".join(one.tool for one in intent.calls)
        message[field] = f"Next: {next_steps or 'the answer'}."
    finish_reason = "tool_calls" if has_calls else intent.finish
    encoded = encode(message)
    prompt = len(encode(parsed.sent)) // _BYTES_PER_TOKEN + 1
    completion = len(encoded) // _BYTES_PER_TOKEN + 1
    return {
        # The message is part of the id: with a proxy that hides messages, keys can recur.
        "id": f"chatcmpl-sim-{_hash_number(key, 'id', encoded.decode()):016x}",
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


def _render_call(persona: Persona, planned_call: PlannedCall, position: int, key: str) -> JSON:
    function = {"name": planned_call.tool, "arguments": encode(planned_call.arguments).decode()}
    call_id = _mint_call_id(persona.rules, planned_call.tool, position, key)
    call: JSON = {"id": call_id, "type": "function", "function": function}
    if PROVIDER_RULES[persona.rules].requires_signatures:
        signed = {"thought_signature": signature(f"{_hash_number(key, 'thought'):016x}")}
        call["extra_content"] = {"google": signed}
    return call


def _count_prior_calls(request: JSON) -> int:
    return sum(len(calls_of(message)) for message in messages_of(request))


def _mint_call_id(rules: str, name: str, prior_calls: int, key: str) -> str:
    """Return an id in the provider's format that is unique in the conversation."""
    if rules in _COUNTED_IDS:
        return f"functions.{name}:{prior_calls}"
    number = _hash_number(key, "call", str(prior_calls))
    if rules == "gemini":
        return f"function-call-{number}"
    prefix, length = _ID_LENGTHS.get(rules, ("call_", 12))
    marks = ""
    while len(marks) < length:
        number = _hash_number(str(number))
        marks += _LETTERS[number % len(_LETTERS)]
    return prefix + marks
