"""Time and work in tests: virtual clocks, waiting for events, and counting steps."""

import asyncio
import selectors
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, SupportsIndex

import pytest

# Clocks for tests: one that only sleepers move, one that a test moves, one that is far ahead.
# In virtual time an event loop never waits: when nothing is ready to run, the clock jumps to the
# moment for which the next timer is set. A sleep of an hour takes no time, and what is due earlier
# always comes earlier. Threads and sockets are not waited for, so such a test must not need any.
#
# A test that needs them can skip time instead: the clock runs as always until it is moved.


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


# How tests wait for something that must happen, and how long before they call it a hang.
# No test asserts how long something took. What a test waits for is an event, and where nothing
# announces it, a condition that is looked at again and again. The limits here are those of a hang;
# a machine that is merely busy stays far below.


PATIENCE_S: Final = 300.0
_PAUSE_S: Final = 0.01
_LOOKS: Final = int(PATIENCE_S / _PAUSE_S)


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition is true."""
    for _ in range(_LOOKS):
        if condition():
            return
        time.sleep(_PAUSE_S)
    raise AssertionError("it never happened")


async def never() -> Any:
    """Wait for something that does not come."""
    await asyncio.Event().wait()


async def until_soon(condition: Callable[[], object]) -> None:
    """Wait until a condition is true, and let the event loop work meanwhile."""
    for _ in range(_LOOKS):
        if condition():
            return
        await asyncio.sleep(_PAUSE_S)
    raise AssertionError("it never happened")


# Counting the steps of a program: how work grows with its input, whatever the machine does.
# A step is a line of Python that runs. Time would say more, for it also counts what happens inside
# of built-in functions, but on a busy machine it says something else every day; growth of time is
# measured by `bench/linear.py`.


# Twice the input: a linear program takes twice the steps, a quadratic one four times.
LINEAR: Final = 2.6


def steps(work: Callable[[], object]) -> int:
    """Count the lines that some work runs in this thread."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def growth(work: Callable[[int], object], size: int) -> float:
    """Return how many times the steps become when the size doubles."""
    work(1)  # what is only done the first time is not counted
    return steps(lambda: work(2 * size)) / steps(lambda: work(size))


# A text that counts how many of its characters are looked at, whoever looks. `steps` counts lines
# of Python; what a search inside of a built-in function costs is not a line. A reader that looks at
# the same stretch again at every mark shows here, and not there.


# Shorter slices are looked at again only by what is short itself.
_LONG = 256
_COPYING = (
    *("strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "replace", "lower", "upper"),
    *("casefold", "split", "rsplit", "splitlines", "partition", "rpartition", "translate"),
    *("encode", "isascii", "isspace", "__add__", "join"),
)


class Watched(str):
    """A text with a count of the characters that searches, slices and copies went over."""

    __slots__ = ("looks",)
    looks: list[int]

    @classmethod
    def of(cls, text: str, looks: list[int] | None = None) -> "Watched":
        """Watch a text; slices of it count for the same text."""
        made = cls(text)
        made.looks = [0] if looks is None else looks
        return made

    @property
    def looked(self) -> int:
        """How many characters were looked at, each as often as it was."""
        return self.looks[0]

    def _over(self, begin: SupportsIndex | None, end: SupportsIndex | None) -> None:
        start, stop, _ = slice(begin, end).indices(len(self))
        self.looks[0] += 1 + max(0, stop - start)

    def find(self, sub: str, *span: Any) -> int:
        """Find as any text does."""
        place = super().find(sub, *span)
        begin, end = (*span, None, None)[:2]
        self._over(begin, end if place < 0 else place)
        return place

    def rfind(self, sub: str, *span: Any) -> int:
        """Find as any text does, from the end."""
        place = super().rfind(sub, *span)
        begin, end = (*span, None, None)[:2]
        self._over(begin if place < 0 else place, end)
        return place

    def count(self, sub: str, *span: Any) -> int:
        """Count as any text does."""
        self._over(*(*span, None, None)[:2])
        return super().count(sub, *span)

    def __contains__(self, sub: object) -> bool:
        return isinstance(sub, str) and self.find(sub) >= 0

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        found = super().__getitem__(key)
        self.looks[0] += len(found)
        return Watched.of(found, self.looks) if len(found) > _LONG else found


def _copying(name: str) -> Callable[..., Any]:
    plain = getattr(str, name)

    def method(self: Watched, *arguments: Any, **named: Any) -> Any:
        self.looks[0] += len(self)
        found = plain(self, *arguments, **named)
        is_long = isinstance(found, str) and len(found) > _LONG
        return Watched.of(found, self.looks) if is_long else found

    return method


for _name in _COPYING:
    setattr(Watched, _name, _copying(_name))
