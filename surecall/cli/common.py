"""What all commands share: exit codes, complaints, numbers that are called by their plain name."""

import click

from surecall.events import safe_text

FAILED, WRONG_USAGE, INCOMPLETE, NOTHING, INTERRUPTED = 1, 2, 3, 4, 130


class WholeNumber(click.IntRange):
    """A whole number within bounds, called by its plain name in messages."""

    name = "whole number"


def complain(message: str, code: int) -> int:
    """Say in one line on standard error what is wrong, and return the exit code."""
    click.echo(f"surecall: {safe_text(' '.join(message.split()))}", err=True)
    return code
