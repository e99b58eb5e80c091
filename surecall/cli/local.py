"""`surecall local`: the model in a GGUF file, on a port of this machine.

An evaluation of a file uses the same server, through a client that knows when it has ended.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from surecall.cli.common import (
    FAILED,
    INTERRUPTED,
    WRONG_USAGE,
    WholeNumber,
    cannot_listen,
    complain,
    note,
    say,
    with_address,
)
from surecall.cli.listing import count
from surecall.runtime.gguf import LEAST_CONTEXT, MOST_CONTEXT, MOST_THREADS, Serving
from surecall.runtime.local_server import LocalServer, LocalServerError
from surecall.runtime.loopback import is_loopback
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.connection import Limits
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.types import Answer

_PORT = 8080
_LONGEST_START_S = 86_400
_MB, _GB = 1e6, 1e9
_DEFAULT = Serving()
# A connection breaks a moment before the end of the process can be seen.
_GRACE_S = 0.5


@click.command()
@click.argument("gguf", metavar="MODEL.gguf", type=click.Path(path_type=Path))
@with_address(_PORT)
@click.option(
    "--threads",
    type=WholeNumber(1, MOST_THREADS),
    default=_DEFAULT.threads,
    show_default=True,
    help="Threads to compute with; more than there are cores is slower.",
)
@click.option(
    "--context",
    type=WholeNumber(LEAST_CONTEXT, MOST_CONTEXT),
    default=_DEFAULT.context,
    show_default=True,
    help="Tokens that a conversation may have.",
)
@click.option(
    "--start-timeout",
    "starts_within_s",
    type=WholeNumber(1, _LONGEST_START_S),
    default=int(_DEFAULT.starts_within_s),
    show_default=True,
    help="Seconds that loading the file may take.",
)
@click.option("--verbose", is_flag=True, help="Show the server's log.")
def command(*, gguf: Path, public: bool, verbose: bool, **serving: Any) -> int:
    """Serve the model in a GGUF file on this machine, with llama.cpp.

    One conversation at a time, with the file's own chat template. Needs the extra `local`: pip
    install 'surecall[local]'. An evaluation needs no server of its own: see surecall eval --gguf.
    """
    how = Serving(**serving)
    if not public and not is_loopback(how.host):
        return complain(
            f"{how.host} is not loopback; add --public if the network may use the model",
            WRONG_USAGE,
        )
    try:
        log = note if verbose else None
        with LocalServer(gguf, how, log=log, on_start=lambda: note(_loading(gguf, how))) as server:
            say(_announced(server))
            server.wait()
            return complain(server.ended(), FAILED)
    except KeyboardInterrupt:
        # Further up click would print an empty line for it.
        return INTERRUPTED
    except LocalServerError as error:
        return complain(str(error), FAILED)
    except BrokenPipeError:
        raise  # the reader of our output has gone
    except OSError as error:
        return complain(cannot_listen(how.port, error, how.host), FAILED)


def _loading(gguf: Path, how: Serving) -> str:
    """Say that a file is being loaded: a large one takes a while, and nothing else is heard."""
    size = gguf.stat().st_size
    shown = f"{size / _GB:.1f} GB" if size >= _GB else f"{size / _MB:.1f} MB"
    return (
        f"loading {gguf} ({shown}), with "
        f"{count(how.threads, 'thread')} and {count(how.context, 'token')} of context"
    )


def _announced(server: LocalServer) -> str:
    there = f"--base-url {server.url} --endpoint llama_cpp -m {server.model}"
    return "\n".join(
        (
            f"{server.model} on {server.url}/v1 ({server.build}); Ctrl-C ends it",
            f"  surecall check {there}",
            f"  surecall eval --jobs 1 --client-timeout 600 {there}",
        )
    )


class LocalClient(OpenAICompatible):
    """A client of a local server. Once that has ended, every request fails for good."""

    def __init__(self, server: LocalServer, limits: Limits) -> None:
        super().__init__(server.url, limits=limits)
        self._server = server

    async def send(self, body: bytes) -> Answer:
        """Post one request; see `OpenAICompatible`."""
        try:
            return await super().send(body)
        except ProviderError as error:
            lost = error.code is ErrorCode.CONNECTION_ERROR
            ended = await asyncio.to_thread(self._server.ended, _GRACE_S) if lost else ""
            if not ended:
                raise
        raise ProviderError(
            Fault(
                ErrorCode.CONNECTION_ERROR,
                f"{ended[0].upper()}{ended[1:]}.",
                hint="What was measured is kept; the same command continues.",
            )
        )


@contextmanager
def served(gguf: str, how: Serving, *, quiet: bool = False) -> Iterator[LocalServer]:
    """Serve a file while the block lasts; say at its end if the server did not live that long."""
    path = Path(gguf).expanduser()
    server = LocalServer(path, how, on_start=lambda: None if quiet else note(_loading(path, how)))
    with ExitStack() as stack:
        try:
            stack.enter_context(server)
        except (LocalServerError, OSError) as error:
            raise click.ClickException(str(error)) from None
        yield server
        if ended := server.ended():
            note(f"surecall: {ended}")
