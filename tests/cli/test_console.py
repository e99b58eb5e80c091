"""Tests of `surecall.cli.console`."""

import errno
import io
import json
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.cli import COMMANDS, console
from surecall.cli.console import (
    WRONG_USAGE,
    Screen,
    add_remarks,
    address_options,
    colorize,
    column_lines,
    columns_width,
    detect_screen,
    drop_columns,
    escape_unprintable,
    fit_text,
    is_animated,
    join_columns,
    json_line,
    listen_error,
    print_columns,
    print_document,
    print_error,
    print_note,
    print_text,
    rate_text,
    rate_with_interval,
    shorten_columns,
    to_ascii,
    wrap_line,
)
from surecall.eval.storage.trial import Cell
from surecall.testing import calls
from tests.support.commands import (
    HOSTILE,
    Run,
    assert_aligned,
    assert_fits,
    assert_whole,
    colourless,
    on_terminal,
    stored,
)
from tests.support.trials import series

# What all commands share: messages that cannot act on a terminal, and where servers listen


def test_a_complaint_is_one_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_error(f"bad\n  {HOSTILE}", WRONG_USAGE) == WRONG_USAGE
    out, err = capsys.readouterr()

    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("surecall: bad ")
    assert err.strip().isprintable()


def test_what_is_printed_keeps_its_lines_and_nothing_that_acts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_text(f"one\n{HOSTILE}")
    print_note(HOSTILE)
    out, err = capsys.readouterr()

    assert out.startswith("one\n")
    assert all(line.isprintable() for line in (out + err).split("\n"))


@pytest.mark.parametrize(
    ("code", "host", "said"),
    [
        (errno.EADDRINUSE, "", "port 80 is in use: stop the other process, or pass another --port"),
        (
            errno.EADDRINUSE,
            "::1",
            "port 80 on ::1 is in use: stop the other process, or pass another --port",
        ),
        (errno.EACCES, "", "cannot listen on port 80: denied"),
        (errno.EACCES, "::1", "cannot listen on ::1, port 80: denied"),
    ],
)
def test_why_nothing_can_be_served_is_one_sentence(code: int, host: str, said: str) -> None:
    assert listen_error(80, OSError(code, "denied"), host) == said


@pytest.mark.parametrize(
    ("arguments", "public"), [([], False), (["--public"], True), (["--anywhere"], True)]
)
def test_a_server_is_public_only_on_request_under_the_new_name_or_the_old(
    *, arguments: list[str], public: bool
) -> None:
    found = []

    @click.command()
    @address_options(7)
    def serve(*, host: str, port: int, public: bool) -> None:
        found.append((host, port, public))

    serve.main(arguments, standalone_mode=False)

    assert found == [("127.0.0.1", 7, public)]
    assert "--anywhere" not in serve.get_help(click.Context(serve))
    assert "--public" in serve.get_help(click.Context(serve))


# The screen: widths, colours and signs, and every command on terminals of three widths


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
            beside = {line for each in err.splitlines() for line in wrap_line(each, width)}
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
    assert detect_screen(io.StringIO()) == Screen(None, has_color=False, has_symbols=False)
    assert detect_screen(io.StringIO(), {"FORCE_COLOR": "1"}).has_color
    assert not is_animated(io.StringIO(), {})


@pytest.mark.parametrize(
    ("variables", "width"),
    [({}, 80), ({"COLUMNS": "132"}, 132), ({"COLUMNS": "wide"}, 80), ({"COLUMNS": "3"}, 40)],
)
def test_the_width_is_that_of_the_environment_or_a_usual_one(
    variables: dict[str, str], width: int
) -> None:
    assert detect_screen(Terminal(), variables) == Screen(width, has_color=True)


def test_what_is_shown_can_be_replaced_unless_the_environment_says_otherwise() -> None:
    assert is_animated(Terminal(), {"TERM": "xterm"})
    assert not is_animated(Terminal(), {"TERM": "dumb"})
    assert not is_animated(Terminal(), {"CI": "1"})


def test_a_long_line_breaks_between_words_and_keeps_its_margin_and_its_intervals() -> None:
    lines = wrap_line("  rate 97.5% [87.1, 99.6] of all-of-these-runs and more", 24)

    assert lines == [
        "  rate 97.5%",
        "      [87.1, 99.6] of",
        "      all-of-these-runs",
        "      and more",
    ]
    assert wrap_line("short", 24) == ["short"]
    assert wrap_line("a b " * 99, None) == ["a b " * 99]
    assert wrap_line("/a/path/that/is/too/long/for/the/line", 10) == [
        "/a/path/that/is/too/long/for/the/line"
    ]


def test_a_verdict_and_its_interval_have_one_colour() -> None:
    green = colorize("✓ use  m  ···─┼─●")

    assert green == "\x1b[32m✓ use\x1b[0m  m  ···\x1b[32m─┼─●\x1b[0m"
    assert "\x1b[31m✗ not handled\x1b[0m  " in colorize("✗ not handled  m")
    assert "\x1b[33m? undecided\x1b[0m" in colorize("m  ? undecided")
    assert "\x1b[36m──●\x1b[0m" in colorize("m  ··──●··┼")
    assert colorize("is it? yes") == "is it? yes"


def test_an_old_terminal_gets_one_character_for_another() -> None:
    text = "·─●┼…✓✗━≈\N{EN DASH}▲▼"

    assert to_ascii(text).isascii()
    assert len(to_ascii(text)) == len(text)
    assert Screen(has_symbols=False).render("✓ use") == "+ use"
    assert (
        colourless(Screen(has_color=True, has_symbols=False).render("✓ use\n✗ avoid"))
        == "+ use\nx avoid"
    )
    assert console.INDENT.isspace()


