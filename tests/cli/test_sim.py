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
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.personas.catalogue import DEFAULT_PERSONA, PERSONAS
from surecall.simulator.server import Seen, Simulator
from tests.cli.test_main import SURECALL
from tests.support.patience import PATIENCE_S, until_soon


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


def test_a_port_that_is_taken_is_one_line_and_exit_code_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        assert cli.main(["sim", "--port", port]) == 1
    expected = f"surecall: port {port} on 127.0.0.1 is taken; choose another one with --port\n"
    assert capsys.readouterr() == ("", expected)


@pytest.mark.parametrize("flag", ["--public", "--anywhere"])
def test_an_address_of_another_machine_is_one_line_and_exit_code_one(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["sim", "--host", "192.0.2.1", "--port", "0", flag]) == 1
    assert capsys.readouterr().err.startswith("surecall: cannot listen on 192.0.2.1, port 0: ")


@pytest.mark.processes
def test_it_serves_and_ends_quietly_on_an_interrupt() -> None:
    command = [*SURECALL, "sim", "--port", "0", "--seed", "4"]
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
    sim._report(Seen("sim/clean", 1, "field_unknown", "messages[0]", "bad \x1b[2J\nname"))
    assert capsys.readouterr().err == "violation: sim/clean messages[0]: bad \\x1b[2J\\nname\n"


@pytest.mark.parametrize(("problem", "code"), [(KeyboardInterrupt, 130), (None, 0)])
def test_the_end_of_the_server_is_the_end_of_the_command(
    problem: type[BaseException] | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def served(simulator: Simulator) -> None:
        del simulator
        if problem is not None:
            raise problem

    monkeypatch.setattr(sim, "_serve", served)
    assert cli.main(["sim", "--port", "0"]) == code


@pytest.mark.parametrize(
    ("default", "said"),
    [
        (None, "; Ctrl-C ends it\n"),
        ("sim/tags", "; sim/tags answers for any model name; Ctrl-C ends it\n"),
    ],
)
def test_the_address_is_announced_and_given_back(
    default: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    simulator = Simulator(seed=4, default=default)

    async def serve_until_announced() -> None:
        serving = asyncio.create_task(sim._serve(simulator))
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
    served: list[str | None] = []

    async def serve(simulator: Simulator) -> None:
        served.append(simulator.default)

    monkeypatch.setattr(sim, "_serve", serve)
    assert cli.main(["sim", "--port", "0", *flags]) == 0
    assert served == [flags[-1] if flags else DEFAULT_PERSONA]


def test_the_default_persona_calls_tools_and_needs_repairs() -> None:
    assert {SHAPE_FAULTS[name].family for name, _ in PERSONAS[DEFAULT_PERSONA].faults} == {
        "arguments"
    }
