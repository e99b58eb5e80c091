"""A chain of models, in runs: who goes on, who rests, and what everyone is told."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from surecall import (
    Fallback,
    OpenAICompatible,
    RetryPolicy,
    Run,
    RunFailed,
    RunResult,
    TextDelta,
    TextWithdrawn,
    ToolLoopRunner,
    replay,
    run_of,
    tool,
)
from surecall.core.outcome import RequestFailed
from surecall.runtime.fallback_chain import MAX_REST_S, RestingModels
from surecall.runtime.replay import sent_requests
from surecall.settings.capabilities import Capabilities
from surecall.settings.fallback import DEFAULT_CODES, OPT_IN_CODES
from surecall.testing import (
    Item,
    ScriptedModel,
    ScriptedProvider,
    calls,
    failure,
    hangs_up,
    says,
    streams,
)
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import ModelChangedEvent
from tests.support.timing import VirtualClock

Told = TextDelta | TextWithdrawn
ONCE = RetryPolicy(attempts=1)
LIMITED = Fault(ErrorCode.RATE_LIMIT, "slow down", 429)


class Till:
    """A tool that takes money, and counts how often."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def pay(self, n: int) -> str:
        """Pay."""
        self.paid.append(n)
        return f"paid {n}"


def chain(*scripts: Sequence[Item], till: Till | None = None, **more: Any) -> ToolLoopRunner:
    """Make a runner with a model for each script, called a, b, c and so on."""
    first, *others = [ScriptedModel(*script) for script in scripts]
    names = "abcdef"
    links: list[str | Fallback] = [names[0]]
    links += [Fallback(names[at], client=it) for at, it in enumerate(others, 1)]
    tools = [tool((till or Till()).pay)]
    return ToolLoopRunner(client=first, model=links, tools=tools, retry=ONCE, **more)


def changes(result: RunResult) -> list[ModelChangedEvent]:
    return [event for event in result.trace if isinstance(event, ModelChangedEvent)]


def test_the_next_model_goes_on_and_nothing_is_done_twice() -> None:
    till = Till()
    runner = chain([calls("pay", n=1), failure(503)], [says("Paid.")], till=till)
    result = runner.run_sync("Pay 1.")

    assert result.assistant_text == "Paid."
    assert till.paid == [1]
    assert result.models == ("a", "b")
    (change,) = changes(result)
    assert (change.before, change.model, change.fault.code) == ("a", "b", "UPSTREAM_5XX")
    assert "[1] ⇢ switching to b (a failed: UPSTREAM_5XX)" in str(result.trace)
    assert replay(result.trace).run == result.run
    assert all(request.exact for request in sent_requests(result.trace))


def test_a_chain_goes_on_over_http_with_the_key_of_each_endpoint() -> None:
    with (
        ScriptedProvider(failure(503), api_key="sk-a") as one,
        ScriptedProvider(says("Hello."), api_key="sk-b") as other,
    ):
        runner = ToolLoopRunner(
            client=[OpenAICompatible(one.url, "sk-a"), OpenAICompatible(other.url, "sk-b")],
            model="m",
            retry=ONCE,
        )
        result = runner.run_sync("Hi.")
        runner.close()

        assert result.assistant_text == "Hello."
        assert [head["authorization"] for head in one.headers] == ["Bearer sk-a"]
        assert [head["authorization"] for head in other.headers] == ["Bearer sk-b"]
        assert "sk-" not in str(other.requests)


def test_a_client_retries_by_itself_before_another_one_is_asked() -> None:
    model = ScriptedModel(failure(503), says("Hello."))
    runner = ToolLoopRunner(
        client=model,
        model=["a", Fallback("b", client=ScriptedModel())],
        retry=RetryPolicy(first_wait_s=0.001),
    )

    assert runner.run_sync("Hi.").models == ("a",)