# Columns: they fit, they stay aligned, and nothing is lost that a program would read


HEADS = ("name", "kind", "summary")
ROWS = (
    ("first", "a", "what it does, in a sentence that is long enough to be broken"),
    ("second_one", "-", ""),
)
WORDS = st.text("abcdefghij_", min_size=1, max_size=20)
SENTENCES = st.lists(WORDS, max_size=12).map(" ".join)


def test_columns_are_as_wide_as_their_longest_text() -> None:
    assert column_lines(("name", "note"), [("a", "x y"), ("longer", "")]) == [
        "name    note",
        "a       x y",
        "longer",
    ]


def test_sentences_are_broken_within_their_column() -> None:
    assert column_lines(HEADS, ROWS, 50) == [
        "name        kind  summary",
        "first       a     what it does, in a sentence that",
        "                  is long enough to be broken",
        "second_one  -",
    ]


def test_where_that_leaves_too_little_room_the_name_and_the_sentence_are_kept() -> None:
    rows = [(*row[:1], row[1] * 20, row[2]) for row in ROWS]

    assert column_lines(HEADS, rows, 50) == [
        "name        summary",
        "first       what it does, in a sentence that is",
        "            long enough to be broken",
        "    kind: aaaaaaaaaaaaaaaaaaaa",
        "second_one",
        "    kind: --------------------",
    ]


def test_without_sentences_the_columns_that_fit_are_kept() -> None:
    found = column_lines(("name", "one", "two"), [("n", "o" * 30, "t  t"), ("m", "-", "-")], 40)

    assert found == [f"name  {'one':30}".rstrip(), f"n     {'o' * 30}", "    two: t t", "m     -"]


def test_a_name_that_is_too_long_is_shortened() -> None:
    assert column_lines(("name", "one"), [("n" * 50, "o")], 40) == [
        "name",
        "n" * 39 + "…",
        "    one: o",
    ]
    assert fit_text("short", 5) == "short"
    assert fit_text("a\x1b[2J", 9) == "a\\x1b[2J"


@given(
    st.lists(st.tuples(WORDS, WORDS, SENTENCES), min_size=1, max_size=5),
    st.sampled_from([("name", "kind", "summary"), ("name", "kind", "other")]),
    st.integers(40, 120),
)
def test_whatever_is_in_them_they_fit_and_no_word_is_lost(
    rows: list[tuple[str, str, str]], heads: tuple[str, ...], width: int
) -> None:
    whole = "\n".join(column_lines(heads, rows))
    found = "\n".join(column_lines(heads, rows, width))

    assert_fits(found, width)
    assert_whole(found, whole)
    assert_whole(whole, found + " kind other summary -")
    assert_aligned(found)


def test_optional_columns_go_first_and_then_names_are_cut() -> None:
    columns = {"name": ["name", "n" * 30], "more": ["more", "m" * 10], "z": ["z", "l"]}

    assert columns_width(columns) == 45
    assert [*drop_columns(columns, 45, ("more",))] == ["name", "more", "z"]
    assert [*drop_columns(columns, 40, ("more", "z"))] == ["name", "z"]
    assert shorten_columns(columns, 40, ("name",))["name"][1] == "n" * 24 + "…"
    assert shorten_columns(columns, 9, ("other", "name"))["name"][1] == "n" * 11 + "…"
    assert join_columns(drop_columns(columns, 9, ("more", "z"))) == ["name", "n" * 30]


@pytest.mark.parametrize("width", [None, 20])
def test_remarks_are_beside_their_lines_if_all_of_them_fit(width: int | None) -> None:
    assert add_remarks(["a", "bb"], ["x", ""], width) == ["a   x", "bb"]


def test_remarks_are_below_their_lines_if_one_does_not_fit() -> None:
    assert add_remarks(["a", "bb", "c"], ["x", "yyy zzz", ""], 9) == [
        "a",
        "    x",
        "bb",
        "    yyy",
        "    zzz",
        "c",
    ]


# How commands print: aligned for people, one line of JSON for programs


def test_printed_columns_are_as_wide_as_their_longest_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_columns(("name", "note"), [("a", "x y"), ("longer", "")])

    assert capsys.readouterr().out == "name    note\na       x y\nlonger\n"


def test_a_document_is_one_line_that_a_program_reads_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_document({"text": HOSTILE})
    out = capsys.readouterr().out

    assert out.count("\n") == 1
    assert json.loads(out) == {"schema_version": 1, "text": HOSTILE}
    assert json_line({"text": HOSTILE}).isprintable()


def test_what_is_not_printable_is_escaped_as_the_format_does_it() -> None:
    shown = escape_unprintable(f"a{HOSTILE}\nb", lambda char: f"<{ord(char):x}>")

    assert all(line.isprintable() for line in shown.split("\n"))
    assert "<1b>" in shown
    assert shown.endswith("\nb")


@pytest.mark.parametrize(
    ("k", "n", "text"),
    [
        (40, 40, "  40/40 100%"),
        (299, 300, "299/300  99%"),
        (1, 300, "  1/300   1%"),
        (0, 7, "    0/7   0%"),
        (0, 0, "    0/0"),
    ],
)
def test_only_all_is_a_hundred_percent_in_a_column(k: int, n: int, text: str) -> None:
    assert rate_text(k, n) == text


def test_a_rate_has_its_counts_and_interval_and_nothing_tried_has_none() -> None:
    assert rate_with_interval(39, 40, (0.871, 0.9956)) == "39/40 97.5% [87.1, 99.6]"
    assert rate_with_interval(0, 0, (0.0, 1.0)) == ""
