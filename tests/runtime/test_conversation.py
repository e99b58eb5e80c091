"""Conversations that are kept: said in one process, gone on with in another."""

import asyncio
from typing import Any, assert_type

import pytest

from surecall import (
    AskFirst,
    ConfigError,
    Conversation,
    ConversationBusy,
    Decision,
    RunFailed,
    RunResult,
    SqliteStore,
    StaleDecision,
    ToolLoopRunner,
)
from surecall.testing import ScriptedModel, calls, failure, says, streams
from surecall.values.events import ToolCallStartEvent
from surecall.values.types import Assistant, ToolResult, User
from tests.support.conversations import DictStore, Meddled, Till, chat_of, texts


def test_the_next_turn_knows_what_was_said_before_whoever_says_it() -> None:
    store = DictStore()
    first = chat_of(store, says("Hello Kim."))
    model = ScriptedModel(says("Kim."))
    second = Conversation(ToolLoopRunner(client=model, model="other"), store, "k")

    assert first.say_sync("I am Kim.").assistant_text == "Hello Kim."
    assert second.say_sync("Who am I?").assistant_text == "Kim."
    assert [message["content"] for message in model.requests[0]["messages"]] == [
        "I am Kim.",
        "Hello Kim.",
        "Who am I?",
    ]
    assert texts(first) == ["I am Kim.", "Hello Kim.", "Who am I?", "Kim."]


def test_other_keys_are_other_conversations() -> None:
    store = DictStore()
    chat_of(store, says("Hello.")).say_sync("Hello")
    runner = ToolLoopRunner(client=ScriptedModel(), model="m")

    assert Conversation(runner, store, "K").history == []


def test_a_conversation_takes_the_settings_of_a_run() -> None:
    model = ScriptedModel(calls("pay", amount=5), says("Paid."))
    till = Till()
    chat = Conversation(
        ToolLoopRunner(client=model, model="m", tools=[till.tool], system="Be nice."),
        DictStore(),
        "k",
    )
    seen: list[Any] = []

    async def scenario() -> None:
        await chat.say(
            "Pay 5.", system="Be brief.", max_turns=2, on_event=seen.append, context={"a": 1}
        )

    asyncio.run(scenario())

    assert model.requests[0]["messages"][0]["content"] == "Be brief."
    assert [event.call.name for event in seen if isinstance(event, ToolCallStartEvent)] == ["pay"]
    with pytest.raises(ConfigError, match="context"):
        chat.say_sync("Again.", context="not a mapping")  # type: ignore[arg-type]  # a mistake
    assert not chat.interrupted


def test_an_answer_has_the_type_that_its_runner_gives_it_and_is_kept_as_it_was_said() -> None:
    model = ScriptedModel(failure(401), says("[1, 2]"))
    runner = ToolLoopRunner(client=model, model="m", output=list[int])
    chat = Conversation(runner, DictStore(), "k")
    with pytest.raises(RunFailed):
        chat.say_sync("Count to two.")

    result = chat.resume_sync()
    assert_type(result, RunResult[list[int]])
    assert result.output == [1, 2]
    assert texts(chat) == ["Count to two.", "[1, 2]"]


def test_a_call_that_waits_is_decided_about_elsewhere_and_runs_once() -> None:
    store, till = DictStore(), Till(destructive=True)
    asks: dict[str, Any] = {"till": till, "tool_policy": AskFirst()}
    asking = chat_of(store, calls("pay", amount=5), **asks)
    result = asking.say_sync("Pay 5.")
    deciding = chat_of(store, says("Paid."), **asks)
    (call,) = deciding.waiting

    assert (call.name, call.arguments, till.paid) == ("pay", {"amount": 5}, [])
    assert result.waiting == asking.waiting == (call,)
    assert not deciding.interrupted
    assert deciding.resume_sync({call.id: Decision.approve()}).assistant_text == "Paid."
    assert till.paid == [5]
    assert not asking.waiting
    assert not deciding.waiting
    with pytest.raises(StaleDecision, match="need approval: none") as stale:
        asking.resume_sync({call.id: Decision.approve()})
    assert (stale.value.key, stale.value.waiting) == (call.id, ())
    nothings: list[Any] = [None, {}, [call.id]]
    for nothing in nothings:
        with pytest.raises(ConfigError, match="nothing to resume"):
            asking.resume_sync(nothing)


