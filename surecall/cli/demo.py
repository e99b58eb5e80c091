"""`surecall demo`: the same malformed replies for a plain loop and for surecall, side by side.

The output fits 80 columns: a table, one repaired reply, and the next steps.
"""

import json
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

import surecall
from surecall.cli.console import FAILED, INTERRUPTED, ExitCode, print_document
from surecall.cli.interrupts import run_until_interrupted
from surecall.simulator.demo_loops import (
    PLAIN_LOOP,
    SURECALL_LOOP,
    DemoRow,
    LoopOutcome,
    compare_loops,
)
from surecall.simulator.demo_tasks import CASES_PER_FAMILY, FAMILY_TITLES, all_cases, draw_cases
from surecall.values.events import LlmRequestEndEvent
from surecall.values.text import quantity
from surecall.values.trace import safe_text
from surecall.values.types import JSON, Reply

WIDTH: Final = 80
# Pass and fail symbols, for terminals with and without Unicode.
SYMBOLS: Final = ("✓", "✗")
ASCII_SYMBOLS: Final = ("+", "x")
_WORDS, _CELL, _LABEL = 36, 14, 12
_INDENT: Final = "  "
_LOOP: Final = "surecall/simulator/demo_loops.py"
# How a loop fails, by `Judgement.how`.
FAILURES: Final = {
    "HTTP 400": "sent the malformed call back in the history: rejected",
    "crashed": "could not parse the reply: an exception",
    "half ran": "ended with half of the work done",
    "never ended": "re-prompted the model without end",
    "no answer": "did the work, but had no answer for the user",
    "ran nothing": "ended without doing the work",
    "ran twice": "did the same work twice",
    "wrong tool": "ran the wrong tool",
    "wrong value": "ran the tool with wrong values",
}


class RepairedExample(NamedTuple):
    """A malformed reply, the call that was parsed from it, the repairs, and the plain result."""

    shape: str
    came: str
    read: str
    steps: tuple[str, ...]
    plain: str


def header_lines(cases: int) -> list[str]:
    """Return the lines that introduce the demo."""
    return [
        f"surecall {surecall.__version__}: sending {cases} malformed replies, like those of real",
        "models and gateways, over HTTP to a hand-written loop and to surecall.",
        "Right: the work was done once, nothing else ran, and the user got the answer.",
        "",
    ]


def result_lines(rows: Sequence[DemoRow], signs: tuple[str, str], program: str) -> list[str]:
    """Return the lines with the results."""
    return [
        *_table_lines(rows, signs),
        "",
        *_failure_lines(rows),
        "",
        *_example_lines(find_repaired(rows)),
        *_method_lines(program, len(rows)),
        "",
        *_next_step_lines(program),
    ]


def _table_lines(rows: Sequence[DemoRow], signs: tuple[str, str]) -> Iterator[str]:
    """Yield a line for each reply, by family, and the totals."""
    loops = list(rows[0].outcomes)
    yield _table_row("problem in the reply", loops)
    for family, members in groupby(rows, key=lambda row: row.case.family):
        yield FAMILY_TITLES[family]
        for row in members:
            words = textwrap.shorten(row.case.label, _WORDS, placeholder=" ...")
            yield _table_row(_INDENT + words, [_cell(row.outcomes[name], signs) for name in loops])
    yield _table_row("right", [f"{count_right(rows, name)} of {len(rows)}" for name in loops])


def _table_row(label: str, cells: Sequence[str]) -> str:
    padded = "".join(cell.ljust(_CELL) for cell in cells)
    return f"{label:<{len(_INDENT) + _WORDS}} {padded}".rstrip()


def _cell(outcome: LoopOutcome, signs: tuple[str, str]) -> str:
    """Return the sign and result of one loop, such as `✗ wrong arguments`."""
    good, bad = signs
    return f"{good} right" if outcome.is_right else f"{bad} {outcome.judgment.how}"


def count_right(rows: Sequence[DemoRow], loop: str) -> int:
    """Return the number of replies that a loop handled correctly."""
    return sum(row.outcomes[loop].is_right for row in rows)


def _failure_lines(rows: Sequence[DemoRow]) -> Iterator[str]:
    """Yield how often the plain loop failed, by the kind of failure."""
    ways = Counter(row.outcomes[PLAIN_LOOP].judgment.how for row in rows)
    ways.pop("", None)
    yield f"The plain loop failed {quantity(ways.total(), 'time')}."
    for how, number in ways.most_common():
        yield f"{number:>4} x {how:<{_CELL}}{FAILURES.get(how, '')}".rstrip()


def _method_lines(program: str, case_count: int) -> Iterator[str]:
    """Yield the explanation of how the demo measures."""
    sample = (
        f"The replies are a random sample: {CASES_PER_FAMILY} of each family of faults, "
        "by a hash of their "
        f"names; `{program} demo --all` sends all. "
    )
    yield "How this is measured:"
    yield from _wrap(
        f"{sample if case_count < len(all_cases()) else ''}A fault occurs in every reply, unless "
        "only the model can correct it and is asked to. The plain loop retries when the endpoint "
        f"is busy and reports every call that it cannot run to the model: {_LOOP}",
        _INDENT,
        _INDENT,
    )


