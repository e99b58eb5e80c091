"""The catalog of personas: one for each fault, behavior, and provider, and mixes.

sim/clean              no fault
sim/<fault>            one shape fault, wherever it applies
sim/strict-<provider>  no fault, but a provider's own request rules
sim/<transport fault>  rate limits, HTTP errors, resets, timeouts
sim/<behavior>         well-formed replies that do not follow the instructions
sim/refuses-<feature>  refuses requests with this feature, in the words of real providers
sim/quotes-<style>     no fault, but it quotes a call injected into a tool result
sim/<habit>            several faults, in some conversations or replies: `sim/stops-early`
sim/native-<fault>     a fault of the Responses and the Messages API; clean on chat completions
sim/like-<family>      a mix that imitates a family of models; a simulation, not the model
"""

from collections.abc import Iterator
from typing import Final

from surecall.settings.providers import facts_by_provider
from surecall.simulator.faults import SHAPE_FAULTS, ShapeFault
from surecall.simulator.native_apis import NATIVE_FAULTS
from surecall.simulator.personas.behaviors import CONVERSATION_BEHAVIORS, Behavior
from surecall.simulator.personas.injections import QUOTING_STYLES
from surecall.simulator.personas.persona import OPT_IN, REPAIRED, REPLY_BEHAVIORS, RETRIED, Persona
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.refused_features import REFUSED_FEATURES
from surecall.simulator.transport_faults import TRANSPORT_FAULTS, TransportFault
from surecall.values.errors import ErrorCode
from surecall.values.family import unknown_name_message

PREFIX: Final = "sim/"
_ROUTED_RULES: Final = frozenset(
    {"common", "kimi", "no-format", "no-parallel", "no-required", "sealed"}
)
_STRICT_MODELS: Final = {"kimi": "moonshotai/kimi-k2.5"}
# Errors that are sent back to the model; every other code ends the run.
REPAIRABLE: Final = frozenset(
    {
        ErrorCode.ARGUMENTS_JSON_PARSE_ERROR,
        ErrorCode.ARGUMENTS_TOO_LARGE,
        ErrorCode.ARGUMENTS_TRUNCATED,
        ErrorCode.ARGUMENT_ERROR,
        ErrorCode.TOOL_NOT_ALLOWED,
    }
)


def _fault_persona(
    kind: str, fault: ShapeFault | TransportFault | Behavior, rules: str = "common"
) -> Persona:
    """Build a persona with one fault and, optionally, the rules of a provider."""
    suffix, extra = "", ""
    if rules != "common":
        suffix, extra = f"-{rules}", f"; {PROVIDER_RULES[rules].summary}"
    return Persona(
        id=PREFIX + fault.id + suffix,
        kind=kind,
        summary=fault.summary + extra,
        sources=() if isinstance(fault, Behavior) else fault.sources,
        rules=rules,
        faults=((fault.id, 1.0),),
        outcome=fault.outcome,
    )


def _strict_persona(name: str) -> Persona:
    """Build a persona without faults that checks requests by a provider's rules."""
    sources = dict.fromkeys(
        source for fact in facts_by_provider().get(name, ()) for source in fact.sources
    )
    return Persona(
        id=f"{PREFIX}strict-{name}",
        kind="strict",
        summary=PROVIDER_RULES[name].summary,
        sources=tuple(sources) or ("provider quirks",),
        rules=name,
        provider="openrouter" if name in _ROUTED_RULES else name,
        imitates=_STRICT_MODELS.get(name, ""),
    )


def _spread_rates(rates: dict[str, float]) -> tuple[tuple[str, float], ...]:
    """Spread the rate of each fault family over its faults; other names are single faults."""
    # With the default presets, a run can succeed despite these.
    mixable = {REPAIRED, RETRIED, *REPAIRABLE}
    faults: list[tuple[str, float]] = []
    for key, rate in rates.items():
        if key in REPLY_BEHAVIORS or key in CONVERSATION_BEHAVIORS or key in TRANSPORT_FAULTS:
            faults.append((key, rate))
            continue
        family = [each for each in SHAPE_FAULTS.values() if each.family == key]
        members = [each.id for each in family if each.outcome in mixable]
        faults += [(member, rate / len(members)) for member in members]
    return tuple(faults)


def _imitating_persona(
    name: str,
    model: str,
    rates: dict[str, float],
    rules: str = "common",
    provider: str = "openrouter",
) -> Persona:
    """Build a persona with the faults of a real model."""
    return Persona(
        id=f"{PREFIX}like-{name}",
        kind="mixed",
        summary=f"a simulation that imitates {model}; it is not that model",
        sources=("model catalog" if "/" in model else "provider quirks",),
        rules=rules,
        provider=provider,
        imitates=model,
        faults=_spread_rates(rates),
        outcome="mixed",
    )


def _showcase_persona(name: str, summary: str, rates: dict[str, float]) -> Persona:
    """Build a persona that shows several faults."""
    return Persona(
        id=PREFIX + name,
        kind="shown",
        summary=summary,
        faults=_spread_rates(rates),
        outcome="mixed",
    )


