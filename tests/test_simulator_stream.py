"""Streams of the simulator: they say what the plain form says, and every fault has its cure."""

import copy
import json
import zlib
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scripts.soak import GET, PATCH
from surecall import ToolDefinition, ToolRegistry
from surecall.envelope import fault_of
from surecall.errors import ErrorCode, Fault
from surecall.pipeline import inbound
from surecall.simulator.chunking import FAMILY, STREAM_FAULTS, bend_stream
from surecall.simulator.faults import DRIFTS
from surecall.simulator.persona import RETRIED, say
from surecall.simulator.personas import PERSONAS, preset_wanted
from surecall.simulator.scenes import SCENES, STREAM_FAULT_MODULES, Scene
from surecall.simulator.staging import PLAIN, staged_body, staged_stream
from surecall.simulator.streaming import (
    DONE,
    LONGEST_PIECE,
    MOST_PIECES,
    Event,
    events_of,
    frames_of,
    is_streamable,
    pieces,
    stream_rules,
    wants_usage,
    without_streaming,
)
from surecall.stream import Assembler
from surecall.testing import calls, calls_many, says
from surecall.types import JSON, Plan, User
from surecall.wire import render_tool
from tests.drifts import DEFAULT, REGISTRY, SAMPLES, bent, meaning, read
from tests.drifts import REPLIES as ANY_REPLY
from tests.streams import events_of as decoded

NAMES = [definition.name for definition in REGISTRY.definitions]
TWINS = calls_many(calls("add", a=1, b=2), calls("add", a=3, b=4))
EQUAL_TWINS = calls_many(calls("add", a=1, b=2), calls("add", a=1, b=2))
REPLIES = (*SAMPLES, TWINS)
SEEDS = range(6)
# What a request in the catalogue of drifts may hit while it is streamed.
IN_SCOPE = [9, 10, 11, 13, 14, *range(68, 81)]


def heard(frames: list[bytes], names: list[str] = NAMES) -> JSON | Fault:
    """Listen to a stream as a client would."""
    assembler = Assembler(
        names, DEFAULT.max_tool_args_bytes, lambda error: fault_of(error, None, {}, 0.0)
    )
    for event in decoded(frames):
        assembler.add(event.data, event.event)
    return assembler.finish()


def understood(events: list[Event]) -> Any:
    outcome = heard(frames_of(events))
    return meaning(outcome if isinstance(outcome, Fault) else read(outcome))


def deltas_of(events: list[Event]) -> list[JSON]:
    chunks = [event for event in events if isinstance(event, dict)]
    return [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]


# The form


