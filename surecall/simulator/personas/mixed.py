"""Personas with several faults at once: those shown first, named by what they do, and likenesses.

sim/<behaviour>    what a model does in some of its conversations or replies: `sim/stops-early`
sim/like-<family>  a mix that imitates a family of models; a simulation, not the model
"""

from typing import Final

from surecall.simulator.faults import SHAPE_FAULTS, ShapeFault
from surecall.simulator.personas.behaviours import CONVERSATION_BEHAVIOURS
from surecall.simulator.personas.persona import CURED, REPLY_BEHAVIOURS, RETRIED, Persona
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.values.errors import ErrorCode

PREFIX: Final = "sim/"
# What the model is told and can repair; every other code ends the run.
REPAIRABLE: Final = frozenset(
    {
        ErrorCode.ARGUMENTS_JSON_PARSE_ERROR,
        ErrorCode.ARGUMENTS_TOO_LARGE,
        ErrorCode.ARGUMENTS_TRUNCATED,
        ErrorCode.ARGUMENT_ERROR,
        ErrorCode.TOOL_NOT_ALLOWED,
    }
)


def mixable(fault: ShapeFault) -> bool:
    """Whether a run can succeed in spite of the fault, on default presets."""
    return fault.outcome in {CURED, RETRIED} or fault.outcome in REPAIRABLE


def _mix(rates: dict[str, float]) -> tuple[tuple[str, float], ...]:
    """Spread a family's rate over its faults; any other name is that of one fault."""
    faults: list[tuple[str, float]] = []
    for key, rate in rates.items():
        if key in REPLY_BEHAVIOURS or key in CONVERSATION_BEHAVIOURS or key in TRANSPORT_FAULTS:
            faults.append((key, rate))
            continue
        family = [each for each in SHAPE_FAULTS.values() if each.family == key]
        members = [each.id for each in family if mixable(each)]
        faults += [(member, rate / len(members)) for member in members]
    return tuple(faults)


def _like(
    name: str,
    model: str,
    rates: dict[str, float],
    rules: str = "common",
    provider: str = "openrouter",
) -> Persona:
    return Persona(
        id=f"{PREFIX}like-{name}",
        kind="mixed",
        summary=f"a simulation that imitates {model}; it is not that model",
        sources=("model catalog" if "/" in model else "provider quirks",),
        rules=rules,
        provider=provider,
        imitates=model,
        faults=_mix(rates),
        outcome="mixed",
    )


def _shown(name: str, summary: str, rates: dict[str, float]) -> Persona:
    return Persona(
        id=PREFIX + name, kind="shown", summary=summary, faults=_mix(rates), outcome="mixed"
    )


