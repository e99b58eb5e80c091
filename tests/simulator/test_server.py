"""The simulator over real HTTP: its doors, its strictness, and every persona against our runner."""

import asyncio
import contextlib
import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

import surecall.simulator
from scripts.soak import config_for, mixed, quoting, soak, trial
from surecall import (
    ConfigError,
    OpenAICompatible,
    ToolDefinition,
    ToolLoopRunner,
    ToolRegistry,
)
from surecall.runtime.loopback import is_loopback
from surecall.settings.presets import Strategy
from surecall.simulator.personas.catalogue import PERSONAS, preset_wanted
from surecall.simulator.personas.mixed import REPAIRABLE
from surecall.simulator.personas.persona import RETRIED, Persona
from surecall.simulator.server import Seen, Simulator, status_of
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.values.types import JSON
from tests.support.giving_up import PATIENT, GivesUp
from tests.support.patience import PATIENCE_S, until

ASKED: JSON = {"role": "user", "content": "Hello!"}
# What falls silent, or never comes to an end, without being so long that it is refused.
ENDLESS = {
    fault.id for fault in TRANSPORT_FAULTS.values() if fault.ending == "hang" or fault.pause_s
}
# What a run must ask for before there is anything to refuse; presets alone must do the rest.
PROVOKED: dict[str, JSON] = {"sim/strict-no-required": {"tool_choice": "required"}}
# Faults of empty arguments, which the state tools never have; they have a test of their own.
BLANK = {"sim/arguments_blank", "sim/arguments_null"}
# These runs ask for no form of replies either.
# These need a closed list, a closed schema, no parameters, or a text that is a number.
PICKY = {"sim/choices_escaped", "sim/choices_quoted", "sim/arguments_nothing"}
PICKY |= {"sim/texts_as_numbers", "sim/arguments_of_a_call"}
IDLE = BLANK | PICKY | {"sim/formless"}
# Endpoints that refuse an option are asked once with it, and then never again.
TEACHERS = {"sim/strict-no-parallel", "sim/strict-no-required"}


def fetch(url: str, body: Any = None, method: str = "GET") -> tuple[int, Any]:
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    where = urlsplit(url)
    line = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE_S)
    with contextlib.closing(line):
        line.request(method if data is None else "POST", where.path, data)
        answer = line.getresponse()
        return answer.status, json.loads(answer.read())


def ask(simulator: Simulator, **body: Any) -> tuple[int, Any]:
    return fetch(f"{simulator.url}/v1/chat/completions", {"messages": [ASKED]} | body)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"choices": []}, 200),
        ({"error": {"code": "tool_use_failed"}}, 400),
        ({"error": {"code": 404}}, 404),
        ({"error": {"code": 503}}, 200),
    ],
)
def test_an_error_has_the_status_that_its_provider_gives_it(body: JSON, status: int) -> None:
    assert status_of(body) == status


def test_health_and_models_answer(simulator: Simulator) -> None:
    status, health = fetch(f"{simulator.url}/health")
    assert (status, health["status"], health["seed"]) == (200, "ok", 11)
    _, listed = fetch(f"{simulator.url}/v1/models")
    assert [model["id"] for model in listed["data"]] == list(PERSONAS)


def test_a_violation_is_refused_in_the_providers_words_and_can_be_listed_and_forgotten() -> None:
    turn = {"role": "assistant", "content": "Hi.", "tool_calls": []}
    with Simulator() as simulator:
        status, body = ask(simulator, model="sim/strict-mistral", messages=[ASKED, turn])
        _, listed = fetch(f"{simulator.url}/violations")
        _, deleted = fetch(f"{simulator.url}/violations", method="DELETE")

    assert (status, body["object"]) == (400, "error")
    (seen,) = listed["violations"]
    assert (seen["persona"], seen["rule"], seen["request"]) == (
        "sim/strict-mistral",
        "calls_empty",
        1,
    )
    assert seen["message"] == body["message"]
    assert (deleted, list(simulator.violations)) == ({"deleted": 1}, [])


def test_violations_are_told_at_once_and_old_memories_are_dropped() -> None:
    told: list[Seen] = []
    with Simulator(report=told.append) as simulator:
        simulator._spared.update(dict.fromkeys(map(str, range(10_000))))
        assert ask(simulator, model="sim/choices_missing")[1].get("choices") in (None, [])
        assert ask(simulator, model="sim/clean", messages=[])[0] == 400
    assert [seen.rule for seen in told] == ["messages_empty"]
    assert len(simulator._spared) == 10_000


