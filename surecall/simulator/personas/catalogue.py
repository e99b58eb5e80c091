"""The catalogue of personas: one clean, one for each fault, behaviour and provider, and mixes.

sim/clean              no fault
sim/<fault>            one fault of shape, wherever it applies
sim/strict-<provider>  no fault, but a provider's own rules for requests
sim/<transport fault>  trouble on the way: limits, errors, resets, silence
sim/<behaviour>        well-formed replies that do not do what the instructions ask; some of them
                       again with the rules of a provider, as sim/<behaviour>-<provider>
sim/<habit>            what a model does in some of its conversations: those that people meet first
sim/quotes-<way>       no fault, but it quotes a call that somebody wrote into a tool's result
sim/like-<family>      a mix that imitates a family of models; a simulation, not the model
"""

from typing import Final

from surecall.settings.provider_sources import KNOWN
from surecall.simulator.faults import SHAPE_FAULTS, ShapeFault
from surecall.simulator.personas.behaviours import CONVERSATION_BEHAVIOURS
from surecall.simulator.personas.mixed import CHAT_ONLY, LIKENESSES, PREFIX, SHOWN
from surecall.simulator.personas.persona import OPT_IN, REPLY_BEHAVIOURS, Persona
from surecall.simulator.personas.quotes import WAYS
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.values.family import unknown

_ROUTED: Final = frozenset({"common", "kimi", "no-format", "no-parallel", "no-required", "sealed"})
_STRICT_MODELS: Final = {"kimi": "moonshotai/kimi-k2.5"}


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


def _catalogue() -> dict[str, Persona]:
    everyone = [
        _clean(),
        *map(_misshapen, SHAPE_FAULTS.values()),
        *map(_strict, PROVIDER_RULES),
        *map(_disturbed, TRANSPORT_FAULTS),
        *map(_misbehaving, REPLY_BEHAVIOURS),
        *map(_conducted, CONVERSATION_BEHAVIOURS),
        *(_conducted(name, rules) for name, rules in _UNDER_RULES),
        *SHOWN,
        *LIKENESSES,
        CHAT_ONLY,
    ]
    return {persona.id: persona for persona in everyone}


PERSONAS: Final[dict[str, Persona]] = _catalogue()


# Who answers for a model of any other name, where somebody tries things out: it calls tools, and
# half of its replies need a repair.
DEFAULT_PERSONA: Final = f"{PREFIX}bends-arguments"


def find(name: str) -> Persona | None:
    """Return a persona by its name, with or without the `sim/` in front."""
    return PERSONAS.get(name) or PERSONAS.get(PREFIX + name)


def persona_for(name: str, default: str | None) -> Persona | None:
    """Return the persona for a model; the default is for names without the `sim/` in front.

    With it, a name that is unknown is a typo.
    """
    return find(name) or (None if name.startswith(PREFIX) else find(default or ""))


def no_persona(name: str) -> str:
    """Say that there is no such persona, and which ones may have been meant."""
    wanted = name if name.startswith(PREFIX) else PREFIX + name
    return unknown("persona", wanted, PERSONAS)


def preset_wanted(persona: Persona) -> str | None:
    """Return the preset that a client must opt into to get a persona right."""
    return persona.outcome.removeprefix(OPT_IN) if persona.outcome.startswith(OPT_IN) else None
