"""Clocks for tests: one that only sleepers move, one that a test moves, one that is far ahead.

In virtual time an event loop never waits: when nothing is ready to run, the clock jumps to the
moment for which the next timer is set. A sleep of an hour takes no time, and what is due earlier
always comes earlier. Threads and sockets are not waited for, so such a test must not need any.

A test that needs them can skip time instead: the clock runs as always until it is moved.
"""

import asyncio
import selectors
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

_CLOCKS: Final = ("monotonic", "perf_counter")
_START_S: Final = 1000.0
_LOOK_S: Final = 0.02


class VirtualClock:
    """A clock that stands still until a sleeper moves it."""

    def __init__(self) -> None:
        self.now = _START_S

    def __call__(self) -> float:
        return self.now


class _Jumping(selectors.DefaultSelector):
    """A selector that moves the clock where others wait."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:  # no timer is set: only another thread can bring news
            return super().select(None)
        ready = super().select(0)
        if not ready:
            self._clock.now += max(timeout, 0.0)
        return ready


class SkippingClock:
    """The clock of the machine, and what was skipped. Any thread may skip."""

    def __init__(self) -> None:
        self._skipped = 0.0
        self._real = time.monotonic

    def __call__(self) -> float:
        return self._real() + self._skipped

    def skip(self, seconds: float) -> None:
        self._skipped += seconds


class _Attentive(selectors.DefaultSelector):
    """A selector that lets its loop look at the clock now and then."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(_LOOK_S if timeout is None else min(timeout, _LOOK_S))


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: Callable[[], float], selector: selectors.BaseSelector) -> None:
        super().__init__(selector)
        self._clock = clock

    def time(self) -> float:
        return self._clock()


@contextmanager
def virtual_time() -> Iterator[VirtualClock]:
    """Let every event loop that begins in this block live in virtual time."""
    clock = VirtualClock()
    with _ruled_by(clock, lambda: _Jumping(clock)):
        yield clock


@contextmanager
def skipping_time() -> Iterator[SkippingClock]:
    """Let every event loop that begins in this block notice when time is skipped."""
    clock = SkippingClock()
    with _ruled_by(clock, _Attentive):
        yield clock


@contextmanager
def _ruled_by(
    clock: Callable[[], float], selector: Callable[[], selectors.BaseSelector]
) -> Iterator[None]:
    def new_event_loop() -> asyncio.AbstractEventLoop:
        return _Loop(clock, selector())

    with pytest.MonkeyPatch.context() as patch:
        for name in _CLOCKS:
            patch.setattr(time, name, clock)
        patch.setattr(asyncio, "new_event_loop", new_event_loop)
        patch.setattr(asyncio.events, "new_event_loop", new_event_loop)
        yield


@contextmanager
def shifted(seconds: float) -> Iterator[None]:
    """Move the monotonic clocks of this process, and with them those of its event loops."""
    with pytest.MonkeyPatch.context() as patch:
        for name in _CLOCKS:
            real = getattr(time, name)
            patch.setattr(time, name, lambda real=real: real() + seconds)
        yield
