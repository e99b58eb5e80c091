"""The screen: widths, colours and signs, and every command on terminals of three widths."""

import io
import json
from pathlib import Path

import pytest

from surecall.cli import COMMANDS, screen
from surecall.cli.screen import Screen, is_animated, painted, plain, screen_of, wrapped
from surecall.eval.storage.trial import Cell
from surecall.testing import calls
from tests.support.commands import Run, stored
from tests.support.terminals import (
    assert_aligned,
    assert_fits,
    assert_whole,
    colourless,
    on_terminal,
)
from tests.support.trials import series

WIDTHS = (80, 120, 200)
LONG = Cell("a-maker/a-model-with-a-long-name-2507:nitro", "a_long_profile", "guided_contract")
TABLES = (
    ("eval", "-m", "sim/clean,sim/stops-early", "-s", "simple,work_flow", "-n", "1", "-q"),
    (
        "eval",
        "-m",
        "sim/clean,sim/stops-early",
        "-s",
        "simple",
        "-n",
        "1",
        "-q",
        "--strategy",
        "all",
    ),
    *(("ls", kind) for kind in ("models", "profiles", "scenarios", "presets", "runs", "faults")),
    ("ls", "models", "-m", "sim/like*"),
    ("ls", "models", "--base-url", "https://openrouter.ai/api"),
    ("compare", "before", "after"),
    ("replay", "after"),
    ("check", "-m", "sim/clean"),
    ("check", "-v", "--offline"),
)
TEXTS = (
    ("replay", "after/1"),
    ("explain", "reply.json"),
    ("explain", "words.txt"),
    ("sim", "--list"),
    ("eval", "--dry-run", "-m", "sim/clean,sim/stops-early"),
    *((name, "--help") for name in COMMANDS),
    (),
)
WRONG = (
    ("evl",),
    ("eval", "--modle", "x"),
    ("eval", "-m", "sim/claen"),
    ("ls", "modles"),
    ("check", "--base-url", "openrouter.ai/api"),
    ("check", "--base-url", "http://127.0.0.1:1/v1", "-m", "a-model-with-a-long-name"),
)


class Terminal(io.StringIO):
    """A terminal that nobody can ask for its width."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(name="folder")
def folder_fixture(tmp_path: Path, run: Run) -> Path:
    """Make a folder with two runs and two replies in it."""
    for name, how in (("before", "x" * 10 + ".."), ("after", "." * 12)):
        cells = (LONG, Cell("sim/clean"))
        made = stored([each for cell in cells for each in series(how + "i", cell=cell)])
        made.rename(made.with_name(name))
    bent = calls("get_weather", city="Oslo, in Norway, where it is cold in winter", days=3)
    function = bent["choices"][0]["message"]["tool_calls"][0]["function"]
    function["arguments"] = function["arguments"][:-1] + ",}"
    Path("reply.json").write_text(json.dumps(bent), "utf-8")
    Path("words.txt").write_text("So I call <tool_call>{x}</tool_call>, and then I stop. " * 4)
    run(*TABLES[0])
    run(*TABLES[1])
    return tmp_path


@pytest.mark.processes
@pytest.mark.parametrize("width", WIDTHS)
def test_every_command_fits_a_terminal_and_breaks_no_word(
    folder: Path, run: Run, width: int
) -> None:
    elsewhere = {words: run(*words)[1:] for words in (*TABLES, *TEXTS, *WRONG)}
    code, shown = on_terminal(folder, width, *elsewhere)

    assert code == 4
    for words, text in zip(elsewhere, shown, strict=True):
        out, err = elsewhere[words]
        assert_fits(text, width)
        assert_whole(text, out + err)
        if words in TABLES:
            beside = {line for each in err.splitlines() for line in wrapped(each, width)}
            lines = (line for line in text.split("\n") if line not in beside)
            assert_aligned("\n".join(lines))


@pytest.mark.processes
@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"CI": "true"}, False),
        ({"CI": "true", "FORCE_COLOR": "1"}, True),
    ],
)
def test_colour_is_where_the_terminal_has_it_and_nobody_is_against_it(
    tmp_path: Path, variables: dict[str, str], *, coloured: bool
) -> None:
    _, (text,) = on_terminal(tmp_path, 80, TABLES[0], variables=variables)

    assert ("\x1b[" in text) is coloured
    assert "? undecided  " in colourless(text)


def test_elsewhere_there_is_neither_width_nor_colour() -> None:
    assert screen_of(io.StringIO()) == Screen(None, colour=False, signs=False)
    assert screen_of(io.StringIO(), {"FORCE_COLOR": "1"}).colour
    assert not is_animated(io.StringIO(), {})


@pytest.mark.parametrize(
    ("variables", "width"),
    [({}, 80), ({"COLUMNS": "132"}, 132), ({"COLUMNS": "wide"}, 80), ({"COLUMNS": "3"}, 40)],
)
def test_the_width_is_that_of_the_environment_or_a_usual_one(
    variables: dict[str, str], width: int
) -> None:
    assert screen_of(Terminal(), variables) == Screen(width, colour=True)


def test_what_is_shown_can_be_replaced_unless_the_environment_says_otherwise() -> None:
    assert is_animated(Terminal(), {"TERM": "xterm"})
    assert not is_animated(Terminal(), {"TERM": "dumb"})
    assert not is_animated(Terminal(), {"CI": "1"})


def test_a_long_line_breaks_between_words_and_keeps_its_margin_and_its_intervals() -> None:
    lines = wrapped("  rate 97.5% [87.1, 99.6] of all-of-these-runs and more", 24)

    assert lines == [
        "  rate 97.5%",
        "      [87.1, 99.6] of",
        "      all-of-these-runs",
        "      and more",
    ]
    assert wrapped("short", 24) == ["short"]
    assert wrapped("a b " * 99, None) == ["a b " * 99]
    assert wrapped("/a/path/that/is/too/long/for/the/line", 10) == [
        "/a/path/that/is/too/long/for/the/line"
    ]


def test_a_verdict_and_its_interval_have_one_colour() -> None:
    green = painted("✓ use  m  ···─┼─●")

    assert green == "\x1b[32m✓ use\x1b[0m  m  ···\x1b[32m─┼─●\x1b[0m"
    assert "\x1b[31m✗ not handled\x1b[0m  " in painted("✗ not handled  m")
    assert "\x1b[33m? undecided\x1b[0m" in painted("m  ? undecided")
    assert "\x1b[36m──●\x1b[0m" in painted("m  ··──●··┼")
    assert painted("is it? yes") == "is it? yes"


def test_an_old_terminal_gets_one_character_for_another() -> None:
    text = "·─●┼…✓✗━≈\N{EN DASH}▲▼"

    assert plain(text).isascii()
    assert len(plain(text)) == len(text)
    assert Screen(signs=False).spelt("✓ use") == "+ use"
    assert colourless(Screen(colour=True, signs=False).spelt("✓ use\n✗ avoid")) == "+ use\nx avoid"
    assert screen.INDENT.isspace()
