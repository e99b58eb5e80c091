"""What `surecall demo` prints, in lines of at most 80 columns: the table, one reply, what is next.

Pure; nothing here prints.
"""

import json
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import surecall
from surecall.cli.listing import count
from surecall.simulator.demo.contest import OWN, PLAIN, Outcome, Row
from surecall.simulator.demo.shapes import EACH, TITLES, every_shape
from surecall.values.events import LlmRequestEndEvent
from surecall.values.types import Reply

WIDTH: Final = 80
# The signs of what is right and what is not: on a terminal that has them, and on any other.
SIGNS: Final = ("✓", "✗")
ASCII_SIGNS: Final = ("+", "x")
_WORDS, _CELL, _LABEL = 36, 14, 12
_INDENT: Final = "  "
_LOOP: Final = "surecall/simulator/demo/plain_loop.py"
# How a loop fails, in a sentence; the words are those of `Judgement.how`.
FAILURES: Final = {
    "HTTP 400": "sent the broken call back in the history: refused",
    "crashed": "could not read the reply: an exception",
    "half ran": "ended with half of the work done",
    "never ended": "asked again and again",
    "no answer": "did the work, but had no answer for the user",
    "ran nothing": "ended without doing the work",
    "ran twice": "did the same work twice",
    "wrong tool": "ran a tool that was not meant",
    "wrong value": "ran the tool with values that were not meant",
}


class Opened(NamedTuple):
    """One bent reply: as it came, as it was read and by which steps, and what came of it."""

    shape: str
    came: str
    read: str
    steps: tuple[str, ...]
    plain: str


def head(number: int) -> list[str]:
    """Say what is about to happen."""
    return [
        f"surecall {surecall.__version__}: {number} replies, bent as models and gateways do it,",
        "go over HTTP to a loop that is written by hand, and to surecall.",
        "Right means: the work was done once, nothing else ran, the user got the answer.",
        "",
    ]


def body(rows: Sequence[Row], signs: tuple[str, str], program: str) -> list[str]:
    """Write everything that follows when all have ended."""
    return [
        *_table(rows, signs),
        "",
        *_failures(rows),
        "",
        *_open(opened(rows)),
        *_rules(program, len(rows)),
        "",
        *_next_steps(program),
    ]


def _table(rows: Sequence[Row], signs: tuple[str, str]) -> Iterator[str]:
    """Write a line for each reply, by family, and the totals."""
    loops = list(rows[0].outcomes)
    yield _line("what is wrong in the reply", loops)
    for family, members in groupby(rows, key=lambda row: row.shape.family):
        yield TITLES[family]
        for row in members:
            words = textwrap.shorten(row.shape.words, _WORDS, placeholder=" ...")
            yield _line(_INDENT + words, [_cell(row.outcomes[name], signs) for name in loops])
    yield _line("right", [f"{right(rows, name)} of {len(rows)}" for name in loops])


def _line(label: str, cells: Sequence[str]) -> str:
    padded = "".join(cell.ljust(_CELL) for cell in cells)
    return f"{label:<{len(_INDENT) + _WORDS}} {padded}".rstrip()


def _cell(outcome: Outcome, signs: tuple[str, str]) -> str:
    good, bad = signs
    return f"{good} right" if outcome.is_right else f"{bad} {outcome.judgement.how}"


def right(rows: Sequence[Row], loop: str) -> int:
    """Count the replies after which a loop did what it should."""
    return sum(row.outcomes[loop].is_right for row in rows)


def _failures(rows: Sequence[Row]) -> Iterator[str]:
    ways = Counter(row.outcomes[PLAIN].judgement.how for row in rows)
    ways.pop("", None)
    yield f"The plain loop failed {count(ways.total(), 'time')}."
    for how, number in ways.most_common():
        yield f"{number:>4} x {how:<{_CELL}}{FAILURES.get(how, '')}".rstrip()


def _rules(program: str, number: int) -> Iterator[str]:
    drawn = (
        f"The replies are drawn, not picked: {EACH} of each family of faults, by a hash of their "
        f"names; `{program} demo --all` sends all. "
    )
    yield "How this is measured:"
    yield from _wrapped(
        f"{drawn if number < len(every_shape()) else ''}A fault is a habit, shown in every reply, "
        "unless only the model can mend it and it is told to. The plain loop asks again when an "
        "endpoint is busy, and tells the model of every call that it cannot run: "
        f"{_LOOP}",
        _INDENT,
        _INDENT,
    )


def opened(rows: Sequence[Row]) -> Opened | None:
    """Open a reply that was healed: one that has its call in the text, if there is any."""
    for row in sorted(rows, key=lambda row: row.shape.family != "text"):
        for event in row.outcomes[OWN].trace or ():
            match event:
                case LlmRequestEndEvent(reply=Reply(fired=(_, *_), calls=(call, *_)) as reply):
                    return Opened(
                        row.shape.id,
                        json.dumps(_message(event.body)),
                        f"{call.name} {json.dumps(call.arguments)}",
                        reply.fired,
                        row.outcomes[PLAIN].judgement.how,
                    )
                case _:
                    pass
    return None


def _message(answer: Any) -> Any:
    match answer:
        case {"choices": [{"message": dict(message)}, *_]}:
            return message
        case _:
            return answer


def _open(found: Opened | None) -> Iterator[str]:
    if found is None:
        return
    yield f"One of these replies, opened ({found.shape}):"
    yield from _labelled("came", found.came)
    yield from _labelled(PLAIN, FAILURES.get(found.plain, found.plain) or "read it, too")
    yield from _labelled(OWN, f"read {found.read}, by {', '.join(found.steps)}; ran it once")
    yield ""


def _next_steps(program: str) -> Iterator[str]:
    yield "Next:"
    yield "  1. Check your own endpoint:"
    yield f"       {program} check --base-url http://localhost:8000 -m MODEL"
    yield "  2. Put the loop into your code:"
    yield "       from surecall import ToolLoopRunner"
    yield '       runner = ToolLoopRunner(client="http://localhost:8000", model="MODEL",'
    yield "                               tools=[book_room])  # your functions"
    yield '       print(runner.run_sync("A room for Kim, 3 nights").text)'
    yield "  3. Or put a proxy before the agent that you have, and change its address:"
    yield f"       {program} proxy --upstream http://localhost:8000"


def _labelled(label: str, text: str) -> list[str]:
    return _wrapped(text, f"{_INDENT}{label:<{_LABEL}}", " " * (len(_INDENT) + _LABEL))


def _wrapped(text: str, first: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
    )
