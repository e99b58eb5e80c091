"""Faults of streams, each with its cure; and how scenes put streams on the wire."""

import copy
import zlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from surecall.simulator.answer_bytes import PLAIN, staged_body, staged_stream
from surecall.simulator.faults import DRIFTS
from surecall.simulator.faults.stream_fault import FAMILY, STREAM_FAULTS, bend_stream
from surecall.simulator.personas.catalogue import PERSONAS, preset_wanted
from surecall.simulator.personas.persona import RETRIED
from surecall.simulator.stream_events import Event, events_of, frames_of
from surecall.simulator.transport_faults import SCENES, STREAM_FAULT_MODULES, Scene
from surecall.testing import calls, says
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON
from tests.simulator.test_stream_events import EQUAL_TWINS, REPLIES, SEEDS, heard, understood
from tests.support.drifts import REPLIES as ANY_REPLY
from tests.support.drifts import meaning, read

# The drifts of the catalogue that are made by cutting a reply into chunks.
IN_SCOPE = [9, 10, 11, 13, 14, *range(68, 81)]


def played(fault_id: str) -> list[tuple[JSON, list[Event]]]:
    """Return the replies to which a fault applies, with the streams it makes of them."""
    found = []
    for clean in REPLIES:
        for seed in SEEDS:
            events = events_of(clean, usage=seed % 2 == 0, seed=seed)
            crooked = bend_stream(fault_id, events, seed)
            if crooked != events:
                found.append((clean, crooked))
    return found


def ids_with(outcome: str) -> list[str]:
    return [fault.id for fault in STREAM_FAULTS.values() if fault.outcome == outcome]


def test_every_fault_is_declared_with_its_sources_and_its_outcome() -> None:
    for fault in STREAM_FAULTS.values():
        assert (fault.family, bool(fault.summary)) == (FAMILY, True)
        assert fault.sources
        assert any(hasattr(module, fault.id) for module in STREAM_FAULT_MODULES)
        scene = SCENES[f"stream-{fault.id.replace('_', '-')}"]
        assert (scene.chunking, scene.outcome, scene.sources) == (
            fault.id,
            fault.outcome,
            fault.sources,
        )
    assert sorted(ids_with("cured") + ids_with(RETRIED)) == sorted(STREAM_FAULTS)


def test_every_drift_of_chunking_has_a_fault() -> None:
    covered = {source for fault in STREAM_FAULTS.values() for source in fault.sources}
    assert {f"D{number:02}" for number in IN_SCOPE} <= covered
    # Of these the simulator knows whole replies: too long, refused, in a text dialect.
    assert {"D12", "D47"} <= {source for drift in DRIFTS.values() for source in drift.sources}


@pytest.mark.parametrize("fault_id", ids_with("cured"))
def test_a_cured_fault_reads_like_the_plain_reply(fault_id: str) -> None:
    cases = played(fault_id)

    assert cases
    for clean, crooked in cases:
        assert understood(crooked) == meaning(read(clean))


@given(ANY_REPLY, st.sampled_from(ids_with("cured")), st.integers(0, 100))
def test_any_reply_survives_any_fault_that_is_cured(clean: JSON, fault_id: str, seed: int) -> None:
    called = clean["choices"][0]["message"].get("tool_calls", [])
    functions = [call["function"] for call in called]
    # The same call twice is a repetition to most readers; there are sentences about that above.
    assume(all(function not in functions[:at] for at, function in enumerate(functions)))
    events = bend_stream(fault_id, events_of(clean, seed=seed), seed)

    assert understood(events) == meaning(read(clean))


@pytest.mark.parametrize("fault_id", ids_with(RETRIED))
def test_a_fault_that_is_retried_leaves_nothing_that_could_run(fault_id: str) -> None:
    cases = played(fault_id)

    assert len(cases) == len(REPLIES) * len(SEEDS)
    for _, crooked in cases:
        outcome = heard(frames_of(crooked))
        fault = outcome if isinstance(outcome, Fault) else read(outcome)
        assert isinstance(fault, Fault)
        assert fault.retryable


@pytest.mark.parametrize("fault_id", STREAM_FAULTS)
def test_a_fault_changes_no_event_in_place_and_always_bends_alike(fault_id: str) -> None:
    for clean in REPLIES:
        events = events_of(clean)
        before = copy.deepcopy(events)
        assert bend_stream(fault_id, events, 1) == bend_stream(fault_id, events, 1)
        assert events == before


