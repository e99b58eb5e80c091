"""A persona: a scripted model that follows the conversation, and bends what it says.

    request ─ understood ─ next_intent ─ a manner ─► clean reply ─ one fault, drawn by seed ─► sent

Everything is a pure function of the persona, the request and the seed, so the same seed and the
same request give the same reply. Only whether a fault that a retry cures was played just before
(`spare`) comes from outside, because a retry is the same request again.

What is drawn depends on the instructions, on what the user asked first, and on how far the
conversation has come, but not on the options of a request: settings can be compared on the same
draws. What stands behind a tilde in a word of the user's does not count either, so that one
conversation can be held in several variants (`workspace_id=ws_7~baseline`).
"""

import hashlib
import string
from typing import Any, Final

import msgspec

from surecall.simulator.faults import DRIFTS, bend
from surecall.simulator.personas.behaviours import MANNERS, mannered, says
from surecall.simulator.personas.intent import DONE, Intent, Wanted, demands_call, next_intent
from surecall.simulator.personas.worded_requests import Spoken, unbound, understood, worded
from surecall.simulator.provider_rules import PROFILES
from surecall.simulator.request_checks import NINE, calls_of, signature
from surecall.simulator.transport_faults import SCENES
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, ToolCall
from surecall.wire.dialects import WEAK_ROWS, WRITERS
from surecall.wire.messages import encode, text_of

CURED, RETRIED, OPT_IN = "cured", "retried", "opt_in:"
_OF_ANSWERS = "loop"
_CREATED = 1_700_000_000
_BYTES_PER_TOKEN = 4
_LETTERS = string.ascii_letters + string.digits
_ID_LENGTHS: Final = {"anthropic": ("toolu_", 24), "mistral": ("", NINE), "openai": ("call_", 24)}


class Habit(msgspec.Struct, frozen=True):
    """A way of a model that is no bent shape: it does something else altogether."""

    id: str
    summary: str
    outcome: str


LAZY = Habit(
    "lazy", "answers at once and calls nothing, also where it must", ErrorCode.NO_TOOL_CALLS
)
FORMLESS = Habit(
    "formless",
    "knows no `response_format`: writes calls as <tool_call> text, and answers in plain words",
    CURED,
)
TAGS = Habit(
    "tags",
    "writes calls as <tool_call> text instead of structured calls",
    CURED,
)
REFUSED = Habit(
    "failed-generation",
    "400 tool_use_failed with the call as text in `failed_generation`, as Groq answers",
    CURED,
)
NO_TOOLS = Habit(
    "no-tools",
    "404 to every request with tools, as a router answers that knows no endpoint for them",
    ErrorCode.NO_TOOL_USE_ENDPOINT,
)
# Every text dialect that has a writer, by the row of its grammar: `dialect-a1` and so on.
DIALECTS: Final = {f"dialect-{row.lower()}": row for row in WRITERS}
HABITS: Final = {habit.id: habit for habit in (LAZY, TAGS, FORMLESS, REFUSED, NO_TOOLS)} | {
    name: Habit(
        name,
        f"writes calls as text, in dialect {row}",
        f"{OPT_IN}content_tag_tool_call_fallback" if row in WEAK_ROWS else CURED,
    )
    for name, row in DIALECTS.items()
}


