"""Tests of `surecall.cli.eval_summary`."""

import json
import re
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from surecall.cli.eval_summary import (
    behavior_lines,
    exit_code,
    has_no_results,
    print_ending,
    strategy_lines,
    verdict_lines,
)
from surecall.eval.analysis.comparisons import Comparisons
from surecall.eval.analysis.recommendations import Recommendation, profile_candidates, recommend
from surecall.eval.analysis.summary import CellSummary, summarize
from surecall.eval.report.summary_json import BEHAVIOR_COLUMNS
from surecall.eval.running.ledger import EndReason, EvaluationReport
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.value_parsers import Gate
from surecall.eval.storage.trial import CONTROL, Cell, Trial
from surecall.testing import ScriptedProvider, failure
from tests.support.commands import (
    Run,
    assert_aligned,
    assert_fits,
    assert_whole,
    on_terminal,
    one_line,
)
from tests.support.reports import (
    CONDUCT_GUIDED,
    CONDUCT_PLAIN,
    CONDUCT_RAW,
    CONDUCT_TRIALS,
    GUIDED_ROW,
    RAW_ROW,
)
from tests.support.trials import series, trial

# The last words of an evaluation that did not come to its end, and its exit code


KEY = "sk-wrong-key-for-this-endpoint"
NOTHING = summarize([])


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
    assert last_words(err).endswith("Check the API key. Gave up after 1 of 1 run.\n")


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
        f"surecall: {refusing}/v1: BAD_REQUEST (HTTP 400): {said.rstrip('.')}. Gave up after "
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
    assert "whether the server is running. Gave up after" in said
    assert len(re.findall(r"\d+ of \d+", said)) == 1
    assert "hidden" not in err


def test_programs_get_their_document_from_a_dead_endpoint_too(run: Run, nowhere: str) -> None:
    where = ("--base-url", f"http://{nowhere}", "-m", "a/b", "-s", "simple", "-n", "1", "--json")
    code, out, _ = run("eval", *where, "-q")

    assert (code, json.loads(out)["run"]["ending"]) == (3, "unusable")


def test_an_interrupt_says_how_much_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    report = EvaluationReport(end_reason="interrupted", wanted=810, recorded=40, executed=58)

    assert print_ending(Settings(), "", report, NOTHING, Comparisons()) == 130
    said = "interrupted: 98 of 810 done; run the same command to continue\n"
    assert capsys.readouterr().err == said


