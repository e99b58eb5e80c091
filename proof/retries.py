"""D8: what is sent again, after how long and how often, in virtual time.

Each row of the tables is answered once, answered always, asked for as a stream, and given too
little time. Then come random scripts as whole runs with a deadline, against an oracle of a few
lines. Waits are read off the clock that the event loop lives by, not off what we say about them.
"""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest import mock

from proof.claims import Claim, Outcome, gathered
from proof.retry_tables import BACKOFF, Row, rows
from surecall import OpenAICompatible, RetryPolicy, RunFailed, ToolLoopRunner
from surecall.runtime.retrying_requests import PromptRunner
from surecall.runtime.transport import Incoming
from surecall.settings.presets import RAW
from surecall.testing import Item, ScriptedModel, ScriptedProvider, failure, says
from surecall.values.errors import ErrorCode, ProviderError
from surecall.values.types import Plan, User
from tests.support.timing import VirtualClock, virtual_time

_NOW: Final = 1_696_004_797.0  # Fri, 29 Sep 2023 16:26:37 GMT
_ATTEMPTS: Final = len(BACKOFF) + 1
_PLAN: Final = Plan("m", (User("hi"),))


class Timed(ScriptedModel):
    """A scripted model that notes when each request came."""

    def __init__(self, clock: VirtualClock, *script: Item) -> None:
        super().__init__(*script)
        self._clock = clock
        self.times: list[float] = []

    @asynccontextmanager
    async def stream(self, body: bytes) -> AsyncIterator[Incoming]:
        """Note the time and answer."""
        self.times.append(self._clock.now)
        async with super().stream(body) as incoming:
            yield incoming

    @property
    def waits(self) -> list[float]:
        """The seconds between requests."""
        return [round(after - before, 6) for before, after in itertools.pairwise(self.times)]


class Ended(NamedTuple):
    """What came of a request: the waits, the code of the error if there is one, the time."""

    waits: list[float]
    code: ErrorCode | None
    took: float


def asked(
    clock: VirtualClock, script: Sequence[Item], *, streamed: bool = False, longest_s: float = 1e9
) -> Ended:
    """Make one request that is answered by this script."""
    model = Timed(clock, *script)
    runner = PromptRunner(model, retry=RetryPolicy(attempts=_ATTEMPTS), jitter=lambda: 1.0)
    show = (lambda _delta: None) if streamed else None
    began = clock.now
    code = None

    def date() -> float:
        return _NOW + clock.now - began

    with mock.patch("time.time", date):
        try:
            asyncio.run(runner.requests(show=show).ask(_PLAN, remaining_s=longest_s))
        except ProviderError as error:
            code = error.fault.code
    return Ended(model.waits, code, clock.now - began)


def row_problems(clock: VirtualClock, row: Row) -> Iterator[str]:
    """Yield where a row is not dealt with as its table says."""
    well = says("ok")
    for streamed in (False, True):
        once = asked(clock, [row.answer, well], streamed=streamed)
        code = None if row.again else row.code
        if (once.waits, once.code) != (row.waits(1), code):
            yield f"{row.name}, answered once, streamed {streamed}: {once}"
        always = asked(clock, [row.answer] * _ATTEMPTS, streamed=streamed)
        if (always.waits, always.code) != (row.waits(_ATTEMPTS - 1), row.code):
            yield f"{row.name}, answered always, streamed {streamed}: {always}"
    if row.again:
        short = row.waits(1)[0] / 2
        late = asked(clock, [row.answer, well], longest_s=short)
        if late != Ended([], row.code, 0.0):
            yield f"{row.name}, with {short} s left: {late}"


class Script(NamedTuple):
    """A run of requests that fail with these headers, within a deadline."""

    afters: tuple[float | None, ...]
    attempts: int
    deadline: float

    @property
    def expected(self) -> tuple[list[float], bool]:
        """The waits, and whether an answer is reached."""
        waits: list[float] = []
        for attempt, after in enumerate(self.afters, start=1):
            wait = after or min(0.5 * 2 ** (attempt - 1), 8.0)
            if attempt >= self.attempts or wait > 120 or sum(waits) + wait >= self.deadline:
                return waits, False
            waits.append(wait)
        return waits, True


def scripted(rng: random.Random) -> Script:
    """Draw a script."""
    options = (None, None, 0.0, 0.25, 1.0, 7.0, 59.0, 120.0, 120.25)
    afters = tuple(rng.choice(options) for _ in range(rng.randint(0, 6)))
    return Script(afters, rng.randint(1, 7), rng.choice((0.3, 2.0, 10.0, 100.0, 600.0)))


def run_problem(clock: VirtualClock, script: Script) -> str:
    """Say how a whole run deals otherwise with a script than the oracle."""
    faults = [
        failure(503, None, {} if after is None else {"retry-after": str(after)})
        for after in script.afters
    ]
    model = Timed(clock, *faults, says("ok"))
    runner = ToolLoopRunner(
        client=model,
        model="m",
        config=RAW.replace(run_deadline_s=script.deadline),
        retry=RetryPolicy(attempts=script.attempts),
    )
    began = clock.now
    answered = True
    with mock.patch.object(runner._sessions._prompts[0], "jitter", return_value=1.0):  # noqa: SLF001  # no other door
        try:
            asyncio.run(runner.run("hi"))
        except RunFailed:
            answered = False
    found = (model.waits, answered)
    late = clock.now - began > script.deadline
    return f"{script}: {found}, {clock.now - began} s" if found != script.expected or late else ""


def socket_problem() -> str:
    """Say how many sockets are left open after requests that were tried again over loopback."""
    before = _sockets()
    script: list[Any] = [failure(503), failure(429), says("ok"), *[failure(503)] * 3, failure(401)]
    with ScriptedProvider(*script) as provider:
        runner = PromptRunner(
            OpenAICompatible(provider.url), retry=RetryPolicy(attempts=3, first_wait_s=0.0)
        )
        for _ in range(3):
            try:
                asyncio.run(runner.ask(_PLAN))
            except ProviderError:
                continue
    left = _sockets() - before
    return f"{left} sockets are open after the requests" if left > 0 else ""


def _sockets() -> int:
    folder = Path("/proc/self/fd")
    if not folder.exists():  # other systems have no such list
        return 0
    count = 0
    for entry in folder.iterdir():
        try:
            count += str(entry.readlink()).startswith("socket:")
        except FileNotFoundError:  # the folder itself was open while it was listed
            continue
    return count


def attempt(size: int, seed: int) -> Outcome:
    """Go through the tables, then through so many random scripts."""
    rng = random.Random(seed)
    table = rows()
    with virtual_time() as clock:
        failures = [problem for row in table for problem in row_problems(clock, row)]
        scripts = [scripted(rng) for _ in range(size)]
        failures += filter(None, (run_problem(clock, script) for script in scripts))
        virtual = clock.now
    failures += filter(None, [socket_problem()])
    figures = f"{len(table)} rows in 5 ways, {size} random runs, {virtual / 3600:.0f} virtual hours"
    ran = "Retry-After, availability, and errors inside a 200, in virtual time, against tables"
    cases = sum(5 if row.again else 4 for row in table) + size + 1
    return Outcome(ran, cases, gathered(failures), figures=figures)


CLAIM = Claim(
    "D8",
    "Failed requests are retried exactly as specified, and never past the deadline.",
    attempt,
    (2_000, 60_000, 600_000),
)
