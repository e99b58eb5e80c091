"""The application's say over a final answer: `accept_final` is asked, and its word is checked."""

import math
from typing import Any

from surecall.core.outcome import RunResult
from surecall.runtime.execution import asked
from surecall.runtime.hooks import AcceptFinal


async def objection_to(
    result: RunResult, hook: AcceptFinal, limit_s: float = math.inf
) -> str | None:
    """Ask the application whether it accepts an answer; return its reason if it does not."""
    reason: Any = await asked(limit_s, hook, result)
    if reason is None:
        return None
    if isinstance(reason, str) and reason.strip():
        return reason
    raise TypeError(f"it returned {reason!r:.50}, which is neither None nor a reason")
