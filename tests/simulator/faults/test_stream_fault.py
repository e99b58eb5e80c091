"""Faults of streams, each with its cure."""

import copy

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.faults.stream_fault import STREAM_FAMILY, STREAM_FAULTS, apply_stream_fault
from surecall.simulator.personas.persona import RETRIED
from surecall.simulator.stream_events import Event, build_events, encode_frames
from surecall.simulator.transport_faults import STREAM_FAULT_MODULES, TRANSPORT_FAULTS
from surecall.testing import calls
from surecall.values.errors import Fault
from surecall.values.types import JSON
from tests.support.replies import REPLIES, meaning, read
from tests.support.simulator import (
    EQUAL_TWINS,
    SEEDS,
    STREAMED_REPLIES,
    heard_stream,
    understood_stream,
)

# The faults of the catalogue that are made by cutting a reply into chunks.
IN_SCOPE = [9, 10, 11, 13, 14, *range(68, 81)]


def applied(fault_id: str) -> list[tuple[JSON, list[Event]]]:
    """Return the replies to which a fault applies, with the streams it makes of them."""
    found = []
    for clean in STREAMED_REPLIES:
        for seed in SEEDS:
            events = build_events(clean, usage=seed % 2 == 0, seed=seed)
            faulty = apply_stream_fault(fault_id, events, seed)
            if faulty != events:
                found.append((clean, faulty))
    return found


def ids_with(outcome: str) -> list[str]:
    return [fault.id for fault in STREAM_FAULTS.values() if fault.outcome == outcome]


def test_every_fault_is_declared_with_its_sources_and_its_outcome() -> None:
    for fault in STREAM_FAULTS.values():
        assert (fault.family, bool(fault.summary)) == (STREAM_FAMILY, True)
        assert fault.sources
        assert any(hasattr(module, fault.id) for module in STREAM_FAULT_MODULES)
        sent = TRANSPORT_FAULTS[f"stream-{fault.id.replace('_', '-')}"]
        assert (sent.stream_fault, sent.outcome, sent.sources) == (
            fault.id,
            fault.outcome,
            fault.sources,
        )
    assert sorted(ids_with("repaired") + ids_with(RETRIED)) == sorted(STREAM_FAULTS)


def test_usage_is_in_every_chunk_in_the_last_choice_or_under_another_name() -> None:
    events = build_events(STREAMED_REPLIES[0], usage=False)
    forms = set()
    for seed in range(30):
        sent = b"".join(encode_frames(apply_stream_fault("usage_elsewhere", events, seed)))
        in_choice = b'"x_groq"' not in sent and sent.count(b'"usage"') == 1
        forms.add("x_groq" if b'"x_groq"' in sent else "choice" if in_choice else "chunks")

    assert forms == {"x_groq", "choice", "chunks"}


def test_every_source_about_chunks_has_a_fault() -> None:
    covered = {source for fault in STREAM_FAULTS.values() for source in fault.sources}
    assert {f"D{number:02}" for number in IN_SCOPE} <= covered
    # Of these the simulator knows whole replies: too long, refused, in a text dialect.
    assert {"D12", "D47"} <= {source for fault in SHAPE_FAULTS.values() for source in fault.sources}


@pytest.mark.slow
@pytest.mark.parametrize("fault_id", ids_with("repaired"))
def test_a_cured_fault_reads_like_the_plain_reply(fault_id: str) -> None:
    cases = applied(fault_id)

    assert cases
    for clean, faulty in cases:
        assert understood_stream(faulty) == meaning(read(clean))


@given(REPLIES, st.sampled_from(ids_with("repaired")), st.integers(0, 100))
def test_any_reply_survives_any_fault_that_is_cured(clean: JSON, fault_id: str, seed: int) -> None:
    called = clean["choices"][0]["message"].get("tool_calls", [])
    functions = [call["function"] for call in called]
    # The same call twice is a repetition to most readers; there are sentences about that above.
    assume(all(function not in functions[:at] for at, function in enumerate(functions)))
    events = apply_stream_fault(fault_id, build_events(clean, seed=seed), seed)

    assert understood_stream(events) == meaning(read(clean))


@pytest.mark.parametrize("fault_id", ids_with(RETRIED))
def test_a_fault_that_is_retried_leaves_nothing_that_could_run(fault_id: str) -> None:
    cases = applied(fault_id)

    assert len(cases) == len(STREAMED_REPLIES) * len(SEEDS)
    for _, faulty in cases:
        outcome = heard_stream(encode_frames(faulty))
        fault = outcome if isinstance(outcome, Fault) else read(outcome)
        assert isinstance(fault, Fault)
        assert fault.retryable


@pytest.mark.parametrize("fault_id", STREAM_FAULTS)
def test_a_fault_changes_no_event_in_place_and_always_changes_alike(fault_id: str) -> None:
    for clean in STREAMED_REPLIES:
        events = build_events(clean)
        before = copy.deepcopy(events)
        assert apply_stream_fault(fault_id, events, 1) == apply_stream_fault(fault_id, events, 1)
        assert events == before


def test_faults_of_several_calls_leave_a_single_one_as_it_is() -> None:
    single, equal = build_events(calls("add", a=1, b=2)), build_events(EQUAL_TWINS)

    assert apply_stream_fault("id_of_the_first_alone", single) == single
    assert apply_stream_fault("legacy_deltas", equal) == equal
    assert apply_stream_fault("index_and_id_missing", equal) == equal
    assert apply_stream_fault("name_split", build_events(calls("f"))) == build_events(calls("f"))


def test_a_signature_that_a_call_has_already_is_the_one_that_comes_late() -> None:
    body = calls("ping")
    signed = {"google": {"thought_signature": "s"}}
    body["choices"][0]["message"]["tool_calls"][0]["extra_content"] = signed
    outcome = heard_stream(encode_frames(apply_stream_fault("signature_late", build_events(body))))

    assert isinstance(outcome, dict)
    assert outcome["choices"][0]["message"]["tool_calls"][0]["extra_content"] == signed
