"""`surecall local`, and evaluations of a file that is served here."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import pytest

from surecall.cli import local
from surecall.eval import local_server as localserver
from surecall.eval.local_server import LocalServer
from surecall.eval.settings.fields import ServingOptions
from surecall.eval.storage.run_directories import find_run
from surecall.eval.storage.store import open_for_reading
from tests.support.commands import Run, one_line
from tests.support.servers import ENGINE, child_command, closes, write_model
from tests.support.timing import PATIENCE_S

SURECALL = (sys.executable, "-W", "error", "-m", "surecall")
CHAT = ("eval", "--gguf", "tiny.gguf", "-s", "chat_only", "-q")
LOADING = "loading tiny.gguf (0.0 MB), with 2 threads and 8192 tokens of context\n"
Stage: TypeAlias = Callable[[str], None]


@pytest.fixture(name="run")
def run_fixture(run: Run, tmp_path: Path) -> Run:
    """Run commands where there is a model."""
    write_model(tmp_path / "tiny.gguf")
    return run


@pytest.fixture(name="stage")
def stage_fixture(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Let a stand-in with some behaviour become the server."""

    def stage(behaviour: str) -> None:
        monkeypatch.setattr(
            local, "LocalServer", partial(LocalServer, child=child_command(behaviour))
        )

    return stage


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("none.gguf",), 2, "none.gguf does not exist"),
        ((".",), 2, "is a directory"),
        (("tiny.gguf", "--host", "192.0.2.1"), 2, "192.0.2.1 is not loopback: add --public"),
        (("tiny.gguf", "--threads", "0"), 2, "Invalid value for '--threads'"),
        (("tiny.gguf", "--context", "none"), 2, "Invalid value for '--context'"),
        (("tiny.gguf", "--host", "192.0.2.1", "--public"), 1, "cannot listen on 192.0.2.1"),
        (("tiny.gguf", "--host", "192.0.2.1", "--anywhere"), 1, "cannot listen on 192.0.2.1"),
        ((), 2, "Missing argument 'MODEL.gguf'"),
    ],
)
def test_what_cannot_be_served_is_one_line_and_an_exit_code(
    run: Run, stage: Stage, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    stage("healthy")
    found, out, err = run("local", *arguments)

    assert (found, out) == (code, "")
    assert complaint in one_line(err)


@pytest.mark.processes
def test_a_missing_package_and_a_server_that_fails_are_told_by_every_command(
    run: Run, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = (("local", "tiny.gguf"), ("check", "--json", "--gguf", "tiny.gguf"), CHAT)
    with monkeypatch.context() as hidden:
        hidden.setattr(localserver, "ENGINE_MODULE", "no_such_engine")
        for command in commands:
            code, _, err = run(*command)
            assert (code, "pip install 'surecall[local]'" in one_line(err)) == (2, True)
    stage("fails")
    for command in commands:
        code, _, err = run(*command)
        said = one_line(err.removeprefix(LOADING))
        assert (code, "(exit code 3): load: error loading model" in said) == (1, True)


def test_a_port_that_is_taken_is_told_with_the_way_out(run: Run, stage: Stage) -> None:
    stage("healthy")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, _, err = run("local", "tiny.gguf", "--port", port)

    assert code == 1
    assert (
        f"port {port} on 127.0.0.1 is in use: stop the other process, or pass another --port"
        in one_line(err)
    )


@pytest.mark.processes
def test_a_server_that_ends_by_itself_ends_the_command(run: Run, stage: Stage) -> None:
    stage("quits")
    code, out, err = run("local", "tiny.gguf", "--port", "0")

    assert code == 1
    assert "surecall: the local server has ended (exit code 7)\n" in err
    first, check, evaluation = out.splitlines()
    assert first.startswith("tiny on http://127.0.0.1:")
    assert first.endswith("/v1 (stand-in 1); press Ctrl-C to stop")
    assert check.startswith("  surecall check --base-url http://127.0.0.1:")
    assert evaluation.endswith("--endpoint llama_cpp -m tiny")


@pytest.mark.processes
def test_the_servers_log_is_shown_only_where_that_is_wished(run: Run, stage: Stage) -> None:
    stage("quits")
    assert "being read" not in run("local", "tiny.gguf", "--port", "0")[2]
    assert (
        "load: the file is being read\n" in run("local", "tiny.gguf", "--port", "0", "--verbose")[2]
    )


@pytest.mark.processes
def test_it_serves_until_an_interrupt_and_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [*SURECALL, "local", str(write_model(tmp_path / "tiny.gguf")), "--port", "0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": ENGINE},
    ) as serving:
        assert serving.stdout is not None
        address = urlsplit(serving.stdout.readline().split()[2]).netloc
        line = http.client.HTTPConnection(address, timeout=PATIENCE_S)
        line.request("GET", "/health")
        assert line.getresponse().status == 200
        line.close()
        serving.send_signal(signal.SIGINT)
        _, err = serving.communicate(timeout=PATIENCE_S)
    assert serving.returncode == 130
    assert (err.startswith("loading "), err.count("\n")) == (True, 1)
    assert closes(address)


def test_an_interrupt_while_it_starts_is_quiet_too(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalServer, "__enter__", interrupted)
    assert run("local", "tiny.gguf") == (130, "", "")


@pytest.mark.processes
def test_an_evaluation_serves_the_file_sends_no_key_and_records_the_build(
    run: Run, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage("healthy")
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-v1-made-up")
    code, out, _ = run(*CHAT, "-n", "2", "--json")

    document = json.loads(out)
    assert code == 0
    assert [row["model"] for row in document["recommendations"]] == ["tiny"]
    with open_for_reading(find_run(Path(".surecall"), "latest")) as store:
        settings = store.meta.latest.config["sheet"]["settings"]
        assert [trial.status for trial in store.trials()] == ["passed", "passed"]
    kept = ("served_by", "gguf", "base_url", "endpoint", "client_timeout")
    assert [settings[name] for name in kept] == [
        "stand-in 1",
        "tiny.gguf",
        "local",
        "local",
        600.0,
    ]


@pytest.mark.processes
def test_the_report_of_such_a_run_can_be_written_again_without_the_file(
    run: Run, stage: Stage, tmp_path: Path
) -> None:
    stage("healthy")
    run(*CHAT, "-n", "1")
    (tmp_path / "tiny.gguf").unlink()

    assert run("report", "--no-open")[0] == 0
    assert run("report", "-o", ".")[0] == 0


@pytest.mark.processes
def test_a_second_file_joins_the_same_run_if_it_is_told_to(
    run: Run, stage: Stage, tmp_path: Path
) -> None:
    stage("healthy")
    write_model(tmp_path / "other.gguf")
    run(*CHAT, "-n", "1")
    other = ("eval", "--gguf", "other.gguf", "-s", "chat_only", "-n", "1", "-q")
    run(*other, "--into", "latest")

    with open_for_reading(find_run(Path(".surecall"), "latest")) as store:
        assert [trial.key.cell.model for trial in store.trials()] == ["other", "tiny"]


@pytest.mark.processes
def test_a_server_that_dies_mid_run_spoils_trials_ends_the_run_and_says_so(
    run: Run, stage: Stage
) -> None:
    stage("crashes")
    code, _, err = run(*CHAT, "-n", "30")

    assert code == 3
    assert "CONNECTION_ERROR: The local server has ended (signal 9, Killed" in err
    with open_for_reading(find_run(Path(".surecall"), "latest")) as store:
        spoiled = list(store.trials())
    assert {trial.status for trial in spoiled} == {"infra"}
    assert len(spoiled) == 10  # not thirty: the next one would end the same way


@pytest.mark.processes
def test_also_a_short_run_tells_that_the_server_died(run: Run, stage: Stage) -> None:
    stage("crashes")
    code, _, err = run(*CHAT, "-n", "1")

    assert code == 3
    assert err.startswith(
        "surecall: CONNECTION_ERROR: The local server has ended (signal 9, Killed"
    )
    assert "run the same command to continue. Gave up after 1 of 1 run." in err


@pytest.mark.processes
def test_a_check_serves_the_file_and_tries_its_model(run: Run, stage: Stage) -> None:
    stage("healthy")
    code, out, err = run("check", "--gguf", "tiny.gguf")

    assert (code, err) == (0, LOADING)
    assert "provider  llama_cpp\n" in out
    assert "ok: tiny answered without a call in " in out


@pytest.mark.processes
def test_a_connection_that_breaks_is_not_yet_the_end_of_the_server(run: Run, stage: Stage) -> None:
    stage("hangs up")
    code, _, err = run("check", "--gguf", "tiny.gguf")

    assert code == 3
    assert "CONNECTION_ERROR: 127.0.0.1" in err
    assert "has ended" not in err


@pytest.mark.processes
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--provider", "local"), "pass it with --gguf"),
        (("--endpoint", "local"), "pass it with --gguf"),
        (("--gguf", "tiny.gguf", "--base-url", "http://127.0.0.1:9"), "leave out one of them"),
        (("--gguf", "tiny.gguf", "--endpoint", "vllm"), "must be local or llama_cpp"),
        (("--gguf", "tiny.gguf", "-m", "qwen"), 'unknown model "qwen"; known: "tiny"'),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    run: Run, stage: Stage, arguments: tuple[str, ...], complaint: str
) -> None:
    stage("healthy")
    code, _, err = run("eval", *arguments)

    assert (code, complaint in one_line(err.removeprefix(LOADING))) == (2, True)


@pytest.mark.processes
def test_threads_and_context_of_an_evaluation_reach_the_server(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ServingOptions | None] = []

    def staged(gguf: Path, serving: ServingOptions, **others: Any) -> LocalServer:
        asked.append(serving)
        return LocalServer(gguf, serving, child=child_command("healthy"), **others)

    monkeypatch.setattr(local, "LocalServer", staged)
    _, _, err = run(*CHAT[:-1], "-n", "1", "--threads", "5", "--context", "4096")
    _, _, quiet = run(*CHAT, "-n", "1", "--threads", "5", "--context", "4096")
    _, again, _ = run(*CHAT, "-n", "1", "--threads", "1", "--context", "4096", "--dry-run")
    _, other, _ = run(*CHAT, "-n", "1", "--context", "2048", "--dry-run")

    assert asked[0] == ServingOptions(threads=5, context=4096)
    assert err.startswith("loading tiny.gguf (0.0 MB), with 5 threads and 4096 tokens of context")
    assert "loading" not in quiet
    assert "1 recorded" in again  # as fast as it likes, it is the same run
    assert "recorded" not in other
    assert run(*CHAT, "--context", "1")[0] == 2


def test_the_default_of_the_command_is_that_of_the_server() -> None:
    defaults = {option.name: option.default for option in local.command.params}

    assert (defaults["threads"], defaults["context"]) == (
        ServingOptions().threads,
        ServingOptions().context,
    )
    assert (defaults["host"], defaults["port"]) == ("127.0.0.1", 8080)