def find_repaired(rows: Sequence[DemoRow]) -> RepairedExample | None:
    """Return a repaired reply, preferably one with its call in the text."""
    for row in sorted(rows, key=lambda row: row.case.family != "text"):
        for event in row.outcomes[SURECALL_LOOP].trace or ():
            match event:
                case LlmRequestEndEvent(reply=Reply(fired=(_, *_), calls=(call, *_)) as reply):
                    return RepairedExample(
                        row.case.id,
                        json.dumps(_message_or_body(event.body)),
                        f"{call.name} {json.dumps(call.arguments)}",
                        reply.fired,
                        row.outcomes[PLAIN_LOOP].judgment.how,
                    )
                case _:
                    pass
    return None


def _message_or_body(answer: Any) -> Any:
    """Return the message of a completion; other bodies unchanged."""
    match answer:
        case {"choices": [{"message": dict(message)}, *_]}:
            return message
        case _:
            return answer


def _example_lines(example: RepairedExample | None) -> Iterator[str]:
    if example is None:
        return
    yield f"One of these replies ({example.shape}):"
    yield from _label_lines("received", example.came)
    yield from _label_lines(
        PLAIN_LOOP, FAILURES.get(example.plain, example.plain) or "parsed it, too"
    )
    yield from _label_lines(
        SURECALL_LOOP, f"parsed {example.read} with {', '.join(example.steps)}; ran it once"
    )
    yield ""


def _next_step_lines(program: str) -> Iterator[str]:
    yield "Next:"
    yield "  1. Check your endpoint:"
    yield f"       {program} check --base-url http://localhost:8000 -m MODEL"
    yield "  2. Use the loop in your code:"
    yield "       from surecall import ToolLoopRunner"
    yield '       runner = ToolLoopRunner(client="http://localhost:8000", model="MODEL",'
    yield "                               tools=[book_room])  # your functions"
    yield '       print(runner.run_sync("A room for Kim, 3 nights").text)'
    yield "  3. Or run the proxy, and set the base URL of your agent to its address:"
    yield f"       {program} proxy --upstream http://localhost:8000"


def _label_lines(label: str, text: str) -> list[str]:
    return _wrap(text, f"{_INDENT}{label:<{_LABEL}}", " " * (len(_INDENT) + _LABEL))


def _wrap(text: str, first: str, indent: str) -> list[str]:
    """Return a text as lines that fit the output; `first` begins the first one."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
    )


_NAME: Final = "surecall"
# A symbol has at most two words after it. Lines without indentation are headings or sentences.
_STYLES: Final = {
    r"✓ \w+": "green",
    r"✗ \w+( \w+)?": "red",
    r"^\S.*[^.,]$": "bold",
}


@click.command()
@click.option("--all", "everything", is_flag=True, help="Send every reply instead of a sample.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(*, everything: bool, as_json: bool) -> ExitCode:
    """Compare a plain tool loop with surecall on malformed replies.

    Needs no key and no network. Both loops get the same replies over HTTP from a simulated
    provider in this process, and are scored by what actually ran. OpenAI's client is compared too,
    if it is installed.
    """
    try:
        return _run_demo(everything=everything, as_json=as_json)
    except KeyboardInterrupt:
        # Not raised: click would print an empty line.
        return INTERRUPTED


def _run_demo(*, everything: bool, as_json: bool) -> ExitCode:
    shapes = all_cases() if everything else draw_cases()
    if not as_json:
        _print_lines(header_lines(len(shapes)))
    rows = compare_loops(shapes, run_until_interrupted)
    if as_json:
        print_document(json_document(rows))
    else:
        signs = SYMBOLS if (sys.stdout.encoding or "").lower().startswith("utf") else ASCII_SYMBOLS
        _print_lines(result_lines(rows, signs, _program_name()))
    return 0 if count_right(rows, SURECALL_LOOP) == len(rows) else FAILED


def _program_name() -> str:
    """Return the command to type: the name, or the path if it is not on PATH but below here."""
    script, here = Path(sys.executable).with_name(_NAME), Path.cwd()
    if shutil.which(_NAME) or not script.is_relative_to(here):
        return _NAME
    return str(script.relative_to(here))


def _print_lines(lines: Iterable[str]) -> None:
    """Print lines, in color if the terminal supports it."""
    # Imported here because it is slow.
    from rich.console import Console  # noqa: PLC0415 - see above
    from rich.text import Text  # noqa: PLC0415 - see above

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        text = Text(safe_text(line))
        for pattern, style in _STYLES.items() if not console.no_color else ():
            text.highlight_regex(pattern, style)
        console.print(text)


def json_document(rows: Sequence[DemoRow]) -> JSON:
    """Return the results as a JSON document."""
    shapes = [
        {
            "shape": row.case.id,
            "family": row.case.family,
            "words": row.case.label,
            "summary": row.case.persona.summary,
            "streamed": row.case.is_streamed,
            "loops": {
                name: {"right": outcome.is_right, **outcome.judgment._asdict()}
                for name, outcome in row.outcomes.items()
            },
        }
        for row in rows
    ]
    found = find_repaired(rows)
    return {
        "of": len(rows),
        "right": {name: count_right(rows, name) for name in rows[0].outcomes},
        "shapes": shapes,
        "opened": found and found._asdict(),
    }
