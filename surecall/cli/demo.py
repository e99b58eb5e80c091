"""`surecall demo`: the same bent replies for a plain loop and for surecall, side by side."""

import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click

from surecall.cli.common import FAILED, INTERRUPTED
from surecall.cli.demo_page import ASCII_SIGNS, SIGNS, body, head, opened, right
from surecall.cli.listing import say_document
from surecall.simulator.demo.contest import OWN, Row, contest
from surecall.simulator.demo.shapes import drawn, every_shape
from surecall.values.trace import safe_text
from surecall.values.types import JSON

_NAME: Final = "surecall"
# A sign has two words after it at most. A line without indentation is a heading, or a sentence.
_STYLES: Final = {
    r"✓ \w+": "green",
    r"✗ \w+( \w+)?": "red",
    r"^\S.*[^.,]$": "bold",
}


@click.command()
@click.option("--all", "everything", is_flag=True, help="Meet every reply, not a sample.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(*, everything: bool, as_json: bool) -> int:
    """Show what bent replies do to a plain loop, and to surecall; no key, no network.

    Both loops get the same replies, over HTTP, from a simulated provider in this process. They are
    judged by what really ran. So is OpenAI's client, if it is installed.
    """
    try:
        return _shown(everything=everything, as_json=as_json)
    except KeyboardInterrupt:
        # Further up click would print an empty line for it.
        return INTERRUPTED


def _shown(*, everything: bool, as_json: bool) -> int:
    shapes = every_shape() if everything else drawn()
    if not as_json:
        _print(head(len(shapes)))
    rows = contest(shapes)
    if as_json:
        say_document(document(rows))
    else:
        signs = SIGNS if (sys.stdout.encoding or "").lower().startswith("utf") else ASCII_SIGNS
        _print(body(rows, signs, _program()))
    return 0 if right(rows, OWN) == len(rows) else FAILED


def _program() -> str:
    """Return what one has to type: the path, if it is below this folder and not known by name."""
    script, here = Path(sys.executable).with_name(_NAME), Path.cwd()
    if shutil.which(_NAME) or not script.is_relative_to(here):
        return _NAME
    return str(script.relative_to(here))


def _print(lines: Iterable[str]) -> None:
    """Print lines, in colour if the terminal has it and nobody has said no."""
    # Imported here because it is slow to import.
    from rich.console import Console  # noqa: PLC0415 - see above
    from rich.text import Text  # noqa: PLC0415 - see above

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        text = Text(safe_text(line))
        for pattern, style in _STYLES.items() if not console.no_color else ():
            text.highlight_regex(pattern, style)
        console.print(text)


def document(rows: Sequence[Row]) -> JSON:
    """Write the outcome for programs."""
    shapes = [
        {
            "shape": row.shape.id,
            "family": row.shape.family,
            "words": row.shape.words,
            "summary": row.shape.persona.summary,
            "streamed": row.shape.streamed,
            "loops": {
                name: {"right": outcome.is_right, **outcome.judgement._asdict()}
                for name, outcome in row.outcomes.items()
            },
        }
        for row in rows
    ]
    found = opened(rows)
    return {
        "of": len(rows),
        "right": {name: right(rows, name) for name in rows[0].outcomes},
        "shapes": shapes,
        "opened": found and found._asdict(),
    }