@pytest.mark.parametrize("status", [401, 402, 403, 404, 413, 429, 500, 503])
def test_failures_of_an_endpoint_are_a_reason_to_go_on(status: int) -> None:
    assert chain([failure(status)], [says("Hello.")]).run_sync("Hi.").models == ("b",)


@pytest.mark.parametrize("status", [400, 409, 422])
def test_a_request_that_is_wrong_is_wrong_elsewhere_too(status: int) -> None:
    with pytest.raises(RequestFailed) as failed:
        chain([failure(status)], [says("Hello.")]).run_sync("Hi.")

    assert failed.value.details == {}


def moderated() -> Item:
    return failure(400, {"error": {"message": "no", "code": "content_policy_violation"}})


def test_what_moderation_refuses_is_carried_on_only_if_the_application_wants_it() -> None:
    with pytest.raises(RunFailed, match="CONTENT_POLICY"):
        chain([moderated()], [says("Hello.")]).run_sync("Hi.")
    link = Fallback("b", client=ScriptedModel(says("Hello.")), on={"CONTENT_POLICY"})
    runner = ToolLoopRunner(client=ScriptedModel(moderated()), model=["a", link])

    assert runner.run_sync("Hi.").models == ("b",)


def test_a_model_is_passed_over_that_is_there_for_other_failures() -> None:
    large = Fallback("large", client=ScriptedModel(), on={"CONTEXT_TOO_LONG"})
    spare = Fallback("spare", client=ScriptedModel(says("Hello.")))
    runner = ToolLoopRunner(
        client=ScriptedModel(failure(500)), model=["a", large, spare], retry=ONCE
    )

    assert runner.run_sync("Hi.").models == ("spare",)


def test_an_empty_answer_is_a_reason_only_on_request_and_is_withdrawn() -> None:
    silent = [calls("pay", n=1), says(""), says("")]
    with pytest.raises(RunFailed, match="EMPTY_FINAL"):
        chain(silent, [says("Paid.")]).run_sync("Pay 1.")
    till = Till()
    link = Fallback("b", client=ScriptedModel(says("Paid.")), on=DEFAULT_CODES | OPT_IN_CODES)
    runner = ToolLoopRunner(
        client=ScriptedModel(*silent), model=["a", link], tools=[tool(till.pay)], retry=ONCE
    )
    result = runner.run_sync("Pay 1.")

    assert (result.assistant_text, till.paid) == ("Paid.", [1])
    assert replay(result.trace).run == result.run


def test_when_all_fail_the_error_says_what_was_tried() -> None:
    with pytest.raises(RequestFailed) as failed:
        chain([failure(401)], [failure(402)], [failure(500)]).run_sync("Hi.")

    tried = [(each["model"], each["code"]) for each in failed.value.details["tried"]]
    assert tried == [("a", "AUTH"), ("b", "PAYMENT_REQUIRED"), ("c", "UPSTREAM_5XX")]
    assert str(failed.value).endswith(" (before: a: AUTH, b: PAYMENT_REQUIRED)")
    assert failed.value.code is ErrorCode.UPSTREAM_5XX
    assert failed.value.result.models == ()
    assert replay(failed.value.result.trace).run == failed.value.result.run


def test_a_model_that_failed_rests_and_the_next_run_begins_elsewhere() -> None:
    runner = chain([failure(503), says("Back.")], [says("One."), says("Two.")])
    first, second = runner.run_sync("Hi."), runner.run_sync("Hi again.")

    assert (first.models, second.models) == (("b",), ("b",))
    (change,) = changes(second)
    assert change.rests
    assert "switching to b (a cooling down: UPSTREAM_5XX)" in str(second.trace)
    assert replay(second.trace).run == second.run
    assert [request.exact for request in sent_requests(second.trace)] == [True]


def test_nobody_rests_because_of_one_conversation() -> None:
    long = failure(400, {"error": {"message": "too long", "code": "context_length_exceeded"}})
    runner = chain([long, says("Short.")], [says("Long.")])

    assert runner.run_sync("A long story.").models == ("b",)
    assert runner.run_sync("Hi.").models == ("a",)


