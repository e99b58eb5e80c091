"""Tests of `surecall.cli.demo`."""

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
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from surecall import cli
from surecall.cli import demo
from surecall.cli.demo import (
    ASCII_SYMBOLS,
    FAILURES,
    SYMBOLS,
    WIDTH,
    find_repaired,
    header_lines,
    result_lines,
)
from surecall.simulator.demo_loops import (
    PLAIN_LOOP,
    SDK_LOOP,
    SURECALL_LOOP,
    DemoRow,
    LoopOutcome,
    compare_loops,
)
from surecall.simulator.demo_tasks import DemoCase, Judgment, all_cases, draw_cases
from surecall.testing import ScriptedProvider, calls, says
from surecall.values.events import LlmRequestEndEvent
from surecall.values.trace import Trace
from surecall.values.types import Reply, ToolCall
from tests.support.commands import STRICT_SURECALL, Run
from tests.support.timing import PATIENCE_S

# `surecall demo`: what a stranger sees in the first minute, and that it is all measured


CELL = re.compile(r"(?:✓|✗) ((?:\w+)(?: \w+)?)")
ESCAPE = "\x1b["


class Shown(NamedTuple):
    code: int
    lines: list[str]
    document: dict[str, Any]


@pytest.fixture(scope="module", name="rows")
def rows_fixture() -> list[DemoRow]:
    return compare_loops(draw_cases())


