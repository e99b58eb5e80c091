"""The catalogue of personas: one clean, one for each fault, behaviour and provider, and mixes.

sim/clean              no fault
sim/<fault>            one fault of shape, wherever it applies
sim/strict-<provider>  no fault, but a provider's own rules for requests
sim/<transport fault>  trouble on the way: limits, errors, resets, silence
sim/<behaviour>        well-formed replies that do not do what the instructions ask; some of them
                       again with the rules of a provider, as sim/<behaviour>-<provider>
sim/quotes-<way>       no fault, but it quotes a call that somebody wrote into a tool's result
sim/like-<family>      a mix that imitates a family of models; a simulation, not the model
"""

from typing import Final

from surecall.settings.provider_sources import KNOWN
from surecall.simulator.faults import SHAPE_FAULTS, ShapeFault
from surecall.simulator.personas.behaviours import CONVERSATION_BEHAVIOURS
from surecall.simulator.personas.persona import CURED, OPT_IN, REPLY_BEHAVIOURS, RETRIED, Persona
from surecall.simulator.personas.quotes import WAYS
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.values.errors import ErrorCode
from surecall.values.family import unknown

PREFIX = "sim/"
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
_ROUTED: Final = frozenset({"common", "kimi", "no-format", "no-parallel", "no-required", "sealed"})
_STRICT_MODELS: Final = {"kimi": "moonshotai/kimi-k2.5"}


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


def _clean() -> Persona:
    return Persona(id=f"{PREFIX}clean", kind="clean", summary="no fault at all")


def _misshapen(fault: ShapeFault) -> Persona:
    return Persona(
        id=PREFIX + fault.id,
        kind="drift",
        summary=fault.summary,
        sources=tuple(fault.sources),
        faults=((fault.id, 1.0),),
        outcome=fault.outcome,
    )


def _strict(name: str) -> Persona:
    return Persona(
        id=f"{PREFIX}strict-{name}",
        kind="strict",
        summary=PROVIDER_RULES[name].summary,
        sources=_sources(name),
        rules=name,
        provider="openrouter" if name in _ROUTED else name,
        imitates=_STRICT_MODELS.get(name, ""),
    )


def _sources(name: str) -> tuple[str, ...]:
    facts = KNOWN.get(name, ())
    return tuple(dict.fromkeys(source for fact in facts for source in fact.sources)) or (
        "provider quirks",
    )


def _disturbed(name: str) -> Persona:
    fault = TRANSPORT_FAULTS[name]
    return Persona(
        id=PREFIX + name,
        kind="stream" if fault.only_streams else "transport",
        summary=fault.summary,
        sources=fault.sources,
        faults=((name, 1.0),),
        outcome=fault.outcome,
    )


def _misbehaving(name: str) -> Persona:
    behaviour = REPLY_BEHAVIOURS[name]
    return Persona(
        id=PREFIX + name,
        kind="quote" if name in WAYS else "habit",
        summary=behaviour.summary,
        faults=((name, 1.0),),
        outcome=behaviour.outcome,
    )


def _conducted(name: str, rules: str = "common") -> Persona:
    """Describe a persona with a behaviour, and the rules of its provider if it has any."""
    behaviour, suffix = CONVERSATION_BEHAVIOURS[name], "" if rules == "common" else f"-{rules}"
    extra = f"; {PROVIDER_RULES[rules].summary}" if suffix else ""
    return Persona(
        id=PREFIX + name + suffix,
        kind="manner",
        summary=behaviour.summary + extra,
        rules=rules,
        faults=((name, 1.0),),
        outcome=behaviour.outcome,
    )


# Behaviours whose cure the endpoint does not accept: a call cannot be demanded there.
_UNDER_RULES: Final = (("premature", "no-required"),)
# JSON without any marker around it: what weak emitters write, and only the tag fallback reads.
_NAKED = "dialect-a17"
# Rates follow the shares of solved scenarios in the table that the catalog of models quotes: a
# behaviour's is the share of conversations, any other fault's the share of replies.
_LIKENESSES: Final = (
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
_CHAT_ONLY: Final = Persona(
    id=f"{PREFIX}like-minimax-her",
    kind="manner",
    summary="a simulation that imitates minimax/minimax-m2-her; it is not that model",
    sources=("model catalog",),
    imitates="minimax/minimax-m2-her",
    faults=(("no-tools", 1.0), ("talkative", 0.5)),
    outcome=ErrorCode.NO_TOOL_USE_ENDPOINT,
)


def _catalogue() -> dict[str, Persona]:
    everyone = [
        _clean(),
        *map(_misshapen, SHAPE_FAULTS.values()),
        *map(_strict, PROVIDER_RULES),
        *map(_disturbed, TRANSPORT_FAULTS),
        *map(_misbehaving, REPLY_BEHAVIOURS),
        *map(_conducted, CONVERSATION_BEHAVIOURS),
        *(_conducted(name, rules) for name, rules in _UNDER_RULES),
        *_LIKENESSES,
        _CHAT_ONLY,
    ]
    return {persona.id: persona for persona in everyone}


PERSONAS: Final[dict[str, Persona]] = _catalogue()


def likeness_of(model: str) -> Persona | None:
    """Return the persona that imitates a model of the catalog, None when none does."""
    return next((one for one in PERSONAS.values() if model and one.imitates == model), None)


def find(name: str) -> Persona | None:
    """Return a persona by its name, with or without the `sim/` in front."""
    return PERSONAS.get(name) or PERSONAS.get(PREFIX + name)


def no_persona(name: str) -> str:
    """Say that there is no such persona, and which ones may have been meant."""
    wanted = name if name.startswith(PREFIX) else PREFIX + name
    return unknown("persona", wanted, PERSONAS)


def preset_wanted(persona: Persona) -> str | None:
    """Return the preset that a client must opt into to get a persona right."""
    return persona.outcome.removeprefix(OPT_IN) if persona.outcome.startswith(OPT_IN) else None