# Unmarked JSON, as weak models write it; only the tag fallback parses it.
_BARE_JSON = "dialect-a17"
# Common problems. The rate of a behavior is the share of conversations, that of any other fault the
# share of replies. Added words and wrong values cannot be repaired.
SHOWCASES: Final = (
    _showcase_persona(
        "bends-arguments",
        "sends arguments that are fenced, encoded twice, blank, truncated, or a Python literal",
        {"arguments": 0.5},
    ),
    _showcase_persona(
        "bends-calls",
        "sends calls under other keys, with other names and ids, or in the wrong place",
        {"message": 0.2, "names": 0.15, "ids": 0.15},
    ),
    _showcase_persona(
        "writes-calls-as-text",
        "writes calls as text: in tags or as unmarked JSON",
        {"tags": 0.5, _BARE_JSON: 0.3},
    ),
    _showcase_persona(
        "loses-requests",
        "returns 503, closes connections, or sends an error in a 200 or an HTML page",
        {"envelope": 0.1, "http-503": 0.1, "html-502": 0.05, "hang-up": 0.05},
    ),
    _showcase_persona("calls-nothing", "answers immediately and calls nothing", {"lazy": 0.4}),
    _showcase_persona(
        "stops-early",
        "says that it is done halfway through the task",
        {"premature": 0.5, "hasty": 0.3},
    ),
    _showcase_persona(
        "ignores-failures", "says that it is done after a failed call", {"heedless": 0.9}
    ),
    _showcase_persona("repeats-itself", "repeats the same call", {"circling": 0.8}),
    _showcase_persona(
        "takes-shortcuts", "does part of a long task and says that it is done", {"shortcut": 0.8}
    ),
    _showcase_persona(
        "adds-words", "adds a sentence to an answer that should be exact", {"chatty-final": 0.5}
    ),
    _showcase_persona("sets-wrong-values", "sets wrong values", {"sloppy": 0.4}),
    _showcase_persona(
        "obeys-injections", "makes a call that was injected into a file", {"obeys-injection": 0.9}
    ),
)
# Rates follow the shares of solved scenarios in the table that the model catalog quotes.
IMITATIONS: Final = (
    _imitating_persona("claude", "anthropic/claude-opus-4.6:nitro", {"message": 0.02}, "anthropic"),
    _imitating_persona(
        "deepseek-chat",
        "deepseek/deepseek-chat-v3-0324:nitro",
        {"arguments": 0.2, "message": 0.08, "ids": 0.05, "sloppy": 0.3},
        "deepseek",
    ),
    _imitating_persona(
        "deepseek-v3",
        "deepseek/deepseek-v3.2:nitro",
        {"arguments": 0.1, "message": 0.05, "shortcut": 0.4},
        "deepseek",
    ),
    _imitating_persona(
        "gemini-flash",
        "google/gemini-2.5-flash:nitro",
        {"names": 0.05, "message": 0.05, "apologetic": 0.05},
    ),
    _imitating_persona(
        "gemini-3-flash",
        "google/gemini-3-flash-preview:nitro",
        {"names": 0.05, "message": 0.05, "shortcut": 0.2},
    ),
    _imitating_persona(
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
    _imitating_persona(
        "gpt", "openai/gpt-5.2:nitro", {"arguments": 0.02, "shortcut": 0.1}, "openai"
    ),
    _imitating_persona(
        "gpt-chat", "openai/gpt-5.2-chat:nitro", {"arguments": 0.02, "talkative": 0.97}, "openai"
    ),
    _imitating_persona(
        "grok",
        "x-ai/grok-4.1-fast",
        {"arguments": 0.08, "slow": 0.02, "http-503": 0.02, "shortcut": 0.3, "talkative": 0.5},
    ),
    _imitating_persona(
        "glm-flash",
        "z-ai/glm-4.7-flash:nitro",
        {
            _BARE_JSON: 0.15,
            "tags": 0.2,
            "arguments": 0.2,
            "message": 0.1,
            "names": 0.05,
            "apologetic": 0.9,
            "sloppy": 0.1,
            "talkative": 0.8,
        },
    ),
    _imitating_persona(
        "glm",
        "z-ai/glm-4.7:nitro",
        {_BARE_JSON: 0.15, "tags": 0.3, "message": 0.05, "talkative": 0.97},
    ),
    _imitating_persona(
        "kimi", "moonshotai/kimi-k2.5:nitro", {"arguments": 0.05, "talkative": 0.97}, "kimi"
    ),
    _imitating_persona(
        "minimax",
        "minimax/minimax-m2.1:nitro",
        {
            _BARE_JSON: 0.1,
            "lazy": 0.1,
            "tags": 0.2,
            "arguments": 0.1,
            "message": 0.05,
            "shortcut": 0.4,
            "talkative": 0.1,
        },
    ),
    _imitating_persona("qwen-small", "qwen/qwen3-30b-a3b-instruct-2507:nitro", {"arguments": 0.05}),
    _imitating_persona("qwen-next", "qwen/qwen3-next-80b-a3b-instruct:nitro", {"arguments": 0.05}),
    _imitating_persona(
        "qwen-large",
        "qwen/qwen3-235b-a22b-2507:nitro",
        {_BARE_JSON: 0.15, "tags": 0.3, "arguments": 0.1},
    ),
    _imitating_persona(
        "mistral",
        "mistral-small-latest",
        {"ids": 0.2, "arguments": 0.1, "message": 0.1, "loop": 0.1},
        "mistral",
        "mistral",
    ),
    _imitating_persona(
        "local-server",
        "llama-3.1-8b-instruct",
        {"ids": 0.15, "names": 0.1, "arguments": 0.2, "message": 0.15},
        "ollama",
        "ollama",
    ),
    _imitating_persona(
        "free-route",
        "a-model:free",
        {"envelope": 0.2, "http-503": 0.05, "html-502": 0.05, "hang-up": 0.05},
    ),
)
# Not a mix: it has no tool endpoint, so nothing can be repaired.
CHAT_ONLY: Final = Persona(
    id=f"{PREFIX}like-minimax-her",
    kind="manner",
    summary="a simulation that imitates minimax/minimax-m2-her; it is not that model",
    sources=("model catalog",),
    imitates="minimax/minimax-m2-her",
    faults=(("no-tools", 1.0), ("talkative", 0.5)),
    outcome=ErrorCode.NO_TOOL_USE_ENDPOINT,
)

# Not a mix either: it needs the Responses API for calls.
REASONING: Final = Persona(
    id=f"{PREFIX}like-gpt-5.6",
    kind="native",
    summary="a simulation of gpt-5.6: tools need the Responses API, and its reasoning back",
    sources=("danny-avila/LibreChat#14355",),
    provider="openai",
    rules="openai",
    outcome="mixed",
    reasons_with_tools=True,
)


def _native_persona(fault: str) -> Persona:
    found = NATIVE_FAULTS[fault]
    return Persona(
        id=f"{PREFIX}native-{fault}",
        kind="native",
        summary=f"{found.summary}, in the Responses and the Messages API",
        outcome="mixed",
        native_fault=fault,
    )


def _build_catalog() -> dict[str, Persona]:
    everyone = [
        Persona(id=f"{PREFIX}clean", kind="clean", summary="no faults"),
        *(_fault_persona("drift", fault) for fault in SHAPE_FAULTS.values()),
        *map(_strict_persona, PROVIDER_RULES),
        *(
            _fault_persona("stream" if fault.only_streams else "transport", fault)
            for fault in TRANSPORT_FAULTS.values()
        ),
        *(
            _fault_persona("quote" if name in QUOTING_STYLES else "habit", behaviour)
            for name, behaviour in REPLY_BEHAVIORS.items()
        ),
        *(_fault_persona("manner", behaviour) for behaviour in CONVERSATION_BEHAVIORS.values()),
        # This endpoint rejects the usual remedy, a required call.
        _fault_persona("manner", CONVERSATION_BEHAVIORS["premature"], "no-required"),
        *SHOWCASES,
        *IMITATIONS,
        CHAT_ONLY,
        REASONING,
        *map(_native_persona, NATIVE_FAULTS),
    ]
    return {persona.id: persona for persona in everyone}


PERSONAS: Final[dict[str, Persona]] = _build_catalog()


def _refusing_personas() -> Iterator[Persona]:
    for feature in REFUSED_FEATURES.values():
        for wording, words in enumerate(feature.wordings):
            suffix = "" if wording == 0 else f"-{wording + 1}"
            yield Persona(
                id=f"{PREFIX}refuses-{feature.name}{suffix}",
                kind="refusing",
                summary=f"refuses requests: {words}",
                sources=feature.sources,
                refuses=feature.name,
                wording=wording,
            )


# Not part of `all`: they answer like `sim/clean` unless a request uses the refused feature.
REFUSING_PERSONAS: Final = {persona.id: persona for persona in _refusing_personas()}

# The default for unknown model names: it calls tools, and half of its replies need a repair.
DEFAULT_PERSONA: Final = f"{PREFIX}bends-arguments"


def find_persona(name: str) -> Persona | None:
    """Return a persona by name, with or without the prefix `sim/`, or None."""
    every = PERSONAS | REFUSING_PERSONAS
    return every.get(name) or every.get(PREFIX + name)


def persona_for(name: str, default: str | None) -> Persona | None:
    """Return the persona for a model name, or None.

    The default applies only to names without the prefix `sim/`; others are assumed to be typos.
    """
    return find_persona(name) or (None if name.startswith(PREFIX) else find_persona(default or ""))


def unknown_persona(name: str) -> str:
    """Return an error message for an unknown persona, with suggestions."""
    wanted = name if name.startswith(PREFIX) else PREFIX + name
    return unknown_name_message("persona", wanted, PERSONAS | REFUSING_PERSONAS)


def required_preset(persona: Persona) -> str | None:
    """Return the preset that repairs a persona's fault, if one must be enabled, or None."""
    return persona.outcome.removeprefix(OPT_IN) if persona.outcome.startswith(OPT_IN) else None
