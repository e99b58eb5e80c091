"""Tests of `surecall.cli.eval_run`."""

import itertools
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from surecall.simulator.server import Simulator
from surecall.testing import ScriptedProvider, calls, failure
from surecall.values.types import JSON
from tests.support.commands import LOG, Run, agreement, compare, on_terminal, written
from tests.support.project_files import ROOT, Trial
from tests.support.timing import PATIENCE_S, until

# `surecall eval --reference A --against B`, over real HTTP: one model behind several endpoints


def reads(body: JSON) -> JSON:
    """Answer as it should be: read the workspace that is named."""
    name = body["messages"][-1]["content"].split(".")[0].removeprefix("workspace_id=")
    return calls("state_get", workspace_id=name)


def sometimes(seed: int, chance: float, other: JSON) -> Callable[[JSON], JSON]:
    """Give another reply to some requests, whatever the order in which they arrive."""
    asked: Counter[str] = Counter()

    def reply(body: JSON) -> JSON:
        text = body["messages"][-1]["content"]
        asked[text] += 1
        draw = random.Random(f"{seed} {text} {asked[text]}")  # noqa: S311 - any numbers will do
        return other if draw.random() < chance else reads(body)

    return reply


def holds(figure: JSON, truth: float) -> bool:
    return bool(figure["low"] <= truth <= figure["high"])


@pytest.fixture
def _own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, what in itertools.product(("GOOD", "CHEAP"), ("BASE_URL", "API_KEY")):
        monkeypatch.delenv(f"{name}_{what}", raising=False)


@pytest.mark.usefixtures("_own_names")
def test_an_endpoint_that_drops_calls_is_worse_by_what_it_drops(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 40)
    with Simulator(default="clean") as good, Simulator(default="calls-nothing") as cheap:
        monkeypatch.setenv("GOOD_BASE_URL", good.url)
        monkeypatch.setenv("CHEAP_BASE_URL", cheap.url)
        code, out, err = run(*compare("-m", "kimi-k2", "-n", "2", "-q"))

    found = agreement(tmp_path)
    assert code == 1
    assert out.startswith(
        "cheap is worse than good: its decision whether to call matches good's with an F1 of"
    )
    assert "cheap is worse than good" in err
    # It answers four in ten requests with words.
    assert holds(found["recall"], 0.6)
    assert holds(found["decision"]["value"], 2 * 0.6 / 1.6)
    assert found["precision"]["value"] == found["fits"]["value"]["value"] == 1.0
    assert found["decision"]["reference"]["value"] == 1.0
    assert found["verdicts"] == {
        "answered": "no difference seen",
        "decision": "worse",
        "calls": "worse",
        "fits": "no difference seen",
    }
    assert "good: 80 of 80 answered, 80 calls" in out
    (report,) = tmp_path.glob(".surecall/runs/*/report.md")
    text = report.read_text()
    assert text.index("## Endpoints on the same requests") < text.index("## Model/profile matrix")
    assert "what surecall handled" not in text
    assert "cheap is worse than good: " in report.with_name("report.html").read_text()
    assert {each["model"] for each in good.requests} == {"kimi-k2"}


@pytest.mark.usefixtures("_own_names")
def test_the_same_model_behind_two_doors_shows_no_difference(run: Run, tmp_path: Path) -> None:
    written(tmp_path, 30)
    with Simulator() as good, Simulator() as cheap:
        words = compare("-m", "sim/clean", "-n", "2", "-q", reference=good.url, against=cheap.url)
        code, out, _ = run(*words)
        document = json.loads(run(*words, "--json")[1])

    name, other = (each.url.removeprefix("http://") for each in (cheap, good))
    assert code == 0
    assert out.startswith(f"No difference between {name} and {other} was found: ")
    (found,) = document["agreement"]["comparisons"]
    assert found["verdict"] == "no difference seen"
    assert found["calls"]["value"]["value"] == found["calls"]["reference"]["value"] == 1.0
    assert document["agreement"]["endpoints"] == {
        f"sim/clean@{other}": good.url,
        f"sim/clean@{name}": cheap.url,
    }


