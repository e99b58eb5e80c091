"""Faults of streams, each with its cure."""

import copy

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.faults.stream_fault import FAMILY, STREAM_FAULTS, apply_stream_fault
from surecall.simulator.personas.persona import RETRIED
from surecall.simulator.stream_events import Event, events_of, frames_of
from surecall.simulator.transport_faults import STREAM_FAULT_MODULES, TRANSPORT_FAULTS
from surecall.testing import calls
from surecall.values.errors import Fault
from surecall.values.types import JSON
from tests.simulator.test_stream_events import EQUAL_TWINS, REPLIES, SEEDS, heard, understood
from tests.support.fault_samples import REPLIES as ANY_REPLY
from tests.support.fault_samples import meaning, read

# The faults of the catalogue that are made by cutting a reply into chunks.
IN_SCOPE = [9, 10, 11, 13, 14, *range(68, 81)]


def applied(fault_id: str) -> list[tuple[JSON, list[Event]]]:
    """Return the replies to which a fault applies, with the streams it makes of them."""
    found = []
    for clean in REPLIES:
        for seed in SEEDS:
            events = events_of(clean, usage=seed % 2 == 0, seed=seed)
            faulty = apply_stream_fault(fault_id, events, seed)
            if faulty != events:
                found.append((clean, faulty))
    return found


def ids_with(outcome: str) -> list[str]:
    return [fault.id for fault in STREAM_FAULTS.values() if fault.outcome == outcome]


def test_every_fault_is_declared_with_its_sources_and_its_outcome() -> None:
    for fault in STREAM_FAULTS.values():
        assert (fault.family, bool(fault.summary)) == (FAMILY, True)
        assert fault.sources
        assert any(hasattr(module, fault.id) for module in STREAM_FAULT_MODULES)
        sent = TRANSPORT_FAULTS[f"stream-{fault.id.replace('_', '-')}"]
        assert (sent.stream_fault, sent.outcome, sent.sources) == (
            fault.id,
            fault.outcome,
            fault.sources,
        )
    assert sorted(ids_with("cured") + ids_with(RETRIED)) == sorted(STREAM_FAULTS)


def test_every_source_about_chunks_has_a_fault() -> None:
    covered = {source for fault in STREAM_FAULTS.values() for source in fault.sources}
    assert {f"D{number:02}" for number in IN_SCOPE} <= covered
    # Of these the simulator knows whole replies: too long, refused, in a text dialect.
    assert {"D12", "D47"} <= {source for fault in SHAPE_FAULTS.values() for source in fault.sources}


@pytest.mark.slow
@pytest.mark.parametrize("fault_id", ids_with("cured"))
def test_a_cured_fault_reads_like_the_plain_reply(fault_id: str) -> None:
    cases = applied(fault_id)

    assert cases
    for clean, faulty in cases:
        assert understood(faulty) == meaning(read(clean))


@given(ANY_REPLY, st.sampled_from(ids_with("cured")), st.integers(0, 100))
def test_any_reply_survives_any_fault_that_is_cured(clean: JSON, fault_id: str, seed: int) -> None:
    called = clean["choices"][0]["message"].get("tool_calls", [])
    functions = [call["function"] for call in called]
    # The same call twice is a repetition to most readers; there are sentences about that above.
    assume(all(function not in functions[:at] for at, function in enumerate(functions)))
    events = apply_stream_fault(fault_id, events_of(clean, seed=seed), seed)

    assert understood(events) == meaning(read(clean))


@pytest.mark.parametrize("fault_id", ids_with(RETRIED))
def test_a_fault_that_is_retried_leaves_nothing_that_could_run(fault_id: str) -> None:
    cases = applied(fault_id)

    assert len(cases) == len(REPLIES) * len(SEEDS)
    for _, faulty in cases:
        outcome = heard(frames_of(faulty))
        fault = outcome if isinstance(outcome, Fault) else read(outcome)
        assert isinstance(fault, Fault)
        assert fault.retryable


@pytest.mark.parametrize("fault_id", STREAM_FAULTS)
def test_a_fault_changes_no_event_in_place_and_always_changes_alike(fault_id: str) -> None:
    for clean in REPLIES:
        events = events_of(clean)
        before = copy.deepcopy(events)
        assert apply_stream_fault(fault_id, events, 1) == apply_stream_fault(fault_id, events, 1)
        assert events == before


def test_faults_of_several_calls_leave_a_single_one_as_it_is() -> None:
    single, equal = events_of(calls("add", a=1, b=2)), events_of(EQUAL_TWINS)

    assert apply_stream_fault("id_of_the_first_alone", single) == single
    assert apply_stream_fault("legacy_deltas", equal) == equal
    assert apply_stream_fault("index_and_id_missing", equal) == equal
    assert apply_stream_fault("name_split", events_of(calls("f"))) == events_of(calls("f"))


def test_a_signature_that_a_call_has_already_is_the_one_that_comes_late() -> None:
    body = calls("ping")
    signed = {"google": {"thought_signature": "s"}}
    body["choices"][0]["message"]["tool_calls"][0]["extra_content"] = signed
    outcome = heard(frames_of(apply_stream_fault("signature_late", events_of(body))))

    assert isinstance(outcome, dict)
    assert outcome["choices"][0]["message"]["tool_calls"][0]["extra_content"] == signed
