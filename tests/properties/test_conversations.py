"""Conversations: whoever works on one, however often, and whatever dies in it."""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from surecall import (
    AskFirst,
    ConfigError,
    Conversation,
    ConversationBusy,
    ConversationTaken,
    Decision,
    Run,
    SqliteStore,
    ToolLoopRunner,
    tool,
)
from surecall.core.conversation_state import ConversationState, Hold, decode_state, encode_head
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, says
from surecall.values.types import JSON, Assistant, Message, ToolResult, User
from surecall.wire.chat_format import encode
from surecall.wire.history_repair import repair_history
from tests.support.conversations import DictStore, Killed, Mortal, conversation
from tests.support.generated import FINITE_VALUES, SCRIPTS
from tests.support.project_files import ROOT
from tests.support.scripted_runs import result_of

# Conversations: whoever is at work on one, however often, and whoever dies of it. Two
# processes act on one conversation at the same time: they say something, decide, go on with what
# was interrupted, take it from each other, change the extras, give up in the middle, and are killed
# before or after any of their writes. Tools and the model take as many rounds of the event loop as
# the example says, so everything happens between anything else. Whatever they do:
#
# - each payment is made at most once, and exactly once if its turn came to an end; - what was said
# stays said, once, and each turn stands for itself: it is as if they had taken turns; - no change
# of the extras is lost.


Act: TypeAlias = Literal["say", "ask first", "resume", "take over", "count", "give up", "die"]
ACTS = st.sampled_from(["say", "ask first", "resume", "take over", "count", "give up", "die"])
# What to do, and after how many rounds, or writes, that goes wrong which goes wrong.
PROGRAMS = st.lists(st.tuples(ACTS, st.integers(0, 9)), max_size=6)


class World:
    """A conversation, what was paid in it, and how long everything takes."""

    def __init__(self, rounds: list[int]) -> None:
        self.store = DictStore()
        self.paid: Counter[int] = Counter()
        self.ended: set[int] = set()
        self.counted = 0
        self.numbers = count(1)
        self._rounds = rounds
        self._round = 0

    async def passing(self) -> None:
        """Let others do something, for a while."""
        self._round += 1
        for _ in range(self._rounds[self._round % len(self._rounds)] if self._rounds else 0):
            await asyncio.sleep(0)

    def runner(self, policy: AskFirst | None) -> ToolLoopRunner:
        @tool(destructive=True)
        async def pay(number: int) -> str:
            """Pay."""
            await self.passing()
            self.paid[number] += 1
            await self.passing()
            return f"paid {number}"

        model = _Slow(self, *[_answer] * 20)
        return ToolLoopRunner(client=model, model="m", tools=[pay], config={}, tool_policy=policy)

    def chat(self, store: Any = None, policy: AskFirst | None = None) -> Conversation:
        return Conversation(self.runner(policy), store or self.store, "k")


class _Slow(ScriptedModel):
    def __init__(self, world: World, *script: Any) -> None:
        super().__init__(*script)
        self._world = world

    async def send(self, *sent: Any, **options: Any) -> Any:
        await self._world.passing()
        return await super().send(*sent, **options)


def _answer(request: JSON) -> JSON:
    """Pay what the user wants paid, and then say so."""
    last = request["messages"][-1]
    if last["role"] == "user":
        number = _number(last["content"])
        return calls("pay", call_id=f"call-{number}", number=number)
    return says("Done.")


def _number(words: str) -> int:
    return int(words.removeprefix("Pay "))


async def acted(world: World, act: Act, after: int) -> None:
    """Do one thing, as a process would; it may be refused, taken over, given up or killed."""
    store = Mortal(world.store, after + 1, after=bool(after % 2)) if act == "die" else world.store
    chat = world.chat(store, AskFirst() if act == "ask first" else None)
    if act == "take over":
        chat.take_over()
    elif act == "count":
        chat.change_extras(lambda extras: {"count": extras.get("count", 0) + 1})
        world.counted += 1
    elif act == "resume":
        await _ended(world, chat.resume(_approved(chat)))
    elif act == "give up":
        task = asyncio.create_task(_said(world, chat))
        for _ in range(after * 3):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    else:
        await _said(world, chat)


def _approved(chat: Conversation) -> dict[str, Decision]:
    return {call.id: Decision.approve() for call in chat.waiting}


async def _said(world: World, chat: Conversation) -> None:
    await _ended(world, chat.say(f"Pay {next(world.numbers)}"))


async def _ended(world: World, turn: Any) -> None:
    result = await turn
    unknown = {one.call_id for one in result.run.results if not one.ok}
    made = [call for said in result.run.replies for call in said.calls if call.id not in unknown]
    if not result.waiting:
        world.ended |= {call.arguments["number"] for call in made}


async def process(world: World, program: list[tuple[Act, int]]) -> None:
    """Do one thing after the other; who is killed begins anew."""
    for act, after in program:
        with suppress(ConversationBusy, ConversationTaken, ConfigError, Killed):
            await acted(world, act, after)
        await world.passing()


