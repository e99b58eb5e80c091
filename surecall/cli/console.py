"""Terminal output, exit codes, and options that all commands share."""

import errno
import functools
import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TextIO, TypeAlias, TypeVar

import click
import msgspec

from surecall.eval.analysis.stats import Interval
from surecall.values.text import truncate
from surecall.values.trace import safe_text
from surecall.wire.chat_format import encode

# On a terminal, lines are wrapped between words to fit its width. Otherwise lines are not wrapped
# or colored, so that programs can read them.

INDENT: Final = "    "
_MIN_WIDTH: Final = 40
_DEFAULT_WIDTH: Final = 80
# One character for one, so that columns stay aligned.
_ASCII: Final = str.maketrans("·─●┼…✓✗━≈\N{EN DASH}▲▼", ".-o|~+x=~-^v")
_COLORS: Final = {"✓": "green", "▲": "green", "✗": "red", "▼": "red"}
# A symbol at the start of a column, and the words in that column.
_VERDICT: Final = re.compile("(?:(?<=^)|(?<=  ))([✓✗?≈\N{EN DASH}▲▼]) \\w+(?: \\w+)*")
# An interval that must not be wrapped: [94.0, 100.0].
_PAIR: Final = re.compile(r"(\[\S+), (\S+\])")
_NO_BREAK: Final = "\0"
_INTERVAL: Final = re.compile("[─┼]*●[─┼]*")


class Screen(msgspec.Struct, frozen=True):
    """What a stream can display. `width` is None if it is not a terminal."""

    width: int | None = None
    has_color: bool = False
    has_symbols: bool = True

    def render(self, text: str) -> str:
        """Return a text with or without colors and symbols, as the stream supports."""
        if self.has_color:
            text = "\n".join(map(colorize, text.split("\n")))
        return text if self.has_symbols else to_ascii(text)


def detect_screen(stream: TextIO, variables: Mapping[str, str] = os.environ) -> Screen:
    """Return what a stream can display, given the environment variables."""
    terminal = stream.isatty()
    return Screen(
        _terminal_width(stream, variables) if terminal else None,
        _uses_color(variables, terminal=terminal),
        (stream.encoding or "").lower().startswith("utf"),
    )


def is_animated(stream: TextIO, variables: Mapping[str, str] = os.environ) -> bool:
    """Whether a stream supports updating what it displays."""
    is_static = variables.get("TERM") == "dumb" or variables.get("CI")
    return stream.isatty() and not is_static


def _terminal_width(stream: TextIO, variables: Mapping[str, str]) -> int:
    columns = variables.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return max(_MIN_WIDTH, int(columns))
    try:
        return max(_MIN_WIDTH, os.get_terminal_size(stream.fileno()).columns or _DEFAULT_WIDTH)
    except (OSError, ValueError):
        return _DEFAULT_WIDTH


def _uses_color(variables: Mapping[str, str], *, terminal: bool) -> bool:
    if variables.get("NO_COLOR"):
        return False
    if variables.get("FORCE_COLOR"):
        return True
    return terminal and variables.get("TERM") != "dumb" and not variables.get("CI")


def wrap_line(text: str, width: int | None, indent: str = INDENT) -> list[str]:
    """Wrap a line between words, and indent the continuation lines.

    A word that is too long is not broken, because it may be a path.
    """
    if width is None or len(text) <= width:
        return [text]
    margin = text[: len(text) - len(text.lstrip(" "))]
    lines = textwrap.wrap(
        _PAIR.sub(rf"\1,{_NO_BREAK}\2", text),
        width,
        subsequent_indent=margin + indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]


def colorize(line: str) -> str:
    """Color the verdict in a line and its interval."""
    found = _VERDICT.search(line)
    colour = _verdict_color(found) if found else "cyan"
    line = _VERDICT.sub(lambda each: click.style(each[0], _verdict_color(each)), line)
    return _INTERVAL.sub(lambda each: click.style(each[0], colour), line)


def _verdict_color(verdict: re.Match[str]) -> str:
    return _COLORS.get(verdict[1], "yellow")


def to_ascii(text: str) -> str:
    """Replace symbols that some terminals lack with ASCII characters."""
    return text.translate(_ASCII)


# Columns of text that fit a width.

# Column names with their texts from top to bottom; the first text is the heading.
Columns: TypeAlias = Mapping[str, Sequence[str]]