def test_what_was_measured_is_shown_even_if_the_endpoint_has_died(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trials = series("..")
    report = EvaluationReport(
        end_reason="unusable",
        wanted=9,
        recorded=2,
        executed=1,
        error="gone",
        category="CONNECTION_ERROR",
    )

    assert not has_no_results(report, summarize(trials))
    assert has_no_results(report, NOTHING)
    assert (
        print_ending(Settings(), "http://there/v1", report, summarize(trials), Comparisons()) == 3
    )
    assert capsys.readouterr().err == "surecall: http://there/v1: gone.\n"


def test_a_budget_that_cannot_count_everything_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    report = EvaluationReport(end_reason="complete", wanted=2, recorded=0, executed=2, unpriced=1)
    trials = series("..")

    assert print_ending(Settings(max_cost=1.0), "", report, summarize(trials), Comparisons()) == 0
    assert "1 trials had no price" in capsys.readouterr().err


def test_nothing_of_a_dead_endpoint_is_kept_as_a_result(
    run: Run, nowhere: str, tmp_path: Path
) -> None:
    run("eval", "--base-url", f"http://{nowhere}", "-m", "a/b", "-s", "simple", "-n", "1", "-q")
    (directory,) = tmp_path.glob(".surecall/runs/*")
    found = json.loads((directory / "summary.json").read_bytes())

    assert [model["tool_runs"] for model in found["models"]] == [0]


# The rows of verdicts: best first, why beside or below, and nothing cut


LONG = "a-maker-with-a-name/a-model-with-a-very-long-name-that-goes-on"
GOOD, BAD, FEW = "." * 50, "x" * 30, "." * 6


def judged(
    trials: list[Trial], *simulated: str
) -> tuple[tuple[Recommendation, ...], tuple[CellSummary, ...]]:
    cells = summarize(trials).cells
    return recommend(profile_candidates(cells), simulated=dict.fromkeys(simulated, "sim")), cells


def lines_of(trials: list[Trial], width: int | None = None, *simulated: str) -> list[str]:
    return verdict_lines(*judged(trials, *simulated), 0.9, width)


def trials_of(model: str, strategies: tuple[str, ...] = ("production",)) -> list[Trial]:
    return [
        each
        for strategy in strategies
        for scenario, how in (
            ("happy_path", "...xi"),
            ("a_scenario_whose_name_is_rather_long", "..xxi"),
            (CONTROL, "....i"),
        )
        for profile in ("default", "a_profile_with_a_long_name")
        for each in series(how, scenario, Cell(model, profile, strategy))
    ]


def test_rows_are_in_the_order_of_the_sentence_with_their_figures() -> None:
    trials = [*series(FEW, cell=Cell("few")), *series(BAD, cell=Cell("bad"))]
    head, *rows = lines_of([*trials, *series(GOOD, cell=Cell("good"))])

    assert head == "verdict      model  tool pass     interval       0%           bar 90% 100%"
    assert [row.split("  ")[0] for row in rows] == ["✓ use", "✗ avoid", "? undecided"]
    assert rows[0] == ("✓ use        good     50/50 100%  [92.9, 100.0]  ······················┼─●")
    assert "  needs 29 more runs" in rows[2]


def test_a_simulated_model_is_handled_or_not_and_called_simulated() -> None:
    trials = [*series(GOOD, cell=Cell("sim/a")), *series(BAD, cell=Cell("sim/b"))]
    head, good, bad = lines_of(trials, None, "sim/a", "sim/b")

    assert "  simulated model  " in head
    assert good.startswith("✓ handled      sim/a ")
    assert bad.startswith("✗ not handled  sim/b ")


def test_other_profiles_follow_the_one_that_was_judged() -> None:
    few, many = Cell("m", "few"), Cell("m", "many")
    trials = [*series(FEW, cell=few), *series("i", "two", few), *series(GOOD * 2 + "x", cell=many)]
    _, first, second = lines_of(trials)

    assert first.split()[:4] == ["✓", "use", "m", "many"]
    assert second.split()[:3] == ["m", "few", "6/6"]
    assert "spoiled" not in first + second


def test_what_to_use_is_explained_by_its_figures_and_a_failed_control_is_a_caution() -> None:
    (line,) = lines_of([*series("." * 40), *series("x" * 10, CONTROL)])[1:]

    assert line.startswith("✓ use ")
    assert line.endswith(
        "  0/10     caution, the control (an exact answer without tools) passed only 0 of 10 runs"
    )


def test_early_answers_and_times_are_told_of_the_judged_cell() -> None:
    (line,) = lines_of([trial(false_finals=2, elapsed_ms=1500)])[1:]

    assert "  1.5 s  " in line
    assert line.endswith("; 2 premature answers")


def test_nothing_to_judge_makes_no_table() -> None:
    assert verdict_lines((), (), 0.9) == []


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
@pytest.mark.parametrize("model", ["m", LONG])
@pytest.mark.parametrize("strategies", [("production",), ("raw", "guided_contract")])
def test_on_a_terminal_every_row_fits_and_no_reason_is_lost(
    width: int, model: str, strategies: tuple[str, ...]
) -> None:
    trials = [*trials_of(model, strategies), *series(GOOD, cell=Cell("good", strategy="raw"))]
    found = "\n".join(lines_of(trials, width))

    assert_fits(found, width)
    assert_aligned(found)
    assert_whole(found, "\n".join(lines_of(trials)))
    told = " ".join(found.split())
    assert "2 more tool runs were not scored because of infrastructure errors" in told


def test_elsewhere_every_profile_has_one_line() -> None:
    assert len(lines_of(trials_of(LONG))) == 3


# What an evaluation prints about itself: the verdict first, and its numbers add up


INTERRUPTED = """
import json, os, signal, sys
from surecall.cli import main
from surecall.cli import eval_run
take, sent = eval_run.ProgressDisplay.update, []
def take_and_interrupt(self, notice):
    take(self, notice)
    if self._finished == 3 and not sent:  # a second Ctrl-C would cancel the trials under way
        sent.append(signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
eval_run.ProgressDisplay.update = take_and_interrupt
sys.exit(main(json.loads(sys.argv[1])[0]))
"""


def test_of_several_strategies_the_gain_is_the_news(run: Run) -> None:
    words = ("-m", "sim/stops-early", "-s", "happy_path", "-n", "12", "-q")
    _, out, _ = run("eval", *words, "--strategy", "raw,guided_contract")

    gained = out.splitlines()[1]
    assert gained == "guided_contract over raw: helps sim/stops-early (+75 points)."
    assert out.splitlines()[-1].startswith("sim/stops-early ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-m", "sim/clean", "-n", "1"), "1 cell x 1 scenario x 1 trial = 1 run\n"),
        (
            ("-m", "sim/clean", "-n", "auto"),
            "1 cell x 1 scenario x 10 or more trials = 10 runs or more\n",
        ),
        (
            ("-m", "sim/clean,sim/like-minimax-her", "-n", "3"),
            "2 cells x 1 scenario x 3 trials - 3 skipped = 3 runs\n",
        ),
    ],
)
def test_the_number_of_runs_says_what_it_is_made_of(
    run: Run, arguments: tuple[str, ...], said: str
) -> None:
    _, out, _ = run("eval", *arguments, "-s", "happy_path", "--dry-run")

    assert said in out


