"""How Ctrl-C (SIGINT) and SIGTERM end a command.

    first Ctrl-C             the command shuts down: `eval` finishes the trials in flight
    second one, or SIGTERM   everything is canceled, and after `GRACE_S` the process is killed
    third Ctrl-C             the process is killed immediately

A thread receives the signals, so the grace period ends even if the main thread is blocked in native
code, in a lock, or in a cleanup that does not return.
"""

import _thread
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from surecall.cli.console import (
    FAILED,
    INTERRUPTED,
    TERMINATED,
    ExitCode,
    listen_error,
    print_error,
)

T = TypeVar("T")
GRACE_S: Final = 1.5
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_FINAL_INTERRUPT: Final = 2
# Only wakes up the main thread. Windows does not have it.
_WAKE_SIGNAL: Final = getattr(signal, "SIGURG", None)


class SignalCounts(NamedTuple):
    """The signals that the command has received so far."""

    interrupts: int = 0
    terminated: bool = False

    @property
    def is_final(self) -> bool:
        """Whether the command must end immediately."""
        return self.terminated or self.interrupts >= _FINAL_INTERRUPT

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a command ended by these signals."""
        return TERMINATED if self.terminated else INTERRUPTED


Listener: TypeAlias = Callable[[SignalCounts], object]


class Interrupts:
    """Receives SIGINT and SIGTERM for one command."""

    def __init__(self) -> None:
        self._interrupts = 0
        self._is_terminated = self._is_handled = False
        self._is_installed = self._is_ending = False
        self._listener: Listener | None = None

    @property
    def signals(self) -> SignalCounts:
        """The signals received so far."""
        return SignalCounts(self._interrupts, self._is_terminated)

    @contextmanager
    def install(self, *, stays: bool) -> Iterator[None]:
        """Receive signals in the block; with `stays`, until the process ends.

        Python delivers signals only to the main thread. An ignored signal, as under nohup, stays
        ignored.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        receiver, sender = socket.socketpair()
        sender.settimeout(0)
        # Detached, so that it stays open after the socket object is collected.
        written = sender.detach()
        wakeup = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        wanted = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        before = {each: signal.signal(each, self._handle) for each in wanted}
        if _WAKE_SIGNAL is not None:
            before[_WAKE_SIGNAL] = signal.signal(_WAKE_SIGNAL, _do_nothing)
        self._interrupts, self._is_terminated, self._is_handled = 0, False, False
        self._is_installed, self._is_ending = True, False
        _thread.start_new_thread(self._receive, (receiver,))
        try:
            yield
        finally:
            # The command has ended. Signals now only hasten the interpreter's exit.
            self._listener = _ignore_signals if stays else None
            if not stays:
                self._is_installed = False
                signal.set_wakeup_fd(wakeup)
                for number, handler in before.items():
                    signal.signal(number, handler)
                socket.close(written)
                # The next command in this process starts without signals.
                self._interrupts, self._is_terminated = 0, False

    @contextmanager
    def redirect_to(self, listener: Listener) -> Iterator[None]:
        """Pass signals to a listener instead of raising `KeyboardInterrupt`.

        The listener is called in another thread, with the signals received so far.
        """
        before, self._listener = self._listener, listener
        if self.signals != SignalCounts():
            listener(self.signals)
        try:
            yield
        finally:
            self._listener = before

    def _handle(self, number: int, _frame: object) -> None:
        """Interrupt the main thread on the first signal; Python calls this handler there."""
        # The thread may not have read it yet, and the exit code depends on it.
        self._is_terminated = self._is_terminated or number == signal.SIGTERM
        is_first, self._is_handled = not self._is_handled, True
        # A later signal must not interrupt the cleanup; if that hangs, the process is killed.
        if is_first and self._listener is None:
            raise KeyboardInterrupt

    def _receive(self, receiver: socket.socket) -> None:
        """Count the signals from the wakeup socket until it is closed."""
        with closing(receiver):
            while data := receiver.recv(64):
                for number in data:
                    if number in _SIGNALS:
                        self._count_signal(number)

    def _count_signal(self, number: int) -> None:
        self._interrupts += number == signal.SIGINT
        self._is_terminated = self._is_terminated or number == signal.SIGTERM
        received = self.signals
        if received.interrupts > _FINAL_INTERRUPT:
            self._kill()
        if received.is_final and not self._is_ending:
            self._is_ending = True
            _thread.start_new_thread(self._kill_after_grace, ())
        if (listener := self._listener) is not None:
            with suppress(RuntimeError):  # its event loop has just been closed
                listener(received)
        elif _WAKE_SIGNAL is not None and not self._is_handled:
            _thread.start_new_thread(self._wake, (_WAKE_SIGNAL,))

    def _wake(self, number: int) -> None:
        """Interrupt the main thread until it has handled the signal.

        Native code that reads in a loop sees a signal only if it arrives during a system call.
        """
        main = threading.main_thread().ident
        while not self._is_handled and self._is_installed and main is not None:
            signal.pthread_kill(main, number)
            time.sleep(0.02)

    def _kill_after_grace(self) -> None:
        time.sleep(GRACE_S)
        self._kill()

    def _kill(self) -> None:
        """End the process and its workers without any cleanup."""
        if not self._is_installed:
            return
        # A command that has not imported these modules has nothing to clean up.
        if (workers := sys.modules.get("multiprocessing")) is not None:
            for child in workers.active_children():
                child.kill()
        with suppress(OSError):
            os.write(2, b"surecall: killed because it did not shut down in time\n")
        if (files := sys.modules.get("surecall.eval.storage.run_directories")) is not None:
            files.remove_unfinished_files()
        os._exit(self.signals.exit_code)


def _ignore_signals(_received: SignalCounts) -> None:
    pass


def _do_nothing(_number: int, _frame: object) -> None:
    pass


_CURRENT: Final = Interrupts()


def current_interrupts() -> Interrupts:
    """Return the signal receiver of this process."""
    return _CURRENT


def run_until_interrupted(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; the first signal cancels it and raises `KeyboardInterrupt` here."""
    # Imported here: `--help` needs no event loop.
    import asyncio  # noqa: PLC0415 - see above

    async def cancelable() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101  # inside a task
        with current_interrupts().redirect_to(lambda _: loop.call_soon_threadsafe(task.cancel)):
            return await work

    main = cancelable()
    try:
        # While the loop starts and ends, a signal is counted and not raised.
        with current_interrupts().redirect_to(_ignore_signals):
            return asyncio.run(main)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        # If a signal came first, they never ran, and Python would warn about it.
        main.close()
        work.close()


def serve_until_interrupted(
    server: Any, announce: Callable[[], Awaitable[None]], port: int, host: str = ""
) -> ExitCode:
    """Run a server until the first signal, and return the exit code of the command."""
    try:
        run_until_interrupted(serve_until_canceled(server, announce))
    except KeyboardInterrupt:
        pass  # click would print an empty line
    except OSError as error:
        return print_error(listen_error(port, error, host), FAILED)
    return INTERRUPTED


async def serve_until_canceled(server: Any, announce: Callable[[], Awaitable[None]]) -> None:
    """Run a server until this task is canceled; `announce` prints its address."""
    import asyncio  # noqa: PLC0415 - `--help` needs no event loop

    async with server:
        await announce()
        await asyncio.Event().wait()
