"""An effect happens at most once, whatever becomes of the first call that was to have it.

Seeded scripts of calls run against a tool that pays. An execution of it is quick, fails, times out
before or after it paid, ignores its cancellation, or ends late with a value or an error. The model
makes equal calls under new and old ids, with the same arguments written in other ways, in one reply
or later. Runs are plain, streamed, cancelled and resumed in the same runner or another, turns of a
conversation, paused for a person, or taken over by another model. Two properties hold:

- a payment begins only if every earlier one of the same arguments is known to have failed, if it
  was reported in an earlier turn of the conversation, or if a person approved it;
- a payment that has ended is reported to the model when it asks again.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
import pytest

from surecall import (
    Conversation,
    Decision,
    ErrorCode,
    Fallback,
    RetryPolicy,
    Run,
    RunFailed,
    RunResult,
    ToolDefinition,
    ToolError,
    ToolLoopRunner,
    replay,
    run_of,
)
from surecall.testing import ScriptedModel, calls, calls_many, failure, says, streams
from surecall.values.events import Event, ToolCallEndEvent, ToolCallStartEvent
from surecall.values.trace import Trace
from surecall.values.types import JSON, ToolCall, ToolSpec
from tests.support.conversations import DictStore
from tests.support.generated import Broken, check, dice, many
from tests.support.timing import never, virtual_time

TIMEOUT_S: Final = 1.0
LONGEST_S: Final = 6.0
SCHEMA: Final = {
    "type": "object",
    "properties": {
        "amount": {"type": "number"},
        "to": {"type": "string", "default": "shop"},
    },
    "required": ["amount"],
}
WRITTEN: Final = (
    '{"amount": %d}',
    '{"amount": %d.0}',
    '{"amount": "%d"}',
    '{"to": "shop", "amount": %d}',
    '{"amount": %d.0, "to": "shop"}',
    "{'amount': %d,}",
)
ENDS: Final = (
    "value",
    "error",
    "refuses",
    "hangs",
    "hangs unpaid",
    "late value",
    "late payment",
    "late refusal",
    "value when cancelled",
    "refuses when cancelled",
    "error when cancelled",
    "says unknown",
    "too large",
)
WAYS: Final = (
    "plain",
    "left stream",
    "cancelled",
    "killed",
    "conversation",
    "left conversation",
    "fallback",
)
POLICIES: Final = ("none", "allows", "asks")


class Payment(msgspec.Struct):
    """One execution: where it was made, whether it is at work, and what is known to come of it."""

    receipt: str
    runner: int
    turn: int
    is_over: bool = False
    outcome: str = "unknown"
    is_reported: bool = False
    is_waived: bool = False


class Policy:
    """Allows everything, or leaves it to a person."""

    def __init__(self, *, asks: bool) -> None:
        self._asks = asks

    def visible(self, _tool: ToolSpec, _context: Mapping[str, Any]) -> bool:
        return True

    def authorize(self, call: ToolCall, _context: Mapping[str, Any]) -> Decision:
        asks = self._asks and call.name == "pay"
        return Decision.confirm("It costs.") if asks else Decision.approve()


class World:
    """A tool that pays, in the ways that a script says, and everything that was paid."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.payments: dict[float, list[Payment]] = defaultdict(list)
        self.approved: set[tuple[int, str]] = set()
        self.runner = 0
        self.turn = 0
        self.wrong: list[str] = []
        self._expected: dict[str, Payment] = {}
        self._starting: dict[float, str] = {}

    def tools(self) -> list[ToolDefinition]:
        wait = {"type": "object", "properties": {"seconds": {"type": "number"}}}
        return [
            ToolDefinition("pay", "Pay.", parameters=SCHEMA, handler=self.pay),
            ToolDefinition(
                "wait", "Wait.", parameters=wait, handler=_wait, read_only=True, timeout_s=99.0
            ),
        ]

    async def pay(self, amount: float, to: str = "shop") -> Any:
        """Pay, as the next end says."""
        assert to == "shop"
        earlier = self.payments[amount]
        self._judge_start(amount, earlier)
        payment = Payment(f"receipt {amount:g} of {len(earlier)}", self.runner, self.turn)
        earlier.append(payment)
        try:
            value = await self._end(payment)
        finally:
            payment.is_over = True
        return value

    def _judge_start(self, amount: float, earlier: list[Payment]) -> None:
        is_approved = (self.turn, self._starting[amount]) in self.approved
        for payment in earlier:
            is_settled = payment.outcome == "failed" or (
                payment.outcome in {"paid", "unshown"}
                and payment.is_reported
                and payment.turn < self.turn
            )
            is_here = payment.runner == self.runner
            payment.is_waived |= is_approved
            if not payment.is_over and (is_here or not payment.is_waived):
                self.wrong.append("started beside itself")
            elif not (is_settled or payment.is_waived):
                self.wrong.append(f"started again after {payment.outcome}")

    async def _end(self, payment: Payment) -> Any:  # noqa: C901  # a table
        match self.rng.choice(ENDS):
            case "value":
                payment.outcome = "paid"
                return payment.receipt
            case "too large":
                payment.outcome = "unshown"
                return payment.receipt + "x" * 100_000
            case "error":
                payment.outcome = "failed"
                raise RuntimeError("broken")
            case "says unknown":
                lost = ToolError("lost", code=ErrorCode.CALL_OUTCOME_UNKNOWN)
                raise self.rng.choice([lost, TimeoutError("no response")])
            case "late value" | "late payment":
                await _ignore_cancellation(self.rng.uniform(1.3, LONGEST_S))
                payment.outcome = "paid"
                return payment.receipt
            case "refuses" | "late refusal" as end:
                if end == "late refusal":
                    await _ignore_cancellation(self.rng.uniform(1.3, LONGEST_S))
                payment.outcome = "failed"
                raise ToolError("no money")
            case "value when cancelled":
                with suppress(asyncio.CancelledError):
                    await never()
                payment.outcome = "paid"
                return payment.receipt
            case "refuses when cancelled":
                with suppress(asyncio.CancelledError):
                    await never()
                payment.outcome = "failed"
                raise ToolError("nothing was paid")
            case "error when cancelled":
                with suppress(asyncio.CancelledError):
                    await never()
                raise RuntimeError("stopped")
            case _:
                return await never()

    # What the model reads

    def __call__(self, event: Event) -> None:
        """Judge the answers to the calls of the tool that pays."""
        match event:
            case ToolCallStartEvent(
                call=ToolCall(name="pay", arguments={"amount": amount}) as call
            ):
                self._starting[amount] = call.id
                newest = self.payments[amount][-1:]
                if newest and self._must_be_reported(newest[0]):
                    self._expected[call.id] = newest[0]
            case ToolCallEndEvent(result=result) if result.name == "pay":
                payment = self._expected.pop(result.call_id, None)
                text = result.content
                is_repetition = ErrorCode.REPEATED_CALL in result.error_codes
                if payment is not None and not (is_repetition and payment.is_reported):
                    self._judge_report(payment, text)
                for payment in [one for several in self.payments.values() for one in several]:
                    unshown = payment.outcome == "unshown" and "TOO_LARGE" in text
                    if f'"{payment.receipt}"' in text or unshown:
                        payment.is_reported = True
            case _:
                pass

    def _must_be_reported(self, payment: Payment) -> bool:
        is_news = payment.turn == self.turn or not payment.is_reported
        is_here = payment.runner == self.runner
        return payment.is_over and payment.outcome == "paid" and is_news and is_here

    def _judge_report(self, payment: Payment, text: str) -> None:
        if f'"{payment.receipt}"' not in text:
            self.wrong.append("withheld")


