# ruff: noqa: RUF001 (the wide bars and quotation marks are what models write)
"""What reading costs: twice the text takes twice the work, whatever mark is repeated.

Nothing is timed. Work is the lines of Python that run, and the characters that are looked at, which
searches inside of built-in functions are made of. Each mark is repeated alone, without what ends
it, cut in its middle, and with a blank after it or on lines of its own.
"""

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Final

import pytest

from surecall.core.streaming import MarkFilter
from surecall.values.types import ToolSpec
from surecall.wire.call_styles import TextCalls
from surecall.wire.dialects import recover
from surecall.wire.dialects.spelling import (
    ANSWER_FRAMES,
    CLOSERS,
    LEAD,
    OPENERS,
    ORPHANS,
    REASONING_TAGS,
)
from tests.support.generated import Broken, check, dice, many
from tests.support.timing import Watched, steps

Read = Callable[[str], object]

TOOLS: Final = (
    ToolSpec("note", "Write.", {"type": "object", "properties": {"text": {"type": "string"}}}),
)
# A doubled text may take this much more than twice the work, and a little more for the start.
GROWTH: Final = 2.3
START_LINES: Final = 2_000
START_LOOKS: Final = 50_000
# For each further character at most so many lines run, also where each mark is tried in vain.
LINES_EACH: Final = 192
# A stream looks again at what may become a mark with every piece that comes.
STREAM_LINES_EACH: Final = 512
# A further character is looked at once for every kind of mark, in two passes at most.
LOOKS_EACH: Final = 512
LINES_SIZE: Final = 1_000
STREAM_SIZE: Final = 320
LOOKS_SIZE: Final = 8_000
PIECE: Final = 16
# Of many marks of a kind, so many are streamed, others with another seed.
FEW: Final = 30
STREAMED_OF_A_KIND: Final = 12

