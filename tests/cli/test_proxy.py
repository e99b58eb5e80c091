"""Tests of `surecall.cli.proxy`."""

import http.client
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from surecall.testing import ScriptedProvider, calls, hangs
from tests.support.commands import Run
from tests.support.proxy import asked, post
from tests.support.timing import PATIENCE_S, until

# `surecall proxy`: what it says, what it refuses, and that it serves


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "no upstream: pass --upstream URL, or --sim"),
        (["--upstream", ""], "no upstream: pass --upstream URL"),
        (
            ["--sim", "--upstream", "http://me:secret@x/?key=hidden"],
            "--sim and --upstream http://x/?... cannot be combined",
        ),
        (["--sim", "--upstream", "http://[x"], "--sim and --upstream cannot be combined"),
        (["--sim", "--public"], "--public needs a token"),
        (["--sim", "--host", "0.0.0.0"], "add --public"),  # noqa: S104  # it is refused
        (["--sim", "--guard", "repeats"], "must be NAME=N, such as repeats=3"),
        (["--sim", "--guard", "speed=3"], 'unknown guard "speed"'),
        (["--sim", "--model-preset", "small_modle"], "small_model"),
        (["--sim", "--endpoint", "openruter"], 'endpoint "openruter"; did you mean "openrouter"?'),
        (["--sim", "--endpoint", "local"], 'unknown endpoint "local"; known: "openrouter", '),
        (["--upstream", "nowhere"], "--upstream must start with http:// or https://, as in"),
        (
            ["--upstream", "localhost:1234"],
            'https://, not "localhost:1234"; write http://localhost:1234',
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(run: Run, arguments: list[str], told: str) -> None:
    code, out, err = run("proxy", *arguments)
    assert code == 2
    assert out == ""
    assert told in err
    assert err.count("\n") == 1
    assert "secret" not in err
    assert "hidden" not in err


@pytest.mark.processes
def test_it_serves_the_simulator_and_explains_until_it_is_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "surecall", "proxy", "--sim", "--port", "0", "-v"]
    process = subprocess.Popen(
        [*command, "--trace", str(tmp_path / "traces")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    first = process.stdout.readline()
    url = first.split()[3].removesuffix("/v1,")
    got = post(url, asked(model="sim/arguments_object").body)
    explained = [process.stdout.readline() for _ in range(4)]
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate()

    assert first.startswith("surecall proxy on http://127.0.0.1:")
    assert got.status == 200
    assert "-> calls get_weather" in explained[0]
    assert [line.split()[0] for line in explained[1:]] == ["received", "repaired", "sent"]
    assert process.returncode == 130
    assert "/surecall/" in errors
    assert "models are simulated: sim/bends-arguments answers for any model name" in errors
    assert "Traceback" not in errors + rest
    assert len(list((tmp_path / "traces").iterdir())) == 1


@pytest.mark.processes
def test_before_the_simulator_any_model_name_works_and_a_typo_is_an_error() -> None:
    command = [sys.executable, "-m", "surecall", "proxy", "--sim", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[3].removesuffix("/v1,")
        got = post(url, asked(model="gpt-4o").body)
        typo = post(url, asked(model="sim/cleanx").body)
        process.send_signal(signal.SIGINT)

    assert got.status == 200
    assert got.json["choices"][0]["message"]["tool_calls"]
    assert typo.status == 404
    assert 'did you mean "sim/clean"' in typo.json["error"]["message"]


@pytest.mark.processes
def test_a_port_that_is_taken_is_told(run: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = run("proxy", "--sim", "--port", str(taken.getsockname()[1]))
    assert code == 1
    assert "is in use" in err


# A proxy that is killed takes only its open requests with it; the next one serves on


def started(upstream: str, port: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "surecall", "proxy", "--upstream", upstream]
    process = subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("surecall proxy on")
    return process


@pytest.mark.processes
def test_after_a_kill_the_same_address_serves_again_and_nothing_is_asked_twice() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    seen: list[int | str] = []

    def ask() -> None:
        try:
            seen.append(post(url, asked().body).status)
        except (ConnectionError, http.client.HTTPException) as error:
            seen.append(type(error).__name__)

    script = (hangs(PATIENCE_S), calls("get_weather", city="Oslo"))
    with ScriptedProvider(*script) as upstream:
        first = started(upstream.url, port)
        client = threading.Thread(target=ask)
        client.start()
        until(lambda: upstream.requests)
        first.kill()
        client.join()
        first.communicate()
        assert seen == ["RemoteDisconnected"] or "Reset" in str(seen[0])
        assert len(upstream.requests) == 1

        second = started(upstream.url, port)
        got = post(url, asked().body)
        second.send_signal(signal.SIGINT)
        second.communicate()

    assert got.json["choices"][0]["finish_reason"] == "tool_calls"
    assert len(upstream.requests) == 2
    assert second.returncode == 130
