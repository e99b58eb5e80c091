"""A turn of a conversation: one at a time, recorded as it goes, put down whatever happens."""

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from surecall import (
    Conversation,
    ConversationBusy,
    ConversationTaken,
    RunFailed,
    StoreConflict,
    Stored,
    TextDelta,
    ToolLoopRunner,
    tool,
)
from surecall.core.conversation_state import ConversationState, decode_state
from surecall.runtime.conversation import MAX_ATTEMPTS, ConversationRepository
from surecall.testing import ScriptedModel, calls, calls_many, failure, says, streams
from surecall.values.events import ToolCallStartEvent
from surecall.values.types import JSON, User
from tests.support.conversations import DictStore, Killed, Meddled, Mortal, Till, chat_of, texts
from tests.support.timing import VirtualClock, never, until_soon


def test_a_second_turn_is_refused_at_once_while_one_is_under_way() -> None:
    store, till = DictStore(), Till()
    chat = chat_of(store, calls("pay", amount=5), says("Paid."), till=till)
    other = chat_of(store, says("Never said."))
    refused: list[str] = []

    async def meanwhile() -> None:
        for say in (chat.say, other.say):
            with pytest.raises(ConversationBusy) as busy:
                await say("And I?")
            refused.append(str(busy.value))
        with pytest.raises(ConversationBusy):
            other.forget()
        assert (other.waiting, other.interrupted) == ((), False)

    till.meanwhile = meanwhile
    chat.say_sync("Pay 5.")

    assert refused == ["another turn of this conversation is in progress"] * 2
    assert till.paid == [5]
    assert texts(other) == ["Pay 5.", "Paid."]


def test_words_that_meet_a_change_are_said_on_top_of_it() -> None:
    store = Meddled()
    chat, other = chat_of(store, says("Second.")), chat_of(store, says("First."))
    store.meddle = lambda: other.say_sync("One")

    assert chat.say_sync("Two").assistant_text == "Second."
    assert texts(chat) == ["One", "First.", "Two", "Second."]


def test_a_stream_that_begins_later_finds_who_began_before_it() -> None:
    store, till = DictStore(), Till()
    chat = chat_of(store, calls("pay", amount=5), says("Paid."), till=till)
    waiting = chat_of(store, says("Never said.")).stream_sync("And I?")
    told: list[str] = []

    def meanwhile() -> None:
        with pytest.raises(ConversationBusy) as busy:
            list(waiting)
        told.append(str(busy.value))

    till.meanwhile = meanwhile
    chat.say_sync("Pay 5.")

    assert told == ["another turn of this conversation is in progress"]
    assert texts(chat) == ["Pay 5.", "Paid."]


def test_a_conversation_that_vanished_from_its_store_begins_anew() -> None:
    store = DictStore()
    chat = chat_of(store, says("One."), says("Two."))
    chat.say_sync("First")
    store.kept.clear()
    chat.say_sync("Second")

    assert texts(chat) == ["Second", "Two."]


def test_nothing_goes_on_after_a_turn() -> None:
    async def scenario() -> int:
        await chat_of(DictStore(), says("Hello.")).say("Hello")
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert asyncio.run(scenario()) == 1


def test_a_turn_that_is_cancelled_in_a_call_does_not_make_it_again() -> None:
    store, till = DictStore(), Till()
    till.meanwhile = never
    chat = chat_of(store, calls("pay", amount=5), till=till)

    async def scenario() -> None:
        task = asyncio.create_task(chat.say("Pay 5."))
        await until_soon(lambda: till.paid)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    again = chat_of(store, says("I do not know."), till=till)

    assert again.interrupted
    assert again.resume_sync().run.results[0].error_codes == ("CALL_OUTCOME_UNKNOWN",)
    assert till.paid == [5]


def test_words_after_a_stream_that_was_left_tell_the_model_that_nobody_knows() -> None:
    store, till = DictStore(), Till()
    till.meanwhile = never
    chat = chat_of(store, calls("pay", amount=5), till=till)

    async def scenario() -> None:
        async with chat.stream("Pay 5.") as stream:
            async for event in stream:
                if isinstance(event, ToolCallStartEvent):
                    await until_soon(lambda: till.paid)
                    break

    asyncio.run(scenario())
    model = ScriptedModel(says("Please check."))
    Conversation(ToolLoopRunner(client=model, model="m"), store, "k").say_sync("Did you?")

    assert "may or may not have run" in model.requests[0]["messages"][2]["content"]
    assert till.paid == [5]