def test_one_that_has_rested_enough_is_asked_again() -> None:
    first = ScriptedModel(failure(503), says("Back."))
    links = [Fallback("a", rest_s=0), Fallback("b", client=ScriptedModel(says("Here.")))]
    runner = ToolLoopRunner(client=first, model=links, retry=ONCE)

    assert [runner.run_sync("Hi.").models for _ in range(2)] == [("b",), ("a",)]


def test_if_all_rest_they_are_asked_nevertheless_and_an_answer_ends_the_rest() -> None:
    runner = chain([failure(503), says("Back."), says("Still.")], [failure(503)])
    with pytest.raises(RunFailed):
        runner.run_sync("Hi.")
    second, third = runner.run_sync("Hi."), runner.run_sync("Hi.")

    assert (second.models, third.models) == (("a",), ("a",))
    assert not changes(second)
    assert not changes(third)


def test_one_that_rested_at_the_beginning_may_still_be_asked_in_need() -> None:
    runner = chain([failure(503), says("Back.")], [says("Here."), failure(503)])
    runner.run_sync("Hi.")
    result = runner.run_sync("Hi again.")

    assert result.models == ("a",)
    assert [change.rests for change in changes(result)] == [True, False]


def test_what_an_endpoint_said_in_one_run_is_not_told_in_another() -> None:
    told = failure(503, {"error": {"message": "cannot answer: my secret plan"}})
    runner = chain([told], [says("One."), says("Two.")])
    runner.run_sync("my secret plan")

    assert "secret" not in str(runner.run_sync("Hi.").trace)


def test_a_run_that_was_written_down_goes_on_where_it_was() -> None:
    first = chain([calls("pay", n=1), failure(503)], [calls("pay", n=2), failure(400)])
    with pytest.raises(RunFailed) as failed:
        first.run_sync("Pay 1 and 2.")
    run = Run.from_json(run_of(failed.value.result.trace).to_json())
    till = Till()
    second = chain([], [says("Paid.")], till=till)
    result = second.resume_sync(run)

    assert result.models == ("b",)
    assert not till.paid
    assert len(result.run.results) == 2


def test_a_run_of_an_unknown_model_is_resumed_with_the_first() -> None:
    run = ToolLoopRunner(client=ScriptedModel(says("x")), model="z").run_sync("Hi.").run
    again = Run.from_json(run.until(1).to_json())

    assert chain([says("Hello.")], []).resume_sync(again).models == ("z",)


def test_text_of_an_answer_that_broke_off_is_withdrawn() -> None:
    half = streams(says("The answer is forty-two."), piece_bytes=40, after=400)
    runner = chain([half], [streams(says("It is 42."))])
    shown: list[str] = []
    withdrawn = 0
    stream = runner.stream_sync("What is it?")
    for event in stream:
        if isinstance(event, TextDelta):
            shown.append(event.text)
        elif isinstance(event, TextWithdrawn):
            assert "".join(shown) == event.text
            shown.clear()
            withdrawn += 1

    assert ("".join(shown), withdrawn) == ("It is 42.", 1)
    assert stream.result.models == ("b",)


def test_a_run_goes_on_with_a_model_that_has_no_tools() -> None:
    till = Till()
    plain = ScriptedModel(says("Paid."))
    link = Fallback("b", client=plain, capabilities=Capabilities(tools=False))
    runner = ToolLoopRunner(
        client=ScriptedModel(calls("pay", n=1), failure(503)),
        model=["a", link],
        tools=[tool(till.pay)],
        retry=ONCE,
    )

    assert runner.run_sync("Pay 1.").assistant_text == "Paid."
    assert "tools" not in plain.requests[0]
    assert till.paid == [1]


