"""Personas with several faults at once."""

from surecall.settings.catalog import ModelCatalog
from surecall.simulator.personas.behaviours import CONVERSATION_BEHAVIOURS
from surecall.simulator.personas.mixed import LIKENESSES, SHOWN
from surecall.simulator.personas.persona import outcome_of


def test_those_shown_first_are_named_by_what_they_do_and_not_by_a_maker() -> None:
    makers = {entry.provider for entry in ModelCatalog.builtin().models}

    for persona in SHOWN:
        words = set(persona.id.removeprefix("sim/").split("-"))
        assert len(words) > 1
        assert not words & makers
        assert not persona.imitates
        assert persona.faults
        assert all(outcome_of(fault) for fault, _ in persona.faults)
    assert len({persona.summary for persona in SHOWN}) == len(SHOWN)


def test_likenesses_say_that_they_are_simulations() -> None:
    assert len(LIKENESSES) >= 12
    assert all("simulation" in persona.summary and persona.faults for persona in LIKENESSES)


def test_every_mix_leaves_room_for_clean_replies() -> None:
    for persona in (*SHOWN, *LIKENESSES):
        # Manners are drawn for themselves; all other faults share one draw.
        shared = (rate for fault, rate in persona.faults if fault not in CONVERSATION_BEHAVIOURS)
        assert sum(shared) < 1