def test_the_parts_of_a_shard_add_up(run: Run) -> None:
    parts = [
        run("eval", "-m", "sim/clean", "-n", "9", "--shard", part, "--dry-run")[1]
        for part in ("1/2", "2/2")
    ]
    heads = [line for out in parts for line in out.splitlines() if "cell x" in line]

    assert all(f"x 9 trials, of which part {at}/2 = " in head for at, head in enumerate(heads, 1))
    assert sum(int(head.split(" = ")[1].split()[0]) for head in heads) == 9 * 6


@pytest.mark.processes
def test_after_a_ctrl_c_the_table_says_that_it_is_partial(tmp_path: Path) -> None:
    words = ("eval", "-m", "sim/clean", "-s", "happy_path", "-n", "50", "-q")
    code, (printed,) = on_terminal(tmp_path, 80, words, code=INTERRUPTED)
    (first,) = [line for line in printed.splitlines() if line.startswith("Partial: ")]
    (markdown,) = tmp_path.glob(".surecall/runs/*/report.md")

    assert code == 130
    assert first.endswith(" of 50 planned runs are not recorded.")
    assert first in markdown.read_text("utf-8")


def test_a_wrong_key_is_told_as_such_however_few_trials_there_are(run: Run) -> None:
    with ScriptedProvider(*[failure(401)] * 6) as provider:
        where = ("--base-url", provider.url, "-m", "mine", "-n", "1", "-q")
        code, _, err = run("eval", *where)

    assert code == 2
    assert "AUTH" in err
    assert "tries them again" not in err


# Gates: what passes, what fails, and what is left open


GATED = Settings(fail_under=Gate(10.0))


def gates_judged(
    trials: list[Trial],
    settings: Settings = GATED,
    ending: EndReason = "complete",
    missing: int = 0,
) -> tuple[int, list[str]]:
    wanted, error = len(trials) + missing, "" if ending == "complete" else "why"
    report = EvaluationReport(
        end_reason=ending, wanted=wanted, recorded=0, executed=len(trials), error=error
    )
    return exit_code(settings, summarize(trials), report, Comparisons())


@pytest.mark.parametrize(
    "trials", [series("...", CONTROL), [*series("sss"), *series("...", CONTROL)]]
)
def test_a_gate_without_a_rate_does_not_pass(trials: list[Trial]) -> None:
    assert gates_judged(trials) == (
        3,
        ["no run with tools was measured, so --fail-under has nothing to check"],
    )
    assert gates_judged(trials, Settings()) == (0, [])


def test_a_gate_names_the_cell_that_it_cannot_judge_unless_that_has_no_tools() -> None:
    blank, off = Cell("blank"), Cell("off")
    known = series("." * 20)

    code, (reason,) = gates_judged([*known, *series("..", CONTROL, blank)])
    assert code == 3
    assert reason.startswith("blank default production: no run with tools was measured")
    assert gates_judged([*known, *series("ss", cell=off), *series("..", CONTROL, off)]) == (0, [])


def test_a_rate_that_is_too_low_comes_before_what_is_left_open() -> None:
    code, (reason,) = gates_judged(series("xxx"), missing=2)

    assert code == 1
    assert "lower bound 0.0% is below 10%" in reason


def test_trials_that_were_not_run_leave_the_verdict_open() -> None:
    trials = series("." * 20)

    assert gates_judged(trials, missing=2) == (
        3,
        ["2 trials were not run; run the same command to continue"],
    )
    assert gates_judged(trials, ending="budget", missing=2) == (
        3,
        ["the budget is used up; 2 trials were not run; raise --max-cost to continue"],
    )
    assert gates_judged(trials, ending="lost", missing=2) == (
        3,
        ["why; 2 trials were not run; run the same command, with any --engine, to continue"],
    )


def test_what_will_be_refused_again_is_not_recommended_to_be_tried_again() -> None:
    spoiled = [
        trial("infra", number, category=category)
        for number, category in enumerate(("AUTH", "NOT_FOUND", "TIMEOUT"), 30)
    ]
    code, (refused, passing) = gates_judged([*series("." * 20), *spoiled])

    assert code == 3
    assert refused.startswith("2 trials are invalid (AUTH, NOT_FOUND); a retry would fail the same")
    assert passing == "1 trial is invalid (TIMEOUT); run the same command to retry it"