def test_a_stream_is_kept_like_any_other_turn() -> None:
    store, till = DictStore(), Till()
    chat = chat_of(store, streams(calls("pay", amount=5)), streams(says("Paid it.")), till=till)

    async def scenario() -> str:
        stream = chat.stream("Pay 5.")
        assert stream.run.messages == (User("Pay 5."),)
        assert chat.history == []  # it begins when its first event is asked for
        shown = "".join([event.text async for event in stream if isinstance(event, TextDelta)])
        assert chat.history == stream.result.history
        return shown

    assert asyncio.run(scenario()) == "Paid it."


def test_a_turn_that_is_taken_over_begins_no_further_call() -> None:
    store, till = DictStore(), Till()
    both = calls_many(calls("pay", amount=1), calls("pay", amount=2))
    chat = chat_of(store, both, says("?"), till=till, config={})
    other = chat_of(store, says("Taken."))
    till.meanwhile = other.take_over
    with pytest.raises(ConversationTaken, match="taken over") as taken:
        chat.say_sync("Pay 1 and 2.")

    assert till.paid == [1]
    assert taken.value.result is not None
    codes = [result.error_codes for result in taken.value.result.run.results]
    assert codes == [(), ("CALL_NOT_RECORDED",)]
    assert other.interrupted
    first, *_ = other.resume_sync().run.results
    assert first.error_codes == ("CALL_OUTCOME_UNKNOWN",)


def test_an_error_says_when_how_far_the_turn_came_was_not_kept() -> None:
    store, till = DictStore(), Till()
    chat = chat_of(store, calls("pay", amount=1), failure(401), till=till)
    till.meanwhile = chat_of(store).take_over
    with pytest.raises(RunFailed) as failed:
        chat.say_sync("Pay 1.")

    (note,) = failed.value.__notes__
    assert note.startswith("the progress of the turn was not stored: this turn was taken over")


def test_a_store_that_never_takes_a_change_is_not_asked_forever() -> None:
    class Stubborn(DictStore):
        asked = 0

        def save(
            self, key: str, version: int, head: bytes, keep: int, messages: Sequence[bytes]
        ) -> None:
            self.asked += 1
            super().save(key, version + 1, head, keep, messages)

    store = Stubborn()
    chat = chat_of(store)
    for attempt in (lambda: chat.say_sync("Hello"), lambda: chat.change_extras(dict)):
        store.asked = 0
        with pytest.raises(ConversationBusy, match="changes all the time"):
            attempt()
        assert store.asked == MAX_ATTEMPTS


def test_a_call_whose_start_cannot_be_stored_does_not_run() -> None:
    class Full(DictStore):
        is_full = False

        def save(
            self, key: str, version: int, head: bytes, keep: int, messages: Sequence[bytes]
        ) -> None:
            if self.is_full:
                raise OSError("no space left on device")
            super().save(key, version, head, keep, messages)

    store, till = Full(), Till()

    def filling(_: Any) -> Any:
        store.is_full = True
        return calls("pay", amount=5)

    chat = chat_of(store, filling, says("I could not."), till=till)
    with pytest.raises(OSError, match="no space"):
        chat.say_sync("Pay 5.")
    store.is_full = False
    chat.take_over()

    assert till.paid == []
    assert texts(chat) == ["Pay 5."]
    assert chat.interrupted


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("writes", [1, 2, 3, 4])
def test_a_process_that_dies_at_any_write_makes_no_call_twice(writes: int, *, after: bool) -> None:
    store, till = DictStore(), Till()

    def paying(request: JSON) -> JSON:
        told = request["messages"][-1]["role"] == "tool"
        return says("Paid, I think.") if told else calls("pay", amount=5)

    mortal = chat_of(Mortal(store, writes, after=after), paying, paying, till=till)

    async def dying() -> None:
        with pytest.raises(Killed):
            await mortal.say("Pay 5.")

    asyncio.run(dying())
    had_begun = b'"begun":["' in (store.kept["k"].head if store.kept else b"")
    chat = chat_of(store, paying, paying, till=till)
    chat.take_over()
    if chat.interrupted:
        chat.resume_sync()

    # Before the first write nothing was said; a call that had begun and not paid never will.
    assert till.paid == ([5] if texts(chat) and not (had_begun and writes == 2) else [])
    assert not chat.interrupted


