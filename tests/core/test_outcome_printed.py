"""How a run ends: what a result shows of itself. Errors and usage are tested with the events."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from surecall import Run, RunResult, ToolLoopRunner, Trace
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, says
from surecall.values.types import Usage

RUN = Run(run_id="r", model="m", config=raw(), messages=(), start=0)


def shown(text: str, stop_reason: str = "stop") -> str:
    return repr(RunResult(text, stop_reason, Usage(10, 35, 45), Trace(()), RUN))


def test_a_result_prints_as_one_line() -> None:
    result = ToolLoopRunner(client=ScriptedModel(says("Clear.")), model="m").run_sync("Weather?")

    assert repr(result) == "RunResult(text='Clear.', stop_reason='final', turns=1, tokens=2)"


@pytest.mark.parametrize(
    ("text", "sight"),
    [
        ("a\nb\x1b[31m", r"RunResult(text='a\nb\x1b[31m', "),
        ("x" * 500, "RunResult(text='" + "x" * 90 + "…', "),
        ("", "RunResult(text='', "),
        ("it's", 'RunResult(text="it\'s", '),
    ],
)
def test_a_long_or_unprintable_answer_is_shortened_and_made_visible(text: str, sight: str) -> None:
    assert shown(text).startswith(sight)


@given(st.text(max_size=300), st.text(max_size=100))
def test_no_answer_takes_more_than_a_line(text: str, stop_reason: str) -> None:
    line = shown(text, stop_reason)

    assert len(line) <= 200
    assert line.isprintable()


def test_rich_shows_the_same() -> None:
    console = Console(file=io.StringIO(), width=200)
    result = RunResult("Clear.", "stop", Usage(10, 35, 45), Trace(()), RUN)
    console.print(result)

    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().strip() == repr(result)
