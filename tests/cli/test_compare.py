"""`surecall compare`: two runs on the same conversations."""

import json
import sqlite3
from pathlib import Path

import pytest

from surecall.eval.storage.run_directories import DATABASE
from surecall.eval.storage.trial import Cell
from tests.support.commands import HOSTILE, IDENTITY, Run, one_line, stored
from tests.support.trials import series, trial

GOOD, BAD = "." * 12, "x" * 10 + ".."
OTHER = Cell("other/model", "warm", "raw")


def test_a_row_tells_both_rates_what_changed_and_how_sure_that_is(run: Run) -> None:
    before, after = stored(series(BAD)), stored(series(GOOD))
    code, out, err = run("compare", before.name, after.name)

    sentence, blank, head, row, overall = out.splitlines()
    assert (code, blank) == (0, "")
    assert sentence == (
        "From A to B with production: 2 of 12 runs passed, then 12; +83 points (10 fixed, "
        "0 broken); statistically significant."
    )
    assert head.startswith("verdict   simulated model  profile  strategy    difference ")
    assert "2/12 16.7% [4.7, 44.8]" in row
    assert "12/12 100.0% [75.8, 100.0]" in row
    assert "+83.3% [" in row
    assert row.startswith("▲ better  maker/model ")
    assert row.endswith("  10     0       0.00195")
    assert overall.startswith("▲ better  overall                   production  ")
    assert f"A = {before.name} (12 trials, simulated)\n" in err
    assert f"B = {after.name} (12 trials, simulated)\n" in err


def test_a_difference_that_may_be_noise_is_called_so(run: Run) -> None:
    before, after = stored(series("....xx")), stored(series("...xxx"))
    _, out, _ = run("compare", before.name, after.name)

    sentence, _, _, *rows = out.splitlines()
    assert sentence.endswith("; not significant after correction.")
    assert all(line.startswith("≈ no evidence of a difference  ") for line in rows)


@pytest.mark.parametrize("flags", [(), ("--json",), ("--fail-on-regression",)])
def test_a_run_is_not_compared_with_itself(run: Run, flags: tuple[str, ...]) -> None:
    same = stored(series("....xx"))
    code, out, err = run("compare", same.name, same.name, *flags)

    assert (code, out) == (2, "")
    assert one_line(err).startswith(
        f"surecall: A and B are the same run, {same.name} (given as {same.name}). Name two"
    )
    assert "`surecall ls runs` lists them" in err


def test_a_run_is_the_same_by_any_of_its_names(run: Run) -> None:
    same = stored(series("....xx"))
    for given in ("latest", str(same), str(same.absolute()), same.name[-4:]):
        code, _, err = run("compare", same.name, given)

        assert code == 2
        assert f"are the same run, {same.name} (given as {same.name} and {given})" in err


def test_the_gate_fails_only_on_a_significant_loss(run: Run) -> None:
    good, bad, hardly = stored(series(GOOD)), stored(series(BAD)), stored(series("x" + GOOD[1:]))

    assert run("compare", good.name, bad.name)[0] == 0
    assert run("compare", good.name, hardly.name, "--fail-on-regression")[0] == 0
    assert run("compare", bad.name, good.name, "--fail-on-regression")[0] == 0
    code, out, err = run("compare", good.name, bad.name, "--fail-on-regression")
    assert code == 1
    assert "▼ worse  " in out
    assert (
        "surecall: significantly worse: maker/model default production; over all production\n"
        in err
    )


def test_what_only_one_run_has_and_what_was_left_out_is_said(run: Run) -> None:
    before = stored([*series("..xi"), *series("..", cell=OTHER)])
    after = stored([*series("..x."), *series("..s", "skipped_here")])
    code, out, err = run("compare", before.name, after.name)

    assert code == 0
    assert "2/3 66.7%" in out
    assert "other/model" not in out
    assert "only in A: other/model warm raw\n" in err
    assert "5 trials, because only one of the runs has them" in err
    assert "1 trial, because infrastructure errors made it invalid" in err


def test_runs_that_were_not_made_alike_are_compared_with_a_warning(run: Run) -> None:
    before = stored(series("..", cell=OTHER), simulated=False)
    changed = [*series(".", cell=OTHER), *series(".", "two", cell=OTHER)]
    named = IDENTITY | {"seed": 7, "top_p": HOSTILE}
    after = stored(changed, identity=named)
    code, _, err = run("compare", before.name, after.name)

    assert code == 0
    assert "the runs have different settings: seed: 0 and 7\n" in err
    assert "the runs have different settings: top_p: nothing and " in err
    assert "only one of the runs is simulated" in err


def test_a_scenario_that_has_changed_is_named(run: Run) -> None:
    runs = [stored([trial(prompt_hash=text)]) for text in ("", "p1", "p2")]
    assert "differs between" not in run("compare", runs[0].name, runs[1].name)[2]
    _, _, err = run("compare", runs[1].name, runs[2].name)
    assert "scenario happy_path differs between the runs\n" in err


def test_runs_without_a_trial_in_common_compare_nothing(run: Run) -> None:
    before, after = stored(series("..")), stored(series("..", cell=OTHER))
    code, _, err = run("compare", before.name, after.name, "--fail-on-regression")

    assert code == 4
    assert err.endswith("surecall: the runs have no scored trial in common\n")