async def lived(world: World, *programs: list[tuple[Act, int]]) -> Conversation:
    """Let processes live together, and put in order what they leave."""
    await asyncio.gather(*(process(world, program) for program in programs))
    chat = world.chat()
    chat.take_over()
    while chat.interrupted or chat.waiting:
        await _ended(world, chat.resume(_approved(chat)))
    return chat


def turns_of(history: list[Message]) -> Iterator[list[Message]]:
    """Return the turns of a conversation, each from the user's words on."""
    starts = [at for at, message in enumerate(history) if isinstance(message, User)]
    for start, end in pairwise([*starts, len(history)]):
        yield history[start:end]


@given(PROGRAMS, PROGRAMS, st.lists(st.integers(0, 7), min_size=1, max_size=9))
@example([("say", 0)], [("take over", 0), ("resume", 0)], [2, 0, 1])
@example([("ask first", 0), ("resume", 0)], [("resume", 0), ("resume", 0)], [1, 3])
@example([("die", 1), ("take over", 0), ("resume", 0)], [("say", 0), ("count", 0)], [1])
def test_whoever_is_at_work_nothing_happens_twice_and_nothing_is_lost(
    one: list[tuple[Act, int]], two: list[tuple[Act, int]], rounds: list[int]
) -> None:
    world = World(rounds)
    chat = asyncio.run(lived(world, one, two))
    history = chat.history
    numbers = []
    for words, *turn in turns_of(history):
        assert isinstance(words, User)
        number = _number(str(words.content))
        numbers.append(number)
        made = [call for said in turn if isinstance(said, Assistant) for call in said.calls]
        assert {call.arguments["number"] for call in made} <= {number}
        assert sum(isinstance(result, ToolResult) for result in turn) == len(made)

    assert set(world.paid.values()) <= {1}
    assert world.ended <= world.paid.keys()
    assert world.ended <= set(numbers)
    assert len(numbers) == len(set(numbers))
    assert world.paid.keys() <= set(numbers)
    assert repair_history(history) == tuple(history)
    assert chat.extras.get("count", 0) == world.counted


@given(SCRIPTS, st.dictionaries(st.text(max_size=5), FINITE_VALUES, max_size=3))
def test_what_a_store_keeps_is_what_it_was_given(script: list[Any], extras: JSON) -> None:
    run = result_of(script, raw())[0].run
    kept = ConversationState(extras=extras).with_held_turn(run, Hold("me", 1.5))
    encoded = [encode(message) for message in kept.messages]
    for store in (DictStore(), memory := SqliteStore(":memory:")):
        store.save("k", 0, encode_head(ConversationState()), 0, encoded[:1])
        store.save("k", 1, encode_head(kept), min(1, len(encoded)), encoded[1:])
        stored = store.load("k")

        assert stored is not None
        again = decode_state("k", stored)
        assert again == msgspec.structs.replace(kept, version=2)
        assert again.run is not None
        assert msgspec.structs.replace(again.run, tools=run.tools) == Run.from_json(run.to_json())
    memory.close()


# Attempts to make something happen twice in a conversation, with real processes and real files


def started(chats: Path, paid: Path, act: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.conversations", str(chats), str(paid), act],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


@pytest.mark.processes
def test_a_payment_in_which_the_process_is_killed_is_not_made_again(tmp_path: Path) -> None:
    chats, paid = tmp_path / "chats.db", tmp_path / "paid.txt"
    with started(chats, paid, "die") as process:
        assert process.wait() == -signal.SIGKILL
    chat = conversation(str(chats), str(paid), says("I do not know whether it was paid."))

    with pytest.raises(ConversationBusy, match="in progress"):
        chat.say_sync("Did you?")
    chat.take_over()
    assert chat.interrupted
    result = chat.resume_sync()
    assert result.run.results[0].error_codes == ("CALL_OUTCOME_UNKNOWN",)
    assert result.assistant_text == "I do not know whether it was paid."
    assert not chat.interrupted
    assert paid.read_text() == "5\n"


@pytest.mark.processes
def test_of_two_processes_that_approve_a_payment_one_makes_it(tmp_path: Path) -> None:
    chats, paid = tmp_path / "chats.db", tmp_path / "paid.txt"

    @tool(destructive=True)
    def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError(f"nobody has approved {amount}")

    asking = ToolLoopRunner(
        client=ScriptedModel(calls("pay", amount=5)),
        model="m",
        tools=[pay],
        tool_policy=AskFirst(),
    )
    chat = Conversation(asking, SqliteStore(chats), "customer-7")
    chat.say_sync("Pay 5.")
    assert [call.name for call in chat.waiting] == ["pay"]
    with started(chats, paid, "approve") as one, started(chats, paid, "approve") as two:
        both = (one, two)
        assert [_line(process) for process in both] == ["ready", "ready"]
        for process in both:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = sorted(_line(process) for process in both)

    assert said[0] in {"ConversationBusy", "Paid."}
    assert said[1] in {"Paid.", "StaleDecision"}
    assert "Paid." in said
    assert paid.read_text() == "5\n"
    assert not chat.waiting
    assert len(chat.history) == 4


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
