"""What all commands share: exit codes, complaints, numbers that are called by their plain name."""

import errno

import click

from surecall.events import safe_text

FAILED, WRONG_USAGE, INCOMPLETE, NOTHING, INTERRUPTED = 1, 2, 3, 4, 130


class WholeNumber(click.IntRange):
    """A whole number within bounds, called by its plain name in messages."""

    name = "whole number"


def complain(message: str, code: int) -> int:
    """Say in one line on standard error what is wrong, and return the exit code."""
    note(f"surecall: {' '.join(message.split())}")
    return code


def note(line: str) -> None:
    """Say something beside the data, on standard error. Its words may come from anywhere."""
    click.echo(safe_text(line), err=True)


def say(text: str) -> None:
    """Print lines on standard output, each made safe for a terminal."""
    click.echo("\n".join(map(safe_text, text.split("\n"))))


def cannot_listen(port: int, error: OSError, host: str = "") -> str:
    """Say why nothing can be served on a port; the host is named where it was chosen."""
    if error.errno == errno.EADDRINUSE:
        where = f" on {host}" if host else ""
        return f"port {port}{where} is taken; choose another one with --port"
    where = f"{host}, " if host else ""
    return f"cannot listen on {where}port {port}: {error.strerror or error}"
