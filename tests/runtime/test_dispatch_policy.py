"""An application's say over tools, and what of its context reaches the events."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

import pytest

from surecall.core.outcome import RunResult, ToolUseError
from surecall.core.state import Run
from surecall.runtime.dispatch import ToolDispatcher
from surecall.runtime.replay import replay
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.config import ToolCallingConfig
from surecall.settings.presets import raw
from surecall.testing import Item, ScriptedModel, calls, calls_many, says
from surecall.tools.registry import ToolRegistry
from surecall.values.decisions import Decision
from surecall.values.errors import ErrorCode
from surecall.values.events import PolicyErrorEvent
from surecall.values.types import ToolCall, ToolResult, ToolSpec
from tests.support.scripted_runs import by_approval_id
from tests.support.spec import proves

SCRIPT = (calls("buy", "c1", item="tea"), says("ok"))


class Warden:
    """A policy made of two answers; an exception is raised instead."""

    def __init__(self, decision: Decision | Exception, *hidden: str | Exception) -> None:
        self.decision = decision
        self.hidden = hidden
        self.asked: list[tuple[str, Any]] = []

    def visible(self, tool: ToolSpec, context: Mapping[str, Any]) -> bool:
        """Hide what is listed, and what is not for this user."""
        for item in self.hidden:
            if isinstance(item, Exception):
                raise item
        return tool.name not in self.hidden and context.get("user") != "nobody"

    def authorize(
        self, call: ToolCall, context: Mapping[str, Any]
    ) -> Decision | Awaitable[Decision]:
        """Say the one thing that was given, some time later."""
        self.asked.append((call.name, context.get("user")))
        return self.later()

    async def later(self) -> Decision:
        """Answer as a policy that has to look something up."""
        await asyncio.sleep(0)
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision


class Market:
    """Two tools, and what was bought."""

    def __init__(self) -> None:
        self.bought: list[str] = []

    def buy(self, item: str) -> str:
        """Buy something."""
        self.bought.append(item)
        return f"one {item}"

    def run(
        self,
        warden: Warden,
        *script: Item,
        context: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> tuple[RunResult, ScriptedModel]:
        model = ScriptedModel(*(script or SCRIPT))
        runner = ToolLoopRunner(
            client=model,
            model="m",
            registry=ToolRegistry([self.buy, {"name": "look", "handler": lambda: "a shop"}]),
            config=ToolCallingConfig.from_mapping(settings),
            tool_policy=warden,
        )
        return asyncio.run(runner.run("tea, please", context=context)), model


def answer_of(result: RunResult) -> ToolResult:
    (answer,) = result.run.results
    return answer


def errors(result: RunResult) -> list[PolicyErrorEvent]:
    return [event for event in result.trace if isinstance(event, PolicyErrorEvent)]


def offered(model: ScriptedModel) -> list[str]:
    return [tool["function"]["name"] for tool in model.requests[0].get("tools", ())]


@proves("C116")
def test_a_call_that_is_allowed_runs() -> None:
    market, warden = Market(), Warden(Decision("allow"))
    result, _ = market.run(warden, context={"user": "kim"})
    assert answer_of(result).ok
    assert market.bought == ["tea"]
    assert warden.asked == [("buy", "kim")]


@proves("C116")
def test_a_call_that_is_denied_does_not_run() -> None:
    market = Market()
    result, _ = market.run(Warden(Decision("deny", "too dear")))
    answer = answer_of(result)
    assert market.bought == []
    assert (answer.ok, answer.executed) == (False, False)
    assert answer.error_codes == ("TOOL_POLICY_DENIED",)
    assert answer.envelope["data"] == {"policy": {"outcome": "deny", "reason": "too dear"}}
    assert "too dear" in answer.envelope["errors"][0]["message"]
    assert result.assistant_text == "ok"


@proves("C116")
def test_a_call_that_is_not_confirmed_does_not_run() -> None:
    market = Market()
    result, _ = market.run(Warden(Decision.confirm("too dear")))
    (waiting,) = result.waiting
    assert market.bought == []
    assert (waiting.name, waiting.arguments, waiting.reason) == ("buy", {"item": "tea"}, "too dear")
    assert result.stop_reason == "waiting"


def test_a_reason_with_half_a_character_does_not_keep_a_run_from_being_written_down() -> None:
    result, _ = Market().run(Warden(Decision.confirm("a\ud800b")))
    (waiting,) = Run.from_json(result.run.to_json()).waiting
    assert waiting.reason == "a\ufffdb"


@proves("C116")
def test_where_no_run_can_wait_a_call_that_needs_a_person_is_refused() -> None:
    market = Market()
    warden = Warden(Decision.confirm("too dear"))
    dispatcher = ToolDispatcher(ToolRegistry([market.buy]), raw(), policy=warden)
    answer = asyncio.run(dispatcher.execute("buy", {"item": "tea"}))
    assert market.bought == []
    assert answer.error_codes == ("TOOL_CONFIRMATION_REQUIRED",)
    assert "too dear" in answer.content


def test_a_policy_may_change_the_arguments_also_where_there_is_no_run() -> None:
    market = Market()
    warden = Warden(Decision.replace({"item": "milk"}))
    dispatcher = ToolDispatcher(ToolRegistry([market.buy]), raw(), policy=warden)
    answer = asyncio.run(dispatcher.execute("buy", {"item": "tea"}))
    assert market.bought == ["milk"]
    assert "were changed" in answer.content


def test_a_call_that_the_policy_changed_and_then_asks_about_does_not_run_either() -> None:
    market = Market()
    warden = Warden(Decision.replace({"item": "milk"}))

    class Asking(Warden):
        def authorize(self, call: ToolCall, context: Mapping[str, Any]) -> Any:
            asks = call.arguments["item"] == "milk"
            return Decision.confirm() if asks else warden.authorize(call, context)

    policy = Asking(Decision.approve())
    dispatcher = ToolDispatcher(ToolRegistry([market.buy]), raw(), policy=policy)
    answer = asyncio.run(dispatcher.execute("buy", {"item": "tea"}))
    assert market.bought == []
    assert answer.error_codes == ("TOOL_CONFIRMATION_REQUIRED",)


@pytest.mark.parametrize("mode", ["deny", "allow"])
def test_a_word_that_is_no_decision_denies_the_call_and_is_recorded(mode: str) -> None:
    market = Market()
    unknown: Any = "approve"
    result, _ = market.run(Warden(Decision(unknown)), policy_error_mode=mode)
    (event,) = errors(result)
    assert market.bought == []
    assert answer_of(result).error_codes == ("TOOL_POLICY_DENIED",)
    assert event.message == "the tool policy raised ValueError: 'approve' is not a decision"


@pytest.mark.parametrize("policy", [Warden(Decision.confirm()), None])
@pytest.mark.parametrize("is_checked", [True, False])
def test_an_approved_call_is_checked_again_for_its_tool_may_have_changed(
    policy: Warden | None, *, is_checked: bool
) -> None:
    bought: list[object] = []

    def buy(item: int) -> None:
        """Buy something by its number."""
        bought.append(item)

    result, _ = Market().run(Warden(Decision.confirm()), validate_arguments=is_checked)
    runner = ToolLoopRunner(
        client=ScriptedModel(says("ok")), model="m", tools=[buy], tool_policy=policy
    )
    made = by_approval_id(result.run, {"c1": Decision.approve()})
    result = runner.resume_sync(result.run, decisions=made)
    assert answer_of(result).error_codes == (("ARGUMENT_ERROR",) if is_checked else ())
    assert bought == ([] if is_checked else ["tea"])


@proves("C116")
@pytest.mark.parametrize(
    ("mode", "bought", "codes"),
    [("deny", [], ("TOOL_POLICY_ERROR",)), ("allow", ["tea"], ())],
)
def test_a_policy_that_raises_fails_closed_or_open(
    mode: str, bought: list[str], codes: tuple[str, ...]
) -> None:
    market = Market()
    result, _ = market.run(Warden(OSError("no database")), policy_error_mode=mode)
    assert market.bought == bought
    assert answer_of(result).error_codes == codes
    (event,) = errors(result)
    assert (event.stage, event.call_id, event.name) == ("call", "c1", "buy")
    assert "no database" in event.message
    assert "no database" not in answer_of(result).content


@proves("C116")
def test_a_policy_that_raises_can_end_the_run() -> None:
    market = Market()
    both = calls_many(calls("buy", item="tea"), calls("look"))
    with pytest.raises(ToolUseError) as failed:
        market.run(Warden(OSError("no database")), both, policy_error_mode="raise")
    assert failed.value.code is ErrorCode.POLICY_ERROR
    assert "OSError" in str(failed.value)
    assert market.bought == []
    assert len(errors(failed.value.result)) == 1


def test_what_ran_before_a_policy_broke_stays_in_the_transcript() -> None:
    class Fickle(Warden):
        async def later(self) -> Decision:
            return Decision("allow") if len(self.asked) == 1 else await super().later()

    market = Market()
    both = calls_many(calls("buy", item="tea"), calls("look"))
    with pytest.raises(ToolUseError) as failed:
        market.run(Fickle(OSError("no database")), both, policy_error_mode="raise")
    assert market.bought == ["tea"]
    assert answer_of(failed.value.result).ok
    assert replay(failed.value.result.trace).run == failed.value.result.run


def test_the_event_of_a_policy_error_is_short_and_tells_the_turn() -> None:
    script = (calls("nope"), calls("buy", item="tea"), says("ok"))
    result, _ = Market().run(Warden(OSError("no database" * 99)), *script)
    assert [(event.turn, len(event.message)) for event in errors(result)] == [(1, 200)]


def test_a_run_that_a_policy_ended_is_not_taken_up_again() -> None:
    warden, market = Warden(OSError("no database")), Market()
    with pytest.raises(ToolUseError) as failed:
        market.run(warden, policy_error_mode="raise")
    runner = ToolLoopRunner(client=ScriptedModel(), model="m")
    with pytest.raises(ToolUseError) as again:
        asyncio.run(runner.resume(failed.value.result.run))
    assert again.value.code is ErrorCode.POLICY_ERROR


@proves("C116")
def test_a_policy_can_hide_tools() -> None:
    market = Market()
    result, model = market.run(Warden(Decision("allow"), "buy"))
    assert offered(model) == ["look"]
    assert market.bought == []
    assert answer_of(result).error_codes == ("TOOL_NOT_ALLOWED",)


def test_what_is_hidden_is_decided_for_each_run() -> None:
    for user, names in {"kim": ["buy", "look"], "nobody": []}.items():
        context = {"user": user}
        _, model = Market().run(Warden(Decision("allow")), says("hi"), context=context)
        assert offered(model) == names


@proves("C116")
@pytest.mark.parametrize(("mode", "names"), [("deny", []), ("allow", ["buy", "look"])])
def test_a_policy_that_raises_over_visibility_shows_nothing_or_all(
    mode: str, names: list[str]
) -> None:
    warden = Warden(Decision("allow"), OSError("no database"))
    result, model = Market().run(warden, says("hi"), policy_error_mode=mode)
    assert offered(model) == names
    (event,) = errors(result)
    assert (event.stage, event.call_id, event.turn) == ("exposure", None, 0)


@proves("C116")
def test_a_policy_that_raises_over_visibility_can_end_the_run_before_any_request() -> None:
    warden = Warden(Decision("allow"), OSError("no database"))
    with pytest.raises(ToolUseError) as failed:
        Market().run(warden, policy_error_mode="raise")
    assert failed.value.code is ErrorCode.POLICY_ERROR
    assert failed.value.result.trace.turns == ()


def test_a_mask_and_a_policy_hide_together() -> None:
    _, model = Market().run(Warden(Decision("allow"), "buy"), says("hi"), tool_denylist=["look"])
    assert offered(model) == []


@proves("C117")
def test_events_carry_the_run_id_and_only_allowed_context() -> None:
    context = {"user": "kim", "order": 7, "token": "do not log"}
    keys = ["user", "order", "missing"]
    result, _ = Market().run(Warden(Decision("allow")), context=context, event_context_keys=keys)
    assert {event.run_id for event in result.trace} == {result.run.run_id}
    assert all(event.context == {"user": "kim", "order": "7"} for event in result.trace)


@proves("C117")
def test_context_is_shortened_to_two_hundred_bytes() -> None:
    context = {"user": "é" * 150}
    result, _ = Market().run(
        Warden(Decision("allow")), context=context, event_context_keys=["user"]
    )
    assert result.trace[0].context == {"user": "é" * 100}


def test_a_resumed_run_has_its_own_context() -> None:
    config = raw(event_context_keys=("user",))
    runner = ToolLoopRunner(client=ScriptedModel(says("hi")), model="m", config=config)
    run = asyncio.run(runner.run("hi", context={"user": "kim"})).run
    assert asyncio.run(runner.resume(run, context={"user": "lee"})).trace[0].context == {
        "user": "lee"
    }
    assert asyncio.run(runner.resume(run)).trace[0].context == {}


def test_two_runs_have_two_ids() -> None:
    first, _ = Market().run(Warden(Decision("allow")))
    second, _ = Market().run(Warden(Decision("allow")))
    assert first.run.run_id != second.run.run_id
