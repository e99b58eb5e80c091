"""`surecall proxy`: what it says, what it refuses, and that it serves."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import Run
from tests.support.proxy import asked, post


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "there is no endpoint behind the proxy: pass --upstream URL, or --sim"),
        (["--upstream", ""], "there is no endpoint behind the proxy"),
        (
            ["--sim", "--upstream", "http://me:secret@x/?key=hidden"],
            "--sim and --upstream http://x/?... exclude each other",
        ),
        (["--sim", "--upstream", "http://[x"], "--sim and --upstream exclude each other"),
        (["--sim", "--public"], "--public needs a token"),
        (["--sim", "--host", "0.0.0.0"], "add --public"),  # noqa: S104  # it is refused
        (["--sim", "--guard", "repeats"], "write it as in repeats=3"),
        (["--sim", "--guard", "speed=3"], 'unknown guard "speed"'),
        (["--sim", "--model-preset", "small_modle"], "small_model"),
        (["--sim", "--endpoint", "openruter"], 'endpoint "openruter"; did you mean "openrouter"?'),
        (["--sim", "--endpoint", "local"], 'unknown endpoint "local"; known: "openrouter", '),
        (["--upstream", "nowhere"], "--upstream must start with http:// or https://, as in"),
        (
            ["--upstream", "localhost:1234"],
            'https://, not "localhost:1234"; write http://localhost:1234',
        ),
        (["--upstream", "http://x/v1/chat/completions"], "--upstream ends with /chat/completions"),
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
    assert [line.split()[0] for line in explained[1:]] == ["came", "healed", "went"]
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
    assert "is taken" in err
