"""Tests of `surecall.cli.eval_run`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from surecall.cli.eval_run import ProgressDisplay, code_hash, estimate_text, parse_prices
from surecall.cli.tables import CellTable
from surecall.eval.running.ledger import (
    EvaluationStopped,
    RateLimited,
    TrialFinished,
    TrialsPlanned,
    TrialStarted,
)
from surecall.eval.running.matrix import CostEstimate, EvaluationPlan, ModelPrice
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.store import (
    Invocation,
    identity_settings,
    open_for_reading,
    open_or_resume,
)
from surecall.eval.storage.trial import Cell, CompletedTrials, Key
from surecall.testing import ScriptedProvider, says
from surecall.values.types import JSON
from tests.support.commands import SMALL, Run, assert_fits, on_terminal, one_line
from tests.support.trials import trial

# Which run a command writes to: its own, unless it is told another one


CLEAN = ("eval", "-m", "sim/clean", "-s", "happy_path,chat_only", "-n", "2")
LAZY = ("eval", "-m", "sim/lazy", "-s", "happy_path", "-n", "2")


def runs(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob(".surecall/runs/*/trials.sqlite"))


def sizes(folder: Path) -> list[int]:
    found = []
    for directory in runs(folder):
        with open_for_reading(directory) as store:
            found.append(len(store))
    return found


def head(directory: Path) -> JSON:
    found: JSON = json.loads((directory / "summary.json").read_bytes())
    return found


def test_two_different_commands_make_two_runs_and_each_names_what_it_holds(
    run: Run, tmp_path: Path
) -> None:
    run(*CLEAN, "-q")
    run(*LAZY, "-q")

    assert sizes(tmp_path) == [4, 2]
    first, second = map(head, runs(tmp_path))
    assert (first["model_filter"], first["selected_models"]) == ("sim/clean", ["sim/clean"])
    assert (second["model_filter"], second["selected_models"]) == ("sim/lazy", ["sim/lazy"])
    assert (second["scenarios"], len(second["commands"])) == (["happy_path"], 1)


@pytest.mark.parametrize(
    "other",
    [
        ("-m", "sim/lazy"),
        ("-s", "!chat_only"),
        ("-p", "conversation", "--no-enforce-applicability"),
        ("--strategy", "raw"),
        ("--seed", "7"),
        ("--temperature", "0.5"),
        ("--tool-use-mode", "relaxed"),
    ],
)
def test_whatever_changes_results_makes_another_run(
    run: Run, tmp_path: Path, other: tuple[str, ...]
) -> None:
    run(*CLEAN, "-q")
    code, _, err = run(*CLEAN, "-q", *other)

    assert code == 0, err
    assert len(runs(tmp_path)) == 2


def test_the_same_matrix_continues_however_it_is_asked_for(run: Run, tmp_path: Path) -> None:
    run(*CLEAN, "-q")
    run("eval", "-m", "sim/clea*,sim/lazy,!sim/lazy", "-s", "chat_only,happy_path", "-n", "2", "-q")
    run(*CLEAN, "-j", "1", "-v", "--json", "--bar", "80", "--max-cost", "3", "--fail-under", "1")
    run(*CLEAN, "-q", "--shard", "1/2")
    assert sizes(tmp_path) == [4]
    run(*CLEAN, "-q", "-n", "4")
    assert sizes(tmp_path) == [8]
    run(*CLEAN, "-q", "-n", "auto")

    (directory,) = runs(tmp_path)
    assert sizes(tmp_path)[0] >= 20
    assert head(directory)["trials_per_model"] == "auto"


@pytest.mark.parametrize("name", ["latest", "{name}", "{part}", "{path}"])
def test_a_run_that_is_named_is_added_to_and_says_all_it_holds(
    run: Run, tmp_path: Path, name: str
) -> None:
    run(*CLEAN, "-q")
    (directory,) = runs(tmp_path)
    words = {"name": directory.name, "part": directory.name[11:], "path": str(directory)}
    code, out, err = run(*LAZY, "--into", name.format(**words))

    assert (code, sizes(tmp_path)) == (0, [6]), err
    assert ("sim/lazy" in out, "sim/clean" in out) == (True, False)
    found = head(directory)
    assert found["model_filter"] is None
    assert [one["model_filter"] for one in found["commands"]] == ["sim/clean", "sim/lazy"]
    assert sorted(found["selected_models"]) == ["sim/clean", "sim/lazy"]
    run(*CLEAN, "-q")
    assert sizes(tmp_path) == [6]


def test_a_run_elsewhere_is_added_to_and_does_not_become_the_latest(
    run: Run, tmp_path: Path
) -> None:
    run(*CLEAN, "-q", "--runs", "there")
    run(*CLEAN, "-q")
    latest = (tmp_path / ".surecall" / "latest").read_text()
    (directory,) = tmp_path.glob("there/runs/*")
    code, _, err = run(*LAZY, "--into", str(directory))

    assert code == 0
    assert f"surecall report {directory}" in err
    assert (tmp_path / ".surecall" / "latest").read_text() == latest
    with open_for_reading(directory) as store:
        assert len(store) == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--into", "latest", "--fresh"), "leave out one of them"),
        (("--into", "nobody"), 'unknown run "nobody"'),
        (("--into", "latest", "--seed", "3"), "was made with different settings: seed: 0 and 3"),
    ],
)
def test_what_cannot_be_added_to_is_one_line_and_changes_nothing(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    run(*CLEAN, "-q")
    (directory,) = runs(tmp_path)
    with open_for_reading(directory) as store:
        before = store.meta
    code, out, err = run(*LAZY, *arguments)

    assert (code, out) == (2, "")
    assert said in one_line(err.removeprefix(err.partition("surecall: ")[0]))
    with open_for_reading(directory) as store:
        assert (len(store), store.meta) == (4, before)


def test_a_dry_run_looks_where_the_command_would_write(run: Run) -> None:
    run(*CLEAN, "-q")
    part = (*CLEAN[:4], "happy_path", "-n", "2", "--dry-run")

    assert "= 4 runs, 4 recorded" in run(*CLEAN, "--dry-run")[1]
    assert "recorded" not in run(*part)[1]
    assert "= 2 runs, 2 recorded" in run(*part, "--into", "latest")[1]
    assert "recorded" not in run(*CLEAN, "--dry-run", "--fresh")[1]


def test_a_folder_of_several_matrices_is_left_alone_and_pointed_out_once(
    run: Run, tmp_path: Path
) -> None:
    run(*CLEAN, "-q", "--runs", "new")
    (made,) = tmp_path.glob("new/runs/*")
    with open_for_reading(made) as store:
        settings, kept = identity_settings(store.meta.identity), list(store.trials())
    with open_or_resume(Path(".surecall"), settings, Invocation()) as old:
        for trial in kept:
            old.add(trial)
    name = old.directory.name
    before = (old.directory / "trials.sqlite").read_bytes()
    _, _, err = run(*CLEAN)

    told = f"{name}, by an earlier version, has trials of this command and stays unchanged"
    assert err.count(told) == 1
    assert f"--into {name}" in err
    assert sizes(tmp_path) == [4, 4]
    assert (old.directory / "trials.sqlite").read_bytes() == before
    assert told not in run(*CLEAN)[2]
    assert told not in run(*LAZY)[2]
    assert run(*LAZY, "-q", "--into", name)[0] == 0
    with open_for_reading(old.directory) as store:
        assert len(store) == 6


def test_the_hash_of_the_program_says_its_version() -> None:
    assert code_hash().startswith("0.")
    assert code_hash() == code_hash()


# What an evaluation will take is said before the first request, and the price where it is told


PRICED = {"id": "a/b", "pricing": {"prompt": "0.000002", "completion": "0.00001"}}


class Router(ScriptedProvider):
    """A provider that answers everything alike, and lists some models."""

    def __init__(self, listing: bytes) -> None:
        super().__init__(says("Done."), repeat=True)
        self.listing = listing
        self.asked: list[int] = []

    async def _list_models(self, request: web.Request) -> web.StreamResponse:
        del request
        self.asked.append(len(self.requests))
        return web.Response(body=self.listing)


@pytest.fixture
def router() -> Iterator[Router]:
    with Router(msgspec.json.encode({"data": [PRICED]})) as running:
        yield running


def arguments(router: Router, *more: str) -> tuple[str, ...]:
    where = ("--base-url", router.url, "-m", "a/b:nitro", "-s", "chat_only", "-n", "2")
    return ("eval", *where, *more)


def test_requests_tokens_and_price_are_said_before_anything_is_sent(
    run: Run, router: Router
) -> None:
    _, _, err = run(*arguments(router))

    assert router.asked == [0]
    assert "about 2 requests, 72 input and 240 output tokens; less than $0.01" in err
    assert "set a limit with --max-cost" in err
    assert len(router.requests) == 2


def test_what_is_recorded_is_not_priced_again_and_nothing_is_asked(
    run: Run, router: Router
) -> None:
    run(*arguments(router, "-q"))
    assert router.asked == []
    _, _, err = run(*arguments(router))

    assert router.asked == []
    assert "tokens to read" not in err


def test_a_dry_run_asks_for_prices_and_no_model(run: Run, router: Router) -> None:
    _, out, _ = run(*arguments(router, "--dry-run", "-n", "2000"))
    assert "72k input and 240k output tokens; about $2.54 at list prices" in out
    assert out.endswith("nothing was sent to a model\n")
    _, out, _ = run(*arguments(router, "--dry-run", "--json"))

    assert json.loads(out)["estimate"]["cost"] == pytest.approx((72 * 2 + 240 * 10) / 1e6)
    assert router.requests == []


@pytest.mark.parametrize("listing", [b"", b"[]", b"{}", b"[" * 100_000, b'{"data":[{"id":"a/b"}]}'])
def test_an_endpoint_that_tells_no_prices_is_measured_all_the_same(
    run: Run, listing: bytes
) -> None:
    with Router(listing) as router:
        _, out, err = run(*arguments(router))

    assert "cost unknown: the endpoint lists no prices" in err
    assert "2/2" in out


def test_simulated_models_cost_nothing_and_say_nothing_about_it(run: Run) -> None:
    small = ("eval", "-m", "sim/clean", "-s", "chat_only", "-n", "1")

    assert "tokens" not in run(*small)[2]
    assert "no cost\n" in run(*small, "--dry-run", "--fresh")[1]


@pytest.mark.parametrize(
    ("pricing", "price"),
    [
        ({"prompt": "0.000001", "completion": 0.000004}, ModelPrice(1.0, 4.0)),
        ({"prompt": "0", "completion": "0"}, ModelPrice(0.0, 0.0)),
        ({"prompt": "-1", "completion": "-1"}, None),
        ({"prompt": "nan", "completion": "0"}, None),
        ({"prompt": "cheap", "completion": "0"}, None),
        ({"prompt": 10**400, "completion": "0"}, None),
        ({"prompt": None, "completion": "0"}, None),
        ({"prompt": "0.1"}, None),
        ("free", None),
    ],
)
def test_only_what_is_a_price_is_taken_for_one(pricing: Any, price: ModelPrice | None) -> None:
    found = dict(parse_prices({"data": [3, {"id": "m", "pricing": pricing}]}))

    assert found == ({} if price is None else {"m": price})


@pytest.mark.parametrize(
    ("cost", "cap", "said"),
    [
        (None, 5.0, "cost unknown: the endpoint lists no prices"),
        (0.0, None, "no cost"),
        (
            0.84,
            None,
            "about $0.84 at list prices, more for reasoning models; set a limit with --max-cost",
        ),
        (0.84, 5.0, "about $0.84 at list prices, limited to $5.00 by --max-cost"),
        (9.0, 5.0, "limited to $5.00 by --max-cost, which will stop it early"),
    ],
)
def test_a_cost_is_said_with_what_bounds_it(
    cost: float | None, cap: float | None, said: str
) -> None:
    words = estimate_text(CostEstimate(1, 1, 2_500_000, 900, cost), cap)

    assert words.startswith("about 1 request, 2.5M input and 900 output tokens; ")
    assert said in words


# Progress: a table on a terminal, lines elsewhere


def test_v_prints_a_line_for_each_trial(run: Run) -> None:
    code, _, err = run(*SMALL, "-v")

    assert code == 0
    assert err.count("passed  sim/clean default production") == 6


@pytest.mark.processes
def test_on_a_terminal_v_prints_lines_instead_of_the_board(tmp_path: Path) -> None:
    code, (printed,) = on_terminal(tmp_path, 120, ("eval", "-v", *SMALL[1:]))

    assert code == 0
    assert printed.count("passed  sim/clean default production") == 6
    assert "in flight" not in printed


def test_what_to_do_after_ctrl_c_has_a_line_of_its_own_in_the_display() -> None:
    progress = ProgressDisplay(
        EvaluationPlan(Settings(), (), ()), CellTable((), 0.9), CompletedTrials()
    )
    assert "in flight 0" in progress.lines(80)[-1]
    progress.update(RateLimited("maker", 3.0, 1))
    assert progress.lines(80)[-1] == "rate limit (maker, waiting 3 s)"
    progress.update(EvaluationStopped("interrupted", 2))
    *_, far, hint = progress.lines(80)

    assert "in flight 0" in far
    assert "Ctrl-C" not in far
    assert hint.startswith("stopping: 2 trials to finish within 10 min;")
    assert hint.endswith("Ctrl-C again stops now")
    assert len(hint) < 80
    assert progress.line == f"{far}   {hint}"


@pytest.mark.processes
def test_a_terminal_that_cannot_replace_lines_gets_one_for_each_cell(tmp_path: Path) -> None:
    _, (printed,) = on_terminal(tmp_path, 80, SMALL, variables={"TERM": "dumb"})

    assert "sim/clean default production: 3/3\n" in printed
    assert "in flight" not in printed
    assert "\x1b" not in printed


def test_a_narrow_display_leaves_out_what_does_not_fit() -> None:
    progress = ProgressDisplay(
        EvaluationPlan(Settings(), (), ()), CellTable((), 0.9), CompletedTrials()
    )
    progress.update(TrialsPlanned(1000, 0))
    for number in range(1, 21):
        progress.update(TrialStarted(Key(Cell("m"), "happy_path", number)))
        progress.update(TrialFinished(trial(number=number, retries=9, cell=Cell("m" * 90)), 12.5))
    progress.update(EvaluationStopped("interrupted", 20))

    for width in (60, 80, 120, 200):
        assert_fits("\n".join(progress.lines(width)), width)
    assert "retries 180" not in "".join(progress.lines(60))
    assert "retries 180   $12.50" in "".join(progress.lines(120))


@pytest.mark.parametrize(
    ("limit_s", "said"),
    [(None, "1 trial to finish; Ctrl-C"), (90.0, "within 90 s;")],
)
def test_who_stops_is_told_how_long_it_may_take(limit_s: float | None, said: str) -> None:
    settings = Settings(timeout=limit_s)
    progress = ProgressDisplay(
        EvaluationPlan(settings, (), ()), CellTable((), 0.9), CompletedTrials()
    )
    progress.update(EvaluationStopped("interrupted", 1))

    assert said in progress.line