STEMS: Final = tuple(opener.stem for opener in OPENERS)
BARS: Final = ("<｜DSML｜", "<|DSML|", "< | DSML | ", "<‖DSML‖", "<｜｜DSML", "</｜DSML｜", "DSML")
MARKS: Final[dict[str, tuple[str, ...]]] = {
    "openers": STEMS,
    "openers and a blank": tuple(f"{stem} " for stem in STEMS),
    "openers cut in the middle": tuple(stem[: (len(stem) + 1) // 2] for stem in STEMS),
    "closers": tuple(dict.fromkeys((*CLOSERS, *ORPHANS, *ANSWER_FRAMES))),
    "closers on lines": tuple(f"{closer}\n" for closer in CLOSERS),
    "thoughts": (
        *REASONING_TAGS,
        *REASONING_TAGS.values(),
        "assistantfinal",
        "[BEGIN FINAL RESPONSE]",
    ),
    "thoughts on lines": tuple(f"{mark}\n" for mark in (*REASONING_TAGS, *REASONING_TAGS.values())),
    "thoughts in words": tuple(
        f"a {mark} b\n" for mark in (*REASONING_TAGS, *REASONING_TAGS.values())
    ),
    "DSML": (
        *(f"{bar}{word}" for bar in BARS for word in ("", "invoke", 'invoke name="note">')),
        *('<｜DSML｜invoke name="note"', '<｜DSML｜parameter name="text" string="true">', LEAD),
    ),
    "code": ("`", "``", "```", "```\n", "~~~\n", "` ``", "```tool_code\n", "    x\n", "\t"),
    "markup": ("<!--", "<!-- ", "-->", "<example>", "<pre><code>", "<blockquote>", "</", "<", ">"),
    "quotes": ('"', "'", "“", "„", "«", "»", "「", "> ", "> > ", '"""', "\\", "\\<tool_call>"),
    "calls that are shown": (
        *(
            "x\n    <tool_call>",
            "x\n\t<invoke",
            "> <tool_call>{",
            "| <tool_call>",
            "- <tool_call>{",
        ),
        *("<!-- <tool_call> -->", "<example><tool_call>", "User: <tool_call>\n", '"<tool_call>'),
        *('- <tool_call>{"name": "note"}</tool_call>\n', 'x ```tool_call\n{"name": "note"}\n```\n'),
        *('<tool_call>{"name": "note"}</tool_call> and ', "<tool_call>note</tool_call>\n"),
        *(
            '{"name": "note"}; ',
            '{\\"name\\": ',
            "<|channel|>final<|message|>",
            " to=note {}<|call|>",
        ),
    ),
    "prose": (
        *("User: x\n", "Assistant: ", "Human:\n", "**User:** x\n", "- ", "- x\n", "* x\n"),
        *("1. x\n", "| ", "| x | y |\n", "|---|---|\n", "# x\n", "[^1]: x\n", "(", "[", "{", "=\n"),
        *("note", "note(", 'note{"', "\nnote ", "<note>", "\n{", '\n{"a":', "\n[", "to=", "\n\n"),
    ),
}


def read(text: str, *, weak: bool) -> None:
    recover(text, TOOLS, weak=weak)


def stream(text: str, *, mode: TextCalls) -> None:
    holdback = MarkFilter(mode, ("note",))
    for at in range(0, len(text), PIECE):
        holdback.feed(text[at : at + PIECE])


READERS: Final[dict[str, Read]] = {
    "marked": partial(read, weak=False),
    "weak": partial(read, weak=True),
}
STREAMS: Final[dict[str, Read]] = {
    "marked stream": partial(stream, mode="marked"),
    "weak stream": partial(stream, mode="any"),
}


def filled(unit: str, size: int) -> str:
    return unit * (size // len(unit) + 1)


def lines_of(reader: Read, text: str) -> int:
    return steps(lambda: reader(text))


def looks_of(reader: Read, text: str) -> int:
    watched = Watched.of(text)
    reader(watched)
    return watched.looked


def verdict(once: int, twice: int, start: int, bound: int) -> str:
    """Say what is wrong with the work that a text takes, and twice as much of it."""
    told = f"{once} for once the text, {twice} for twice; "
    if twice > GROWTH * once + start:
        return f"{told}grows {twice / once:.2f} times"
    return f"{told}more than {bound} for the second half" if twice - once > bound else ""


def broken_lines(reader: Read, unit: str, size: int, each: int) -> str:
    reader(filled(unit, 1))  # what is only done the first time is not counted
    once, twice = (lines_of(reader, filled(unit, times * size)) for times in (1, 2))
    return verdict(once, twice, START_LINES, each * size)


def broken_looks(reader: Read, unit: str) -> str:
    once, twice = (looks_of(reader, filled(unit, times * LOOKS_SIZE)) for times in (1, 2))
    return verdict(once, twice, START_LOOKS, LOOKS_EACH * LOOKS_SIZE)


def told(unit: str, wrong: str) -> list[Broken]:
    return [Broken(repr(unit), repr(unit), wrong)] if wrong else []


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("marks", MARKS)
def test_twice_the_text_takes_twice_the_lines(marks: str, reader: str) -> None:
    work, units = READERS[reader], MARKS[marks]

    broken = [told(unit, broken_lines(work, unit, LINES_SIZE, LINES_EACH)) for unit in units]

    check(chain.from_iterable(broken), len(units))


@pytest.mark.slow
@pytest.mark.parametrize("reader", STREAMS)
@pytest.mark.parametrize("marks", MARKS)
def test_twice_the_stream_takes_twice_the_lines(marks: str, reader: str) -> None:
    work, units = STREAMS[reader], MARKS[marks]
    if len(units) > FEW and marks != "openers":
        count = min(len(units), many(STREAMED_OF_A_KIND))
        units = tuple(dice("streams", marks).sample(units, count))

    broken = [
        told(unit, broken_lines(work, unit, STREAM_SIZE, STREAM_LINES_EACH)) for unit in units
    ]

    check(chain.from_iterable(broken), len(units))


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("marks", MARKS)
def test_twice_the_text_is_looked_at_twice_as_much(marks: str, reader: str) -> None:
    units = MARKS[marks]

    broken = [told(unit, broken_looks(READERS[reader], unit)) for unit in units]

    check(chain.from_iterable(broken), len(units))
