"""The simulator's streams over real HTTP: their form, every persona in a run, and hard ends."""

import asyncio
import contextlib
import http.client
import json
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from scripts.soak import ASKED, GET, PATCH, QUICK, Trial, config_for
from surecall import (
    Limits,
    OpenAICompatible,
    RunFailed,
    ToolDefinition,
    ToolLoopRunner,
    ToolRegistry,
)
from surecall.simulator.personas.persona import RETRIED, Persona
from surecall.simulator.personas.persona_catalog import PERSONAS, REPAIRABLE, required_preset
from surecall.simulator.server import Simulator
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON
from tests.support.replies import assembled, events_of
from tests.support.scripted_runs import GivesUp
from tests.support.simulator import IDLE, PROVOKED, TEACHERS, client_for
from tests.support.timing import PATIENCE_S, until_soon

HELLO: JSON = {"role": "user", "content": "Hello!"}
PATH = "/v1/chat/completions"
ROOM = 256 * 1024
# Faults of empty arguments, or of several calls in a reply, which these runs do not have.
NEVER_MET = IDLE | {"sim/stream-id-of-the-first-alone", "sim/stream-arguments-interleaved"}
# These need a deadline or a limit that suits them, and have tests of their own.
HOSTILE = {fault.id for fault in TRANSPORT_FAULTS.values() if fault.repeated_block} | {
    "stream-drip"
}


@contextlib.contextmanager
def asked(
    simulator: Simulator, model: str, silence_s: float = PATIENCE_S, **options: Any
) -> Iterator[http.client.HTTPResponse]:
    """Ask for a stream, and look at the answer as it comes."""
    where = urlsplit(simulator.url)
    line = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE_S)
    body = {"model": f"sim/{model}", "messages": [HELLO], "stream": True} | options
    with contextlib.closing(line):
        line.request("POST", PATH, json.dumps(body))
        answer = line.getresponse()
        if line.sock is not None:  # the body is still to come
            line.sock.settimeout(silence_s)
        yield answer


def heard(simulator: Simulator, model: str, **options: Any) -> JSON | Fault:
    """Ask for a stream and read it to its end."""
    with asked(simulator, model, **options) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        return assembled(events_of([answer.read()]))[0]


def plain(simulator: Simulator, model: str) -> JSON:
    with asked(simulator, model, stream=False) as answer:
        body: JSON = json.loads(answer.read())
        return body


# Their form


def test_the_streamed_reply_is_the_plain_one(simulator: Simulator) -> None:
    usage = {"include_usage": True}
    streamed = heard(simulator, "clean", stream_options=usage)
    assert streamed == plain(simulator, "clean")
    without = heard(simulator, "clean")
    assert isinstance(without, dict)
    assert without.keys() == {*plain(simulator, "clean")} - {"usage"}


def test_two_servers_with_one_seed_send_the_same_bytes() -> None:
    with Simulator(seed=3) as first, Simulator(seed=3) as second, Simulator(seed=4) as third:
        streams = []
        for server in (first, second, third):
            with asked(server, "stream-comments") as answer:
                streams.append(answer.read())
    assert streams[0] == streams[1] != streams[2]


@pytest.mark.parametrize(
    ("model", "status", "says"),
    [
        ("http-503", 503, "overloaded"),
        ("http-401", 401, "API key"),
        ("error_out_of_credit", 200, "credits"),
        ("wrapped_in_data", 200, "choices"),
        ("html-502", 502, "Bad Gateway"),
    ],
)
def test_what_goes_wrong_before_a_stream_begins_is_told_plainly(
    simulator: Simulator, model: str, status: int, says: str
) -> None:
    with asked(simulator, model) as answer:
        assert (answer.status, says in answer.read().decode()) == (status, True)
        assert "event-stream" not in answer.headers["Content-Type"]


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"stream": False, "stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"usage": True}}, "stream_options.usage"),
    ],
)
def test_options_that_openai_refuses_are_refused_and_noted(
    simulator: Simulator, options: JSON, where: str
) -> None:
    simulator.violations.clear()
    with asked(simulator, "clean", **options) as answer:
        body = json.loads(answer.read())
    (seen,) = simulator.violations
    simulator.violations.clear()

    assert (answer.status, body["error"]["param"], seen.where) == (400, where, where)
    assert body["error"]["message"] == seen.message


def test_a_fault_of_streams_concerns_no_plain_request() -> None:
    with Simulator() as simulator:
        assert "choices" in plain(simulator, "stream-cut-in-arguments")
        assert not +simulator.faults
        assert isinstance(heard(simulator, "stream-cut-in-arguments"), Fault)
        # A retry is spared, as everywhere.
        assert isinstance(heard(simulator, "stream-cut-in-arguments"), dict)
        assert +simulator.faults == Counter({"stream-cut-in-arguments": 1})


# Whole runs


async def held(client: OpenAICompatible, persona: Persona, *, name: str = "ws") -> Trial:
    """Hold one conversation, streamed."""
    ran: list[tuple[str, JSON]] = []

    def tool(name: str, parameters: JSON) -> ToolDefinition:
        async def handler(**arguments: object) -> JSON:
            ran.append((name, arguments))
            return {"applied": 1}

        return ToolDefinition(name, "Read or change.", parameters=parameters, handler=handler)

    runner = ToolLoopRunner(
        client=client,
        model=persona.id,
        registry=ToolRegistry([tool("state_get", GET), tool("state_patch", PATCH)]),
        config=config_for(persona).replace(**PROVOKED.get(persona.id, {})),
        retry=QUICK,
    )
    stream = runner.stream(ASKED.format(name))
    try:
        async for _ in stream:
            pass
    except RunFailed as failure:
        return Trial(name, ran, failure.result, failure.code)
    return Trial(name, ran, stream.result)


