"""Providers that take only so much, in virtual time, and conversations that are held with them.

A provider decides when a request comes, and answers a while later, as real ones do. It counts what
it was asked and what it refused. Conversations try again as all runs do, by `RetryPolicy`.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final, Protocol

from surecall.eval.running.trial_run import Case
from surecall.eval.storage.trial import Key, Trial
from surecall.runtime.transport import Client
from surecall.settings.connection import RetryPolicy
from surecall.values.errors import ErrorCode
from surecall.values.trace import Trace
from surecall.values.types import Answer
from surecall.wire.response import fault_of
from tests.support.eval_fakes import a_trial

LATENCY_S: Final = 0.3
OK, TOO_MANY = 200, 429
# A clock on the wall that runs beside the virtual one.
WALL: Final = 1_700_000_000.0


class Rule(Protocol):
    """What a provider takes."""

    def takes(self, now: float, under_way: int) -> bool:
        """Whether one more request is served."""
        ...

    def headers(self, now: float, *, taken: bool) -> dict[str, str]:
        """Return what every answer says about the limit."""
        ...


class Anything:
    """No limit."""

    def takes(self, now: float, under_way: int) -> bool:
        del now, under_way
        return True

    def headers(self, now: float, *, taken: bool) -> dict[str, str]:
        del now, taken
        return {}


class Slots(Anything):
    """So many at the same time."""

    def __init__(self, most: int) -> None:
        self.most = most

    def takes(self, now: float, under_way: int) -> bool:
        del now
        return under_way < self.most


class Bucket(Anything):
    """So many a second, and a few at once after a pause."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, burst
        self.tokens, self.seen = burst, 0.0

    def _fill(self, now: float) -> None:
        self.tokens = min(self.burst, self.tokens + (now - self.seen) * self.rate)
        self.seen = now

    def takes(self, now: float, under_way: int) -> bool:
        del under_way
        self._fill(now)
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class ToldBucket(Bucket):
    """A bucket that says what is left in it, and when it is full again, as OpenAI does."""

    def headers(self, now: float, *, taken: bool) -> dict[str, str]:
        del taken
        self._fill(now)
        return {
            "x-ratelimit-limit-requests": f"{self.burst:.0f}",
            "x-ratelimit-remaining-requests": f"{int(self.tokens)}",
            "x-ratelimit-reset-requests": f"{(self.burst - self.tokens) / self.rate * 1000:.0f}ms",
        }


class AdvisingBucket(Bucket):
    """A bucket that says with each refusal when to come again."""

    def headers(self, now: float, *, taken: bool) -> dict[str, str]:
        del now
        return {} if taken else {"retry-after": "1"}


class Window(Anything):
    """So many in each period, told in milliseconds since 1970, as OpenRouter does."""

    def __init__(self, most: int, period_s: float, *, told: bool = True) -> None:
        self.most, self.period_s, self.told = most, period_s, told
        self.taken: Counter[int] = Counter()

    def takes(self, now: float, under_way: int) -> bool:
        del under_way
        window = int(now // self.period_s)
        self.taken[window] += self.taken[window] < self.most
        return self.taken[window] < self.most

    def headers(self, now: float, *, taken: bool) -> dict[str, str]:
        if taken or not self.told:
            return {}
        reset_s = (now // self.period_s + 1) * self.period_s
        return {
            "x-ratelimit-limit": f"{self.most}",
            "x-ratelimit-remaining": "0",
            "x-ratelimit-reset": f"{(WALL + reset_s) * 1000:.0f}",
        }


class Dropping(Anything):
    """One rule until a moment, then another."""

    def __init__(self, before: Rule, after: Rule, at: float) -> None:
        self._rule: Callable[[float], Rule] = lambda now: before if now < at else after

    def takes(self, now: float, under_way: int) -> bool:
        return self._rule(now).takes(now, under_way)

    def headers(self, now: float, *, taken: bool) -> dict[str, str]:
        return self._rule(now).headers(now, taken=taken)


class Provider:
    """An endpoint with a limit. `refuses_after_s` is how soon it says no."""

    def __init__(
        self,
        rule: Rule,
        clock: Callable[[], float],
        refuses_after_s: float = LATENCY_S,
        varies: float = 0.25,
    ) -> None:
        self.rule = rule
        self.clock = clock
        self.start = clock()
        self.refuses_after_s = refuses_after_s
        self.varies = varies
        self.chance = random.Random(2).uniform  # noqa: S311  # repeatable, not secret
        self.under_way = self.asked = self.refused = 0
        self.served: list[float] = []

    async def send(self, body: bytes) -> Answer:
        del body
        self.asked += 1
        now = self.clock() - self.start
        taken = self.rule.takes(now, self.under_way)
        headers = self.rule.headers(now, taken=taken)
        if not taken:
            self.refused += 1
            await asyncio.sleep(self.refuses_after_s)
            return Answer(TOO_MANY, headers, b"{}")
        self.under_way += 1
        await asyncio.sleep(LATENCY_S * self.chance(1 - self.varies, 1 + self.varies))
        self.under_way -= 1
        self.served.append(self.clock() - self.start)
        return Answer(OK, headers, b"{}")

    def opened(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def rate(self, first_s: float, last_s: float) -> float:
        """Return how many were served a second, from one moment to another."""
        return sum(first_s < at <= last_s for at in self.served) / (last_s - first_s)


class Conversations:
    """Trials of some requests each. What is refused too often spoils one, as it does in a run."""

    def __init__(self, requests: int = 2, retry: RetryPolicy | None = None) -> None:
        self.requests = requests
        self.retry = retry or RetryPolicy()
        self.jitter = random.Random(1).random  # noqa: S311  # repeatable, not secret

    async def __call__(self, key: Key, case: Case, client: Client) -> tuple[Trial, Trace]:
        del case
        for _ in range(self.requests):
            if not await self._asked(client):
                return a_trial(key, "infra", ErrorCode.RATE_LIMIT), Trace(())
        return a_trial(key), Trace(())

    async def _asked(self, client: Client) -> bool:
        attempt = 0
        while True:
            attempt += 1
            answer = await client.send(b"{}")
            if answer.status == OK:
                return True
            fault = fault_of({}, answer.status, answer.headers, WALL)
            wait_s = self.retry.wait(fault, attempt, self.jitter())
            if wait_s is None:
                return False
            await asyncio.sleep(wait_s)
