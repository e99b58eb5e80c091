"""The screen: how wide lines may be, which signs they may have, and what is in colour.

On a terminal every line fits, and breaks between words. Elsewhere lines are as long as they are,
without colour, so that programs can read them.
"""

import os
import re
import textwrap
from collections.abc import Mapping
from typing import Final, TextIO

import click
import msgspec

INDENT: Final = "    "
_LEAST: Final = 40
_USUAL: Final = 80
# Each has one character in place of one, so that nothing moves.
_SPARE: Final = str.maketrans("·─●┼…✓✗━≈\N{EN DASH}▲▼", ".-o|~+x=~-^v")
_COLOURS: Final = {"✓": "green", "▲": "green", "✗": "red", "▼": "red"}
_UNDECIDED: Final = "yellow"
# A sign at the start of its column, and the words in that column.
_VERDICT: Final = re.compile("(?:(?<=^)|(?<=  ))([✓✗?≈\N{EN DASH}▲▼]) \\w+(?: \\w+)*")
# Two numbers that stay together: [94.0, 100.0].
_PAIR: Final = re.compile(r"(\[\S+), (\S+\])")
_JOINT: Final = "\0"
_INTERVAL: Final = re.compile("[─┼]*●[─┼]*")


class Screen(msgspec.Struct, frozen=True):
    """What a stream can show. A `width` of None means that it is no terminal."""

    width: int | None = None
    colour: bool = False
    signs: bool = True

    def spelt(self, text: str) -> str:
        """Write a text in colour and with signs, or without."""
        if self.colour:
            text = "\n".join(map(painted, text.split("\n")))
        return text if self.signs else plain(text)


def screen_of(stream: TextIO, variables: Mapping[str, str] = os.environ) -> Screen:
    """Say what a stream can show, as it is and as the environment wants it."""
    terminal = stream.isatty()
    return Screen(
        _width(stream, variables) if terminal else None,
        _in_colour(variables, terminal=terminal),
        (stream.encoding or "").lower().startswith("utf"),
    )


def is_animated(stream: TextIO, variables: Mapping[str, str] = os.environ) -> bool:
    """Whether what was shown on a stream can be replaced by something newer."""
    still = variables.get("TERM") == "dumb" or variables.get("CI")
    return stream.isatty() and not still


def _width(stream: TextIO, variables: Mapping[str, str]) -> int:
    wanted = variables.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return max(_LEAST, int(wanted))
    try:
        return max(_LEAST, os.get_terminal_size(stream.fileno()).columns or _USUAL)
    except (OSError, ValueError):
        return _USUAL


def _in_colour(variables: Mapping[str, str], *, terminal: bool) -> bool:
    if variables.get("NO_COLOR"):
        return False
    if variables.get("FORCE_COLOR"):
        return True
    return terminal and variables.get("TERM") != "dumb" and not variables.get("CI")


def wrapped(text: str, width: int | None, indent: str = INDENT) -> list[str]:
    """Break a line between words, if it is too long; what follows is indented.

    A word that is too long for a line stays whole: it may be a path.
    """
    if width is None or len(text) <= width:
        return [text]
    margin = text[: len(text) - len(text.lstrip(" "))]
    lines = textwrap.wrap(
        _PAIR.sub(rf"\1,{_JOINT}\2", text),
        width,
        subsequent_indent=margin + indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_JOINT, " ") for line in lines]


def painted(line: str) -> str:
    """Colour the verdict in a line and the interval that it rests on; signs and words stay."""
    found = _VERDICT.search(line)
    colour = _colour(found) if found else "cyan"
    line = _VERDICT.sub(lambda each: click.style(each[0], _colour(each)), line)
    return _INTERVAL.sub(lambda each: click.style(each[0], colour), line)


def _colour(verdict: re.Match[str]) -> str:
    return _COLOURS.get(verdict[1], _UNDECIDED)


def plain(text: str) -> str:
    """Write a text without the signs that an old terminal lacks."""
    return text.translate(_SPARE)
