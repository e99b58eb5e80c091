"""`surecall sim`: it lists its personas, serves, and ends quietly."""

import asyncio
import http.client
import json
import signal
import socket
import subprocess
from urllib.parse import urlsplit

import pytest

from surecall import cli
from surecall.cli import sim
from surecall.cli.interrupts import serve_until_canceled
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.personas.persona_catalog import DEFAULT_PERSONA, PERSONAS
from surecall.simulator.server import RequestViolation, Simulator
from tests.support.commands import STRICT_SURECALL
from tests.support.timing import PATIENCE_S, until_soon


def test_the_list_has_a_line_for_every_persona_with_its_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["sim", "--list"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["persona", "outcome", "summary", "sources"]
    assert [line.split()[0] for line in lines] == list(PERSONAS)
    sourced = [line for line in lines if line[head.index("sources") :]]
    assert len(sourced) >= sum(persona.kind == "drift" for persona in PERSONAS.values())
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("sim/stream-c*", {"sim/stream-cut"}),
        ("STREAM-CUT", {"sim/stream-cut"}),
        ("sim/clean", {"sim/clean"}),
        ("", set(PERSONAS)),
    ],
)
def test_the_list_can_be_filtered(
    pattern: str, expected: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["sim", "--list", pattern]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert expected <= {line.split()[0] for line in lines}
    assert all(pattern.strip("*").lower() in line for line in lines)


def test_the_list_finds_personas_by_their_faults(capsys: pytest.CaptureFixture[str]) -> None:
    persona = PERSONAS[DEFAULT_PERSONA]
    assert cli.main(["sim", "--list", persona.faults[0][0]]) == 0
    assert persona.id in capsys.readouterr().out


def test_a_pattern_that_nothing_matches_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sim", "--list", "zzz\x1b"]) == 4
    assert capsys.readouterr() == (
        "",
        "surecall: no persona or fault matches 'zzz\\x1b'; `surecall sim --list` shows all\n",
    )


def test_the_list_needs_no_pattern_before_another_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["sim", "--list", "--seed", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(PERSONAS) + 1


def test_a_port_that_is_taken_is_one_line_and_exit_code_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        assert cli.main(["sim", "--port", port]) == 1
    expected = (
        f"surecall: port {port} on 127.0.0.1 is in use: stop the other process, or pass another "
        "--port\n"
    )
    assert capsys.readouterr() == ("", expected)


@pytest.mark.parametrize("flag", ["--public", "--anywhere"])
def test_an_address_of_another_machine_is_one_line_and_exit_code_one(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["sim", "--host", "192.0.2.1", "--port", "0", flag]) == 1
    assert capsys.readouterr().err.startswith("surecall: cannot listen on 192.0.2.1, port 0: ")


@pytest.mark.processes
def test_it_serves_and_ends_quietly_on_an_interrupt() -> None:
    command = [*STRICT_SURECALL, "sim", "--port", "0", "--seed", "4"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        announced = served.stdout.readline()
        address = announced.split()[3].removesuffix("/v1")
        line = http.client.HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE_S)
        line.request("GET", "/health")
        assert json.loads(line.getresponse().read())["seed"] == 4
        line.close()
        served.send_signal(signal.SIGINT)
        out, err = served.communicate(timeout=PATIENCE_S)
    assert (served.returncode, out, err) == (130, "", "")


def test_a_violation_is_printed_without_the_control_characters_it_may_hold(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sim._print_violation(
        RequestViolation("sim/clean", 1, "field_unknown", "messages[0]", "bad \x1b[2J\nname")
    )
    assert capsys.readouterr().err == "violation: sim/clean messages[0]: bad \\x1b[2J\\nname\n"


def test_an_interrupt_of_the_server_is_the_end_of_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def start(_: Simulator) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Simulator, "start", start)
    assert cli.main(["sim", "--port", "0"]) == 130


@pytest.mark.parametrize(
    ("default", "said"),
    [
        (None, "; press Ctrl-C to stop\n"),
        ("sim/tags", "; sim/tags answers for any model name; press Ctrl-C to stop\n"),
    ],
)
def test_the_address_is_announced_and_given_back(
    default: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    simulator = Simulator(seed=4, default=default)

    async def serve_until_announced() -> None:
        serving = asyncio.create_task(
            serve_until_canceled(simulator, lambda: sim._announce(simulator))
        )
        await until_soon(lambda: simulator.url)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(serve_until_announced())
    announced = f"surecall simulator on {simulator.url}/v1 ({len(PERSONAS)} personas, seed 4)"
    assert capsys.readouterr().out == announced + said


@pytest.mark.parametrize("flags", [(), ("--persona-default", "sim/clean")])
def test_a_model_of_another_name_gets_the_default_persona(
    flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults: list[str | None] = []

    def serve(simulator: Simulator, *_: object) -> int:
        defaults.append(simulator.default)
        return 0

    monkeypatch.setattr(sim, "serve_until_interrupted", serve)
    assert cli.main(["sim", "--port", "0", *flags]) == 0
    assert defaults == [flags[-1] if flags else DEFAULT_PERSONA]


def test_the_default_persona_calls_tools_and_needs_repairs() -> None:
    assert {SHAPE_FAULTS[name].family for name, _ in PERSONAS[DEFAULT_PERSONA].faults} == {
        "arguments"
    }