class Persona(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the simulator: its rules, its faults with their rates, and what to expect.

    `provider` and `imitates` are what a client's presets should be chosen for.
    """

    id: str
    kind: str
    summary: str
    sources: tuple[str, ...] = ()
    profile: str = "common"
    provider: str = "openrouter"
    imitates: str = ""
    faults: tuple[tuple[str, float], ...] = ()
    outcome: str = CURED


class Said(msgspec.Struct, frozen=True):
    """What a persona answers: the body, and the fault that shaped it, blank when there is none."""

    body: Any
    fault: str = ""


def outcome_of(fault: str) -> str:
    """Return what a fault is documented to end in."""
    for catalogue in (DRIFTS, HABITS, MANNERS, SCENES):
        if fault in catalogue:
            return str(catalogue[fault].outcome)
    raise KeyError(fault)


def say(persona: Persona, request: JSON, seed: int, *, spare: bool = False) -> Said:
    """Answer a request. With `spare`, a fault that a retry cures is not played again."""
    spoken = understood(request)
    thread, place = _thread(spoken.request)
    key = encode([seed, persona.id, thread, place]).decode()
    fault = _drawn(persona, key)
    if fault == FORMLESS.id:
        spoken = unbound(request)
    meant = next_intent(spoken.request)
    intent, manner = _with_manner(persona, meant, spoken.request, f"{seed}\0{thread}")
    plays = bool(fault) and _may_play(fault, intent, spare=spare)
    if plays and fault == LAZY.id and intent.calls and not _prior_calls(spoken.request):
        intent, manner = says(intent, DONE), fault
    if not intent.calls and _is_forced(spoken, manner):
        intent, manner = meant, ""
    body = _clean(persona, spoken, intent, key)
    if not plays or fault == LAZY.id:
        return Said(body, manner)
    if fault in SCENES:
        skips = SCENES[fault].only_first and _prior_calls(spoken.request)
        return Said(body, manner) if skips else Said(body, fault)
    bent = _bent(fault, body, spoken, intent, key)
    return Said(bent, fault) if bent is not body else Said(body, manner)


def _is_forced(spoken: Spoken, manner: str) -> bool:
    """Whether a call must be made; some models do not care, unless a grammar binds them."""
    deaf = manner == LAZY.id or (manner in MANNERS and MANNERS[manner].deaf)
    return demands_call(spoken.request) and (spoken.bound or not deaf)


def _thread(request: JSON) -> tuple[str, int]:
    """Return what the conversation is known by, and how far it has come."""
    messages = [item for item in request.get("messages", ()) if isinstance(item, dict)]
    first = next((item for item in messages if item.get("role") == "user"), {})
    texts = [item.get("content") for item in messages if item.get("role") == "system"]
    words = text_of(first.get("content")).split()
    asked = [word.partition("~")[0] for word in words]
    data = encode([*(text_of(text) for text in texts), *asked])
    return hashlib.sha256(data).hexdigest(), len(messages)


def _with_manner(
    persona: Persona, intent: Intent, request: JSON, thread: str
) -> tuple[Intent, str]:
    """Let the first manner that was drawn for the conversation, and shows here, change it."""
    for fault, rate in persona.faults:
        if fault in MANNERS and _number(thread, persona.id, fault) / 2.0**64 < rate:
            changed = mannered(fault, intent, request)
            if changed is not intent:
                return changed, fault
    return intent, ""


def _number(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8])


def _drawn(persona: Persona, key: str) -> str:
    """Draw at most one fault for this reply, by the persona's rates."""
    rest = _number(key, "draw") / 2.0**64
    for fault, rate in persona.faults:
        if fault in MANNERS:
            continue
        if rest < rate:
            return fault
        rest -= rate
    return ""


def _may_play(fault: str, intent: Intent, *, spare: bool) -> bool:
    outcome = outcome_of(fault)
    if outcome == RETRIED:
        return not spare
    # A model that was told about its mistake does not make it again.
    return outcome == CURED or outcome.startswith(OPT_IN) or not intent.told


def _bent(fault: str, body: JSON, spoken: Spoken, intent: Intent, key: str) -> Any:
    tools = spoken.sent.get("tools")
    if fault == NO_TOOLS.id:
        return dict(_NO_ENDPOINT) if tools else body
    if fault == FORMLESS.id:
        # It has been played by now; a copy says so.
        return dict(body) if "response_format" in spoken.sent else body
    if fault == REFUSED.id:
        return _as_failed_generation(body, intent) if intent.calls and tools else body
    if fault == TAGS.id or fault in DIALECTS:
        # What a grammar binds cannot be written otherwise.
        is_free = bool(intent.calls) and not spoken.bound
        return _as_text(fault, body, intent) if is_free else body
    if intent.calls and spoken.form != "native" and DRIFTS[fault].family == _OF_ANSWERS:
        return body  # a call in words is no answer
    known = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return bend(fault, body, _number(key, "bend"), known)


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


def _clean(persona: Persona, spoken: Spoken, intent: Intent, key: str) -> JSON:
    words = worded(spoken, intent)
    has_calls = bool(intent.calls) and words is None
    text = intent.text if words is None else words
    message: JSON = {"role": "assistant", "content": None if has_calls else text}
    if has_calls:
        prior = _prior_calls(spoken.request)
        message["tool_calls"] = [
            _call(persona, one, prior + at, key) for at, one in enumerate(intent.calls)
        ]
    if PROFILES[persona.profile].wants_reasoning:
        next_steps = " and ".join(one.tool for one in intent.calls)
        message["reasoning_content"] = f"Next: {next_steps or 'the answer'}."
    finish_reason = "tool_calls" if has_calls else intent.finish
    said = encode(message)
    asked, answered = len(encode(spoken.sent)), len(said)
    prompt, completion = asked // _BYTES_PER_TOKEN + 1, answered // _BYTES_PER_TOKEN + 1
    return {
        "id": f"chatcmpl-sim-{_number(key, 'id'):016x}",
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
    call_id = _call_id(persona.profile, wanted.tool, position, key)
    call: JSON = {"id": call_id, "type": "function", "function": function}
    if PROFILES[persona.profile].wants_signatures:
        signed = {"thought_signature": signature(f"{_number(key, 'thought'):016x}")}
        call["extra_content"] = {"google": signed}
    return call


def _prior_calls(request: JSON) -> int:
    messages = [item for item in request.get("messages", ()) if isinstance(item, dict)]
    return sum(len(calls_of(message)) for message in messages)


def _call_id(profile: str, name: str, prior: int, key: str) -> str:
    """Mint an id in the provider's own style, unique in the conversation."""
    if profile == "kimi":
        return f"functions.{name}:{prior}"
    number = _number(key, "call", str(prior))
    if profile == "gemini":
        return f"function-call-{number}"
    prefix, length = _ID_LENGTHS.get(profile, ("call_", 12))
    marks = ""
    while len(marks) < length:
        number = _number(str(number))
        marks += _LETTERS[number % len(_LETTERS)]
    return prefix + marks