def test_an_answer_is_streamed_as_openai_does_it() -> None:
    first, *others, last, done = events_of(says("It is three, as I said."))

    assert isinstance(first, dict)
    assert first == {
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "scripted",
        "choices": [
            {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        ],
    }
    said = [delta["content"] for delta in deltas_of(others)]
    assert (len(said) > 1, "".join(said)) == (True, "It is three, as I said.")
    assert isinstance(last, dict)
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert done == DONE


def test_a_call_is_announced_with_its_id_and_name_and_then_comes_in_pieces() -> None:
    role, opening, *others, _ = deltas_of(events_of(calls("add", a=1, b=2, label="x")))

    assert role == {"role": "assistant", "content": None}
    function = {"name": "add", "arguments": ""}
    first = {"index": 0, "id": "call_1", "type": "function", "function": function}
    assert opening == {"tool_calls": [first]}
    fragments = [delta["tool_calls"][0] for delta in others]
    assert all(fragment.keys() == {"index", "function"} for fragment in fragments)
    arguments = "".join(fragment["function"]["arguments"] for fragment in fragments)
    assert json.loads(arguments) == {"a": 1, "b": 2, "label": "x"}


def test_the_usage_comes_last_without_a_choice_and_only_when_it_was_asked_for() -> None:
    *chunks, last, done = events_of(says("3"), usage=True)

    assert isinstance(last, dict)
    assert (last["choices"], last["usage"]["total_tokens"], done) == ([], 2, DONE)
    assert all(isinstance(chunk, dict) and chunk["usage"] is None for chunk in chunks)
    assert all("usage" not in event for event in events_of(says("3")))


@pytest.mark.parametrize("seed", SEEDS)
def test_pieces_are_short_many_at_most_and_the_first_is_the_longest(seed: int) -> None:
    for text in ("", "x", "x" * 12, "make \\\n all", "ab" * 50_000):
        cut = pieces(text, seed)
        assert "".join(cut) == text
        assert max(map(len, cut)) == len(cut[0])
        assert len(cut[0]) <= max(LONGEST_PIECE, len(text) // MOST_PIECES + 1)
        assert len(cut) <= 3 * MOST_PIECES
    assert pieces("It is three, as I said.", 0) != pieces("It is three, as I said.", 1)


def test_reasoning_grows_and_its_signature_comes_after_it() -> None:
    thought = {"type": "reasoning.text", "index": 0, "text": "Let me see, said the blind man."}
    secret = {"type": "reasoning.encrypted", "index": 1, "data": "ZW5j"}
    details = [thought | {"signature": "c2ln"}, secret, thought | {"index": 2}]
    body = says("3", reasoning="Let me see.", reasoning_details=details, audio=None)
    outcome = heard(frames_of(events_of(body)))

    assert not isinstance(outcome, Fault)
    message = outcome["choices"][0]["message"]
    assert message["reasoning"] == "Let me see."
    assert message["reasoning_details"] == details


@pytest.mark.parametrize(
    "choice",
    [
        {"finish_reason": "stop"},
        {"index": 0, "message": None, "finish_reason": "stop"},
        {"message": {"content": "3", "function_call": None, "tool_calls": {"name": "add"}}},
    ],
)
def test_a_choice_that_lacks_this_or_that_is_streamed_as_it_is(choice: JSON) -> None:
    *_, last, done = events_of({"choices": [choice]})
    assert isinstance(last, dict)
    assert last["choices"][0]["finish_reason"] == choice.get("finish_reason")
    assert done == DONE


def test_errors_and_foreign_envelopes_are_not_streamed() -> None:
    assert not any(map(is_streamable, ({}, [], {"error": {}}, {"data": {"choices": []}}, "x")))
    assert is_streamable({"choices": None})


# What a request may ask for


@pytest.mark.parametrize(
    ("request_", "rules"),
    [
        ({}, []),
        ({"stream": None}, []),
        ({"stream": False, "stream_options": None}, []),
        ({"stream": True, "stream_options": {"include_usage": True}}, []),
        ({"stream": True, "stream_options": {"include_obfuscation": False}}, []),
        ({"stream": "yes"}, ["stream_type"]),
        ({"stream_options": {}}, ["stream_options_alone"]),
        ({"stream": False, "stream_options": {"include_usage": True}}, ["stream_options_alone"]),
        ({"stream": True, "stream_options": []}, ["stream_type"]),
        ({"stream": True, "stream_options": {"include_usage": 1}}, ["stream_type"]),
        ({"stream": True, "stream_options": {"usage": True}}, ["stream_option_unknown"]),
        (
            {"stream": 1, "stream_options": "x"},
            ["stream_type", "stream_options_alone", "stream_type"],
        ),
    ],
)
def test_the_options_of_a_stream_are_checked_as_openai_does(
    request_: JSON, rules: list[str]
) -> None:
    found = [violation.rule for violation in stream_rules(request_)]
    assert found == rules


def test_a_wrong_type_is_named() -> None:
    (violation,) = stream_rules({"stream": "yes"})
    wanted = "Invalid type for 'stream': expected a boolean, but got a string instead."
    assert (violation.where, violation.message) == ("stream", wanted)


def test_a_streamed_request_is_otherwise_the_plain_one() -> None:
    plain = {"model": "m", "messages": []}
    streamed = plain | {"stream": True, "stream_options": {"include_usage": True}}

    assert without_streaming(streamed) == plain
    assert wants_usage(streamed)
    assert not wants_usage(plain)
    assert not wants_usage({"stream_options": None})


# The law: streamed and plain forms read alike


@pytest.mark.parametrize("drift_id", ["", *DRIFTS])
def test_a_bent_reply_reads_the_same_when_it_is_streamed(drift_id: str) -> None:
    for clean in REPLIES:
        for seed in SEEDS if drift_id != "arguments_runaway" else (0,):
            body = bent(drift_id, clean, seed) if drift_id else clean
            if is_streamable(body):
                assert understood(events_of(body, seed=seed)) == meaning(read(body))


def test_two_calls_that_are_equal_to_the_id_are_read_once_when_they_are_streamed() -> None:
    """Nobody can tell them from a call that is sent again; what runs once may be asked for."""
    body = bent("id_repeated", EQUAL_TWINS)
    once = meaning(read(calls("add", a=1, b=2)))

    assert understood(events_of(body)) == once != meaning(read(body))
    assert understood(events_of(EQUAL_TWINS)) == meaning(read(EQUAL_TWINS))


ASKED: JSON = {"role": "user", "content": "Please set the draft. workspace_id=ws_7 retries=3"}
STATE = ToolRegistry(
    [
        ToolDefinition("state_get", "Read.", parameters=GET, handler=None),
        ToolDefinition("state_patch", "Change.", parameters=PATCH, handler=None),
    ]
)
TOOLS = [render_tool(definition.spec) for definition in STATE.definitions]
CALLED = {"id": "a", "type": "function", "function": {"name": "state_get", "arguments": "{}"}}
TURN: JSON = {"role": "assistant", "content": None, "tool_calls": [CALLED]}
RESULT: JSON = {"role": "tool", "tool_call_id": "a", "content": '{"ok":true}'}
REQUESTS: tuple[JSON, ...] = (
    {"messages": [ASKED], "tools": TOOLS},
    {"messages": [ASKED, TURN, RESULT], "tools": TOOLS},
    {"messages": [{"role": "user", "content": "Hello!"}]},
)


@pytest.mark.parametrize("persona", PERSONAS)
def test_every_persona_says_the_same_in_both_forms(persona: str) -> None:
    plan = Plan("m", (User("go"),))
    for request in REQUESTS:
        for seed in range(3):
            body = say(PERSONAS[persona], {"model": persona, **request}, seed).body
            if not is_streamable(body):
                continue
            outcome = heard(frames_of(events_of(body, seed=seed)), ["state_get", "state_patch"])
            plain = meaning(inbound(body, plan, DEFAULT, STATE))
            if isinstance(outcome, Fault):
                assert outcome.code == plain
            else:
                assert meaning(inbound(outcome, plan, DEFAULT, STATE)) == plain


# The faults


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
