"""The last words of an evaluation that did not come to its end, and its exit code."""

import json
import re
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from surecall.cli.ending import ended, in_vain
from surecall.eval.analysis.paired import Comparisons
from surecall.eval.analysis.summary import summarise
from surecall.eval.running.harness_events import Report
from surecall.eval.settings.fields import Settings
from tests.support.commands import Run, one_line
from tests.support.trials import series

KEY = "sk-wrong-key-for-this-endpoint"
NOTHING = summarise([])


class _Refusing(BaseHTTPRequestHandler):
    """Refuses every key, and counts how often it had to."""

    asked: ClassVar[list[str]] = []
    status: ClassVar[int] = 401
    said: ClassVar[str] = "No such key."

    def do_POST(self) -> None:
        self.asked.append(self.path)
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps({"error": {"message": self.said}}).encode()
        self.send_response(self.status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:  # tests are quiet
        pass


@pytest.fixture
def refusing() -> Iterator[str]:
    _Refusing.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def nowhere() -> Iterator[str]:
    """Hold a port on which nobody listens; no other test can get it meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def last_words(err: str) -> str:
    """Return what was said after the progress."""
    return one_line(err[err.index("surecall: ") :])


@pytest.mark.parametrize("trials", ["1", "20"])
def test_a_wrong_key_ends_after_the_first_answers_with_the_address_and_what_to_do(
    run: Run, monkeypatch: pytest.MonkeyPatch, refusing: str, trials: str
) -> None:
    monkeypatch.setenv("SURECALL_API_KEY", KEY)
    where = ("--base-url", refusing, "-m", "a/b,c/d", "-n", trials, "-j", "4")
    code, out, err = run("eval", *where)

    assert (code, out) == (2, "")
    assert len(_Refusing.asked) < 12
    said = last_words(err)
    assert said.startswith(
        f"surecall: {refusing}/v1: AUTH (HTTP 401): No such key. Check the API key."
    )
    assert err.count(refusing) == 1
    assert "the same command" not in said
    assert KEY not in err


def test_a_wrong_key_is_known_after_a_single_trial(
    run: Run, monkeypatch: pytest.MonkeyPatch, refusing: str
) -> None:
    monkeypatch.setenv("SURECALL_API_KEY", KEY)
    code, _, err = run("eval", "--base-url", refusing, "-m", "a/b", "-s", "happy_path", "-n", "1")

    assert (code, len(_Refusing.asked)) == (2, 1)
    assert last_words(err).endswith("Check the API key. Given up after 1 of 1 run.\n")


@pytest.mark.parametrize("trials", ["1", "20"])
@pytest.mark.parametrize(
    "said",
    [
        "bogus/model is not a valid model ID",
        "Your credit balance is too low to access the API.",
        "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
    ],
)
def test_a_model_none_of_whose_requests_is_served_is_not_judged(
    run: Run, monkeypatch: pytest.MonkeyPatch, refusing: str, said: str, trials: str
) -> None:
    monkeypatch.setattr(_Refusing, "status", 400)
    monkeypatch.setattr(_Refusing, "said", said)
    where = ("--base-url", refusing, "-m", "a/b", "-s", "simple", "-n", trials, "-q")
    code, out, err = run("eval", *where)

    assert (code, out) == (3, "")
    assert one_line(err).startswith(
        f"surecall: {refusing}/v1: BAD_REQUEST (HTTP 400): {said.rstrip('.')}. Given up after "
    )
    assert err.count(refusing) == 1
    again, out, _ = run("eval", *where, "--json")
    assert (again, json.loads(out)["recommendations"][0]["decision"]) == (3, "not measured")


@pytest.mark.parametrize("trials", ["1", "8"])
def test_an_unreachable_host_is_named_once_and_with_one_count(
    run: Run, nowhere: str, trials: str
) -> None:
    where = ("--base-url", f"http://{nowhere}/?token=hidden", "-m", "a/b,c/d", "-s", "simple")
    code, out, err = run("eval", *where, "-n", trials, "-q")

    assert (code, out) == (3, "")
    said = one_line(err)
    assert said.count(nowhere) == 1
    assert "whether the server runs. Given up after" in said
    assert len(re.findall(r"\d+ of \d+", said)) == 1
    assert "hidden" not in err


def test_programs_get_their_document_from_a_dead_endpoint_too(run: Run, nowhere: str) -> None:
    where = ("--base-url", f"http://{nowhere}", "-m", "a/b", "-s", "simple", "-n", "1", "--json")
    code, out, _ = run("eval", *where, "-q")

    assert (code, json.loads(out)["run"]["ending"]) == (3, "unusable")


def test_an_interrupt_says_how_much_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(ending="interrupted", wanted=810, recorded=40, ran=58)

    assert ended(Settings(), "", report, NOTHING, Comparisons()) == 130
    said = "interrupted: 98 of 810 done, the same command continues\n"
    assert capsys.readouterr().err == said


def test_what_was_measured_is_shown_even_if_the_endpoint_has_died(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trials = series("..")
    report = Report(
        ending="unusable", wanted=9, recorded=2, ran=1, error="gone", category="CONNECTION_ERROR"
    )

    assert not in_vain(report, summarise(trials))
    assert in_vain(report, NOTHING)
    assert ended(Settings(), "http://there/v1", report, summarise(trials), Comparisons()) == 3
    assert capsys.readouterr().err == "surecall: http://there/v1: gone.\n"


def test_a_budget_that_cannot_count_everything_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(ending="complete", wanted=2, recorded=0, ran=2, unpriced=1)
    trials = series("..")

    assert ended(Settings(max_cost=1.0), "", report, summarise(trials), Comparisons()) == 0
    assert "1 trials came without a price" in capsys.readouterr().err


def test_nothing_of_a_dead_endpoint_is_kept_as_a_result(
    run: Run, nowhere: str, tmp_path: Path
) -> None:
    run("eval", "--base-url", f"http://{nowhere}", "-m", "a/b", "-s", "simple", "-n", "1", "-q")
    (directory,) = tmp_path.glob(".surecall/runs/*")
    found = json.loads((directory / "summary.json").read_bytes())

    assert [model["tool_runs"] for model in found["models"]] == [0]