def test_an_unknown_model_is_a_404_with_a_suggestion_unless_there_is_a_default() -> None:
    with Simulator(default="clean") as friendly, Simulator() as plain:
        assert ask(friendly, model="gpt-9")[0] == 200
        refused = [ask(plain, model="gpt-9"), ask(plain, model="sim/cleanx")]
        typo = ask(friendly, model="sim/cleanx")
    for status, body in (*refused, typo):
        assert (status, body["error"]["code"]) == (404, "model_not_found")
    assert '"sim/clean"' in typo[1]["error"]["message"]


@pytest.mark.parametrize("data", [b"{", b"[1]", b'{"a": "\\ud83c"}', b"\xff", b"[" * 100_000, b""])
def test_a_body_that_is_no_json_object_is_a_400(simulator: Simulator, data: bytes) -> None:
    status, body = fetch(f"{simulator.url}/v1/chat/completions", data)
    assert status == 400
    assert "JSON" in body["error"]["message"]


def test_two_servers_with_one_seed_give_the_same_replies() -> None:
    with Simulator(seed=3) as first, Simulator(seed=3) as second, Simulator(seed=4) as third:
        replies = [ask(server, model="sim/clean") for server in (first, second, third)]
    assert replies[0] == replies[1] != replies[2]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])  # noqa: S104  # it is refused
def test_only_loopback_is_bound_unless_asked(host: str) -> None:
    with pytest.raises(ConfigError, match="not loopback"):
        Simulator(host=host)
    assert Simulator(host=host, anywhere=True).url == ""


def test_loopback_has_several_names() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not is_loopback("local host")


def test_an_unknown_default_persona_is_refused_before_anything_listens() -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        Simulator(default="sim/cleanx")


def test_it_listens_on_ipv6_and_says_so_when_a_port_is_taken() -> None:
    with Simulator(host="::1") as simulator:
        assert fetch(f"{simulator.url}/health")[0] == 200
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            with pytest.raises(OSError, match="address already in use"):
                Simulator(port=holder.getsockname()[1]).__enter__()


async def held(simulator: Simulator, persona: Persona) -> Any:
    config = config_for(persona).replace(**PROVOKED.get(persona.id, {}))
    async with client_for(simulator, persona) as client:
        return await trial(client, persona, f"ws_{persona.id}", config)


def client_for(simulator: Simulator, persona: Persona) -> OpenAICompatible:
    """Return a patient client; where silence is applied, one that does not wait for its end."""
    for fault, _ in persona.faults:
        if fault in ENDLESS:
            return GivesUp(simulator, fault)
    return OpenAICompatible(simulator.url, limits=PATIENT)


def alone() -> list[Persona]:
    """Return the personas with one fault or none that these plain runs can meet."""
    return [
        persona
        for persona in PERSONAS.values()
        if persona.kind not in {"mixed", "shown", "manner", "quote"} and not streams_only(persona)
    ]


def streams_only(persona: Persona) -> bool:
    return any(
        fault in TRANSPORT_FAULTS and TRANSPORT_FAULTS[fault].only_streams
        for fault, _ in persona.faults
    )


@pytest.mark.slow
@pytest.mark.parametrize("persona", alone(), ids=lambda persona: persona.id)
def test_a_persona_ends_as_documented(simulator: Simulator, persona: Persona) -> None:
    simulator.violations.clear()
    before = len(simulator.requests)
    one = asyncio.run(held(simulator, persona))

    codes = {code for result in one.result.run.results for code in result.error_codes}
    if persona.outcome in {"cured", RETRIED} or preset_wanted(persona) is not None:
        assert (one.code, one.ran, one.result.assistant_text) == ("", one.meant, "Done.")
    elif persona.outcome in REPAIRABLE:
        assert (one.code, one.ran, one.result.assistant_text) == ("", one.meant, "Done.")
        assert persona.outcome in codes
    else:
        assert (one.code, one.ran) == (persona.outcome, [])
    assert all(simulator.faults[fault] for fault, _ in persona.faults) or persona.id in IDLE
    if persona.id in TEACHERS:
        assert len(simulator.violations) == 1
    else:
        assert list(simulator.violations) == []
    if persona.outcome == "cured" and persona.id not in TEACHERS:
        assert len(simulator.requests) - before == 3


@pytest.mark.parametrize("persona", sorted(BLANK))
def test_blank_arguments_of_a_tool_without_parameters_are_read(
    simulator: Simulator, persona: str
) -> None:
    ran: list[str] = []
    ping = ToolDefinition("ping", "Ping the server.", handler=lambda: ran.append("ping"))
    runner = ToolLoopRunner(
        client=OpenAICompatible(simulator.url), model=persona, registry=ToolRegistry([ping])
    )
    answer = asyncio.run(runner.run("Please ping the server.")).assistant_text
    assert (ran, answer[:5]) == (["ping"], "Done.")
    assert simulator.faults[persona.removeprefix("sim/")]


