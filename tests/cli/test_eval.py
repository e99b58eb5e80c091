"""Tests of `surecall.cli.eval`."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from surecall.eval.storage.trial import Cell
from surecall.simulator.server import Simulator
from surecall.testing import ScriptedProvider, says
from tests.support.commands import (
    SMALL,
    Run,
    on_terminal,
    recorded_statuses,
    stored,
    until_recorded,
)
from tests.support.spec import proves
from tests.support.timing import PATIENCE_S
from tests.support.trials import series

# `surecall eval`: what it prints, what it keeps, how it continues, and how it fails


SURECALL = (sys.executable, "-W", "error", "-m", "surecall")


def test_without_a_key_it_measures_simulated_models_and_says_so(run: Run, tmp_path: Path) -> None:
    code, out, err = run(*SMALL)

    assert code == 0
    assert "built-in simulator" in err
    assert "sim/clean" in out
    assert "3/3 100%" in out
    assert "✗ not handled" in out
    assert "\x1b" not in out + err
    (directory,) = tmp_path.glob(".surecall/runs/*")
    names = {path.name for path in directory.iterdir()}
    assert {"summary.json", "summary_by_scenario.json", "report.md", "junit.xml"} <= names
    assert (tmp_path / ".surecall" / ".gitignore").read_text() == "*\n"


def test_a_simulator_that_is_reached_over_http_is_no_real_model(run: Run, tmp_path: Path) -> None:
    with Simulator() as there:
        where = ("eval", "--base-url", there.url, "-m", "sim/clean", "-s", "happy_path", "-n", "40")
        code, out, err = run(*where, "-q")
        document = json.loads(run(*where, "--json", "-q")[1])

    assert (code, err.count("no real model is measured")) == (0, 1)
    assert "no network" not in err
    assert out.startswith("Simulated: sim/clean is handled with production (profile default).")
    assert document["simulated"]
    (row,) = document["recommendations"]
    assert (row["decision"], row["verdict"], row["snippet"]) == ("handled", "handled", "")
    (report,) = tmp_path.glob(".surecall/runs/*/report.md")
    text = report.read_text()
    assert "## Simulated: what surecall handled" in text
    assert "| simulated model |" in text
    assert "recommended" not in text.casefold()


def test_a_filter_that_is_given_twice_means_both(run: Run) -> None:
    given = ("-m", "sim/clean", "-m", "sim/lazy", "-s", "happy_path", "-s", "chat_only")
    found = json.loads(run("eval", *given, "--dry-run", "--json")[1])

    assert [cell["model"] for cell in found["cells"]] == ["sim/clean", "sim/lazy"]
    assert sorted(found["scenarios"]) == ["chat_only", "happy_path"]


def test_the_same_command_runs_nothing_twice_and_more_trials_top_up(
    run: Run, tmp_path: Path
) -> None:
    run(*SMALL)
    first = recorded_statuses(tmp_path)
    _, _, err = run(*SMALL)
    assert "12 recorded" in err
    assert recorded_statuses(tmp_path) == first
    run(*SMALL[:-1], "5")
    assert sum(recorded_statuses(tmp_path).values()) == 20
    assert len(list(tmp_path.glob(".surecall/runs/*/trials.sqlite"))) == 1


def test_a_fresh_run_is_another_run(run: Run, tmp_path: Path) -> None:
    run(*SMALL)
    run(*SMALL, "--fresh")

    assert len(list(tmp_path.glob(".surecall/runs/*/trials.sqlite"))) == 2


def test_a_part_of_a_run_shows_only_itself(run: Run) -> None:
    run(*SMALL)
    part = ("eval", "-m", "sim/clean", "-s", "happy_path,chat_only", "-n", "3")
    _, out, err = run(*part, "--into", "latest")

    assert "= 6 runs, 6 recorded" in err
    assert "sim/lazy" not in out


def test_a_dry_run_shows_the_matrix_and_sends_nothing(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(*SMALL, "--strategy", "both", "--dry-run")

    assert code == 0
    assert "4 cells x 2 scenarios x 3 trials = 24 runs" in out
    assert "about 48 requests" in out
    assert not (tmp_path / ".surecall").exists()
    _, out, _ = run(*SMALL, "--dry-run", "--json")
    assert json.loads(out)["estimate"]["trials"] == 12


def test_json_is_one_document_on_standard_output(run: Run) -> None:
    _, out, _ = run(*SMALL, "--json", "-q")
    document = json.loads(out)

    assert document["schema_version"] >= 1
    assert document["run"]["ending"] == "complete"
    assert {row["model"] for row in document["recommendations"]} == {"sim/clean", "sim/lazy"}


def test_strategies_are_compared_on_the_same_conversations(run: Run) -> None:
    arguments = ("eval", "-m", "sim/like-glm", "-s", "happy_path", "-n", "12")
    _, out, _ = run(*arguments, "--strategy", "raw,production", "-q")

    assert "production over raw: helps sim/like-glm (+75 points)." in out
    assert out.splitlines()[-1].split()[1:7] == ["3/12", "25%", "12/12", "100%", "+75", "points"]
    assert out.endswith("▲ better: 9 fixed, 0 broken\n")


@proves("C119")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-m", "sim/cleam"], 2, "sim/clean"),
        (["-s", "hapy_path"], 2, "happy_path"),
        (["-p", "defualt"], 2, "default"),
        (["--strategy", "prodction"], 2, "production"),
        (["-n", "many"], 2, "--trials"),
        (["-n", "0"], 2, "--trials"),
        (["--base-url", "ftp://x"], 2, "--base-url"),
        (["--llm-options", "{"], 2, "--llm-options"),
        (["-m", "sim/clean,!sim/clean"], 4, "nothing"),
        (["--fail-under", "lots"], 2, "--fail-under"),
        (["--modle", "x"], 2, "--model"),
        (["-s", "missing.py"], 2, "missing.py"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_the_right_code(
    arguments: list[str], code: int, message: str, run: Run
) -> None:
    got, out, err = run("eval", *arguments)
    lines = [line for line in err.splitlines() if "simulated" not in line]

    assert (got, out, len(lines)) == (code, "", 1)
    assert message in lines[0]
    assert "Traceback" not in err


@proves("C118")
def test_a_router_without_a_key_is_wrong_usage(run: Run) -> None:
    code, _, err = run("eval", "--base-url", "https://openrouter.ai/api")

    assert code == 2
    assert "OPENROUTER_API_KEY" in err


def test_a_wrong_key_is_one_line_without_the_key(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key = "sk-wrong-key-for-this-endpoint"
    monkeypatch.setenv("SURECALL_API_KEY", key)
    with ScriptedProvider(says("never"), api_key="another", repeat=True) as provider:
        code, out, err = run("eval", "--base-url", provider.url, "-m", "a/b", "-n", "4")

    assert code == 2
    assert "Incorrect API key" in err
    assert key not in out + err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(key.encode() in path.read_bytes() for path in files)


def test_a_directory_that_is_a_file_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("not a directory")
    code, _, err = run(*SMALL, "--runs", "taken")

    assert code == 2
    assert "taken" in err
    assert "Traceback" not in err


def test_a_damaged_database_is_one_line_and_is_left_alone(run: Run, tmp_path: Path) -> None:
    run(*SMALL)
    (database,) = tmp_path.glob(".surecall/runs/*/trials.sqlite")
    for path in database.parent.glob("trials.sqlite-*"):
        path.unlink()
    database.write_bytes(b"This is not a database, but it is long enough to be one." * 99)
    before = database.read_bytes()
    code, _, err = run(*SMALL)

    assert (code, "Traceback" in err, "--fresh" in err) == (2, False, True)
    assert database.read_bytes() == before


def test_a_gate_decides_the_exit_code(run: Run) -> None:
    assert run(*SMALL, "-q", "--fail-under", "10")[0] == 1
    code, _, err = run("eval", "-m", "sim/clean", "-s", "simple", "-q", "--fail-under", "10")
    assert (code, err.count("below")) == (0, 0)
    code, _, err = run("eval", "-m", "sim/clean", "-s", "simple", "-q", "--fail-under", "99")
    assert (code, "lower bound" in err) == (1, True)
    arguments = ("-m", "sim/clean", "-s", "simple", "-q", "--fail-under", "99:observed")
    assert run("eval", *arguments)[0] == 0


def test_scenarios_of_ones_own_are_run_from_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from surecall.eval import expect, scenario\n\n\n"
        "@scenario(tags=['own'])\n"
        "async def polite(run):\n"
        "    out = await run('Say hello.')\n"
        "    expect.that(out, bool(out.text), 'nothing was said')\n"
    )
    code, _, err = run("eval", "-m", "sim/clean", "-s", "mine.py", "-n", "2")

    assert code == 0, err
    assert err.count("Use a real model for your own scenarios") == 1
    assert "of your own" not in run(*SMALL)[2]


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*SURECALL, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={key: value for key, value in os.environ.items() if "SURECALL" not in key},
    )


# More than is done before an interrupt can reach it, on any machine.
LONG = ("eval", "-m", "all", "-n", "1000", "-j", "4")


@pytest.mark.processes
def test_ctrl_c_finishes_what_is_under_way_writes_the_report_and_can_be_continued(
    tmp_path: Path,
) -> None:
    with started(tmp_path, *LONG) as process:
        until_recorded(tmp_path, 10)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130
    assert "Traceback" not in err
    kept = recorded_statuses(tmp_path)
    before = sum(kept.values())
    done = before - kept.get("skipped", 0)
    (wanted,) = re.findall(r"= (\d+) runs", err)
    said = f"interrupted: {done} of {wanted} done; run the same command to continue"
    assert err.splitlines()[-1] == said
    assert out.startswith(
        f"Partial: {int(wanted) - done} of {wanted} planned runs are not recorded"
    )
    assert 10 <= before < 85_000
    (directory,) = tmp_path.glob(".surecall/runs/*")
    assert (directory / "report.md").exists()
    part = ("eval", "-m", "sim/like-claude", "-n", "20", "-q", "--into", "latest")
    with started(tmp_path, *part) as again:
        again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0
    assert sum(recorded_statuses(tmp_path).values()) >= before


@pytest.mark.processes
def test_a_kill_loses_nothing_that_was_recorded(tmp_path: Path) -> None:
    with started(tmp_path, *LONG) as process:
        until_recorded(tmp_path, 10)
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    before = sum(recorded_statuses(tmp_path).values())
    part = ("eval", "-m", "sim/like-gpt", "-n", "20", "-q", "--into", "latest")
    with started(tmp_path, *part) as again:
        _, err = again.communicate(timeout=PATIENCE_S)

    assert again.returncode in {0, 1}, err
    assert sum(recorded_statuses(tmp_path).values()) >= before


@pytest.mark.processes
def test_after_a_kill_the_same_command_completes_the_same_run(tmp_path: Path) -> None:
    same = (*SMALL[:-1], "100", "-q", "-j", "4")
    with started(tmp_path, *same) as process:
        until_recorded(tmp_path, 10)
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    with started(tmp_path, *same) as again:
        _, err = again.communicate(timeout=PATIENCE_S)

    assert again.returncode == 0, err
    assert sum(recorded_statuses(tmp_path).values()) == 400


@pytest.mark.processes
def test_on_a_terminal_the_board_is_drawn_while_it_fills(tmp_path: Path) -> None:
    code, (drawn,) = on_terminal(tmp_path, 120, ("eval", "-m", "stable", "-n", "10"))

    assert code == 0
    assert "in flight" in drawn
    assert "tool pass" in drawn


# `surecall eval`: a command speaks of what it asked for, and its gates judge only that


ONE = ("eval", "-m", "sim/lazy", "-s", "happy_path", "-n", "20", "-q")


def test_fewer_trials_and_scenarios_show_only_themselves(run: Run) -> None:
    run("eval", "-m", "sim/clean", "-s", "happy_path,missing_workspace_id", "-n", "5", "-q")
    part = ("eval", "-m", "sim/clean", "-s", "happy_path", "-n", "2", "--into", "latest")
    _, out, err = run(*part)
    assert "= 2 runs, 2 recorded" in err
    assert "2/2 100%" in out
    _, out, _ = run(*part, "--json")
    found = json.loads(out)
    assert found["totals"]["runs"] == 2
    assert list(found["by_scenario"]) == ["happy_path"]
    assert found["recommendations"][0]["tool"]["n"] == 2


def test_what_was_recorded_for_other_models_is_not_counted_as_recorded(run: Run) -> None:
    run(*SMALL, "-q")
    more = ("eval", "-m", "sim/clean,sim/like-gpt", "-s", "happy_path", "-n", "4")
    _, _, err = run(*more, "--into", "latest")

    assert "= 8 runs, 3 recorded" in err


def test_an_automatic_number_of_trials_takes_in_all_there_are(run: Run) -> None:
    run("eval", "-m", "sim/clean", "-s", "happy_path", "-n", "55", "-q")
    _, out, _ = run("eval", "-m", "sim/clean", "-s", "happy_path", "-n", "auto", "-q")

    assert "55/55 100%" in out


def test_a_shard_shows_only_its_part(run: Run) -> None:
    run("eval", "-m", "sim/clean", "-s", "happy_path", "-n", "12", "-q")
    part = ("eval", "-m", "sim/clean", "-s", "happy_path", "-n", "12", "-q", "--json", "--shard")
    sizes = [json.loads(run(*part, shard)[1])["totals"]["runs"] for shard in ("1/2", "2/2")]

    assert sum(sizes) == 12
    assert min(sizes) > 0


def test_a_dry_run_tells_what_is_recorded_and_estimates_the_rest(run: Run, tmp_path: Path) -> None:
    run(*SMALL, "-q")
    stored(series("..."))
    (tmp_path / ".surecall" / "runs" / "empty").mkdir()
    (tmp_path / ".surecall" / "runs" / "empty" / "trials.sqlite").touch()
    more = (*SMALL[:-1], "5", "--dry-run")

    assert "= 20 runs, 12 recorded" in run(*more)[1]
    found = json.loads(run(*more, "--json")[1])
    assert (found["recorded"], found["estimate"]["trials"]) == (12, 8)
    assert "recorded" not in run(*more, "--fresh")[1]


def test_against_the_latest_means_the_one_before(run: Run) -> None:
    stored(series("." * 20, cell=Cell("sim/lazy")))
    code, _, err = run(*ONE, "--fresh", "--against", "latest")

    assert code == 1
    assert "significantly worse than before, 0 fixed, 20 broken" in err


def test_a_run_to_hold_against_that_does_not_exist_costs_nothing(run: Run, tmp_path: Path) -> None:
    code, out, err = run(*ONE, "--against", "nowhere")

    assert (code, out) == (2, "")
    assert "there are no runs" in err
    assert not (tmp_path / ".surecall").exists()


def test_the_report_is_opened_while_it_fills_and_once_more_in_the_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def browse(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    code, _, _ = run("eval", "-m", "sim/clean", "-s", "simple", "-n", "1", "-q", "--open")

    assert code == 0
    assert [address.split(":")[0] for address in opened] == ["http", "file"]
    assert opened[1].endswith("report.html")