async def _wait(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "waited"


async def _ignore_cancellation(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (left := until - loop.time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(left)


class Case:
    """One script, and the way in which it is run."""

    def __init__(self, number: int) -> None:
        self.rng = rng = dice("unknown outcomes", number)
        self.way = rng.choice(WAYS)
        self.policy = rng.choice(POLICIES)
        self.parallel = rng.random() < 0.4
        self.patient = rng.random() < 0.5
        self.same_ids = rng.random() < 0.3
        self.replies = [self._reply(at) for at in range(rng.randint(2, 6))]
        self.asked = 0
        self.is_replayed = number % 5 == 0
        self.world = World(rng)

    def __str__(self) -> str:
        words = [call["function"] for reply in self.replies for call in _calls_of(reply)]
        made = " ".join(f"{one['name']}{one['arguments']}" for one in words)
        return f"{self.way}, {self.policy}, parallel={self.parallel}: {made}"

    def _reply(self, at: int) -> JSON:
        several = [
            self._call(f"c{at}_{place}") for place in range(self.rng.choice([1, 1, 1, 2, 3]))
        ]
        return calls_many(*several)

    def _call(self, call_id: str) -> JSON:
        rng = self.rng
        call_id = rng.choice(["call_0", "call_1"]) if self.same_ids else call_id
        if rng.random() < 0.25:
            return calls("wait", call_id, seconds=round(rng.uniform(0.1, 4.0), 3))
        made = calls("pay", call_id, amount=0)
        _calls_of(made)[0]["function"]["arguments"] = rng.choice(WRITTEN) % rng.choice([5, 5, 7])
        return made

    def _answer(self, request: JSON) -> Any:
        self.asked += 1
        done = self.asked > len(self.replies)
        reply = says("Done.") if done else self.replies[self.asked - 1]
        return streams(reply) if request.get("stream") else reply

    def runner_of(self) -> ToolLoopRunner:
        self.world.runner += 1
        model = ScriptedModel(*[self._answer] * 60)
        first = ScriptedModel(*[self._answer] * self.rng.randint(1, 3), *[failure(503)] * 60)
        chain = [Fallback("m0", client=first), Fallback("m1", client=model)]
        often = {"repeat_note_at": 30, "repeat_block_at": 30, "repeat_stop_at": 30}
        return ToolLoopRunner(
            client=first if self.way == "fallback" else model,
            model=chain if self.way == "fallback" else "m",
            tools=self.world.tools(),
            config={"tool_timeout_s": TIMEOUT_S, "max_tool_output_bytes": 20_000}
            | (often if self.patient else {}),
            options={"parallel_tool_calls": self.parallel},
            observers=[self.world],
            tool_policy=None if self.policy == "none" else Policy(asks=self.policy == "asks"),
            retry=RetryPolicy(attempts=1),
        )

    async def play(self) -> None:
        match self.way:
            case "cancelled" | "killed":
                await self._interrupted()
            case "left stream":
                await self._streamed()
            case "conversation" | "left conversation":
                await self._conversation()
            case _:
                runner = self.runner_of()
                result = await self._ended(runner.run("Pay."))
                await self._decided(runner, result)

    async def _interrupted(self) -> None:
        """Cancel a run in the middle, and resume it in the same runner or in another one."""
        runner = self.runner_of()
        events: list[Event] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(self.rng.uniform(0.05, 5.0)):
                await self._ended(runner.run("Pay.", on_event=events.append))
        run = Run.from_json(run_of(Trace(tuple(events))).to_json())
        if self.way == "killed":
            runner = self.runner_of()
        await self._decided(runner, await self._ended(runner.resume(run)))

    async def _streamed(self) -> None:
        """Leave a stream after some events, and resume the run in the same runner."""
        runner = self.runner_of()
        left = self.rng.randint(1, 25)
        async with runner.stream("Pay.") as stream:
            with suppress(RunFailed):
                async for _ in stream:
                    left -= 1
                    if not left:
                        break
        await self._decided(runner, await self._ended(runner.resume(stream.run)))

    async def _decided(self, runner: ToolLoopRunner, result: RunResult | None) -> None:
        """Let a person decide until nothing waits."""
        while result is not None and result.waiting:
            decisions = self._decisions(result.waiting)
            result = await self._ended(runner.resume(result, decisions=decisions))

    def _decisions(self, waiting: Any) -> dict[str, Decision]:
        made: dict[str, Decision] = {}
        for call in waiting:
            if self.rng.random() < 0.5:
                self.world.approved.add((self.world.turn, call.call_id))
                made[call.id] = Decision.approve()
            else:
                made[call.id] = Decision.deny("not now")
        return made

    async def _conversation(self) -> None:
        """Say several things; what was interrupted is resumed, or left."""
        runner, store = self.runner_of(), DictStore()
        for _ in range(3):
            self.world.turn += 1
            chat = Conversation(runner, store, "k")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limit()):
                    await self._ended(chat.say("Pay."))
            if self.way == "left conversation" and not chat.waiting:
                continue
            while chat.waiting or chat.interrupted:
                await self._ended(chat.resume(self._decisions(chat.waiting)))
                if chat.interrupted and not chat.waiting:  # it failed for good
                    break

    def _limit(self) -> float | None:
        return self.rng.uniform(0.05, 5.0) if self.way == "left conversation" else None

    async def _ended(self, running: Coroutine[Any, Any, RunResult]) -> RunResult | None:
        try:
            result = await running
        except RunFailed as failed:
            result = failed.result
        if self.is_replayed and replay(result.trace).run != result.run:
            self.world.wrong.append("replayed otherwise")
        return result


def _calls_of(reply: JSON) -> list[JSON]:
    found: list[JSON] = reply["choices"][0]["message"]["tool_calls"]
    return found


async def _play(case: Case) -> None:
    await case.play()
    await asyncio.sleep(LONGEST_S)  # what is still at work ends in its own time


@pytest.mark.slow
def test_an_effect_happens_once_and_its_end_is_reported() -> None:
    cases = many(2_000)
    broken: list[Broken] = []
    with virtual_time():
        for number in range(cases):
            case = Case(number)
            asyncio.run(_play(case))
            broken += [
                Broken(f"{case.way}: {kind}", str(case), kind)
                for kind in sorted({*case.world.wrong})
            ]
    check(broken, cases)
