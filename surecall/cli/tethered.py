"""A local server and its client: when the one ends, the other says so, and nobody waits."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from surecall.cli.common import note
from surecall.runtime.local_server import LocalServer, LocalServerError
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.connection import Limits
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.types import Answer

# A connection breaks a moment before the end of the process can be seen.
_GRACE_S = 0.5


class Tethered(OpenAICompatible):
    """A client of a local server. Once that has ended, every request fails at once and for good."""

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
                hint="Whatever was measured is kept; the same command continues.",
            )
        )


@contextmanager
def served(gguf: str) -> Iterator[LocalServer]:
    """Serve a file while the block lasts; tell at its end if the server did not live that long."""
    server = LocalServer(Path(gguf).expanduser())
    with ExitStack() as stack:
        try:
            stack.enter_context(server)
        except (LocalServerError, OSError) as error:
            raise click.ClickException(str(error)) from None
        yield server
        if ended := server.ended():
            note(f"surecall: {ended}")