def test_a_turn_that_lasts_keeps_its_hold(
    virtual: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", virtual)
    held: list[tuple[float, float]] = []

    class Watched(DictStore):
        def save(
            self, key: str, version: int, head: bytes, keep: int, messages: Sequence[bytes]
        ) -> None:
            super().save(key, version, head, keep, messages)
            hold = decode_state(key, self.kept[key]).hold
            held.append((virtual.now, virtual.now if hold is None else hold.until))

    @tool(timeout_s=300)
    async def sleep() -> None:
        """Sleep for longer than anybody waits."""
        await never()

    model = ScriptedModel(calls("sleep"), says("Enough."))
    runner = ToolLoopRunner(client=model, model="m", tools=[sleep], config={})
    chat = Conversation(runner, Watched(), "k", lease_s=60)

    assert asyncio.run(chat.say("Sleep.")).assistant_text == "Enough."
    assert len(held) > 300 / 60
    assert all(until > now for (_, until), (now, _) in pairwise(held))


def test_a_process_that_died_keeps_the_conversation_no_longer_than_its_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = VirtualClock()
    monkeypatch.setattr(time, "time", clock)
    store = DictStore()
    mortal = chat_of(Mortal(store, 1, after=True), says("Never said."))

    async def dying() -> None:
        with pytest.raises(Killed):
            await mortal.say("Hello?")

    asyncio.run(dying())
    chat = chat_of(store, says("Hello."))
    clock.now += 59
    with pytest.raises(ConversationBusy):
        chat.resume_sync()
    clock.now += 1
    assert chat.interrupted
    assert chat.resume_sync().assistant_text == "Hello."


def test_a_turn_goes_on_with_the_settings_that_it_began_with() -> None:
    store = DictStore()
    began = ToolLoopRunner(client=ScriptedModel(failure(401)), model="first", system="Be brief.")
    with pytest.raises(RunFailed):
        Conversation(began, store, "k").say_sync("Hello")
    model = ScriptedModel(says("Hello."), says("Bye."))
    chat = Conversation(ToolLoopRunner(client=model, model="second"), store, "k")
    chat.resume_sync()
    chat.say_sync("Bye")

    assert [request["model"] for request in model.requests] == ["first", "second"]
    assert [request["messages"][0]["role"] for request in model.requests] == ["system", "user"]


def test_what_is_written_in_a_turn_does_not_grow_with_what_was_said_before() -> None:
    sizes: list[int] = []

    class Weighed(DictStore):
        def save(
            self, key: str, version: int, head: bytes, keep: int, messages: Sequence[bytes]
        ) -> None:
            sizes.append(len(messages))
            super().save(key, version, head, keep, messages)

    store = Weighed()
    script = [calls("pay", amount=5), says("Paid.")]
    for _ in range(20):
        chat_of(store, *script).say_sync("Pay 5.")

    assert len(store.kept["k"].messages) == 80
    assert sizes[-4:] == sizes[:4] == [1, 1, 1, 1]


def test_what_is_stored_says_nothing_to_a_store() -> None:
    store = DictStore()
    chat_of(store, says("Hello.")).say_sync("Hello")
    stored = store.kept["k"]

    assert isinstance(stored, Stored)
    assert msgspec.json.decode(stored.head) == {"schema_version": 1}


class _Between(DictStore):
    """A store in which something happens in another thread while it is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = None

    def load(self, key: str, known: int = 0) -> Stored | None:
        stored = super().load(key, known)
        if self.meanwhile is not None:
            self.meanwhile()
        return stored


def test_a_change_that_fails_in_another_thread_does_not_make_a_conversation_look_blank() -> None:
    store = _Between()
    keeper = ConversationRepository(store, "k")
    kept = keeper.update(lambda kept: msgspec.structs.replace(kept, extras={"stars": 5}))

    def too_late() -> None:
        with pytest.raises(StoreConflict):
            keeper.replace(ConversationState(), ConversationState())

    store.meanwhile = too_late

    assert keeper.load_latest() == kept
