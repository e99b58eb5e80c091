"""How tests wait for something that must happen, and how long before they call it a hang.

No test asserts how long something took. What a test waits for is an event, and where nothing
announces it, a condition that is looked at again and again. The limits here are those of a hang;
a machine that is merely busy stays far below.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

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
