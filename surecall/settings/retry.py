"""Whether to send a failed request again, and after how long. A pure table; the shell waits."""

import msgspec

from surecall.values.errors import Fault


class RetryPolicy(msgspec.Struct, frozen=True):
    """Bounds of the retry of one request. `attempts` counts the first one too."""

    attempts: int = 3
    first_wait_s: float = 0.5
    longest_wait_s: float = 8.0
    longest_retry_after_s: float = 120.0

    def wait(self, fault: Fault, attempt: int, jitter: float) -> float | None:
        """Return the seconds to wait before the next attempt; None means: give up.

        `jitter` is a random number from 0 to 1. A server's own advice is followed to the letter
        when it is short enough, and means giving up when it is not: hammering helps nobody. Advice
        that is already over (a date in the past, zero) is none.
        """
        if not fault.retryable or attempt >= self.attempts:
            return None
        if fault.retry_after is not None and fault.retry_after > 0:
            return fault.retry_after if fault.retry_after <= self.longest_retry_after_s else None
        backoff = min(self.first_wait_s * 2.0 ** min(attempt - 1, 99), self.longest_wait_s)
        return backoff * (0.5 + jitter / 2)