@pytest.mark.slow
def test_mixed_personas_are_healed_without_a_wrong_run_a_silent_end_or_a_poisoned_history() -> None:
    with Simulator(seed=5) as simulator:
        held = asyncio.run(soak(simulator.url, 300, mixed()))
        assert list(simulator.violations) == []
    assert [(p.id, one.ran) for p, one in held if one.wrong] == []
    assert [(p.id, one.ran) for p, one in held if one.silent] == []
    assert {one.code for _, one in held} <= {"", "NO_TOOL_CALLS"}
    assert sum(bool(one.result.fired) for _, one in held) > 30


@pytest.mark.slow
def test_personas_that_quote_are_soaked_without_a_wrong_run_or_a_silent_end() -> None:
    with Simulator(seed=5) as simulator:
        held = asyncio.run(soak(simulator.url, len(quoting()), quoting()))
        assert list(simulator.violations) == []
        assert {persona.faults[0][0] for persona in quoting()} <= simulator.faults.keys()
    assert [(p.id, one.ran) for p, one in held if one.wrong] == []
    assert [(p.id, one.code, one.result.assistant_text) for p, one in held if not one.right] == []


def left_waiting(simulator: Simulator) -> socket.socket:
    """Ask a persona that never answers, and return the open connection."""
    where = urlsplit(simulator.url)
    body = json.dumps({"model": "sim/silent", "messages": [ASKED]}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {where.netloc}\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    before = len(simulator.requests)
    line = socket.create_connection((where.hostname or "", where.port or 0))
    line.sendall(head.encode() + body)
    until(lambda: len(simulator.requests) > before)
    return line


def test_a_client_that_leaves_a_silent_persona_does_not_disturb_the_server() -> None:
    with Simulator() as simulator:
        left_waiting(simulator).close()
        assert fetch(f"{simulator.url}/health")[0] == 200


def test_leaving_the_block_ends_a_silence() -> None:
    with Simulator() as simulator:
        line = left_waiting(simulator)
    assert line.recv(1) == b""
    line.close()


@pytest.mark.slow
def test_the_strategies_differ_and_the_trace_says_what_earned_it() -> None:
    right: dict[str, int] = {}
    strategies: tuple[Strategy, ...] = ("raw", "baseline", "production")
    for strategy in strategies:
        with Simulator(seed=3) as simulator:
            held = asyncio.run(soak(simulator.url, 200, mixed(), strategy))
        right[strategy] = sum(one.right for _, one in held)
        steps = {name for _, one in held for name in one.result.fired}
        # The base reader repairs arguments; the shapes around them need a preset.
        assert any(name.startswith("assistant_") for name in steps) == (strategy != "raw")

    assert right["raw"] < right["baseline"] <= right["production"]


def test_the_package_offers_the_server_and_no_name_by_mistake() -> None:
    assert surecall.simulator.Simulator is Simulator
    with pytest.raises(AttributeError, match="has no attribute 'Simulatr'"):
        _ = surecall.simulator.Simulatr  # type: ignore[attr-defined]  # that is the point


@pytest.mark.parametrize(
    ("patience", "rest", "answer"),
    [
        ({"head_s": 0.05}, b"", b""),
        ({"body_s": 0.05}, b"Content-Length: 9\r\n\r\nhalf", b"HTTP/1.1 408"),
    ],
)
def test_half_a_request_does_not_keep_a_connection(
    patience: dict[str, float], rest: bytes, answer: bytes
) -> None:
    with Simulator(**patience) as simulator:  # type: ignore[arg-type]  # only numbers are in it
        where = urlsplit(simulator.url)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {where.netloc}\r\n".encode()
        line = socket.create_connection((where.hostname or "", where.port or 0), PATIENCE_S)
        with contextlib.closing(line):
            line.sendall(head + rest)
            assert line.recv(12) == answer


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_pages_of_other_sites_are_refused_in_the_form_of_the_api(
    simulator: Simulator, headers: dict[str, str]
) -> None:
    where = urlsplit(simulator.url)
    line = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE_S)
    with contextlib.closing(line):
        line.request("GET", "/violations", headers=headers)
        answer = line.getresponse()
        assert answer.status == 403
        assert "this machine" in json.loads(answer.read())["error"]["message"]
