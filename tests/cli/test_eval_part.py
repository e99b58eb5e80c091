"""`surecall eval`: a command speaks of what it asked for, and its gates judge only that."""

import json
from pathlib import Path

import pytest

from surecall.eval.storage.trial import Cell
from tests.support.commands import Run, stored
from tests.support.trials import series

SMALL = ("eval", "-m", "sim/clean,sim/lazy", "-s", "happy_path,chat_only", "-n", "3")
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