def test_a_gate_on_the_control_alone_leaves_the_verdict_open(run: Run) -> None:
    code, _, err = run("eval", "-m", "sim/clean", "-s", "chat_only", "-q", "--fail-under", "90")

    assert code == 3
    assert "--fail-under has nothing to check" in err


# Strategies side by side, and what was gained


def strategy_table_lines_of(trials: list[Trial], width: int | None = None) -> list[str]:
    summary = summarize(trials)
    return strategy_lines(recommend(profile_candidates(summary.cells)), summary, width)


def under(strategy: str, how: str, model: str = "m", profile: str = "default") -> list[Trial]:
    return series(how, cell=Cell(model, profile, strategy))


TRIALS = [
    *under("raw", "x" * 12),
    *under("production", "x" * 4 + "." * 8),
    *under("guided_contract", "." * 12),
    *under("raw", "." * 12, "steady"),
    *under("guided_contract", "." * 12, "steady"),
    *under("production", "x" * 12, "alone"),
]


def test_each_model_has_its_rates_and_its_change() -> None:
    head, *rows = strategy_table_lines_of(TRIALS)

    assert head.split("  ")[0] == "model"
    assert head.endswith("change       from raw to guided_contract")
    found = {row.split()[0]: row.split()[1:] for row in rows}
    assert found["m"] == [
        *("0/12", "0%", "8/12", "67%", "12/12", "100%", "+100", "points"),
        *("▲", "better:", "12", "fixed,", "0", "broken"),
    ]
    assert found["steady"] == ["12/12", "100%", "12/12", "100%", "none"]
    assert found["alone"] == ["0/12", "0%", "not", "compared"]


def test_a_change_that_may_be_chance_is_said_to_be_not_significant() -> None:
    trials = [
        *under("raw", "x" * 4 + "." * 8),
        *under("production", "." * 12),
        *under("guided_contract", "." * 12),
    ]
    (row,) = strategy_table_lines_of(trials)[1:]

    assert row.endswith(
        "+33 points  ≈ not significant after correction (p = 0.38): 4 fixed, 0 broken"
    )


def test_one_strategy_has_no_such_table() -> None:
    assert strategy_table_lines_of(under("raw", "..")) == []
    assert strategy_table_lines_of([]) == []


def test_profiles_are_named_where_there_are_several() -> None:
    trials = [*under("raw", "..", profile="warm"), *under("production", "..", profile="warm")]

    assert strategy_table_lines_of(trials)[0].startswith("model  profile  raw ")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_on_a_terminal_every_row_fits(width: int) -> None:
    long = [
        each for name in ("raw", "production") for each in under(name, ".x", "m" * 59, "p" * 30)
    ]
    found = "\n".join(strategy_table_lines_of([*TRIALS, *long], width))

    assert_fits(found, width)
    assert_aligned(found)
    assert_whole(found, "\n".join(strategy_table_lines_of([*TRIALS, *long])))


# The table of conduct on the terminal


def test_the_terminal_has_a_line_for_each_cell_and_none_without_such_runs() -> None:
    head, *lines = behavior_lines(
        summarize(CONDUCT_TRIALS, cells=(CONDUCT_RAW, CONDUCT_GUIDED)).cells
    )

    assert head.split("  ")[0] == "model"
    assert all(name in head for name in BEHAVIOR_COLUMNS)
    assert [line.split() for line in lines] == [
        ["m", "default", "raw", *RAW_ROW],
        ["m", "default", "guided", *GUIDED_ROW],
    ]
    assert len({len(line) for line in (head, *lines)}) == 1
    assert behavior_lines(summarize(CONDUCT_PLAIN).cells) == []


def test_the_command_prints_it_below_its_table(run: Run) -> None:
    work = ("eval", "-m", "sim/clean", "-q", "-n", "1", "-s", "work_revoke_key")
    code, out, _ = run(*work, "--strategy", "raw,guided_contract")

    rows = [line.split()[2:] for line in out.rpartition("\n\n")[2].splitlines()[1:]]
    assert code == 0
    assert [row[:7] for row in rows] == [
        ["raw", "1/1", "0", "0", "0", "0", "0"],
        ["guided_contract", "1/1", "0", "0", "0", "0", "0"],
    ]
    assert (
        "silent failures" not in run("eval", "-m", "sim/clean", "-q", "-n", "1", "-s", "simple")[1]
    )
