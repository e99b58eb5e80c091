"""Property test of decisions: one runs the call that the person saw, or nothing.

Ids of calls recur here in every run, and tools and arguments often do. People look at what waits in
two conversations and in a run that the application stores itself. They decide now, later, twice,
after a conversation was forgotten, in the wrong place, and after a process was killed. A decision
counts only in the turn that it was made for, as long as its call waits there unchanged. Any other
is a `StaleDecision`: nothing runs, and nothing stored changes.
"""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import pytest

from surecall import (
    AskFirst,
    ConfigError,
    Conversation,
    ConversationBusy,
    Decision,
    Run,
    StaleDecision,
    ToolLoopRunner,
    WaitingCall,
    tool,
)
from surecall.core.approvals import replace_call, with_arguments
from surecall.testing import ScriptedModel, calls, calls_many, says
from tests.support.conversations import DictStore, Killed, Mortal
from tests.support.generated import Broken, check, dice, many

pytestmark = pytest.mark.slow

Effect: TypeAlias = tuple[str, int]
STEPS: Final = 40


class Slip(NamedTuple):
    """What a person saw, and where: the place, its turn, and the call."""

    place: "Place"
    turn: int
    call: WaitingCall

    @property
    def effect(self) -> Effect:
        return self.call.name, self.call.arguments["n"]


class Place(Protocol):
    """Where calls wait: a conversation, or a run of the application's own."""

    turn: int
    approved: Counter[Effect]

    @property
    def waiting(self) -> tuple[WaitingCall, ...]: ...
    @property
    def stored(self) -> object: ...
    def say(self, runner: ToolLoopRunner) -> None: ...
    def forget(self) -> None: ...
    def decide(self, runner: ToolLoopRunner, decisions: Any, writes: int) -> None: ...


class Chat:
    """A conversation; every action is one of another process."""

    def __init__(self, store: DictStore, key: str) -> None:
        self._store, self._key = store, key
        self.turn = 0
        self.approved: Counter[Effect] = Counter()

    def _opened(self, runner: ToolLoopRunner | None = None, store: Any = None) -> Conversation:
        runner = runner or ToolLoopRunner(client=ScriptedModel(), model="m")
        return Conversation(runner, store or self._store, self._key)

    @property
    def waiting(self) -> tuple[WaitingCall, ...]:
        return self._opened().waiting

    @property
    def stored(self) -> object:
        return self._store.kept.get(self._key)

    def say(self, runner: ToolLoopRunner) -> None:
        try:
            asyncio.run(self._opened(runner).say("Go."))
        except ConversationBusy:
            return
        self.turn += 1
        self.approved = Counter()

    def forget(self) -> None:
        self._opened().forget()
        self.turn += 1

    def decide(self, runner: ToolLoopRunner, decisions: Any, writes: int) -> None:
        """Resume in a process that is killed with one of its writes, if it comes to that."""
        mortal = Mortal(self._store, writes, after=writes % 2 == 0)
        try:
            asyncio.run(self._opened(runner, mortal).resume(decisions))
        except Killed:
            self._opened().take_over()


class OwnRun:
    """A stored run; the application replaces it by the next, or changes a call in it."""

    def __init__(self) -> None:
        self._json = b""
        self.turn = 0
        self.approved: Counter[Effect] = Counter()

    @property
    def waiting(self) -> tuple[WaitingCall, ...]:
        return Run.from_json(self._json).waiting if self._json else ()

    @property
    def stored(self) -> object:
        return self._json

    def say(self, runner: ToolLoopRunner) -> None:
        self._json = asyncio.run(runner.run("Go.")).run.to_json()
        self.turn += 1
        self.approved = Counter()

    def forget(self) -> None:
        if self._json and (due := (run := Run.from_json(self._json)).pending_calls):
            call = with_arguments(due[0], {"n": due[0].arguments["n"] + 1})
            self._json = replace_call(run, call).to_json()

    def decide(self, runner: ToolLoopRunner, decisions: Any, writes: int) -> None:
        del writes
        if self._json:
            run = Run.from_json(self._json)
            self._json = asyncio.run(runner.resume(run, decisions=decisions)).run.to_json()
        else:
            raise StaleDecision(next(iter(decisions or {}), ""))