def test_faults_of_several_calls_leave_a_single_one_as_it_is() -> None:
    single, equal = events_of(calls("add", a=1, b=2)), events_of(EQUAL_TWINS)

    assert bend_stream("id_of_the_first_alone", single) == single
    assert bend_stream("legacy_deltas", equal) == equal
    assert bend_stream("index_and_id_missing", equal) == equal
    assert bend_stream("name_split", events_of(calls("f"))) == events_of(calls("f"))


def test_a_signature_that_a_call_has_already_is_the_one_that_comes_late() -> None:
    body = calls("ping")
    signed = {"google": {"thought_signature": "s"}}
    body["choices"][0]["message"]["tool_calls"][0]["extra_content"] = signed
    outcome = heard(frames_of(bend_stream("signature_late", events_of(body))))

    assert isinstance(outcome, dict)
    assert outcome["choices"][0]["message"]["tool_calls"][0]["extra_content"] == signed


# Staging


def test_a_plain_answer_is_one_piece_of_known_length() -> None:
    show = staged_body(PLAIN, {"a": 1})
    assert (show.status, show.pieces, show.length) == (200, (b'{"a":1}',), 7)
    torn = staged_body(SCENES["drip"], {"a": "x" * 40})
    assert (max(map(len, torn.pieces)), len(torn.pieces)) == (16, 3)
    packed = staged_body(SCENES["gzip"], {"a": 1}, 400)
    assert (packed.status, zlib.decompress(packed.pieces[0], 31)) == (400, b'{"a":1}')
    html = staged_body(SCENES["html-502"], {"a": 1})
    assert (html.status, html.headers["Content-Type"][:9]) == (502, "text/html")


@pytest.mark.parametrize("clean", REPLIES)
def test_a_packed_stream_can_be_read_event_by_event(clean: JSON) -> None:
    show = staged_stream(SCENES["gzip"], clean, usage=True, seed=3)
    unpacker = zlib.decompressobj(31)
    frames = [unpacker.decompress(piece) for piece in show.pieces]

    assert frames[:-1] == frames_of(events_of(clean, usage=True, seed=3))
    assert (unpacker.eof, show.headers["Content-Encoding"]) == (True, "gzip")


def test_a_bomb_is_small_on_the_wire_and_never_stops_unpacking() -> None:
    scene = SCENES["stream-gzip-bomb"]
    show = staged_stream(scene, says("3"), usage=False, seed=0)
    unpacker = zlib.decompressobj(31)
    for piece in show.pieces:
        unpacker.decompress(piece)
    block = scene.forever.encode()

    assert all(unpacker.decompress(show.again) == block for _ in range(5))
    assert scene.at_most / len(show.again) * len(block) > 2**29


def test_what_is_repeated_follows_whole_events() -> None:
    for scene in SCENES.values():
        if scene.forever and not scene.gzip:
            show = staged_stream(scene, says("It is three."), usage=False, seed=0)
            assert show.pieces[-1].endswith(b"\n\n")
            assert show.again == scene.forever.encode()


def test_streams_are_cut_and_torn_where_a_scene_says() -> None:
    whole = b"".join(staged_stream(PLAIN, says("3"), usage=False, seed=0).pieces)
    cut = staged_stream(SCENES["stream-cut"], says("3"), usage=False, seed=0)
    torn = staged_stream(SCENES["stream-torn"], says("3"), usage=False, seed=0)

    assert cut.pieces == (whole[: int(len(whole) * 0.6)],)
    assert (b"".join(torn.pieces), max(map(len, torn.pieces))) == (whole, 7)
    unsaid = staged_stream(Scene(id="x", summary="", sends=0.0), says("3"), usage=False, seed=0)
    assert unsaid.pieces == ()


def test_every_scene_of_streams_has_an_outcome_that_means_something() -> None:
    for scene in SCENES.values():
        if scene.only_streams:
            assert scene.id.startswith("stream-")
            assert scene.outcome in {"cured", RETRIED, ErrorCode.RESPONSE_TOO_LARGE}
            assert preset_wanted(PERSONAS[f"sim/{scene.id}"]) is None