@pytest.mark.usefixtures("_own_names")
def test_endpoints_that_vary_are_held_against_how_the_reference_varies(
    run: Run, tmp_path: Path
) -> None:
    written(tmp_path, 30)
    other = calls("state_get", workspace_id="elsewhere")
    bent = calls("state_get", workspace="?")
    with (
        ScriptedProvider(sometimes(1, 0.2, other), repeat=True) as good,
        ScriptedProvider(sometimes(2, 0.2, other), repeat=True) as same,
        ScriptedProvider(sometimes(3, 0.5, bent), repeat=True) as worse,
    ):
        against = f"{same.url},{worse.url}"
        words = compare("-m", "m", "-n", "2", "-q", "--json", reference=good.url, against=against)
        code, out, _ = run(*words)

    alike, broken = json.loads(out)["agreement"]["comparisons"]
    assert code == 1
    assert (alike["verdict"], broken["verdict"]) == ("no difference seen", "worse")
    assert alike["calls"]["reference"]["value"] < 1
    assert holds(alike["calls"]["reference"], 0.8**2 + 0.2**2)
    assert holds(broken["fits"]["value"], 0.5)
    assert broken["verdicts"]["fits"] == "worse"
    assert broken["verdicts"]["decision"] == "no difference seen"


@pytest.mark.usefixtures("_own_names")
def test_one_trial_has_no_floor_and_leaves_the_verdict_open(run: Run, tmp_path: Path) -> None:
    written(tmp_path, 1)
    code, out, err = run(
        *compare("-n", "1", "-q", reference="sim=sim/clean", against="sim=sim/drip")
    )

    assert code == 3
    assert out.startswith("Open: sim/drip@sim's calls match sim/clean@sim's with an F1 of 100%")
    assert "sim/drip@sim: the verdict is open" in err


@pytest.mark.usefixtures("_own_names")
@pytest.mark.parametrize(
    ("number", "more", "said"),
    [
        (7, {}, "but a verdict needs at least 8 requests"),
        (8, {"tools": []}, "neither sim/lazy@sim nor sim/clean@sim made a call"),
    ],
)
def test_who_cannot_see_a_difference_does_not_say_that_there_is_none(
    run: Run, tmp_path: Path, number: int, more: JSON, said: str
) -> None:
    written(tmp_path, number, **more)
    code, out, _ = run(*compare("-n", "2", "-q", reference="sim=sim/clean", against="sim=sim/lazy"))

    assert code == 3
    assert out.startswith("Open: ")
    assert said in out


@pytest.mark.usefixtures("_own_names")
def test_a_key_goes_to_its_own_address_alone(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 2)
    monkeypatch.setenv("SURECALL_API_KEY", "sesame-ours")
    with (
        ScriptedProvider(reads, repeat=True, api_key="sesame-one") as good,
        ScriptedProvider(reads, repeat=True) as cheap,
    ):
        for name, value in (("BASE_URL", good.url), ("API_KEY", "sesame-one")):
            monkeypatch.setenv(f"GOOD_{name}", value)
        monkeypatch.setenv("CHEAP_API_KEY", "sesame-two")
        # Anyone may have written this file.
        (tmp_path / ".env").write_text(f"CHEAP_BASE_URL={cheap.url}\nGOOD_BASE_URL={cheap.url}\n")
        _, _, err = run(*compare("-m", "m", "-n", "2", "-q"))

    assert {each["authorization"] for each in good.headers} == {"Bearer sesame-one"}
    assert not any("authorization" in each for each in cheap.headers)
    assert "CHEAP_API_KEY of the environment is not sent to " in err
    assert len(good.requests) == len(cheap.requests) == 4
    kept = b"".join(path.read_bytes() for path in tmp_path.glob(".surecall/runs/*/*"))
    assert not any(key in kept for key in (b"sesame-one", b"sesame-two", b"sesame-ours"))


