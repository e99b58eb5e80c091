"""Commands on a terminal of a chosen width, and what must hold of what they print there."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

_ROWS = 40
_BETWEEN = "\x1e"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Drawings, and numbers: a time may be another one the next time.
_DRAWN = re.compile("[·─●┼.o|-]+")
_NUMBER = re.compile(r"[\d.]+")
_MAIN = f"""
import json, sys
from surecall.cli import main
codes = []
for words in json.loads(sys.argv[1]):
    codes.append(main(words))
    print({_BETWEEN!r}, flush=True)
sys.exit(max(codes))
"""


def on_terminal(
    folder: Path,
    width: int,
    *commands: Sequence[str],
    code: str = _MAIN,
    variables: Mapping[str, str] | None = None,
) -> tuple[int, list[str]]:
    """Run commands one after the other in one process; return the worst code and what each said."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, width, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(commands)],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "PYTHONUTF8": "1"} | dict(variables or {}),
    ) as process:
        os.close(theirs)
        printed = b""
        try:
            while piece := os.read(ours, 65536):
                printed += piece
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    texts = printed.decode().replace("\r\n", "\n").split(f"{_BETWEEN}\n")
    return process.returncode, texts[: len(commands)]


def colourless(text: str) -> str:
    """Take the colours out."""
    return _COLOUR.sub("", text)


def words_of(text: str) -> set[str]:
    """Return the words of a text, without colours, drawings, numbers and marks between words."""
    words = (word.strip(";:,.") for word in colourless(text).split())
    return {
        word
        for word in words
        if word and not _DRAWN.fullmatch(word) and not _NUMBER.fullmatch(word)
    }


def assert_fits(text: str, width: int) -> None:
    """No line is longer than the terminal is wide."""
    for line in colourless(text).split("\n"):
        assert len(line) <= width, line


def assert_whole(text: str, reference: str) -> None:
    """No word is cut: each is in the reference, or is the beginning of one there and says so."""
    known = words_of(reference)
    for word in words_of(text) - known:
        assert word.endswith("…"), word
        assert any(each.startswith(word[:-1]) for each in known), word


def assert_aligned(text: str) -> None:
    """Below a head, columns begin where their heads do, in every row until a blank line."""
    for block in colourless(text).split("\n\n"):
        head, *rows = block.split("\n")
        starts = [found.start() for found in re.finditer(r"(?<=  )\S", head)]
        for row in rows:
            is_below = row.startswith("    ") and not row.startswith("     ")
            for start in () if is_below else starts:
                gap = row[start - 2 : start].strip()
                assert not gap or _DRAWN.fullmatch(gap), (head, row)