class World:
    """Three places, what people saw there, and what ran."""

    def __init__(self, rng: random.Random) -> None:
        store = DictStore()
        self._rng = rng
        self._places: list[Place] = [Chat(store, "a"), Chat(store, "b"), OwnRun()]
        self._slips: list[Slip] = []
        self._did: list[Effect] = []
        self.decisions = 0

        @tool(destructive=True)
        def pay(n: int) -> None:
            """Pay."""
            self._did.append(("pay", n))

        @tool(destructive=True)
        def drop(n: int) -> None:
            """Drop."""
            self._did.append(("drop", n))

        self._tools = [pay, drop]

    def _runner(self, *script: Any) -> ToolLoopRunner:
        """Return the runner of a process whose model first says this, and then answers."""
        model = ScriptedModel(*script, *[says("Done.")] * 3)
        return ToolLoopRunner(model, "m", self._tools, tool_policy=AskFirst())

    def _calling(self) -> Any:
        names = self._rng.choices(("pay", "drop"), k=self._rng.randint(1, 2))
        return calls_many(
            *[calls(name, f"call_{at}", n=self._n()) for at, name in enumerate(names)]
        )

    def _n(self) -> int:
        return self._rng.choice((1, 1, 2))

    def step(self) -> str:
        """Do something; say what is wrong with what came of it."""
        place = self._rng.choice(self._places)
        match self._rng.choices(("say", "look", "forget", "resume", "decide"), (3, 3, 2, 1, 9))[0]:
            case "say":
                place.say(self._runner(self._calling()))
            case "look":
                self._slips += [Slip(place, place.turn, call) for call in place.waiting]
            case "forget":
                place.forget()
            case "resume":
                return self._resume(place)
            case _ if self._slips:
                slip = self._rng.choice(self._slips[-8:])
                return self._decide(slip.place if self._rng.random() < 0.8 else place, slip)
            case _:
                pass
        return f"ran without a decision: {self._did}" if self._did else ""

    def _resume(self, place: Place) -> str:
        with suppress(ConfigError):
            place.decide(self._runner(), None, 0)
        return self._unapproved(place)

    def _decide(self, place: Place, slip: Slip) -> str:
        """Decide in a place by what was seen, perhaps elsewhere or long ago."""
        self.decisions += 1
        is_current = (place, place.turn) == (slip.place, slip.turn) and slip.call in place.waiting
        before, approved = place.stored, self._rng.random() < 0.8
        made = Decision.approve() if approved else Decision.replace({"n": 3})
        effect = slip.effect if approved else (slip.call.name, 3)
        try:
            place.decide(self._runner(), {slip.call.id: made}, self._rng.choice((0, 0, 1, 2, 3, 4)))
        except StaleDecision as error:
            if is_current or self._did or place.stored != before:
                return f"refused: {error}; ran {self._did}"
            return "" if slip.call.name in str(error) else f"does not name the tool: {error}"
        if not is_current:
            return f"a decision about {slip.call} was accepted, and ran {self._did}"
        place.approved[effect] += 1
        return self._unapproved(place)

    def _unapproved(self, place: Place) -> str:
        did, self._did = Counter(self._did), []
        wrong = did - place.approved
        place.approved -= did
        return f"ran without a decision: {wrong}" if wrong else ""


def test_a_decision_runs_the_call_that_was_seen_or_nothing() -> None:
    rng = dice("stale decisions")
    broken, total = [], 0
    for _ in range(many(250)):
        world = World(rng)
        for _ in range(STEPS):
            if wrong := world.step():
                broken.append(Broken(wrong.split(maxsplit=1)[0], wrong, ""))
                break
        total += world.decisions

    check(broken, total)
    assert total >= many(2000)
