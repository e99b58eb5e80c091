"""The verdict of an evaluation: the same words in the terminal and in every report."""

import json
from pathlib import Path

from tests.support.commands import Run
from tests.support.reports import Page


def test_the_verdict_has_the_same_words_wherever_it_stands(run: Run, tmp_path: Path) -> None:
    words = ("eval", "-m", "sim/calls-nothing", "-n", "10", "-q")
    _, out, _ = run(*words, "--strategy", "raw,production,guided_contract")
    (directory,) = tmp_path.glob(".surecall/runs/*")
    said = "sim/calls-nothing is handled with guided_contract (profile default)."

    assert out.splitlines()[0] == f"Simulated: {said}"
    assert "  50/50 100%  " in out
    summary = json.loads((directory / "summary.json").read_bytes())
    assert summary["verdict"]["sentence"] == f"Simulated: {said}"
    (model,) = summary["verdict"]["models"]
    assert (model["verdict"], model["strategy"], model["sampling_profile"]) == (
        "handled",
        "guided_contract",
        "default",
    )
    markdown = (directory / "report.md").read_text("utf-8")
    assert markdown.splitlines()[2] == f"**Verdict.** Simulated: {said}"
    page = Page((directory / "report.html").read_text("utf-8"))
    assert f"Simulated: ✓ {said}" in page.words


def test_the_end_begins_with_the_verdict_and_then_has_a_row_for_each_model(run: Run) -> None:
    words = ("-m", "sim/lazy,sim/clean", "-s", "simple", "-n", "40", "-q")
    _, out, _ = run("eval", *words)
    sentence, blank, head, *rows = out.splitlines()

    assert (sentence, blank) == (
        (
            "Simulated: sim/clean is handled with production (profile default). "
            "sim/lazy is not handled, even with production (profile default)."
        ),
        "",
    )
    assert head.startswith("verdict        simulated model  tool pass ")
    assert [row.split("  ")[:3] for row in rows] == [
        ["✓ handled", "", ""],
        ["✗ not handled", "sim/lazy", ""],
    ]
    assert " use" not in out.replace("use ", "")
    assert "avoid" not in out
