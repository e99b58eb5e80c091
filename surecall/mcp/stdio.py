"""A server as a child process: one JSON message per line, over its standard streams.

The SDK has such a transport, but it leaves the children of a server that exited running. Here the
whole process group always ends with the session:

    standard input closed ─ 2 s ─► SIGTERM ─ 2 s ─► SIGKILL, to the group

The last lines of standard error are kept, to report why a server did not start. Lines of output
that are not messages are skipped, because many programs print a greeting.
"""

import asyncio
import asyncio.subprocess
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from surecall.mcp.targets import CommandTarget

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
LEAVING_S: Final = 2.0
# Time to read the remaining output of a process that has exited.
_DRAIN_S: Final = 0.5
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
_POLL_S: Final = 0.01
_MAX_LOG_LINES: Final = 40
_MAX_LOG_LINE_CHARS: Final = 300


class ProcessStatus:
    """The end of a process and the last lines of its log."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self.on_end = on_end
        self.lines: deque[str] = deque(maxlen=_MAX_LOG_LINES)

    @property
    def last_log_line(self) -> str:
        """The last line of the log; blank if there is none."""
        return self.lines[-1] if self.lines else ""

    def add_log_line(self, line: bytes) -> None:
        """Add a line of the log."""
        text = " ".join(line.decode("utf-8", "replace").split())
        if text:
            self.lines.append(text[:_MAX_LOG_LINE_CHARS])


@asynccontextmanager
async def stdio_transport(
    command: CommandTarget, status: ProcessStatus
) -> "AsyncIterator[TransportStreams]":
    """Start a process and yield its message streams; end its process group at the end."""
    import anyio  # noqa: PLC0415 - it comes with the extra
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - the same

    process = await _Process.start(command)
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read_messages, process, incoming, status)
            tasks.start_soon(_write_messages, process, outgoing, status)
            tasks.start_soon(_read_log, process, status)
            tasks.start_soon(_watch_exit, process, incoming, status)
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
def _signal_end(status: ProcessStatus) -> Iterator[None]:
    """Report the end of the session before any call that waits for an answer fails."""
    try:
        yield
    finally:
        status.on_end()


async def _read_messages(process: "_Process", incoming: Any, status: ProcessStatus) -> None:
    from anyio import BrokenResourceError  # noqa: PLC0415 - it comes with the extra
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - the same
    from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415 - the same

    # A line that is too long and a broken stream end the session, too.
    with incoming, _signal_end(status), suppress(ValueError, OSError):
        while line := await process.output.readline():
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                continue
            # Keep reading after the session is closed: a full pipe would block the process.
            with suppress(BrokenResourceError):
                await incoming.send(SessionMessage(message))


async def _write_messages(process: "_Process", outgoing: Any, status: ProcessStatus) -> None:
    with outgoing, _signal_end(status), suppress(OSError):
        async for item in outgoing:
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.input.write(line.encode() + b"\n")
            await process.input.drain()


async def _read_log(process: "_Process", status: ProcessStatus) -> None:
    with suppress(OSError):
        while not process.log.at_eof():
            try:
                status.add_log_line(await process.log.readline())
            except ValueError:  # a line that is too long is dropped
                continue


async def _watch_exit(process: "_Process", incoming: Any, status: ProcessStatus) -> None:
    """End the session when its process exits, even if a child holds its standard output open."""
    await process.exited.wait()
    await asyncio.sleep(_DRAIN_S)
    status.on_end()
    incoming.close()


class _Streams(asyncio.subprocess.SubprocessStreamProtocol):
    """The streams of a process, and its exit; asyncio's own wait also waits for the streams."""

    def __init__(self, exited: asyncio.Event) -> None:
        super().__init__(limit=MAX_MESSAGE_BYTES, loop=asyncio.get_running_loop())
        self._exited = exited

    def process_exited(self) -> None:
        self._exited.set()
        super().process_exited()


class _Process:
    """A process that leads its own process group."""

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
        # All three are pipes.
        self.input = cast("asyncio.StreamWriter", streams.stdin)
        self.output = cast("asyncio.StreamReader", streams.stdout)
        self.log = cast("asyncio.StreamReader", streams.stderr)

    @classmethod
    async def start(cls, command: CommandTarget) -> "_Process":
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
            # Keeps Ctrl-C at the terminal from reaching the server.
            start_new_session=True,
        )
        return cls(transport, asyncio.subprocess.Process(transport, protocol, loop), exited)

    async def end(self) -> None:
        """End the group: close its input, then SIGTERM, then SIGKILL."""
        self.input.close()
        if not await _wait_until(self.exited.is_set) or self._is_group_alive():
            self._signal(signal.SIGTERM)
            if not await _wait_until(lambda: not self._is_group_alive()):
                self._signal(_KILL)
                await _wait_until(self.exited.is_set)
        self._ended = True

    def kill(self) -> None:
        """Kill the group if `end` did not finish, and close the streams."""
        if not self._ended:
            self._signal(_KILL)
        with suppress(PermissionError, ProcessLookupError):
            self._transport.close()

    def _is_group_alive(self) -> bool:
        return self._signal(0) if hasattr(os, "killpg") else not self.exited.is_set()

    def _signal(self, number: int) -> bool:
        """Send a signal to the group; return whether it has any process."""
        try:
            if hasattr(os, "killpg"):
                # The group keeps the number of its leader after the leader has ended.
                os.killpg(self.pid, number)
            else:
                self._transport.send_signal(number)
        except ProcessLookupError:
            return False
        except PermissionError:  # the group exists
            return True
        return True


async def _wait_until(is_gone: Callable[[], bool]) -> bool:
    """Wait a moment until `is_gone()` is true; return its last value."""
    for _ in range(round(LEAVING_S / _POLL_S)):
        if is_gone():
            return True
        await asyncio.sleep(_POLL_S)
    return is_gone()
