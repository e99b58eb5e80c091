"""The table of conduct on the terminal."""

from surecall.cli.conduct import conduct_lines
from surecall.eval.analysis.summary import summarise
from surecall.eval.report.conduct import COLUMNS
from tests.eval.report.test_conduct import GUIDED, GUIDED_ROW, PLAIN, RAW, RAW_ROW, TRIALS
from tests.support.commands import Run


def test_the_terminal_has_a_line_for_each_cell_and_none_without_such_runs() -> None:
    head, *lines = conduct_lines(summarise(TRIALS, cells=(RAW, GUIDED)).cells)

    assert head.split("  ")[0] == "model"
    assert all(name in head for name in COLUMNS)
    assert [line.split() for line in lines] == [
        ["m", "default", "raw", *RAW_ROW],
        ["m", "default", "guided", *GUIDED_ROW],
    ]
    assert len({len(line) for line in (head, *lines)}) == 1
    assert conduct_lines(summarise(PLAIN).cells) == []


def test_the_command_prints_it_below_its_table(run: Run) -> None:
    work = ("eval", "-m", "sim/clean", "-q", "-n", "1", "-s", "work_revoke_key")
    code, out, _ = run(*work, "--strategy", "raw,guided_contract")

    rows = [line.split()[2:] for line in out.rpartition("\n\n")[2].splitlines()[1:]]
    assert code == 0
    assert [row[:7] for row in rows] == [
        ["raw", "1/1", "0", "0", "0", "0", "0"],
        ["guided_contract", "1/1", "0", "0", "0", "0", "0"],
    ]
    assert "silent wrong" not in run("eval", "-m", "sim/clean", "-q", "-n", "1", "-s", "simple")[1]
