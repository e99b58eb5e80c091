"""`surecall demo`: what a stranger sees in the first minute, and that it is all measured."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from surecall import cli
from surecall.cli import demo
from surecall.cli.demo_page import WIDTH
from surecall.simulator.demo.contest import OWN, PLAIN, SDK, Row, contest
from surecall.simulator.demo.shapes import Shape, drawn, every_shape
from surecall.simulator.demo.tasks import Judgement
from surecall.testing import ScriptedProvider, calls, says
from tests.cli.test_main import SURECALL
from tests.support.commands import Run
from tests.support.patience import PATIENCE_S

CELL = re.compile(r"(?:✓|✗) ((?:\w+)(?: \w+)?)")
ESCAPE = "\x1b["


class Shown(NamedTuple):
    code: int
    lines: list[str]
    document: dict[str, Any]


@pytest.fixture(scope="module", name="rows")
def rows_fixture() -> list[Row]:
    return contest(drawn())


@pytest.fixture(name="shown")
def shown_fixture(rows: list[Row], run: Run, monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Show the same outcome as text and as JSON."""
    monkeypatch.setattr(demo, "contest", lambda _: rows)
    code, text, _ = run("demo")
    return Shown(code, text.splitlines(), json.loads(run("demo", "--json")[1]))


def test_the_command_runs_to_its_end_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    code, out, err = run("demo")

    assert (code, err) == (0, "")
    assert f"{len(drawn())} of {len(drawn())}" in out
    assert list(tmp_path.iterdir()) == []


def test_every_line_fits_a_terminal_of_eighty_columns(shown: Shown) -> None:
    assert [line for line in shown.lines if len(line) > WIDTH] == []


def test_every_shape_has_a_line_with_a_word_for_each_loop(shown: Shown) -> None:
    for shape in drawn():
        (line,) = [line for line in shown.lines if line.startswith(f"  {shape.words} ")]
        assert len(CELL.findall(line)) == len((PLAIN, SDK, OWN))


def test_the_totals_add_up(shown: Shown) -> None:
    cells = [CELL.findall(line) for line in shown.lines if CELL.search(line)]
    (totals,) = [line for line in shown.lines if line.startswith("right ")]
    right = [column.count("right") for column in zip(*cells, strict=True)]

    assert re.findall(r"(\d+) of (\d+)", totals) == [(str(n), str(len(cells))) for n in right]
    plain = Counter(row[0] for row in cells)
    del plain["right"]
    told = [re.match(r" +(\d+) x (\w+(?: \w+)?)  ", line) for line in shown.lines]
    assert {match[2]: int(match[1]) for match in told if match} == plain
    assert f"The plain loop failed {plain.total()} times." in shown.lines


def test_surecall_is_right_everywhere_and_the_plain_loop_is_not(shown: Shown) -> None:
    right, number = shown.document["right"], shown.document["of"]

    assert (shown.code, right[OWN]) == (0, number)
    assert 0 < right[PLAIN] < number
    assert 0 < right[SDK] < number


def test_the_document_says_what_the_lines_say(shown: Shown) -> None:
    said = [CELL.findall(line) for line in shown.lines if CELL.search(line)]

    assert said == [
        [each["how"] or "right" for each in shape["loops"].values()]
        for shape in shown.document["shapes"]
    ]
    (totals,) = [line for line in shown.lines if line.startswith("right ")]
    assert totals.split()[1::3] == [str(n) for n in shown.document["right"].values()]
    assert shown.document["schema_version"] == 1
    assert f"One of these replies, opened ({shown.document['opened']['shape']}):" in shown.lines


def test_on_request_every_reply_is_met(
    rows: list[Row], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[Shape] = []

    def meet(shapes: Sequence[Shape]) -> list[Row]:
        met.extend(shapes)
        return rows

    monkeypatch.setattr(demo, "contest", meet)
    run("demo", "--all")

    assert tuple(met) == every_shape()


@pytest.mark.parametrize("flag", [(), ("--json",)])
def test_the_exit_code_tells_if_surecall_was_wrong(
    flag: tuple[str, ...], rows: list[Row], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = rows
    wrong = first.outcomes[OWN]._replace(judgement=Judgement("silent", "ran nothing"))
    spoilt = first._replace(outcomes=first.outcomes | {OWN: wrong})
    monkeypatch.setattr(demo, "contest", lambda _: [spoilt, *others])

    assert run("demo", *flag)[0] == 1


# What comes next can be copied


def test_the_commands_of_the_next_steps_are_commands(shown: Shown) -> None:
    told = [line.split() for line in shown.lines if line.startswith("       surecall ")]
    names = [words[1] for words in told]

    assert names == ["check", "proxy"]
    for _, name, *options in told:
        known = cli.cli.get_command(click.Context(cli.cli), name)
        assert known is not None
        assert known.make_context(name, options).params


def test_the_python_of_the_next_steps_runs(
    shown: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    start = shown.lines.index("       from surecall import ToolLoopRunner")
    code = textwrap.dedent("\n".join(shown.lines[start : start + 4]))

    def book_room(guest: str, nights: int) -> str:
        """Book a room."""
        return f"{guest}: {nights}"

    with ScriptedProvider(calls("book_room", guest="Kim", nights=3), says("Booked.")) as provider:
        exec(code.replace("http://localhost:8000", provider.url), {"book_room": book_room})  # noqa: S102  # it is ours
    assert capsys.readouterr().out == "Booked.\n"


@pytest.mark.parametrize(
    ("on_path", "inside", "typed"),
    [(True, True, "surecall"), (False, True, "env/bin/surecall"), (False, False, "surecall")],
)
def test_the_program_is_named_so_that_it_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, *, on_path: bool, inside: bool
) -> None:
    folder = tmp_path if inside else tmp_path.parent
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(folder / "env" / "bin" / "python"))
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/surecall" if on_path else None)

    assert demo._program() == typed


# Terminals


def shown_in(**environment: str) -> subprocess.CompletedProcess[bytes]:
    plain = {key: value for key, value in os.environ.items() if "COLOR" not in key}
    return subprocess.run(
        [*SURECALL, "demo"],
        env=plain | {"PYTHONIOENCODING": "utf-8", "TERM": "xterm"} | environment,
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )


@pytest.mark.processes
def test_a_terminal_with_colours_gets_them_unless_they_are_not_wanted() -> None:
    coloured = shown_in(FORCE_COLOR="1").stdout.decode()
    plain = shown_in(FORCE_COLOR="1", NO_COLOR="1").stdout.decode()

    assert f"{ESCAPE}32m✓ right" in coloured
    assert f"{ESCAPE}31m✗ ran nothing" in coloured
    assert ESCAPE not in plain
    assert "✗ ran nothing" in plain


@pytest.mark.processes
def test_a_terminal_without_such_characters_gets_others() -> None:
    out = shown_in(PYTHONIOENCODING="ascii").stdout.decode("ascii")

    assert "+ right" in out
    assert "x ran nothing" in out
    assert "\\u2713" not in out
    assert all(len(line) <= WIDTH for line in out.splitlines())


@pytest.mark.processes
def test_an_interrupt_ends_it_quietly() -> None:
    with subprocess.Popen(
        [*SURECALL, "demo"],
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("surecall ")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=PATIENCE_S)

    assert (running.returncode, err) == (130, "")
    assert "right" not in {line.split(" ")[0] for line in out.splitlines()}
