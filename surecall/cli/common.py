"""What all commands share: exit codes, messages, and the options of those that serve something."""

import errno
import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from surecall.cli.screen import screen_of, wrapped
from surecall.values.trace import safe_text

F = TypeVar("F", bound=Callable[..., Any])
LOOPBACK = "127.0.0.1"
_MAX_PORT = 65_535
FAILED, WRONG_USAGE, INCOMPLETE, NOTHING, INTERRUPTED = 1, 2, 3, 4, 130


class WholeNumber(click.IntRange):
    """A whole number within bounds; messages call it that, and not an integer range."""

    name = "whole number"


def with_address(port: int) -> Callable[[F], Callable[..., Any]]:
    """Give a command that serves something the options of where it listens, and for whom."""

    def decorate(function: F) -> Callable[..., Any]:
        @functools.wraps(function)
        def combined(*, public: bool, anywhere: bool, **options: Any) -> Any:
            return function(public=public or anywhere, **options)

        listens = click.option(
            "--port",
            type=WholeNumber(0, _MAX_PORT),
            default=port,
            show_default=True,
            help="Port to listen on; 0 picks a free one.",
        )
        where = click.option(
            "--host", default=LOOPBACK, show_default=True, help="Address to listen on."
        )
        opens = click.option(
            "--public", is_flag=True, help="Allow an address that other machines can reach."
        )
        # The former name; scripts may still use it.
        formerly = click.option("--anywhere", is_flag=True, hidden=True)
        return where(listens(opens(formerly(combined))))

    return decorate


def complain(message: str, code: int) -> int:
    """Print what is wrong, as one line on standard error, and return the exit code."""
    note(f"surecall: {' '.join(message.split())}")
    return code


def note(line: str) -> None:
    """Print a message on standard error, beside the data. Its text may come from outside."""
    click.echo("\n".join(wrapped(safe_text(line), screen_of(sys.stderr).width)), err=True)


def say(text: str) -> None:
    """Print lines on standard output, each made safe for a terminal, and to fit it."""
    screen = screen_of(sys.stdout)
    lines = (line for each in text.split("\n") for line in wrapped(safe_text(each), screen.width))
    click.echo(screen.spelt("\n".join(lines)), color=screen.colour)


def say_exactly(text: str) -> None:
    """Print lines that a program reads, and so must not be broken; each made safe."""
    click.echo("\n".join(map(safe_text, text.split("\n"))))


def cannot_listen(port: int, error: OSError, host: str = "") -> str:
    """Say why nothing can be served on a port; the host is named if it was chosen."""
    if error.errno == errno.EADDRINUSE:
        where = f" on {host}" if host else ""
        return f"port {port}{where} is taken; choose another one with --port"
    where = f"{host}, " if host else ""
    return f"cannot listen on {where}port {port}: {error.strerror or error}"
