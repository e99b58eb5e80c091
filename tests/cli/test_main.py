"""The command line: what it prints, and how it fails."""

import asyncio
import http.client
import json
import re
import runpy
import signal
import socket
import subprocess
import sys
import tomllib
from urllib.parse import urlsplit

import click
import pytest

import surecall
from surecall import cli
from surecall.cli import sim
from surecall.simulator.personas.catalogue import PERSONAS
from surecall.simulator.server import Seen, Simulator
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE_S, until_soon

SURECALL = (sys.executable, "-W", "error", "-m", "surecall")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SURECALL, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_without_a_command_and_with_help_it_says_what_it_can_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (cli.main([]), cli.main(["--help"])) == (0, 0)
    assert capsys.readouterr().out.count("Serve a provider that misbehaves") == 2


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"surecall {surecall.__version__}\n"


def test_it_is_the_script_of_the_project_and_the_main_of_the_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["scripts"] == {"surecall": "surecall.cli:main"}
    monkeypatch.setattr(sys, "argv", ["surecall", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("surecall", run_name="__main__")
    assert (ended.value.code, capsys.readouterr().err) == (0, "")


def test_the_list_of_commands_says_what_the_commands_say() -> None:
    context = click.Context(cli.cli)
    for name, sentence in cli.COMMANDS.items():
        command = cli.cli.get_command(context, name)
        assert command is not None
        assert command.help is not None
        assert " ".join(command.help.split("\n\n")[0].split()) == sentence


@pytest.mark.processes
def test_help_loads_neither_the_simulator_nor_an_http_library() -> None:
    code = (
        "import sys, surecall.cli; surecall.cli.main(['--help']);"
        "print([name for name in ('aiohttp', 'surecall.simulator.server') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_the_list_has_a_line_for_every_persona_with_its_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["sim", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(PERSONAS)
    sourced = [line for line in lines if re.search(r"\[D\d+.*\]$", line)]
    assert len(sourced) >= sum(persona.kind == "drift" for persona in PERSONAS.values())
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["sim", "--seed", "abc"],
            "Invalid value for '--seed': 'abc' is not a valid whole number.",
        ),
        (["sim", "--seed", "-1"], "Invalid value for '--seed'"),
        (["sim", "--port", "99999"], "Invalid value for '--port'"),
        (["sim", "--port", "http"], "Invalid value for '--port'"),
        (["sim", "--persona-default", "sim/cleanx"], 'did you mean "sim/clean"'),
        (["sim", "--persona-default", "\x1b[31mred"], "unknown persona"),
        (["sim", "--host", "192.0.2.1"], "192.0.2.1 is not loopback"),
        (["sim", "extra"], "unexpected extra argument"),
        (["simm"], "Did you mean 'sim'?"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_two(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("surecall: ")
    assert message in err
    assert err.strip().isprintable()


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


def test_an_address_of_another_machine_is_one_line_and_exit_code_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["sim", "--host", "192.0.2.1", "--port", "0", "--anywhere"]) == 1
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


@pytest.mark.processes
def test_a_reader_that_goes_away_is_no_traceback() -> None:
    with subprocess.Popen(
        [*SURECALL, "sim", "--list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as listing:
        assert listing.stdout is not None
        assert listing.stderr is not None
        listing.stdout.close()
        err = listing.stderr.read()
    assert (listing.returncode, err) == (1, "")


@pytest.mark.usefixtures("capfd")
@pytest.mark.parametrize(("problem", "code"), [(KeyboardInterrupt, 130), (BrokenPipeError, 1)])
def test_what_ends_a_command_from_outside_is_an_exit_code(
    problem: type[BaseException], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended() -> int:
        raise problem

    monkeypatch.setattr(sim, "_list_personas", ended)
    assert cli.main(["sim", "--list"]) == code


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


def test_the_address_is_announced_and_given_back(capsys: pytest.CaptureFixture[str]) -> None:
    simulator = Simulator(seed=4)

    async def serve_until_announced() -> None:
        serving = asyncio.create_task(sim._serve(simulator))
        await until_soon(lambda: simulator.url)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(serve_until_announced())
    announced = f"surecall simulator on {simulator.url}/v1 ({len(PERSONAS)} personas, seed 4)"
    assert capsys.readouterr().out.startswith(announced)


@pytest.mark.processes
def test_bad_input_ends_a_real_process_in_the_same_way() -> None:
    ran = run("sim", "--seed", "abc")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