_GAP: Final = "  "
# The minimum width to keep a column of sentences beside the others.
_MIN_TEXT_WIDTH: Final = 30
# Names are never shortened below this width.
_MIN_COLUMN: Final = 12
# The column that is always kept, and the texts of empty cells.
_SUMMARY: Final = "summary"
_EMPTY_CELLS: Final = ("", "-")


def column_lines(
    heads: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None
) -> list[str]:
    """Align rows below their headings; all columns but the last are as wide as their longest text.

    If the rows do not fit, the last column is wrapped. If it is then too narrow to read, only the
    columns that fit are kept, or the first one and the summary. The other cells go below each row,
    with the column names.
    """
    lines = [list(map(safe_text, row)) for row in (heads, *rows)]
    whole = align(lines)
    if width is None or max(map(len, whole)) <= width:
        return whole
    kept = _kept_columns(lines, width)
    room = _last_column_width([[line[place] for place in kept] for line in lines], width)
    blocks = [_wrap_row([line[place] for place in kept], room) for line in lines]
    shown = iter(align([each for block in blocks for each in block]))
    found: list[str] = []
    for block, line in zip(blocks, lines, strict=True):
        found += islice(shown, len(block))
        if line is not lines[0]:
            others = (place for place in range(len(line)) if place not in kept)
            found += _hidden_cell_lines([(lines[0][place], line[place]) for place in others], width)
    return found


def align(lines: Sequence[Sequence[str]]) -> list[str]:
    """Pad texts into columns; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (map(str.ljust, line, widths) for line in lines)
    return [_GAP.join(line).rstrip() for line in padded]


def _kept_columns(lines: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the indexes of the columns that stay columns."""
    heads = list(lines[0])
    if _is_readable(lines, width):
        return list(range(len(heads)))
    if _SUMMARY in heads:
        at = heads.index(_SUMMARY)
        if _is_readable([(line[0], line[at]) for line in lines], width):
            return [0, at]
    fitting = len(heads)
    while fitting > 1 and max(map(len, align([line[:fitting] for line in lines]))) > width:
        fitting -= 1
    return list(range(fitting))


