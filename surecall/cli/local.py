"""`surecall local`: serve the model in a GGUF file.

`surecall eval --gguf` uses the same server, with a client that detects when the server has ended.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from surecall.cli.console import (
    FAILED,
    INTERRUPTED,
    WRONG_USAGE,
    ExitCode,
    WholeNumber,
    address_options,
    listen_error,
    print_error,
    print_note,
    print_text,
)
from surecall.eval.local_server import LocalServer, LocalServerError
from surecall.eval.settings.fields import MAX_CONTEXT, MAX_THREADS, MIN_CONTEXT, ServingOptions
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.connection import Limits, is_loopback
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.text import quantity
from surecall.values.types import HttpResponse

_MB, _GB = 1e6, 1e9
_DEFAULTS = ServingOptions()
# The connection breaks shortly before the process is seen to end.
_GRACE_S = 0.5


@click.command()
@click.argument("gguf", metavar="MODEL.gguf", type=click.Path(path_type=Path))
@address_options(8080)
@click.option(
    "--threads",
    type=WholeNumber(1, MAX_THREADS),
    default=_DEFAULTS.threads,
    show_default=True,
    help="Compute threads; more than the number of cores is slower.",
)
@click.option(
    "--context",
    type=WholeNumber(MIN_CONTEXT, MAX_CONTEXT),
    default=_DEFAULTS.context,
    show_default=True,
    help="Context size in tokens.",
)
@click.option(
    "--start-timeout",
    "starts_within_s",
    type=WholeNumber(1, 86_400),
    default=int(_DEFAULTS.starts_within_s),
    show_default=True,
    help="Seconds to wait until the model is loaded.",
)
@click.option("--verbose", is_flag=True, help="Show the server's log.")
def command(*, gguf: Path, public: bool, verbose: bool, **serving: Any) -> ExitCode:
    """Serve a GGUF model on this machine with llama.cpp.

    The server handles one conversation at a time and uses the chat template in the file. It needs
    the extra `local`: pip install 'surecall[local]'. To evaluate a file, use surecall eval --gguf
    instead, which starts its own server.
    """
    how = ServingOptions(**serving)
    if not public and not is_loopback(how.host):
        return print_error(
            f"{how.host} is not loopback: add --public to let the network use the model",
            WRONG_USAGE,
        )
    try:
        log = print_note if verbose else None
        with LocalServer(
            gguf, how, log=log, on_start=lambda: print_note(_loading_message(gguf, how))
        ) as server:
            print_text(_start_message(server))
            server.wait()
            return print_error(server.exit_message(), FAILED)
    except KeyboardInterrupt:
        # Not raised: click would print an empty line.
        return INTERRUPTED
    except LocalServerError as error:
        return print_error(str(error), FAILED)
    except BrokenPipeError:
        raise  # standard output is closed
    except OSError as error:
        return print_error(listen_error(how.port, error, how.host), FAILED)


def _loading_message(gguf: Path, options: ServingOptions) -> str:
    """Return the message to print while the file is loading."""
    size = gguf.stat().st_size
    shown = f"{size / _GB:.1f} GB" if size >= _GB else f"{size / _MB:.1f} MB"
    return (
        f"loading {gguf} ({shown}), with "
        f"{quantity(options.threads, 'thread')} and {quantity(options.context, 'token')} of context"
    )


def _start_message(server: LocalServer) -> str:
    options = f"--base-url {server.url} --endpoint llama_cpp -m {server.model}"
    return "\n".join(
        (
            f"{server.model} on {server.url}/v1 ({server.build}); press Ctrl-C to stop",
            f"  surecall check {options}",
            f"  surecall eval --jobs 1 --client-timeout 600 {options}",
        )
    )


class LocalClient(OpenAICompatible):
    """A client for a local server. Once the server has ended, every request fails."""

    def __init__(self, server: LocalServer, limits: Limits) -> None:
        super().__init__(server.url, limits=limits)
        self._server = server

    async def send(self, body: bytes) -> HttpResponse:
        """Post one request; see `OpenAICompatible`."""
        try:
            return await super().send(body)
        except ProviderError as error:
            lost = error.code is ErrorCode.CONNECTION_ERROR
            ended = await asyncio.to_thread(self._server.exit_message, _GRACE_S) if lost else ""
            if not ended:
                raise
        raise ProviderError(
            Fault(
                ErrorCode.CONNECTION_ERROR,
                f"{ended[0].upper()}{ended[1:]}.",
                hint="Results so far are saved; run the same command to continue.",
            )
        )


@contextmanager
def serve_gguf(gguf: str, options: ServingOptions, *, quiet: bool = False) -> Iterator[LocalServer]:
    """Serve a file for the duration of the block; report a server that ended early."""
    path = Path(gguf).expanduser()
    server = LocalServer(
        path,
        options,
        on_start=lambda: None if quiet else print_note(_loading_message(path, options)),
    )
    with ExitStack() as stack:
        try:
            stack.enter_context(server)
        except (LocalServerError, OSError) as error:
            raise click.ClickException(str(error)) from None
        yield server
        if ended := server.exit_message():
            print_note(f"surecall: {ended}")