def test_a_decision_from_before_a_conversation_was_forgotten_approves_nothing_in_it() -> None:
    store, till = DictStore(), Till(destructive=True)
    script = (calls("pay", amount=5), calls("pay", amount=5_000), says("Paid."))
    chat = chat_of(store, *script, till=till, tool_policy=AskFirst())
    chat.say_sync("Pay 5.")
    (old,) = chat.waiting
    chat.forget()
    chat.say_sync("Pay 5,000.")
    (new,) = chat.waiting

    assert old.call_id == new.call_id
    with pytest.raises(StaleDecision, match=f"'{old.id}' needs.*approval: '{new.id}'") as stale:
        chat.resume_sync({old.id: Decision.approve()})
    assert stale.value.waiting == (new,)
    with pytest.raises(StaleDecision, match=f"'{new.call_id}' needs"):
        chat.resume_sync({new.call_id: Decision.approve()})
    assert till.paid == []
    chat.resume_sync({new.id: Decision.approve()})
    assert till.paid == [5_000]


def test_words_wait_until_a_person_has_decided() -> None:
    store, till = DictStore(), Till(destructive=True)
    chat = chat_of(store, calls("pay", amount=5), says("Not paid."), till=till)
    asking = chat_of(store, calls("pay", amount=5), till=till, tool_policy=AskFirst())
    asking.say_sync("Pay 5.")

    with pytest.raises(ConversationBusy, match="need human approval first: pay") as busy:
        chat.say_sync("Hello?")
    assert busy.value.waiting == chat.waiting
    with pytest.raises(ConfigError, match="no call with id 'c9' needs"):
        chat.resume_sync({"c9": Decision.approve()})
    assert chat.resume_sync().waiting == chat.waiting  # nobody has decided: it stays where it is
    assert till.paid == []


def test_a_denied_call_is_told_and_the_conversation_goes_on() -> None:
    store, till = DictStore(), Till(destructive=True)
    chat = chat_of(
        store, calls("pay", amount=5), says("All right."), till=till, tool_policy=AskFirst()
    )
    chat.say_sync("Pay 5.")
    result = chat.resume_sync({chat.waiting[0].id: Decision.deny("Too much.")})

    assert (result.assistant_text, till.paid) == ("All right.", [])
    assert result.run.results[0].error_codes == ("TOOL_POLICY_DENIED",)


def test_a_turn_that_failed_is_gone_on_with() -> None:
    store, till = DictStore(), Till()
    broken = chat_of(store, calls("pay", amount=5), failure(401), till=till)
    with pytest.raises(RunFailed):
        broken.say_sync("Pay 5.")
    chat = chat_of(store, says("Paid."), till=till)

    assert chat.interrupted
    assert chat.resume_sync().assistant_text == "Paid."
    assert not chat.interrupted
    assert till.paid == [5]
    assert [type(message) for message in chat.history] == [User, Assistant, ToolResult, Assistant]


def test_words_after_a_turn_that_failed_are_answered_with_what_is_known() -> None:
    store = DictStore()
    with pytest.raises(RunFailed):
        chat_of(store, failure(401)).say_sync("Hello?")
    chat = chat_of(store, says("Hello."))

    assert chat.say_sync("Hello??").assistant_text == "Hello."
    assert not chat.interrupted
    assert texts(chat) == ["Hello?", "Hello??", "Hello."]


def test_streams_of_code_that_blocks_are_kept_too() -> None:
    store, till = DictStore(), Till(destructive=True)
    chat = chat_of(
        store,
        streams(calls("pay", amount=5)),
        streams(says("Paid.")),
        till=till,
        tool_policy=AskFirst(),
    )
    list(chat.stream_sync("Pay 5."))

    async def approved() -> str:
        stream = chat.stream_resumed({chat.waiting[0].id: Decision.approve()})
        async for _ in stream:
            pass
        return stream.result.assistant_text

    assert asyncio.run(approved()) == "Paid."
    assert till.paid == [5]