def _is_readable(lines: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the last column is wide enough to be wrapped and read."""
    words = (word for line in lines for word in line[-1].split())
    return _last_column_width(lines, width) >= max(_MIN_TEXT_WIDTH, *map(len, words))


def _last_column_width(lines: Sequence[Sequence[str]], width: int) -> int:
    """Return how wide the last column can be."""
    before = [line[:-1] for line in lines]
    return width - max(map(len, align(before))) - len(_GAP) if before[0] else width


def _wrap_row(row: Sequence[str], room: int) -> list[list[str]]:
    """Wrap the last text of a row to the given width."""
    *before, last = row
    if not before:
        return [[fit_text(last, room)]]
    first, *more = wrap_line(last, room, "")
    return [[*before, first], *([*([""] * len(before)), each] for each in more)]


def _hidden_cell_lines(cells: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Return lines with the named cells of hidden columns."""
    named = (
        f"{name}: {' '.join(text.split())}" for name, text in cells if text not in _EMPTY_CELLS
    )
    text = "; ".join(named)
    return wrap_line(INDENT + text, width, "") if text else []


def fit_text(text: str, limit: int) -> str:
    """Truncate a text for a column, and make it terminal-safe."""
    return truncate(safe_text(text), limit)


def join_columns(columns: Columns) -> list[str]:
    """Return columns as lines, side by side."""
    return align(list(zip(*columns.values(), strict=True)))


def drop_columns(columns: Columns, width: int, optional: Iterable[str]) -> Columns:
    """Drop optional columns, in the given order, until the others fit."""
    for name in optional:
        if columns_width(columns) <= width:
            break
        columns = {each: texts for each, texts in columns.items() if each != name}
    return columns


def shorten_columns(columns: Columns, width: int, names: Iterable[str]) -> Columns:
    """Truncate the texts of the named columns, in order, until all columns fit."""
    for name in names:
        over = columns_width(columns) - width
        if over > 0 and name in columns:
            most = max(_MIN_COLUMN, max(map(len, columns[name])) - over)
            columns = {**columns, name: [fit_text(text, most) for text in columns[name]]}
    return columns


def columns_width(columns: Columns) -> int:
    """Return the total width of columns."""
    return max(map(len, join_columns(columns)))


def add_remarks(lines: Sequence[str], remarks: Sequence[str], width: int | None) -> list[str]:
    """Put a remark beside each line, or below it unless all remarks fit."""
    room = max(map(len, lines))
    beside = [
        f"{line.ljust(room)}{_GAP}{each}".rstrip()
        for line, each in zip(lines, remarks, strict=True)
    ]
    if width is None or max(map(len, beside)) <= width:
        return beside
    found: list[str] = []
    for line, each in zip(lines, remarks, strict=True):
        found += [line, *(wrap_line(INDENT + each, width, "") if each else ())]
    return found


SCHEMA_VERSION: Final = 1


def print_columns(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows below their headings, to fit the terminal."""
    print_text("\n".join(column_lines(heads, rows, detect_screen(sys.stdout).width)))


def print_document(document: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    print_exact(json_line({"schema_version": SCHEMA_VERSION, **document}))


def json_line(value: Any) -> str:
    """Encode JSON on one line, without control characters."""
    return escape_unprintable(encode(value).decode(), lambda char: json.dumps(char)[1:-1])


def escape_unprintable(text: str, escape: Callable[[str], str]) -> str:
    """Escape every unprintable character except line breaks, in the syntax of the format.

    Unlike the replacements in `print_text`, programs can decode these.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else escape(char) for char in text)


def rate_with_interval(passed: int, total: int, bounds: Interval) -> str:
    """Format a rate with its interval: 39/40 97.5% [87.1, 99.6]."""
    if not total:
        return ""
    low, high = bounds
    return f"{passed}/{total} {passed / total:.1%} [{100 * low:.1f}, {100 * high:.1f}]"


def rate_text(passed: int, total: int) -> str:
    """Format a rate for a column: 39/40  98%. Only n/n rounds to 100%, only 0/n to 0%."""
    counts = f"{passed}/{total}".rjust(7)
    if not total:
        return counts
    share = min(round(100 * passed / total), 100 if passed == total else 99)
    return f"{counts} {max(share, 1 if passed else 0):3}%"


F = TypeVar("F", bound=Callable[..., Any])
LOOPBACK = "127.0.0.1"
ExitCode: TypeAlias = int
FAILED, WRONG_USAGE, INCOMPLETE, NOTHING, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 130, 143


class WholeNumber(click.IntRange):
    """A whole number within bounds, which error messages call a whole number."""

    name = "whole number"


PORT: Final = WholeNumber(0, 65_535)


def address_options(port: int) -> Callable[[F], Callable[..., Any]]:
    """Add `--host`, `--port`, and `--public` to a command that runs a server."""

    def decorate(function: F) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*, public: bool, anywhere: bool, **options: Any) -> Any:
            return function(public=public or anywhere, **options)

        port_option = click.option(
            "--port",
            type=PORT,
            default=port,
            show_default=True,
            help="Port to listen on; 0 picks a free one.",
        )
        host_option = click.option(
            "--host", default=LOOPBACK, show_default=True, help="Address to listen on."
        )
        public_option = click.option(
            "--public", is_flag=True, help="Allow a --host that other machines can reach."
        )
        # The former name of --public.
        anywhere_option = click.option("--anywhere", is_flag=True, hidden=True)
        return host_option(port_option(public_option(anywhere_option(wrapper))))

    return decorate


def print_error(message: str, code: ExitCode) -> ExitCode:
    """Print an error as one line on standard error, and return the exit code."""
    print_note(f"surecall: {' '.join(message.split())}")
    return code


def print_note(line: str) -> None:
    """Print a message on standard error, made terminal-safe."""
    click.echo("\n".join(wrap_line(safe_text(line), detect_screen(sys.stderr).width)), err=True)


def print_text(text: str) -> None:
    """Print lines on standard output, wrapped and terminal-safe."""
    screen = detect_screen(sys.stdout)
    lines = (line for each in text.split("\n") for line in wrap_line(safe_text(each), screen.width))
    click.echo(screen.render("\n".join(lines)), color=screen.has_color)


def print_exact(text: str) -> None:
    """Print lines for programs: terminal-safe, but not wrapped."""
    click.echo("\n".join(map(safe_text, text.split("\n"))))


def listen_error(port: int, error: OSError, host: str = "") -> str:
    """Return the error message for a port that cannot be opened."""
    if error.errno == errno.EADDRINUSE:
        where = f" on {host}" if host else ""
        return f"port {port}{where} is in use: stop the other process, or pass another --port"
    where = f"{host}, " if host else ""
    return f"cannot listen on {where}port {port}: {error.strerror or error}"