@pytest.fixture(name="shown")
def shown_fixture(rows: list[DemoRow], run: Run, monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Show the same outcome as text and as JSON."""
    monkeypatch.setattr(demo, "compare_loops", lambda *_: rows)
    code, text, _ = run("demo")
    return Shown(code, text.splitlines(), json.loads(run("demo", "--json")[1]))


def test_the_command_runs_to_its_end_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    code, out, err = run("demo")

    assert (code, err) == (0, "")
    assert f"{len(draw_cases())} of {len(draw_cases())}" in out
    assert list(tmp_path.iterdir()) == []


def test_every_line_fits_a_terminal_of_eighty_columns(shown: Shown) -> None:
    assert [line for line in shown.lines if len(line) > WIDTH] == []


def test_every_shape_has_a_line_with_a_word_for_each_loop(shown: Shown) -> None:
    for shape in draw_cases():
        (line,) = [line for line in shown.lines if line.startswith(f"  {shape.label} ")]
        assert len(CELL.findall(line)) == len((PLAIN_LOOP, SDK_LOOP, SURECALL_LOOP))


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

    assert (shown.code, right[SURECALL_LOOP]) == (0, number)
    assert 0 < right[PLAIN_LOOP] < number
    assert 0 < right[SDK_LOOP] < number


def test_the_document_says_what_the_lines_say(shown: Shown) -> None:
    said = [CELL.findall(line) for line in shown.lines if CELL.search(line)]

    assert said == [
        [each["how"] or "right" for each in shape["loops"].values()]
        for shape in shown.document["shapes"]
    ]
    (totals,) = [line for line in shown.lines if line.startswith("right ")]
    assert totals.split()[1::3] == [str(n) for n in shown.document["right"].values()]
    assert shown.document["schema_version"] == 1
    assert f"One of these replies ({shown.document['opened']['shape']}):" in shown.lines


def test_on_request_every_reply_is_met(
    rows: list[DemoRow], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[DemoCase] = []

    def meet(shapes: Sequence[DemoCase], _: object) -> list[DemoRow]:
        met.extend(shapes)
        return rows

    monkeypatch.setattr(demo, "compare_loops", meet)
    run("demo", "--all")

    assert tuple(met) == all_cases()


@pytest.mark.parametrize("flag", [(), ("--json",)])
def test_the_exit_code_tells_if_surecall_was_wrong(
    flag: tuple[str, ...], rows: list[DemoRow], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = rows
    wrong = first.outcomes[SURECALL_LOOP]._replace(judgment=Judgment("silent", "ran nothing"))
    spoilt = first._replace(outcomes=first.outcomes | {SURECALL_LOOP: wrong})
    monkeypatch.setattr(demo, "compare_loops", lambda *_: [spoilt, *others])

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

    assert demo._program_name() == typed


# Terminals


def shown_in(**environment: str) -> subprocess.CompletedProcess[bytes]:
    plain = {key: value for key, value in os.environ.items() if "COLOR" not in key}
    return subprocess.run(
        [*STRICT_SURECALL, "demo"],
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
        [*STRICT_SURECALL, "demo"],
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


# The lines of the demo, from outcomes that are made up


RIGHT = LoopOutcome(Judgment("right"))
CALL = ToolCall("call_1", "book_room", {"guest": "Kim"})


def failed(how: str) -> LoopOutcome:
    return LoopOutcome(Judgment("error", how))


def told(*rows: DemoRow, signs: tuple[str, str] = SYMBOLS) -> list[str]:
    return result_lines(rows, signs, "surecall")


def heard(reply: Reply, answer: object) -> LoopOutcome:
    event = LlmRequestEndEvent(
        run_id="r",
        turn=1,
        at=0.0,
        reply=reply,
        body=answer,
        request_hash="",
        attempt=1,
        elapsed_ms=0,
        response_bytes=0,
    )
    return LoopOutcome(Judgment("right"), Trace((event,)))


@pytest.mark.parametrize("how", FAILURES)
def test_every_line_fits_whatever_happens(how: str) -> None:
    rows = [
        DemoRow(shape, {PLAIN_LOOP: failed(how), SDK_LOOP: failed(how), SURECALL_LOOP: failed(how)})
        for shape in all_cases()
    ]

    assert [line for line in header_lines(len(rows)) + told(*rows) if len(line) > WIDTH] == []


def test_no_two_cells_of_a_line_touch() -> None:
    (shape, *_) = draw_cases()
    for first, second in product(FAILURES, repeat=2):
        rows = told(
            DemoRow(
                shape, {PLAIN_LOOP: failed(first), SDK_LOOP: failed(second), SURECALL_LOOP: RIGHT}
            )
        )
        assert f"✗ {first} " in rows[2]
        assert f" ✗ {second} " in rows[2]


def test_signs_have_words_beside_them_and_a_plain_form() -> None:
    (shape, *_) = draw_cases()
    row = DemoRow(shape, {PLAIN_LOOP: failed("crashed"), SURECALL_LOOP: RIGHT})

    assert told(row)[2].split() == [*shape.label.split(), "✗", "crashed", "✓", "right"]
    assert told(row, signs=ASCII_SYMBOLS)[2].split()[-4:] == ["x", "crashed", "+", "right"]
    assert all(line.isascii() for line in told(row, signs=ASCII_SYMBOLS))


def test_failures_are_counted_and_told_in_a_sentence_most_often_first() -> None:
    first, second, third, *_ = draw_cases()
    lines = told(
        DemoRow(first, {PLAIN_LOOP: failed("HTTP 418"), SURECALL_LOOP: RIGHT}),
        DemoRow(second, {PLAIN_LOOP: failed("ran twice"), SURECALL_LOOP: RIGHT}),
        DemoRow(third, {PLAIN_LOOP: failed("ran twice"), SURECALL_LOOP: RIGHT}),
    )
    at = lines.index("The plain loop failed 3 times.")

    assert lines[at + 1].split() == ["2", "x", "ran", "twice", *FAILURES["ran twice"].split()]
    assert lines[at + 2].split() == ["1", "x", "HTTP", "418"]


def test_only_a_sample_is_said_to_be_drawn() -> None:
    rows = [DemoRow(shape, {PLAIN_LOOP: RIGHT, SURECALL_LOOP: RIGHT}) for shape in all_cases()]

    assert any("random sample" in line for line in told(*rows[1:]))
    assert not any("random sample" in line for line in told(*rows))
    assert any(line.startswith("  A fault occurs in every reply") for line in told(*rows))


def test_a_loop_that_never_failed_is_told_so() -> None:
    assert "The plain loop failed 0 times." in told(
        DemoRow(draw_cases()[0], {PLAIN_LOOP: RIGHT, SURECALL_LOOP: RIGHT})
    )


def test_a_healed_reply_is_opened_one_with_its_call_in_the_text_first() -> None:
    by_family = {shape.family: shape for shape in draw_cases()}
    healed = Reply(calls=(CALL,), fired=("text_call_A1",))
    message = {"role": "assistant", "content": "<tool_call>…"}
    rows = [
        DemoRow(by_family["names"], {PLAIN_LOOP: RIGHT, SURECALL_LOOP: heard(healed, {"data": 1})}),
        DemoRow(
            by_family["text"],
            {PLAIN_LOOP: RIGHT, SURECALL_LOOP: heard(healed, {"choices": [{"message": message}]})},
        ),
    ]
    in_text, other = find_repaired(rows), find_repaired(rows[:1])

    assert in_text is not None
    assert in_text.shape == by_family["text"].id
    assert in_text.came == '{"role": "assistant", "content": "<tool_call>\\u2026"}'
    assert (in_text.read, in_text.steps) == ('book_room {"guest": "Kim"}', ("text_call_A1",))
    assert other is not None
    assert other.came == '{"data": 1}'
    assert f"One of these replies ({in_text.shape}):" in told(*rows)
    assert any(line.split() == ["plain", "loop", "parsed", "it,", "too"] for line in told(*rows))


def test_without_a_healed_reply_none_is_opened() -> None:
    clean = heard(Reply(calls=(CALL,)), {})
    rows = [DemoRow(draw_cases()[0], {PLAIN_LOOP: RIGHT, SURECALL_LOOP: clean})]

    assert find_repaired(rows) is None
    assert not any(line.startswith("One of these") for line in told(*rows))
