"""A persona: a scripted model that follows the conversation, and bends what it says.

    request ─ next_intent ─► clean reply ─ one fault, drawn by seed ─► what is sent

Everything is a pure function of the persona, the request and the seed, so the same seed and the
same request give the same reply. Only whether a fault that a retry cures was played just before
(`spare`) comes from outside, because a retry is the same request again.
"""

import hashlib
import string
from typing import Any, Final

import msgspec

from surecall.dialects import WEAK_ROWS, WRITERS
from surecall.errors import ErrorCode
from surecall.simulator.faults import DRIFTS, bend
from surecall.simulator.intent import DONE, Intent, next_intent
from surecall.simulator.profiles import PROFILES
from surecall.simulator.scenes import SCENES
from surecall.simulator.strict import NINE, calls_of, signature
from surecall.types import JSON, ToolCall
from surecall.wire import encode

CURED, RETRIED, OPT_IN = "cured", "retried", "opt_in:"
_CREATED = 1_700_000_000
_BYTES_PER_TOKEN = 4
_LETTERS = string.ascii_letters + string.digits
_ID_LENGTHS: Final = {"anthropic": ("toolu_", 24), "mistral": ("", NINE), "openai": ("call_", 24)}


class Habit(msgspec.Struct, frozen=True):
    """A way of a model that is no bent shape: it does something else altogether."""

    id: str
    summary: str
    outcome: str


LAZY = Habit("lazy", "answers at once and calls nothing", ErrorCode.NO_TOOL_CALLS)
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
# Every text dialect that has a writer, by the row of its grammar: `dialect-a1` and so on.
DIALECTS: Final = {f"dialect-{row.lower()}": row for row in WRITERS}
HABITS: Final = {habit.id: habit for habit in (LAZY, TAGS, REFUSED)} | {
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
    for catalogue in (DRIFTS, HABITS, SCENES):
        if fault in catalogue:
            return str(catalogue[fault].outcome)
    raise KeyError(fault)


def say(persona: Persona, request: JSON, seed: int, *, spare: bool = False) -> Said:
    """Answer a request. With `spare`, a fault that a retry cures is not played again."""
    intent = next_intent(request)
    key = encode([seed, persona.id, _digest(request)]).decode()
    body = _clean(persona, request, intent, key)
    fault = _drawn(persona, key)
    if not fault or not _may_play(fault, intent, spare=spare):
        return Said(body)
    if fault in SCENES:
        skips = SCENES[fault].only_first and _prior_calls(request)
        return Said(body) if skips else Said(body, fault)
    bent = _bent(fault, body, request, intent, key)
    return Said(bent, fault) if bent is not body else Said(body)


def _digest(request: JSON) -> str:
    return hashlib.sha256(msgspec.json.encode(request, order="deterministic")).hexdigest()


def _number(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8])


def _drawn(persona: Persona, key: str) -> str:
    """Draw at most one fault, by the persona's rates."""
    rest = _number(key, "draw") / 2.0**64
    for fault, rate in persona.faults:
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


def _bent(fault: str, body: JSON, request: JSON, intent: Intent, key: str) -> Any:
    if fault == LAZY.id:
        return _text_body(body, DONE) if intent.tool and not _prior_calls(request) else body
    if fault in (TAGS.id, REFUSED.id):
        written = _as_tags if fault == TAGS.id else _as_failed_generation
        return written(body, intent) if intent.tool else body
    if fault in DIALECTS:
        return _as_dialect(body, intent, DIALECTS[fault]) if intent.tool else body
    tools = request.get("tools")
    known = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return bend(fault, body, _number(key, "bend"), known)


def _as_tags(body: JSON, intent: Intent) -> JSON:
    call = encode({"name": intent.tool, "arguments": intent.arguments}).decode()
    return _text_body(body, f"<tool_call>\n{call}\n</tool_call>")


def _as_dialect(body: JSON, intent: Intent, row: str) -> JSON:
    tool = intent.tool or ""
    call = ToolCall(f"{_number(tool, row) % 10**9:09}", tool, intent.arguments)
    return _text_body(body, WRITERS[row]((call,), ""))


def _as_failed_generation(_body: JSON, intent: Intent) -> JSON:
    message = (
        "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more "
        "details."
    )
    call = f"<function={intent.tool}{encode(intent.arguments).decode()}</function>"
    kind = {"type": "invalid_request_error", "code": "tool_use_failed"}
    return {"error": {"message": message, "failed_generation": call} | kind}


def _text_body(body: JSON, text: str) -> JSON:
    choice = body["choices"][0]
    message = {"role": "assistant", "content": text}
    return body | {"choices": [choice | {"message": message, "finish_reason": "stop"}]}


def _clean(persona: Persona, request: JSON, intent: Intent, key: str) -> JSON:
    message: JSON = {"role": "assistant", "content": intent.text or None}
    if intent.tool is not None:
        message["tool_calls"] = [_call(persona, request, intent, key)]
    if PROFILES[persona.profile].wants_reasoning:
        message["reasoning_content"] = f"Next: {intent.tool or 'the answer'}."
    finish_reason = "stop" if intent.tool is None else "tool_calls"
    said = encode(message)
    asked, answered = len(encode(request)), len(said)
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


def _call(persona: Persona, request: JSON, intent: Intent, key: str) -> JSON:
    function = {"name": intent.tool, "arguments": encode(intent.arguments).decode()}
    call_id = _call_id(persona.profile, str(intent.tool), _prior_calls(request), key)
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
