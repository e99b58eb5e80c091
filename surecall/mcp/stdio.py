"""A server as a child process: one JSON message in a line, over its standard streams.

The SDK has such a transport, but lets live what a server that ended by itself had started. Here the
whole process group ends with the session, whatever it does about it:

    standard input closed ─ 2 s ─► SIGTERM ─ 2 s ─► SIGKILL, to the group

What the process writes to standard error is kept in part, for the case that it does not start.
Lines that are no message are passed over: many programs print a greeting.
"""

import asyncio
import asyncio.subprocess
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from surecall.mcp.targets import Command

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_LINE: Final = 16 * 1024 * 1024
LEAVING_S: Final = 2.0
# How long what a process wrote before it exited may take to be read.
_LAST_WORDS_S: Final = 0.5
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
_POLL_S: Final = 0.01
_KEPT_LINES: Final = 40
_LONGEST_LINE: Final = 300


class ServerProcess:
    """What becomes of one process, for those who want to know why it ended."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self.on_end = on_end
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)

    @property
    def last_words(self) -> str:
        """The last line of its log; blank if it wrote nothing."""
        return self.lines[-1] if self.lines else ""

    def note(self, line: bytes) -> None:
        """Keep a line of its log."""
        text = " ".join(line.decode("utf-8", "replace").split())
        if text:
            self.lines.append(text[:_LONGEST_LINE])


@asynccontextmanager
async def spoken_to(command: Command, known: ServerProcess) -> "AsyncIterator[TransportStreams]":
    """Start a process and speak to it; at the end nothing is left of it."""
    import anyio  # noqa: PLC0415 - it comes with the extra
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - the same

    process = await _Process.started(command)
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_hear, process, incoming, known)
            tasks.start_soon(_say, process, outgoing, known)
            tasks.start_soon(_note, process, known)
            tasks.start_soon(_watch, process, incoming, known)
            try:
                yield read_stream, write_stream
            finally:
                with anyio.CancelScope(shield=True):
                    await process.end()
                tasks.cancel_scope.cancel()
    finally:
        process.kill()
        for stream in (incoming, read_stream, write_stream, outgoing):
            stream.close()


@contextmanager
def _announced(known: ServerProcess) -> Iterator[None]:
    """Tell that the session is over, before anybody who waits for an answer hears of it."""
    try:
        yield
    finally:
        known.on_end()


async def _hear(process: "_Process", incoming: Any, known: ServerProcess) -> None:
    from anyio import BrokenResourceError  # noqa: PLC0415 - it comes with the extra
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - the same
    from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415 - the same

    # A line that is too long, and a stream that breaks, end the session as its end does.
    with incoming, _announced(known), suppress(ValueError, OSError):
        while line := await process.output.readline():
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                continue
            # When nobody listens any more it is still read: a full pipe would keep it from ending.
            with suppress(BrokenResourceError):
                await incoming.send(SessionMessage(message))


async def _say(process: "_Process", outgoing: Any, known: ServerProcess) -> None:
    with outgoing, _announced(known), suppress(OSError):
        async for item in outgoing:
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.input.write(line.encode() + b"\n")
            await process.input.drain()


async def _note(process: "_Process", known: ServerProcess) -> None:
    with suppress(OSError):
        while not process.log.at_eof():
            try:
                known.note(await process.log.readline())
            except ValueError:  # a line that is too long; what was read of it is dropped
                continue


async def _watch(process: "_Process", incoming: Any, known: ServerProcess) -> None:
    """End the session with its process, though another one may hold its standard output open."""
    await process.exited.wait()
    await asyncio.sleep(_LAST_WORDS_S)
    known.on_end()
    incoming.close()


class _Streams(asyncio.subprocess.SubprocessStreamProtocol):
    """The streams of a process, and when it exits; asyncio's own waits for the streams, too."""

    def __init__(self, exited: asyncio.Event) -> None:
        super().__init__(limit=MAX_LINE, loop=asyncio.get_running_loop())
        self._exited = exited

    def process_exited(self) -> None:
        self._exited.set()
        super().process_exited()


class _Process:
    """A process that leads a group of its own."""

    def __init__(
        self,
        transport: asyncio.SubprocessTransport,
        streams: asyncio.subprocess.Process,
        exited: asyncio.Event,
    ) -> None:
        self._transport = transport
        self._ended = False
        self.pid = streams.pid
        self.exited = exited
        # All three were asked for.
        self.input = cast("asyncio.StreamWriter", streams.stdin)
        self.output = cast("asyncio.StreamReader", streams.stdout)
        self.log = cast("asyncio.StreamReader", streams.stderr)

    @classmethod
    async def started(cls, command: Command) -> "_Process":
        from mcp.client.stdio import get_default_environment  # noqa: PLC0415 - with the extra

        loop = asyncio.get_running_loop()
        exited = asyncio.Event()
        transport, protocol = await loop.subprocess_exec(
            lambda: _Streams(exited),
            *command.arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # A few variables such as PATH and HOME, none of which holds a key.
            env=get_default_environment() | command.env,
            cwd=command.cwd,
            # An interrupt at the terminal is for us alone to obey.
            start_new_session=True,
        )
        return cls(transport, asyncio.subprocess.Process(transport, protocol, loop), exited)

    async def end(self) -> None:
        """End the group: politely, firmly, for good."""
        self.input.close()
        if not await _gone(self.exited.is_set) or self._is_group_alive():
            self._signal(signal.SIGTERM)
            if not await _gone(lambda: not self._is_group_alive()):
                self._signal(_KILL)
                await _gone(self.exited.is_set)
        self._ended = True

    def kill(self) -> None:
        """Kill what is left if `end` could not, and let go of the streams."""
        if not self._ended:
            self._signal(_KILL)
        with suppress(PermissionError, ProcessLookupError):
            self._transport.close()

    def _is_group_alive(self) -> bool:
        return self._signal(0) if hasattr(os, "killpg") else not self.exited.is_set()

    def _signal(self, number: int) -> bool:
        """Send a signal to the group; say whether there is anybody to receive it."""
        try:
            if hasattr(os, "killpg"):
                # The group has the number of its leader, also when that has ended.
                os.killpg(self.pid, number)
            else:
                self._transport.send_signal(number)
        except ProcessLookupError:
            return False
        except PermissionError:  # somebody is there
            return True
        return True


async def _gone(is_gone: Callable[[], bool]) -> bool:
    """Wait a moment for something to be gone; say whether it is."""
    for _ in range(round(LEAVING_S / _POLL_S)):
        if is_gone():
            return True
        await asyncio.sleep(_POLL_S)
    return is_gone()