def alone() -> list[Persona]:
    """Return the personas with one fault or none that these runs can meet."""
    return [
        persona
        for persona in PERSONAS.values()
        if persona.kind not in {"mixed", "shown", "manner", "native", "quote"}
        and not HOSTILE.intersection(fault for fault, _ in persona.faults)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("persona", alone(), ids=lambda persona: persona.id)
def test_a_streamed_persona_ends_as_documented(simulator: Simulator, persona: Persona) -> None:
    simulator.violations.clear()
    before = len(simulator.requests)
    one = asyncio.run(held(client_for(simulator, persona), persona))

    if persona.outcome in {"repaired", RETRIED, *REPAIRABLE} or required_preset(persona):
        assert (one.code, one.ran, one.result.assistant_text) == ("", one.meant, "Done.")
    else:
        assert (one.code, one.ran) == (persona.outcome, [])
    met = all(simulator.faults[fault] for fault, _ in persona.faults)
    assert met == (persona.id not in NEVER_MET)
    assert (len(simulator.violations) == 1) == (persona.id in TEACHERS)
    asked_for = list(simulator.requests)[before:]
    assert all(request["stream"] for request in asked_for)
    if persona.outcome == "repaired" and persona.id not in TEACHERS:
        assert len(asked_for) == 3
    if persona.outcome == RETRIED and persona.kind in {"stream", "transport"}:
        assert len(asked_for) > 3


# Hostile ends


@pytest.mark.parametrize(
    "model",
    [
        fault.id
        for fault in TRANSPORT_FAULTS.values()
        if fault.outcome == ErrorCode.RESPONSE_TOO_LARGE
    ],
)
def test_a_stream_without_end_is_refused_at_the_limit(simulator: Simulator, model: str) -> None:
    client = OpenAICompatible(simulator.url, limits=Limits(max_response_bytes=ROOM))
    one = asyncio.run(held(client, PERSONAS[f"sim/{model}"]))

    assert (one.code, one.ran) == (ErrorCode.RESPONSE_TOO_LARGE, [])


@pytest.mark.parametrize("model", ["stream-keep-alive", "stream-drip"])
def test_a_stream_that_is_never_quite_silent_and_was_given_up_is_retried(
    simulator: Simulator, model: str
) -> None:
    one = asyncio.run(held(GivesUp(simulator, model), PERSONAS[f"sim/{model}"]))

    assert (one.code, one.ran) == ("", one.meant)
    assert simulator.faults[model] == 3


@pytest.mark.parametrize(
    ("model", "error", "silence_s"),
    [
        ("stream-cut", http.client.IncompleteRead, PATIENCE_S),
        ("stream-reset", (ConnectionResetError, http.client.IncompleteRead), PATIENCE_S),
        ("stream-silent", TimeoutError, 0.3),
    ],
)
def test_a_stream_breaks_off_in_the_middle(
    simulator: Simulator, model: str, error: type[Exception], silence_s: float
) -> None:
    with asked(simulator, model, silence_s=silence_s) as answer, pytest.raises(error):
        answer.read()


def test_an_endless_stream_has_an_end_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = TRANSPORT_FAULTS["stream-endless"]
    short = msgspec.structs.replace(endless, repeated_block=": x\n\n", max_bytes=600)
    monkeypatch.setitem(TRANSPORT_FAULTS, "stream-endless", short)
    cut = pytest.raises(http.client.IncompleteRead)
    with Simulator() as simulator, asked(simulator, "stream-endless") as answer, cut as error:
        answer.read()
    assert 600 <= len(error.value.partial) < 700


# Whoever leaves


async def left(simulator: Simulator, model: str) -> None:
    """Begin to read a stream, and leave."""
    where = urlsplit(simulator.url)
    body = json.dumps({"model": f"sim/{model}", "messages": [HELLO], "stream": True}).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        writer.write(head.encode() + body)
        await reader.read(64)
    finally:
        writer.transport.abort()


async def left_waiting(simulator: Simulator, model: str) -> None:
    """Ask whoever never answers, and leave."""
    leaving = asyncio.create_task(left(simulator, model))
    await until_soon(lambda: simulator.requests)
    leaving.cancel()
    await asyncio.wait([leaving])


@pytest.mark.parametrize(
    "model", ["stream-endless", "stream-keep-alive", "stream-drip", "stream-silent", "silent"]
)
def test_a_client_that_leaves_ends_the_work_for_it(model: str) -> None:
    async def scenario() -> None:
        async with Simulator() as simulator:
            tasks = len(asyncio.all_tasks())
            await (left_waiting if model == "silent" else left)(simulator, model)
            await until_soon(lambda: len(asyncio.all_tasks()) <= tasks)

    asyncio.run(scenario())


@pytest.mark.parametrize("model", ["stream-endless", "stream-keep-alive", "stream-silent"])
def test_leaving_the_block_ends_a_stream(model: str) -> None:
    with Simulator() as simulator:
        where = urlsplit(simulator.url)
        line = socket.create_connection((where.hostname or "", where.port or 0), PATIENCE_S)
        body = json.dumps({"model": f"sim/{model}", "messages": [HELLO], "stream": True}).encode()
        head = (
            f"POST {PATH} HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        line.sendall(head.encode() + body)
        assert line.recv(64)
    with contextlib.closing(line), contextlib.suppress(ConnectionResetError):
        while line.recv(1 << 20):
            pass