# JSON without any marker around it: what weak emitters write, and only the tag fallback reads.
_NAKED = "dialect-a17"
# What people meet first. A behaviour's rate is the share of conversations, any other fault's the
# share of replies. Nothing cures added words and wrong values: that is to be seen as well.
SHOWN: Final = (
    _shown(
        "bends-arguments",
        "arguments come fenced, encoded twice, blank, cut off or with Python's words in them",
        {"arguments": 0.5},
    ),
    _shown(
        "bends-calls",
        "calls come under other keys, with other names and ids, or in the wrong place",
        {"message": 0.2, "names": 0.15, "ids": 0.15},
    ),
    _shown(
        "writes-calls-as-text",
        "calls come as text: in tags, or as bare JSON",
        {"tags": 0.5, _NAKED: 0.3},
    ),
    _shown(
        "loses-requests",
        "answers 503, hangs up, sends an error inside a 200 or a page of HTML",
        {"envelope": 0.1, "http-503": 0.1, "html-502": 0.05, "hang-up": 0.05},
    ),
    _shown("calls-nothing", "answers at once, and calls nothing", {"lazy": 0.4}),
    _shown(
        "stops-early",
        "says that it is done when half of the work is done",
        {"premature": 0.5, "hasty": 0.3},
    ),
    _shown(
        "ignores-failures",
        "says that it is done after a call that failed",
        {"heedless": 0.9},
    ),
    _shown("repeats-itself", "makes the same call again and again", {"circling": 0.8}),
    _shown("takes-shortcuts", "does a part of a long task, and says it is done", {"shortcut": 0.8}),
    _shown(
        "adds-words", "adds a sentence to an answer that was to be exact", {"chatty-final": 0.5}
    ),
    _shown("sets-wrong-values", "changes the right thing to the wrong value", {"sloppy": 0.4}),
    _shown(
        "obeys-injections",
        "makes a call that somebody wrote into a file",
        {"obeys-injection": 0.9},
    ),
)
# Rates follow the shares of solved scenarios in the table that the catalog of models quotes: a
# behaviour's is the share of conversations, any other fault's the share of replies.
LIKENESSES: Final = (
    _like("claude", "anthropic/claude-opus-4.6:nitro", {"message": 0.02}, "anthropic"),
    _like(
        "deepseek-chat",
        "deepseek/deepseek-chat-v3-0324:nitro",
        {"arguments": 0.2, "message": 0.08, "ids": 0.05, "sloppy": 0.3},
        "deepseek",
    ),
    _like(
        "deepseek-v3",
        "deepseek/deepseek-v3.2:nitro",
        {"arguments": 0.1, "message": 0.05, "shortcut": 0.4},
        "deepseek",
    ),
    _like(
        "gemini-flash",
        "google/gemini-2.5-flash:nitro",
        {"names": 0.05, "message": 0.05, "apologetic": 0.05},
    ),
    _like(
        "gemini-3-flash",
        "google/gemini-3-flash-preview:nitro",
        {"names": 0.05, "message": 0.05, "shortcut": 0.2},
    ),
    _like(
        "gemini-pro",
        "google/gemini-3-pro-preview:nitro",
        {
            "arguments": 0.1,
            "message": 0.1,
            "envelope": 0.05,
            "shortcut": 0.9,
            "premature": 0.03,
            "talkative": 0.5,
        },
    ),
    _like("gpt", "openai/gpt-5.2:nitro", {"arguments": 0.02, "shortcut": 0.1}, "openai"),
    _like(
        "gpt-chat", "openai/gpt-5.2-chat:nitro", {"arguments": 0.02, "talkative": 0.97}, "openai"
    ),
    _like(
        "grok",
        "x-ai/grok-4.1-fast",
        {"arguments": 0.08, "slow": 0.02, "http-503": 0.02, "shortcut": 0.3, "talkative": 0.5},
    ),
    _like(
        "glm-flash",
        "z-ai/glm-4.7-flash:nitro",
        {
            _NAKED: 0.15,
            "tags": 0.2,
            "arguments": 0.2,
            "message": 0.1,
            "names": 0.05,
            "apologetic": 0.9,
            "sloppy": 0.1,
            "talkative": 0.8,
        },
    ),
    _like(
        "glm",
        "z-ai/glm-4.7:nitro",
        {_NAKED: 0.15, "tags": 0.3, "message": 0.05, "talkative": 0.97},
    ),
    _like("kimi", "moonshotai/kimi-k2.5:nitro", {"arguments": 0.05, "talkative": 0.97}, "kimi"),
    _like(
        "minimax",
        "minimax/minimax-m2.1:nitro",
        {
            _NAKED: 0.1,
            "lazy": 0.1,
            "tags": 0.2,
            "arguments": 0.1,
            "message": 0.05,
            "shortcut": 0.4,
            "talkative": 0.1,
        },
    ),
    _like("qwen-small", "qwen/qwen3-30b-a3b-instruct-2507:nitro", {"arguments": 0.05}),
    _like("qwen-next", "qwen/qwen3-next-80b-a3b-instruct:nitro", {"arguments": 0.05}),
    _like(
        "qwen-large",
        "qwen/qwen3-235b-a22b-2507:nitro",
        {_NAKED: 0.15, "tags": 0.3, "arguments": 0.1},
    ),
    _like(
        "mistral",
        "mistral-small-latest",
        {"ids": 0.2, "arguments": 0.1, "message": 0.1, "loop": 0.1},
        "mistral",
        "mistral",
    ),
    _like(
        "local-server",
        "llama-3.1-8b-instruct",
        {"ids": 0.15, "names": 0.1, "arguments": 0.2, "message": 0.15},
        "ollama",
        "ollama",
    ),
    _like(
        "free-route",
        "a-model:free",
        {"envelope": 0.2, "http-503": 0.05, "html-502": 0.05, "hang-up": 0.05},
    ),
)
# Not a mix: it has no endpoint for tools at all, so nothing of it can be healed.
CHAT_ONLY: Final = Persona(
    id=f"{PREFIX}like-minimax-her",
    kind="manner",
    summary="a simulation that imitates minimax/minimax-m2-her; it is not that model",
    sources=("model catalog",),
    imitates="minimax/minimax-m2-her",
    faults=(("no-tools", 1.0), ("talkative", 0.5)),
    outcome=ErrorCode.NO_TOOL_USE_ENDPOINT,
)