def test_an_answer_that_was_shown_and_is_of_no_use_is_withdrawn() -> None:
    link = Fallback("b", client=ScriptedModel(streams(calls("pay", n=1)), streams(says("Paid."))))
    link = msgspec.structs.replace(link, on={"NO_TOOL_CALLS"})
    runner = ToolLoopRunner(
        client=ScriptedModel(streams(says("I will not."))),
        model=["a", link],
        tools=[tool(Till().pay)],
        config={"tool_use_mode": "enforced", "final_ladder": []},
    )
    shown = [event for event in runner.stream_sync("Pay 1.") if isinstance(event, Told)]

    assert shown == [TextDelta("I will not."), TextWithdrawn("I will not."), TextDelta("Paid.")]


def test_opaque_state_stays_with_the_model_that_made_it() -> None:
    thought: Any = calls("pay", n=1)
    thought["choices"][0]["message"]["reasoning_content"] = "thought of a"
    others = ScriptedModel(says("Paid."))
    runner = ToolLoopRunner(
        client=ScriptedModel(thought, failure(503)),
        model=["a", Fallback("b", client=others)],
        tools=[tool(Till().pay)],
        retry=ONCE,
    )
    result = runner.run_sync("Pay 1.")
    again = ScriptedModel(says("Yes."))
    back = ToolLoopRunner(client=[again, ScriptedModel()], model="a")
    back.run_sync("Really?", history=result.history)

    assert "thought of a" not in str(others.requests)
    assert "thought of a" in str(again.requests), "its own model gets it back"


def test_state_from_the_callers_own_history_goes_to_the_first_model_only() -> None:
    history = [{"role": "assistant", "content": "Hm.", "reasoning": "of somebody"}]
    one, other = ScriptedModel(failure(503)), ScriptedModel(says("Hello."))
    ToolLoopRunner(client=[one, other], model="m", retry=ONCE).run_sync("Hi.", history=history)

    assert "of somebody" in str(one.requests)
    assert "of somebody" not in str(other.requests)


def test_a_model_that_calls_in_text_may_go_on_after_one_that_calls_natively() -> None:
    till = Till()
    spoken = says('<tool_call>{"name": "pay", "arguments": {"n": 2}}</tool_call>')
    script: list[Item] = [calls("pay", n=1), failure(503)]
    result = chain(script, [spoken, says("Paid.")], till=till).run_sync("Pay 1 and 2.")

    assert (result.assistant_text, till.paid) == ("Paid.", [1, 2])


def test_a_broken_line_in_mid_run_is_a_reason_in_async_code_too() -> None:
    runner = chain([hangs_up()], [says("Hello.")])

    assert asyncio.run(runner.run("Hi.")).models == ("b",)


def test_a_rest_lasts_as_long_as_the_endpoint_asks_for_and_not_for_years() -> None:
    clock = VirtualClock()
    resting = RestingModels(clock)
    for asked, lasts in ((None, 30.0), (5.0, 5.0), (0.0, 30.0), (1e12, MAX_REST_S)):
        fault = Fault(ErrorCode.RATE_LIMIT, "slow down", 429, retry_after=asked)
        resting.start_rest(0, fault, 30.0)
        clock.now += lasts - 0.5
        assert resting.fault(0) is not None
        clock.now += 1.0
        assert resting.fault(0) is None


def test_only_failures_of_the_endpoint_are_rested_from() -> None:
    resting = RestingModels()
    resting.start_rest(0, Fault(ErrorCode.CONTEXT_TOO_LONG, "too long"), 30.0)
    resting.start_rest(1, LIMITED, 30.0)

    assert resting.fault(0) is None
    assert resting.fault(1) == Fault(ErrorCode.RATE_LIMIT, ErrorCode.RATE_LIMIT.meaning, 429)
    resting.end_rest(1)
    assert resting.fault(1) is None


def test_many_threads_may_share_what_rests() -> None:
    resting = RestingModels()

    def work(place: int) -> None:
        for _ in range(200):
            resting.start_rest(place % 3, LIMITED, 30.0)
            resting.fault(place % 3)
            resting.end_rest(place % 3)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert [resting.fault(place) for place in range(3)] == [None] * 3