def test_taking_over_what_nobody_has_changes_nothing() -> None:
    store = DictStore()
    chat = chat_of(store, says("Hello."))
    chat.take_over()
    chat.say_sync("Hello")

    assert texts(chat) == ["Hello", "Hello."]


def test_extras_are_kept_with_the_conversation_and_changed_by_anyone_at_any_time() -> None:
    store, till = DictStore(), Till()
    chat = chat_of(store, calls("pay", amount=5), says("Paid."), till=till)
    other = chat_of(store)

    def count(extras: dict[str, Any]) -> dict[str, Any]:
        return extras | {"count": extras.get("count", 0) + 1}

    till.meanwhile = lambda: other.change_extras(count) and None
    assert chat.change_extras(count) == {"count": 1}
    chat.say_sync("Pay 5.")

    assert chat.extras == other.extras == {"count": 2}
    assert till.paid == [5]
    chat.extras["count"] = 7  # a copy
    assert chat.extras == {"count": 2}


def test_a_change_of_extras_that_meets_another_is_made_again_on_top_of_it() -> None:
    store = Meddled()
    chat, other = chat_of(store), chat_of(store)
    store.meddle = lambda: other.change_extras(lambda extras: extras | {"b": 2})

    assert chat.change_extras(lambda extras: extras | {"a": 1}) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "extras",
    [
        None,
        7,
        [1],
        {"a": float("nan")},
        {"a": b"x"},
        {1: 2},
        {"a": "\ud800"},
        {"a": {1, 2}, "b": object()},
        {1: 2, (): 3},
    ],
)
def test_extras_are_json(extras: Any) -> None:
    with pytest.raises(ConfigError, match="extras must be"):
        chat_of(DictStore()).change_extras(lambda _: extras)


def test_a_conversation_that_is_forgotten_begins_anew() -> None:
    store = DictStore()
    chat = chat_of(store, says("Hello Kim."), says("I do not know."))
    chat.say_sync("I am Kim.")
    chat.change_extras(lambda _: {"name": "Kim"})
    chat.forget()

    assert (chat.history, chat.extras) == ([], {})
    assert chat.say_sync("Who am I?").assistant_text == "I do not know."
    assert len(chat.history) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key": ""}, "non-empty string"),
        ({"key": 7}, "non-empty string, not 7"),
        ({"key": "\ud800"}, "surrogates"),
        ({"store": None}, "load and save"),
        ({"store": "chats.db"}, "load and save"),
        ({"runner": None}, "a ToolLoopRunner"),
        ({"lease_s": 0.5}, "at least 1"),
        ({"lease_s": float("nan")}, "at least 1"),
    ],
)
def test_mistakes_are_told_before_anything_is_stored(change: dict[str, Any], said: str) -> None:
    runner = ToolLoopRunner(client=ScriptedModel(), model="m")
    given: dict[str, Any] = {"runner": runner, "store": DictStore(), "key": "k"} | change
    with pytest.raises(ConfigError, match=said):
        Conversation(**given)


def test_words_that_are_none_leave_the_conversation_as_it_is() -> None:
    store = DictStore()
    chat = chat_of(store)
    with pytest.raises(ConfigError, match="nothing to answer"):
        chat.say_sync(" ")
    with pytest.raises(ConfigError, match="must be text"):
        chat.stream(7)  # type: ignore[arg-type]  # a mistake
    assert store.kept == {}


def test_many_conversations_of_one_process_share_a_store() -> None:
    store = SqliteStore(":memory:")
    runner = ToolLoopRunner(client=ScriptedModel(*[says("Hello.")] * 20), model="m")
    chats = [Conversation(runner, store, f"customer-{number}") for number in range(20)]

    async def scenario() -> None:
        await asyncio.gather(*(chat.say(f"I am {n}.") for n, chat in enumerate(chats)))

    asyncio.run(scenario())

    assert [texts(chat) for chat in chats] == [[f"I am {n}.", "Hello."] for n in range(20)]
    store.close()