def test_the_document_holds_every_row_and_what_is_missing(run: Run) -> None:
    hostile = Cell(f"m{HOSTILE}")
    before = stored([*series(BAD, cell=hostile), *series("..")])
    after = stored([*series(GOOD, cell=hostile), *series("..", cell=OTHER)])
    code, out, _ = run("compare", before.name, after.name, "--json")

    found = json.loads(out)
    assert (code, found["schema_version"]) == (0, 1)
    assert (found["first"]["run"], found["second"]["run"]) == (before.name, after.name)
    row = next(row for row in found["rows"] if row["model"] == hostile.model)
    assert (row["fixed"], row["broken"], row["pairs"], row["verdict"]) == (10, 0, 12, "better")
    assert row["first_rate"]["k"] == 2
    assert [row["verdict"] for row in found["rows"]].count("not compared") == 2
    assert [cell["model"] for cell in found["only_in_first"]] == ["maker/model"]
    assert [cell["model"] for cell in found["only_in_second"]] == ["other/model"]
    assert [(row["strategy"], row["fixed"]) for row in found["overall"]] == [
        ("raw", 0),
        ("production", 10),
    ]


def test_what_is_over_all_is_over_one_strategy(run: Run) -> None:
    raw = Cell("maker/model", "default", "raw")
    before = stored([*series(GOOD), *series(BAD, cell=raw)])
    after = stored([*series(GOOD), *series(GOOD, cell=raw)])
    _, out, _ = run("compare", before.name, after.name)
    rows = [line.partition("overall") for line in out.splitlines() if "overall" in line]

    assert [(verdict.strip(), rest.split()[0]) for verdict, _, rest in rows] == [
        ("▲ better", "raw"),
        ("≈ no evidence of a difference", "production"),
    ]
    assert "From A to B with raw: 2 of 12 runs passed, then 12" in out
    assert "From A to B with production: 12 of 12 runs passed, then 12" in out


def test_hostile_names_stay_within_their_line(run: Run) -> None:
    runs = [stored(series("..", cell=Cell(HOSTILE))) for _ in range(2)]
    code, out, _ = run("compare", runs[0].name, runs[1].name)

    assert (code, len(out.splitlines())) == (0, 5)
    assert "\\x1b[2J\\u202egnp.exe" in out


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("latest", "nonsense"), 'unknown run "nonsense"'),
        (("latest", "-"), 'unknown run "-"'),  # part of two names
        (("latest", "elsewhere/run"), "unknown run"),
        ((HOSTILE, "latest"), "unknown run"),
    ],
)
def test_an_unknown_or_ambiguous_run_is_one_line(
    run: Run, names: tuple[str, str], said: str
) -> None:
    stored(series("."))
    stored(series("."))
    code, out, err = run("compare", "--", *names)

    assert (code, out) == (2, "")
    assert said in one_line(err)


def test_where_there_are_no_runs_that_is_what_is_said(run: Run) -> None:
    code, _, err = run("compare", "latest", "latest", "--runs", "nowhere")

    assert (code, one_line(err)) == (
        2,
        "surecall: there are no runs in nowhere: run surecall eval first, or pass --runs\n",
    )


def test_a_run_is_found_by_part_of_its_name_and_by_its_path(run: Run) -> None:
    here, there = stored(series("..")), stored(series(".."), base="there")

    assert run("compare", here.name[5:], str(there))[0] == 0


def test_a_page_is_written_beside_what_is_printed(run: Run) -> None:
    before = stored([*series(BAD), trial(scenario="two", prompt_hash="p1")])
    after = stored(
        [*series(GOOD), trial(scenario="two", prompt_hash="p2")],
        identity=IDENTITY | {"seed": 7},
    )
    plain = run("compare", before.name, after.name, "--json")
    code, out, err = run("compare", before.name, after.name, "--json", "--html", "new/page.html")
    page = Path("new/page.html").read_text("utf-8")

    assert (code, out) == plain[:2]
    assert err.endswith("wrote new/page.html\n")
    assert "<code>seed: 0 and 7</code>" in page.replace("<wbr>", "")
    assert "scenario two differs between the runs" in page
    assert before.name in page


def test_a_page_says_that_there_is_nothing_to_compare(run: Run) -> None:
    before, after = stored(series("..")), stored(series("..", cell=OTHER))
    code, _, _ = run("compare", before.name, after.name, "--html", "page.html")

    assert code == 4
    assert "there is nothing to compare" in Path("page.html").read_text("utf-8")


def test_the_gate_still_fails_when_a_page_is_written(run: Run) -> None:
    good, bad = stored(series(GOOD)), stored(series(BAD))
    code, _, _ = run("compare", good.name, bad.name, "--fail-on-regression", "--html", "page.html")

    assert code == 1
    assert Path("page.html").is_file()


@pytest.mark.parametrize("target", ["", ".", "folder", "file/page.html", "/"])
def test_a_page_that_cannot_be_written_is_one_sentence(run: Run, target: str) -> None:
    before = stored(series("."))
    stored(series("."))
    Path("folder").mkdir()
    Path("file").touch()
    code, _, err = run("compare", before.name, "latest", "--html", target)

    assert code == 2
    assert err.splitlines()[-1].startswith("surecall: cannot use ")
    assert not list(Path("folder").iterdir())


def test_a_damaged_run_is_one_line(run: Run) -> None:
    directory = stored(series("."))
    with sqlite3.connect(directory / DATABASE) as connection:
        connection.execute("UPDATE trials SET record = '{'")
    connection.close()
    code, _, err = run("compare", "latest", "latest")
    assert code == 2
    assert "is damaged" in one_line(err)
    (directory / DATABASE).write_bytes(b"\0" * 5000)
    code, _, err = run("compare", "latest", "latest")
    assert code == 2
    one_line(err)