@pytest.mark.usefixtures("_own_names")
def test_endpoints_of_a_settings_file_get_no_key_of_anyone(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 1)
    for name in ("SURECALL_API_KEY", "OPENROUTER_API_KEY", "GOOD_API_KEY"):
        monkeypatch.setenv(name, "mine")
    with ScriptedProvider(reads, repeat=True) as evil, Simulator() as good:
        monkeypatch.setenv("GOOD_BASE_URL", good.url)
        (tmp_path / "surecall.toml").write_text(
            f'reference = "good=sim/clean"\nagainst = ["{evil.url}"]\nmodel_filter = "m"\n'
        )
        run("eval", "-s", LOG, "-n", "1", "-q")

    assert evil.requests
    assert not any("authorization" in each for each in evil.headers)


@pytest.mark.usefixtures("_own_names")
def test_failed_requests_are_counted_and_never_left_out_in_silence(
    run: Run, tmp_path: Path
) -> None:
    written(tmp_path, 10)
    down = failure(503, {"error": {"message": "busy"}})
    refused = failure(400, {"error": {"message": "no"}})
    number = itertools.count()
    # A request that is answered 503 is sent three times.
    script = [down, down, down, refused, *[reads] * 100]
    with (
        ScriptedProvider(reads, repeat=True) as good,
        ScriptedProvider(lambda body: _turn(script, number, body), repeat=True) as cheap,
    ):
        ends = {"reference": good.url, "against": cheap.url}
        code, out, err = run(*compare("-m", "m", "-n", "2", "-j", "1", "-q", **ends))

    found = agreement(tmp_path)
    assert code == 3
    assert found["counts"]["asked"] == 20
    assert sum(found["counts"]["errors"].values()) + found["counts"]["refused"] >= 1
    assert found["counts"]["answered"] < 20
    assert "failed (" in out
    assert "invalid" in err


def _turn(script: list[Any], number: "itertools.count[int]", body: JSON) -> Any:
    item = script[next(number)]
    return item(body) if callable(item) else item


@pytest.mark.usefixtures("_own_names")
@pytest.mark.parametrize("broken", ["good", "cheap"])
def test_an_endpoint_that_is_down_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    written(tmp_path, 12)
    with ScriptedProvider(reads, repeat=True) as alive:
        for name in ("good", "cheap"):
            url = "http://127.0.0.1:9" if name == broken else alive.url
            monkeypatch.setenv(f"{name.upper()}_BASE_URL", url)
        code, out, err = run(*compare("-m", "m", "-n", "2", "-q"))

    assert code == 3
    assert f"m@{broken}: " in err
    assert "Open: no request was answered by both cheap and good." in out


@pytest.mark.usefixtures("_own_names")
def test_a_wrong_key_at_one_endpoint_ends_it_at_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 12)
    with (
        ScriptedProvider(reads, repeat=True) as good,
        ScriptedProvider(reads, repeat=True, api_key="right") as cheap,
    ):
        monkeypatch.setenv("GOOD_BASE_URL", good.url)
        monkeypatch.setenv("CHEAP_BASE_URL", cheap.url)
        code, _, err = run(*compare("-m", "m", "-n", "2", "-q", "-j", "2"))

    assert code == 2
    assert "m@cheap: " in err
    assert len(cheap.requests) < 12


@pytest.mark.usefixtures("_own_names")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-n", "auto"), "a number of trials, not auto"),
        (("-s", "happy_path"), "happy_path is a conversation"),
        (("--base-url", "sim"), "leave out --base-url"),
        (("--against", "sim=sim/clean"), "sim is listed twice"),
        (("--against", "nobody"), "nobody has no URL: set NOBODY_BASE_URL"),
    ],
)
def test_what_cannot_be_compared_costs_nothing(
    run: Run, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    written(tmp_path, 1)
    code, _, err = run(*compare(*words, reference="sim=sim/clean", against="sim=sim/lazy"))

    assert (code, message in err) == (2, True), err
    assert not (tmp_path / ".surecall").exists()


@pytest.mark.usefixtures("_own_names")
def test_an_empty_file_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / LOG).write_text("\n")
    code, _, err = run(*compare(reference="sim=sim/clean", against="sim=sim/lazy"))

    assert code == 2
    assert "the file has no scenarios" in err


