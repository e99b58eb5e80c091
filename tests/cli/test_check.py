"""`surecall check`: what is set, where it comes from, and whether the endpoint answers."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from surecall import cli
from surecall.cli import check
from surecall.eval.settings.fields import FIELDS
from surecall.runtime.learned_lessons import LessonBook, LessonStore
from surecall.settings.config import SETTINGS
from surecall.simulator.server import Simulator
from surecall.testing import Scripted, ScriptedProvider, calls, failure, hangs, raw, says
from surecall.values.types import JSON
from tests.support.commands import HOSTILE, MODEL, PROBED, TRIED, Run, one_line, protocols_in
from tests.support.timing import PATIENCE_S, skipping_time

KEY = "sk-or-v1-0123456789abcdef"


def test_without_a_key_and_an_address_it_tries_the_simulator_and_says_so(run: Run) -> None:
    code, out, err = run("check")

    assert code == 0
    assert "built-in simulator" in err
    assert "endpoint  built-in simulator\n" in out
    assert "key       not set\n" in out
    assert "ok: sim/clean called the tool and answered in" in out
    assert "setting" not in out  # nothing is set


def test_each_setting_comes_with_its_place_and_the_key_with_its_length(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_TRIALS", "3")
    (tmp_path / ".env").write_text(f"OPENROUTER_API_KEY={KEY}\n")
    (tmp_path / "surecall.toml").write_text("seed = 7\n")
    shown = ("--request-overrides", f'{{"user": "{KEY}"}}')
    code, out, err = run("check", "--offline", "--temperature", "0.5", *shown)

    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines() if line}
    assert code == 0
    assert rows["trials"] == "3 OPENROUTER_TRIALS"
    assert rows["seed"] == "7 surecall.toml: seed"
    assert rows["temperature"] == "0.5 --temperature"
    assert rows["api_key"] == f"set, {len(KEY)} characters OPENROUTER_API_KEY in .env"
    assert rows["request_overrides"] == '{"user":"[redacted]"} --request-overrides'
    assert rows["endpoint"] == "https://openrouter.ai/api/v1/chat/completions"
    assert "jobs" not in rows
    assert KEY[6:] not in out + err
    assert err == "no request was sent\n"


@pytest.mark.parametrize("flag", ["-v", "--all"])
def test_all_settings_can_be_shown(run: Run, flag: str) -> None:
    _, out, _ = run("check", "--offline", flag)

    shown = [line.split()[0] for line in out.splitlines() if line]
    assert shown[1 : len(FIELDS) + 1] == list(FIELDS)


def test_every_run_setting_comes_with_its_origin(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    shown = ("--request-overrides", f'{{"user": "{KEY}"}}', "-m", "deepseek/deepseek-v3.2:nitro")
    _, out, err = run("check", "--offline", "-v", *shown)
    _, document, _ = run("check", "--offline", "--json", *shown)

    found = {row["name"]: row for row in json.loads(document)["config"]}
    assert found.keys() == set(SETTINGS)
    assert found["tool_use_mode"]["source"] == found["request_overrides"]["source"] == "evaluation"
    assert found["calls_in_order"]["source"] == "provider openrouter"
    assert found["message_transforms"]["source"].startswith("model workaround deepseek_")
    assert found["max_turns"] == {"name": "max_turns", "value": "12", "source": "default"}
    assert "calls_in_order provider openrouter" in " ".join(out.split())
    assert KEY[6:] not in out + err + document


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
def test_the_address_that_is_called_has_one_prefix_and_hides_its_query(run: Run, path: str) -> None:
    code, out, _ = run(
        "check", "--offline", *MODEL, "--base-url", f"http://127.0.0.1:9{path}?key=hidden"
    )

    assert code == 0
    assert "endpoint  http://127.0.0.1:9/v1/chat/completions?...\n" in out
    assert "hidden" not in out


@pytest.mark.parametrize(
    "command",
    [
        ("check", "--offline", *MODEL),
        ("ls", "models", *MODEL),
        ("ls", "runs"),
        ("report", "--no-open"),
    ],
)
def test_a_key_and_its_address_in_the_environment_are_no_cause_for_a_warning(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    monkeypatch.setenv("OPENROUTER_BASE_URL", "http://127.0.0.1:9")
    _, out, err = run(*command)

    assert "warning" not in err
    assert "API_KEY" not in err
    assert ("key       set, 25 characters" in out) is (command[0] == "check")


def test_a_command_that_sends_nothing_does_not_speak_of_keys(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURECALL_API_KEY", KEY)
    Path("surecall.toml").write_text('base_url = "http://127.0.0.1:9"')

    assert "is not sent to " in run("check", "--offline", *MODEL)[2]
    assert "API_KEY" not in run("ls", "models", *MODEL)[2]


def test_a_key_and_its_address_in_the_environment_belong_together(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedProvider(*TRIED, *PROBED) as provider:
        monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
        monkeypatch.setenv("OPENROUTER_BASE_URL", provider.url)
        code, _, err = run("check", *MODEL)

    assert (code, err) == (0, "")
    assert {headers["authorization"] for headers in provider.headers} == {f"Bearer {KEY}"}


def test_a_proxy_is_shown_without_its_password(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://me:secret@proxy.test:3128")
    code, out, _ = run("check", "--offline", *MODEL, "--base-url", "http://example.test")

    assert code == 0
    assert "proxy     proxy.test:3128\n" in out
    monkeypatch.setenv("NO_PROXY", "example.test")
    out = run("check", "--offline", *MODEL, "--base-url", "http://example.test")[1]
    assert "proxy     none\n" in out


def test_one_small_tool_call_goes_the_way_of_an_evaluation(run: Run) -> None:
    with ScriptedProvider(*TRIED, *PROBED) as provider:
        code, out, err = run(
            "check", *MODEL, "--base-url", provider.url, "--temperature", "0.5", "--top-k", "4"
        )

    assert (code, err) == (0, "")
    assert "ok: my-model called the tool and answered in " in out
    first = provider.requests[0]
    assert (first["model"], first["temperature"], first["top_k"]) == ("my-model", 0.5, 4)
    assert [one["function"]["name"] for one in first["tools"]] == ["echo"]


def test_offline_sends_nothing(run: Run) -> None:
    with ScriptedProvider() as provider:
        assert run("check", "--offline", *MODEL, "--base-url", provider.url)[0] == 0
        assert provider.requests == []


def test_a_model_that_calls_nothing_is_told_but_not_blamed(run: Run) -> None:
    with ScriptedProvider(says("Hello!"), *PROBED) as provider:
        code, out, _ = run("check", *MODEL, "--base-url", provider.url)
    assert code == 0
    assert "ok: my-model answered without a call in " in out


def test_a_model_that_never_ends_shows_that_the_endpoint_works(run: Run) -> None:
    with ScriptedProvider(calls("echo", text=HOSTILE), repeat=True) as provider:
        code, out, _ = run("check", *MODEL, "--base-url", provider.url)
    assert code == 0
    assert "ok: the endpoint responds, but my-model does not finish: " in out


def test_where_tools_are_off_none_is_offered(run: Run) -> None:
    with ScriptedProvider(says("Done.")) as provider:
        arguments = ("--base-url", provider.url, "--tool-use-mode", "disabled")
        code, out, _ = run("check", *MODEL, *arguments)
    assert (code, protocols_in(out)) == (0, {})
    assert ["tools" in request for request in provider.requests] == [False]


def test_an_allowlist_of_tools_does_not_hide_the_small_one(run: Run) -> None:
    with ScriptedProvider(*TRIED, *PROBED) as provider:
        arguments = ("--base-url", provider.url, "--tool-allowlist", "state_get")
        assert "called the tool" in run("check", *MODEL, *arguments)[1]


@pytest.mark.parametrize("command", ["check", "eval"])
def test_an_unknown_endpoint_is_exit_code_two_with_a_suggestion(run: Run, command: str) -> None:
    code, out, err = run(command, "--base-url", "http://127.0.0.1:1", "--endpoint", "openruter")

    assert (code, out) == (2, "")
    assert one_line(err).startswith(
        'surecall: --endpoint: unknown endpoint "openruter"; did you mean "openrouter"?'
    )


@pytest.mark.parametrize("name", ["custom", "Moonshot AI", "kimi", "llama.cpp"])
def test_every_name_of_an_endpoint_is_taken(run: Run, name: str) -> None:
    flags = ("--base-url", "http://127.0.0.1:1", "-m", "my-model", "--offline")

    assert run("check", *flags, "--endpoint", name)[0] == 0


def test_a_wrong_key_is_exit_code_two_and_is_not_shown(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURECALL_API_KEY", KEY)
    with ScriptedProvider(api_key="another") as provider:
        code, out, err = run("check", *MODEL, "--base-url", provider.url)

    assert code == 2
    where = f"{provider.url}/v1/chat/completions (SURECALL_API_KEY)"
    assert one_line(err).startswith(
        f"surecall: my-model at {where}: AUTH (HTTP 401): Incorrect API key"
    )
    assert "ok:" not in out
    assert KEY[6:] not in out + err


def test_an_endpoint_that_cannot_be_reached_is_exit_code_three(run: Run) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    code, _, err = run("check", *MODEL, "--base-url", address)

    assert code == 3
    assert "CONNECTION_ERROR: Cannot connect to 127.0.0.1" in one_line(err)
    assert "Check the URL, and whether the server is running." in err


def test_a_model_that_the_endpoint_does_not_know_is_exit_code_two(run: Run) -> None:
    with Simulator() as simulator:
        code, _, err = run("check", "-m", "sim/cleen", "--base-url", simulator.url)

    assert code == 2
    assert 'NOT_FOUND (HTTP 404): unknown persona "sim/cleen"' in one_line(err)


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (failure(400, {"error": {"message": f"no such model {HOSTILE}"}}), 2, "no such model"),
        (failure(402), 2, "PAYMENT_REQUIRED"),
        (failure(403), 2, "FORBIDDEN"),
        (raw(b"<html>Welcome</html>"), 2, "Check base_url"),
        (failure(429), 3, "RATE_LIMIT"),
        (failure(503), 3, "UPSTREAM_5XX"),
    ],
)
def test_each_refusal_has_its_exit_code_and_one_line(
    run: Run, answer: object, code: int, said: str
) -> None:
    with ScriptedProvider(answer) as provider:  # type: ignore[arg-type]  # see the table
        found, _, err = run("check", *MODEL, "--base-url", provider.url)

    assert (found, said in one_line(err)) == (code, True)


def test_an_endpoint_that_is_too_slow_is_exit_code_three(run: Run) -> None:
    with ScriptedProvider(hangs(3600)) as provider:
        code, _, err = run("check", *MODEL, "--base-url", provider.url, "--client-timeout", "0.1")

    assert code == 3
    assert "TIMEOUT" in one_line(err)


def test_nobody_waits_longer_than_a_moment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    moment_s = 60.0
    monkeypatch.setattr(check, "_MAX_WAIT_S", moment_s)

    def slow(_: JSON) -> Scripted:
        clock.skip(moment_s)
        return hangs(10 * PATIENCE_S)

    with (
        skipping_time() as clock,
        ScriptedProvider(calls("echo", text="hello"), slow, *PROBED) as provider,
    ):
        code, out, err = run("check", *MODEL, "--base-url", provider.url)

    assert code == 3
    assert "DEADLINE_EXCEEDED" in one_line(err)
    # It answers, so that it can be asked otherwise.
    assert "ok:" not in out
    assert protocols_in(out).keys() == {"native", "guided", "prompted"}


@pytest.mark.parametrize("limit_s", ["600", "0"])
def test_a_slow_model_has_the_time_that_the_client_timeout_gives_it(run: Run, limit_s: str) -> None:
    def slowly(answer: JSON) -> Callable[[JSON], JSON]:
        def later(_: JSON) -> JSON:
            clock.skip(200.0)
            return answer

        return later

    answers = map(slowly, (*TRIED, *PROBED))
    with skipping_time() as clock, ScriptedProvider(*answers) as provider:
        slow = ("--base-url", provider.url, "--client-timeout", limit_s)
        code, out, err = run("check", *MODEL, *slow)

    assert (code, err) == (0, "")
    assert "called the tool and answered" in out
    assert protocols_in(out)["native"] == "called echo, structured"


def test_misspelt_names_are_found_without_a_request(run: Run) -> None:
    for arguments in (("-m", "sim/claen"), ("-p", "defalt"), ("-s", "happy_pth")):
        code, out, err = run("check", *arguments)
        assert code == 2
        assert "did you mean" in err
        assert "ok:" not in out
    assert run("check", "--base-url", "http://127.0.0.1:9")[0] == 2  # no model is known there


def test_the_document_holds_settings_endpoint_and_outcome(run: Run) -> None:
    code, out, _ = run("check", "--json", "-m", "sim/clean")
    found = json.loads(out)
    assert code == 0
    assert found["settings"] == [
        {"name": "model_filter", "value": "sim/clean", "source": "--model"}
    ]
    assert found["endpoint"]["simulated"] is True
    assert found["selected"]["models"] == ["sim/clean"]
    assert (found["request"]["ok"], found["request"]["model"]) == (True, "sim/clean")
    assert found["protocols"] == [
        {"protocol": "native", "works": True, "said": "called echo, structured"},
        {"protocol": "guided", "works": True, "said": "reply bound to the schema"},
        {"protocol": "prompted", "works": True, "said": "wrote a call as text"},
    ]
    with ScriptedProvider(failure(401)) as provider:
        code, out, err = run("check", "--json", *MODEL, "--base-url", provider.url)
    found = json.loads(out)
    assert (code, found["request"]["ok"]) == (2, False)
    assert found["request"]["fault"]["code"] == "AUTH"
    assert found["protocols"] is None
    one_line(err)
    assert json.loads(run("check", "--json", "--offline")[1])["request"] is None


def test_what_an_endpoint_has_refused_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lessons.db"
    monkeypatch.setenv("SURECALL_LESSONS", str(path))
    LessonBook("http://127.0.0.1:9/v1", LessonStore(path))["m"] = ("temperature",)
    arguments = ["check", "--offline", "--base-url", "http://127.0.0.1:9", "-m", "m"]

    assert cli.main(arguments) == 0
    assert "omits temperature" in capsys.readouterr().out