@pytest.mark.usefixtures("_own_names")
def test_a_dry_run_counts_both_endpoints_and_sends_nothing(run: Run, tmp_path: Path) -> None:
    written(tmp_path, 3)
    words = compare("-n", "2", "--dry-run", reference="sim=sim/clean", against="sim=sim/lazy")
    code, out, _ = run(*words)

    assert code == 0
    assert "sim/clean@sim  default  raw" in out
    assert "2 cells x 3 scenarios x 2 trials = 12 runs" in out
    assert "about 12 requests" in out


@pytest.mark.usefixtures("_own_names")
def test_more_trials_top_up_a_comparison_and_other_roles_read_the_same_trials(
    run: Run, tmp_path: Path
) -> None:
    written(tmp_path, 10)
    ends = {"reference": "sim=sim/clean", "against": "sim=sim/calls-nothing"}
    assert run(*compare("-n", "1", "-q", **ends))[0] == 3
    assert run(*compare("-n", "2", **ends))[2].count("20 recorded") == 1
    swapped = {"reference": ends["against"], "against": ends["reference"]}
    _, out, err = run(*compare("-n", "2", **swapped))

    assert "40 recorded" in err
    assert "sim/calls-nothing@sim: 20 of 20 answered" in out
    assert agreement(tmp_path)["reference"] == "sim/calls-nothing@sim"


# `surecall eval --reference A --against B` as people run it: on a terminal, and interrupted


@pytest.mark.processes
def test_it_fits_a_terminal(tmp_path: Path) -> None:
    written(tmp_path, 8)
    (tmp_path / ".env").write_text("CHEAP_BASE_URL=sim\nGOOD_BASE_URL=sim\n")
    words = compare("-n", "2", "-q", reference="good=sim/clean", against="cheap=sim/lazy")
    code, (text,) = on_terminal(tmp_path, 80, words)

    assert code == 1
    rows = [line for line in text.splitlines() if line.startswith(("call or not", "same calls"))]
    assert [row.rstrip().endswith("worse") for row in rows] == [True, True]
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.processes
def test_the_example_of_the_documentation_runs_as_it_is(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "evaluation.md").read_text("utf-8")
    (example,) = re.findall(r"```bash\n(for n in .*?)```\n\n```\n(.*?)```", text, re.DOTALL)
    ours = f'surecall() {{ {sys.executable} -W error -m surecall "$@"; }}\n'
    done = subprocess.run(
        ["/bin/bash", "-c", ours + example[0]],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stderr
    assert Trial("bash", *example).prints(done.stdout), done.stdout


@pytest.mark.processes
def test_ctrl_c_loses_nothing_and_the_same_command_continues(tmp_path: Path) -> None:
    written(tmp_path, 80)
    words = compare("-n", "2", "-q", "-j", "2", reference="sim=sim/clean", against="sim=sim/lazy")
    command = (sys.executable, "-W", "error", "-m", "surecall", *words)
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, env=os.environ) as process:
        until(lambda: recorded(tmp_path) >= 10)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    before = recorded(tmp_path)

    assert process.returncode == 130
    assert b"run the same command to continue" in err
    assert 10 <= before < 320
    assert agreement(tmp_path)["counts"]["asked"] < 160
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert again.returncode == 1
    assert recorded(tmp_path) == 320
    assert agreement(tmp_path)["counts"]["asked"] == 160


def recorded(folder: Path) -> int:
    """Count the trials of the only run; none before it has a store."""
    found = list(folder.glob(".surecall/runs/*/trials.sqlite"))
    if not found:
        return 0
    with closing(sqlite3.connect(found[0])) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM trials").fetchone()[0])
        except sqlite3.OperationalError:
            return 0
