"""Tests of `surecall.core.tool_search`."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import (
    AskFirst,
    Decision,
    Fallback,
    RunFailed,
    RunResult,
    ToolLoopRunner,
    ToolRegistry,
    replay,
)
from surecall.core.exposed_tools import next_plan
from surecall.core.loop import next_move, record_reply
from surecall.core.observed_values import observed_values
from surecall.core.state import AskModel, Run
from surecall.core.streaming import CallAnnounced
from surecall.core.tool_search import (
    MAX_FOUND,
    MAX_SEARCHES_IN_A_ROW,
    answer_searches,
    exposed_specs,
    learned_limit,
    limit_plan,
    search_query,
    select_tools,
    with_learned_limit,
    without_room_for,
    without_searches,
)
from surecall.settings.contract import Contract
from surecall.settings.presets import default_tool_calling, raw
from surecall.testing import ScriptedModel, calls, calls_many, failure, says, streams
from surecall.tools.ranking import SEARCH_TOOL
from surecall.tools.registry import ToolDefinition
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.events import ToolCallStartEvent, ToolSearchEvent
from surecall.values.types import (
    JSON,
    Assistant,
    Message,
    Plan,
    Problem,
    Reply,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)
from surecall.wire.chat_format import tool_choice_for

_ANY: JSON = {"type": "object", "properties": {}}
_THINGS = ("invoice", "parcel", "weather", "ticket", "meeting", "invitation", "recipe", "song")
TOOLS = tuple(
    ToolSpec(f"{verb}_{thing}", f"{verb} one {thing}.", _ANY)
    for thing in _THINGS
    for verb in ("get", "delete", "update")
)
NAMES = tuple(spec.name for spec in TOOLS)


def run_of(*messages: Message, most: int | None = 6, **settings: Any) -> Run:
    config = raw(max_tools_per_request=most, **settings)
    return Run("r", "m", config, messages or (User("Hello."),), tools=TOOLS)


def exposed(run: Run) -> list[str]:
    return [spec.name for spec in exposed_specs(run)]


def searched(run: Run, query: str, call_id: str = "s1") -> Run:
    return record_reply(run, Reply(calls=(searching(query, call_id),)))


def searching(query: str, call_id: str = "s1") -> ToolCall:
    return ToolCall(call_id, SEARCH_TOOL, {"query": query})


def use(name: str, call_id: str = "c1") -> tuple[Message, ...]:
    return Assistant("", (ToolCall(call_id, name),)), ToolResult(
        call_id, name, ok=True, content="{}"
    )


# What is exposed


def test_without_a_limit_or_below_it_all_tools_are_exposed_as_the_same_object() -> None:
    for most in (None, len(TOOLS), 500):
        run = run_of(most=most)
        assert exposed_specs(run) is TOOLS
        assert next_plan(run).tools is TOOLS


def test_above_the_limit_the_search_and_the_most_relevant_tools_are_exposed() -> None:
    assert exposed(run_of(User("Where is my parcel?"))) == [
        *(SEARCH_TOOL, "get_parcel", "delete_parcel", "update_parcel"),
    ]
    assert exposed(run_of(User("Hello."))) == [SEARCH_TOOL]


def test_a_plan_has_no_more_tools_than_the_limit() -> None:
    words = User("get delete update invoice parcel weather ticket meeting song")
    for most in range(1, len(TOOLS) + 2):
        assert len(next_plan(run_of(words, most=most)).tools) <= most


def test_one_tool_leaves_no_room_for_the_search() -> None:
    assert exposed(run_of(User("Where is my parcel?"), most=1)) == ["get_parcel"]


def test_the_list_only_grows_while_there_is_room() -> None:
    talk: tuple[Message, ...] = (User("Where is my parcel?"), *use("get_parcel"))
    talk += (Assistant("Here."), User("And the weather?"), *use("delete_song", "c2"))
    talk += (Assistant("Gone."), User("Thanks.", nudge=True))
    seen: list[str] = []
    for end in range(1, len(talk) + 1):
        now = exposed(run_of(*talk[:end], most=20))
        assert now[: len(seen)] == seen
        seen = now
    assert seen[-1] == "delete_song"


def test_used_tools_stay_when_there_is_no_room_and_the_oldest_go_first() -> None:
    talk = (User("Where is my parcel?"), *use("get_song", "c1"), *use("get_ticket", "c2"))
    now = exposed(run_of(*talk, User("weather"), most=5))
    assert set(now) == {SEARCH_TOOL, "get_song", "get_ticket", "get_weather", "delete_weather"}
    many = [message for at, name in enumerate(NAMES[:6]) for message in use(name, f"c{at}")]
    assert exposed(run_of(*many, most=4)) == [SEARCH_TOOL, *NAMES[3:6]]


def test_only_the_newest_messages_of_a_long_conversation_are_ranked() -> None:
    talk = [User("Where is my parcel?"), *use("get_song"), *[User("Hm?")] * 62]
    assert "get_parcel" in exposed(run_of(*talk))
    assert exposed(run_of(*talk, User("Hm?"))) == [SEARCH_TOOL, "get_song"]
    assert exposed(run_of(*talk, *[User("a ticket")] * 32))[:2] == [SEARCH_TOOL, "get_song"]


def test_the_tool_of_a_tool_choice_is_always_exposed() -> None:
    choice = tool_choice_for("update_recipe")
    words = User("get delete update invoice parcel weather ticket meeting song")
    assert "update_recipe" in exposed(run_of(words, tool_choice=choice, most=2))
    plan = next_plan(run_of(words, tool_choice=choice))
    assert (plan.required_tools, plan.tool_choice) == (("update_recipe",), choice)


def test_all_tools_of_an_allowed_tools_choice_are_exposed() -> None:
    names = ("get_song", "get_recipe")
    listed = [{"type": "function", "function": {"name": name}} for name in names]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [*listed, 7]}}
    talk = (User("parcel"),)
    assert set(names) <= {spec.name for spec in select_tools(TOOLS, talk, 4, names)}
    plan = Plan("m", talk, TOOLS, choice)
    assert set(names) <= {spec.name for spec in limit_plan(plan, 4).tools}


def test_the_tools_of_the_contract_are_always_exposed() -> None:
    contract = Contract(all_of=("delete_song", "get_recipe"), in_order=("get_ticket", "get_song"))
    words = User("get delete update invoice parcel weather ticket meeting song")
    run = run_of(words, contract=contract, most=6)
    assert exposed(run)[:4] == [SEARCH_TOOL, "delete_song", "get_recipe", "get_ticket"]
    # The last one is not to be called yet.
    assert "get_song" not in {spec.name for spec in next_plan(run).tools}


def test_what_a_contract_still_lacks_has_precedence_over_what_it_has() -> None:
    contract = Contract(all_of=("get_song", "get_ticket", "get_recipe"))
    done = ToolResult("c1", "get_song", ok=True, content="{}", executed=True)
    talk = (User("go"), Assistant("", (ToolCall("c1", "get_song"),)), done)
    few = exposed(run_of(*talk, contract=contract, most=3))
    assert set(few) == {SEARCH_TOOL, "get_ticket", "get_recipe"}
    assert exposed(run_of(*talk, contract=contract, most=4))[1] == "get_song"


def test_a_pinned_tool_may_have_the_name_of_the_client() -> None:
    tools = (ToolSpec("a_b", "", _ANY), *TOOLS)
    assert select_tools(tools, (), 2, ("a.b",))[1].name == "a_b"
    assert [spec.name for spec in select_tools(tools, (), 2, ("absent",))] == [SEARCH_TOOL]


def test_the_same_selection_is_the_same_object() -> None:
    before = run_of(User("Where is my parcel?"))
    after = before.with_messages(*use("get_parcel"))
    assert exposed_specs(before) is exposed_specs(after)


@pytest.mark.parametrize("protocol", ["prompted", "guided"])
def test_text_protocols_describe_only_the_exposed_tools(protocol: Any) -> None:
    plan = next_plan(run_of(User("Where is my parcel?"), call_protocol=protocol))
    names = [SEARCH_TOOL, "get_parcel", "delete_parcel", "update_parcel"]
    assert [spec.name for spec in plan.known_tools] == names
    assert [spec.name for spec in plan.tools] == names


def test_calls_are_forbidden_with_the_same_tools() -> None:
    run = searched(run_of(User("parcel"), tools_off_style="tool_choice_none"), "song")
    off = run.with_messages(Assistant(""), User("Answer.", nudge=True))
    plan = next_plan(off)
    assert plan.tool_choice in {"none", "auto"}
    assert [spec.name for spec in plan.tools] == exposed(off)


# The search


def test_found_tools_are_exposed_in_the_next_request() -> None:
    run = searched(run_of(User("Hello.")), "delete a song")
    move = next_move(run)
    assert isinstance(move, AskModel)
    assert [spec.name for spec in move.plan.tools][:2] == [SEARCH_TOOL, "delete_song"]
    (answer,) = run.tail
    assert isinstance(answer, ToolResult)
    rows = answer.envelope["data"]["found"]
    assert rows[0] == {"name": "delete_song", "description": "delete one song."}
    assert (answer.ok, answer.executed, len(rows)) == (True, False, 5)


def test_a_search_finds_at_most_ten() -> None:
    run = searched(run_of(User("Hello."), most=20), "get delete update")
    (answer,) = run.tail
    assert isinstance(answer, ToolResult)
    assert len(answer.found or ()) == MAX_FOUND


def test_a_search_is_no_call_of_the_run() -> None:
    run = searched(run_of(User("Hello.")), "song")
    assert (run.results, run.answered_calls, run.pending_calls) == ((), (), ())
    assert not run.has_called_tools
    assert (run.turn_count, run.counted_turns) == (1, 0)


def test_a_turn_with_another_call_counts() -> None:
    both = (searching("song"), ToolCall("c1", "get_song"))
    run = record_reply(run_of(User("Hello.")), Reply(calls=both))
    assert [call.id for call in run.pending_calls] == ["c1"]
    assert (run.counted_turns, run.has_called_tools) == (1, True)
    assert [call.id for call in without_searches(run, run.replies[0]).calls] == ["c1"]


def test_a_search_leaves_room_for_the_one_call_of_a_turn() -> None:
    both = (searching("song"), ToolCall("c1", "get_song"), ToolCall("c2", "get_song"))
    run = record_reply(run_of(User("Hi."), max_tool_calls_per_turn=1), Reply(calls=both))
    assert [call.is_runnable for call in run.replies[0].calls] == [True, True, False]


def test_what_a_search_returns_was_not_observed() -> None:
    run = searched(run_of(User("Hello.")), "song")
    assert observed_values(run).values == ()


def test_searches_in_a_history_without_a_user_count() -> None:
    run = searched(run_of(Assistant("", (searching("song"),)), most=6), "song", "s2")
    assert run.turn_count == 2


def test_a_search_that_finds_nothing_says_so() -> None:
    (answer,) = searched(run_of(User("Hello.")), "zebra").tail
    assert isinstance(answer, ToolResult)
    assert answer.found == ()
    assert "Try other words" in answer.content


def test_a_search_without_words_is_refused_and_counts_as_a_turn() -> None:
    run = searched(run_of(User("Hello.")), " ")
    (answer,) = run.tail
    assert isinstance(answer, ToolResult)
    assert answer.error_codes == (ErrorCode.ARGUMENT_ERROR,)
    assert run.counted_turns == 1


def test_only_so_many_searches_are_answered_in_a_row() -> None:
    run = run_of(User("Hello."))
    for at in range(MAX_SEARCHES_IN_A_ROW + 2):
        run = searched(run, f"song {at}", f"s{at}")
    oks = [item.ok for item in run.messages if isinstance(item, ToolResult)]
    assert oks == [True] * MAX_SEARCHES_IN_A_ROW + [False, False]
    assert run.counted_turns == 2
    for more in (User("And now?"), ToolResult("c1", "get_song", ok=True, content="{}")):
        again = searched(run.with_messages(Assistant("", (ToolCall("c1", "x"),)), more), "parcel")
        last = again.messages[-1]
        assert isinstance(last, ToolResult)
        assert last.ok


def test_the_searches_of_one_reply_count_one_by_one() -> None:
    many = tuple(searching(f"song {at}", f"s{at}") for at in range(6))
    run = record_reply(run_of(User("Hello.")), Reply(calls=many))
    assert [item.ok for item in run.tail if isinstance(item, ToolResult)] == [True] * 4 + [
        False
    ] * 2
    assert run.counted_turns == 1


def test_a_tool_that_comes_later_is_not_found() -> None:
    contract = Contract(in_order=("get_ticket", "get_song"))
    (answer,) = searched(run_of(User("Hi."), contract=contract), "get song").tail
    assert isinstance(answer, ToolResult)
    assert "get_song" not in (answer.found or ())


def test_a_search_in_another_spelling_is_a_search() -> None:
    asked = ToolCall("s1", "functions.Search-Tools", {"query": "song"})
    run = record_reply(run_of(User("Hello.")), Reply(calls=(asked,)))
    (call,) = run.replies[0].calls
    assert (call.name, call.asked) == (SEARCH_TOOL, "functions.Search-Tools")
    assert run.turn_count == 1


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ({"query": "a song"}, "a song"),
        ({"q": "a song", "limit": 3}, "a song"),
        ({"query": ["a", "song", 7]}, "a song"),
        ({"query": {"text": "a song"}}, ""),
        ({}, ""),
    ],
)
def test_the_words_of_a_search_are_read_in_several_forms(arguments: JSON, query: str) -> None:
    assert search_query(ToolCall("s1", SEARCH_TOOL, arguments)) == query


def test_without_a_limit_there_is_no_search() -> None:
    run = run_of(User("Hello."), most=None)
    after = record_reply(run, Reply(calls=(searching("song"),)))
    assert [call.name for call in after.pending_calls] == [SEARCH_TOOL]
    assert answer_searches(run.with_messages(Assistant("Hi."))).tail == ()


def test_a_malformed_search_stays_refused() -> None:
    problem = Problem(ErrorCode.ARGUMENTS_TRUNCATED, "It was cut off.")
    call = ToolCall("s1", SEARCH_TOOL, problem=problem)
    after = record_reply(run_of(User("Hello.")), Reply(calls=(call,)))
    assert [each.problem for each in after.pending_calls] == [call.problem]


# Learned limits


def test_the_lowest_learned_limit_counts_and_nonsense_does_not() -> None:
    assert learned_limit(("max-tools:128", "stream", "max-tools:64")) == 64
    assert learned_limit(()) is None
    for odd in ("", "0", "-1", "12a", "1e3", "٣", "9" * 5_000):
        assert learned_limit((f"max-tools:{odd}",)) is None


def test_a_learned_limit_holds_for_the_run_unless_its_own_is_lower() -> None:
    run = run_of(User("Where is my parcel?"), most=None)
    assert len(exposed(with_learned_limit(run, ("max-tools:4",)))) == 4
    assert with_learned_limit(run, ("stream",)) is run
    low = run_of(most=3)
    assert with_learned_limit(low, ("max-tools:4",)) is low


def test_a_plan_is_limited_as_the_run_would_be() -> None:
    run = run_of(User("Where is my parcel?"), most=None)
    plan = next_plan(run)
    assert limit_plan(plan, len(TOOLS)) is plan
    limited = with_learned_limit(run, ("max-tools:4",))
    assert limit_plan(plan, 4).tools is next_plan(limited).tools


def test_a_plan_that_is_limited_already_loses_more_tools_but_not_the_required_ones() -> None:
    run = run_of(User("get delete update"), tool_choice=tool_choice_for("update_song"), most=12)
    plan = next_plan(run)
    assert plan.tools[-1].name == "update_song"
    again = limit_plan(plan, 3)
    assert [spec.name for spec in again.tools] == [SEARCH_TOOL, "update_song", plan.tools[1].name]


def test_tools_that_are_no_functions_take_room() -> None:
    run = run_of(most=6)
    assert without_room_for(run, 0) is run
    assert without_room_for(run_of(most=None), 3).config == run_of(most=None).config
    assert without_room_for(run, 4).config.endpoint.max_tools_per_request == 2
    assert without_room_for(run, 40).config.endpoint.max_tools_per_request == 1


# Whole runs


class Office:
    """A registry of many tools that write down their calls."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.registry = ToolRegistry([self._tool(spec) for spec in TOOLS])

    def _tool(self, spec: ToolSpec) -> ToolDefinition:
        def handler(**_: Any) -> str:
            self.ran.append(spec.name)
            return "done"

        destructive = spec.name.startswith("delete")
        return ToolDefinition(
            *(spec.name, spec.description),
            parameters=_ANY,
            handler=handler,
            destructive=destructive,
        )

    def serve(self, *script: Any, most: int = 6, **settings: Any) -> tuple[RunResult, list[Any]]:
        model = ScriptedModel(*script)
        config = default_tool_calling().replace(max_tools_per_request=most, **settings)
        runner = ToolLoopRunner(model, "m", self.registry, config=config)
        result = runner.run_sync("Hello.")
        return result, model.requests


def sent_names(request: JSON) -> list[str]:
    return [each["function"]["name"] for each in request["tools"]]


def test_a_run_searches_calls_and_answers_and_replays() -> None:
    office = Office()
    script = (calls(SEARCH_TOOL, query="get song"), calls("get_song"), says("Done."))
    result, requests = office.serve(*script)
    assert office.ran == ["get_song"]
    assert [len(each["tools"]) for each in requests] == [1, 6, 6]
    assert sent_names(requests[1]) == sent_names(requests[2])
    assert [call.name for call in result.tool_calls] == ["get_song"]
    starts = [event.call.name for event in result.trace if isinstance(event, ToolCallStartEvent)]
    assert starts == ["get_song"]
    (search,) = [event for event in result.trace if isinstance(event, ToolSearchEvent)]
    assert (search.query, search.found[0]) == ("get song", "get_song")
    assert "search get song: get_song" in str(result.trace)
    assert replay(result.trace).run == result.run
    assert Run.from_json(result.run.to_json()) == result.run


def test_searches_count_against_no_limit_of_the_run() -> None:
    script = [calls(SEARCH_TOOL, query=f"song {at}") for at in range(4)]
    result, _ = Office().serve(*script, calls("get_song"), says("Done."), max_turns=2)
    assert result.text == "Done."
    script = [calls(SEARCH_TOOL, query="song"), calls("get_song"), says("Done.")]
    assert Office().serve(*script, max_total_tool_calls=1)[0].text == "Done."


def test_a_model_that_only_searches_ends_with_the_limit_on_turns() -> None:
    script = [calls(SEARCH_TOOL, query=f"song {at}") for at in range(20)]
    with pytest.raises(RunFailed) as failure:
        Office().serve(*script, max_turns=3)
    assert failure.value.code is ErrorCode.MAX_TURNS_EXCEEDED
    assert failure.value.result.run.turn_count == MAX_SEARCHES_IN_A_ROW + 3


def test_a_search_does_not_fulfil_an_enforced_run() -> None:
    office = Office()
    with pytest.raises(RunFailed) as failure:
        office.serve(
            *(calls(SEARCH_TOOL, query="song"), says("Done."), says("Done."), says("Done.")),
            tool_use_mode="enforced",
        )
    assert failure.value.code is ErrorCode.NO_TOOL_CALLS


def test_a_tool_that_exists_may_be_called_although_it_is_not_exposed() -> None:
    office = Office()
    result, requests = office.serve(calls("update_recipe"), says("Done."))
    assert sent_names(requests[0]) == [SEARCH_TOOL]
    assert sent_names(requests[1]) == [SEARCH_TOOL, "update_recipe"]
    assert (office.ran, result.text) == (["update_recipe"], "Done.")


def test_a_denied_tool_is_neither_found_nor_run() -> None:
    office = Office()
    denied: Any = ("get_song",)
    script = (calls(SEARCH_TOOL, query="get song"), calls("get_song"), says("Done."))
    result, requests = office.serve(*script, tool_denylist=denied)
    assert office.ran == []
    assert "get_song" not in sent_names(requests[1])
    assert result.tool_calls[0].error is not None


def test_a_call_in_text_of_a_destructive_tool_that_is_not_exposed_does_not_run() -> None:
    office = Office()
    text = '<tool_call>{"name": "delete_song", "arguments": {}}</tool_call>'
    result, _ = office.serve(says(text), says("I will not."))
    assert (office.ran, result.text) == ([], "I will not.")
    harmless = text.replace("delete", "get")
    office.serve(says(harmless), says("Done."))
    assert office.ran == ["get_song"]


def test_a_search_written_as_text_is_a_search() -> None:
    office = Office()
    text = f'<tool_call>{{"name": "{SEARCH_TOOL}", "arguments": {{"query": "song"}}}}</tool_call>'
    for protocol in ("native", "prompted"):
        script = (says(text), says(text.replace(SEARCH_TOOL, "get_song")), says("Done."))
        office.serve(*script, call_protocol=protocol)
    assert office.ran == ["get_song", "get_song"]


def test_a_guided_model_searches_and_calls_what_it_found() -> None:
    office = Office()
    script = [
        says(json.dumps({"tool": name, "arguments": arguments}))
        for name, arguments in ((SEARCH_TOOL, {"query": "song"}), ("get_song", {}))
    ]
    result, requests = office.serve(*script, says('{"answer": "Done."}'), call_protocol="guided")
    assert (office.ran, result.text) == (["get_song"], "Done.")
    allowed = [json.dumps(each["response_format"]) for each in requests]
    assert ["get_song" in each for each in allowed] == [False, True, True]


def test_a_tool_of_the_application_may_be_called_like_the_search() -> None:
    office = Office()
    own = ToolDefinition("search-tools", "Own.", handler=lambda: office.ran.append("own"))
    model = ScriptedModel(
        calls("search-tools"), calls("search_tools_2", query="song"), calls("get_song"), says("Ok.")
    )
    config = raw(max_tools_per_request=6)
    runner = ToolLoopRunner(model, "m", [own, office.registry], config=config)
    assert runner.run_sync("Hello.").text == "Ok."
    assert office.ran == ["own", "get_song"]
    assert sent_names(model.requests[0])[0] == "search_tools_2"


def test_a_stream_does_not_announce_the_search() -> None:
    office = Office()
    model = ScriptedModel(
        streams(calls_many(calls(SEARCH_TOOL, query="song"), calls("get_ticket"))),
        streams(calls("get_song")),
        streams(says("Done.")),
    )
    runner = ToolLoopRunner(model, "m", office.registry, config=raw(max_tools_per_request=6))

    async def watch() -> list[str]:
        stream = runner.stream("Hello.")
        return [event.name async for event in stream if isinstance(event, CallAnnounced)]

    assert asyncio.run(watch()) == ["get_ticket", "get_song"]


def test_more_tools_than_a_runner_may_have_are_fine_with_a_limit_for_requests() -> None:
    office = Office()
    for settings in ({"max_tool_definitions_count": 10}, {"max_tool_definitions_bytes": 100}):
        result, _ = office.serve(says("Hi."), **settings)
        assert result.text == "Hi."
    config = raw(max_tool_definitions_count=10)
    with pytest.raises(ConfigError, match="max_tools_per_request"):
        ToolLoopRunner(ScriptedModel(), "m", office.registry, config=config)


def test_what_the_endpoint_refused_before_limits_the_next_run() -> None:
    model = ScriptedModel(says("Hi."))
    model.lessons = {"m": ("max-tools:5",)}  # type: ignore[attr-defined]  # as real clients have
    runner = ToolLoopRunner(model, "m", Office().registry, config=raw())
    result = runner.run_sync("get delete update")
    assert len(model.requests[0]["tools"]) == 5
    assert result.run.config.endpoint.max_tools_per_request == 5


MESSAGES = st.lists(
    st.one_of(
        st.builds(User, st.text(max_size=30)),
        st.builds(System, st.text(max_size=5)),
        st.sampled_from([User(f"get {thing}") for thing in _THINGS]),
        st.builds(lambda name: Assistant("", (ToolCall("c", name),)), st.sampled_from(NAMES)),
        st.builds(
            lambda found: ToolResult("c", SEARCH_TOOL, ok=True, content="{}", found=tuple(found)),
            st.lists(st.sampled_from((*NAMES, "gone")), max_size=4),
        ),
    ),
    max_size=12,
)


@given(MESSAGES, st.integers(1, 30), st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
def test_a_selection_is_within_the_limit_and_has_the_pinned_tools(
    messages: list[Message], most: int, pinned: list[str]
) -> None:
    specs = select_tools(TOOLS, messages, most, pinned)
    names = [spec.name for spec in specs]
    assert len(names) == len(set(names)) <= most
    assert set(pinned[: max(most - 1, 1)]) <= set(names)
    assert (SEARCH_TOOL in names) == (most > 1)


def test_a_search_beside_a_call_that_waits_for_approval_is_answered_at_once() -> None:
    office = Office()
    script = (
        calls_many(calls("delete_song"), calls(SEARCH_TOOL, query="ticket")),
        says("Done."),
    )
    model = ScriptedModel(*script)
    runner = ToolLoopRunner(
        model,
        "m",
        office.registry,
        config=default_tool_calling().replace(max_tools_per_request=6),
        tool_policy=AskFirst(),
    )
    paused = runner.run_sync("Hello.")
    (waiting,) = paused.waiting
    assert (waiting.name, office.ran) == ("delete_song", [])
    stored = Run.from_json(paused.run.to_json())
    done = runner.resume_sync(stored, decisions={waiting.id: Decision.approve()})
    assert (done.text, office.ran) == ("Done.", ["delete_song"])
    turn, *results = model.requests[1]["messages"][1:]
    assert [each["tool_call_id"] for each in results] == [each["id"] for each in turn["tool_calls"]]
    assert "get_ticket" in sent_names(model.requests[1])


def test_the_next_model_of_a_chain_has_a_limit_of_its_own() -> None:
    office = Office()
    first = ScriptedModel(calls(SEARCH_TOOL, query="song"), failure(401))
    second = ScriptedModel(calls("get_song"), says("Done."))
    config = default_tool_calling()
    runner = ToolLoopRunner(
        first,
        [
            Fallback("a", config=config.replace(max_tools_per_request=6)),
            Fallback("b", client=second, config=config.replace(max_tools_per_request=3)),
        ],
        office.registry,
    )
    assert runner.run_sync("Hello.").text == "Done."
    assert [len(each["tools"]) for each in first.requests] == [1, 4]
    assert [len(each["tools"]) for each in second.requests] == [3, 3]
    assert office.ran == ["get_song"]


def test_a_conversation_keeps_what_it_found() -> None:
    office = Office()
    model = ScriptedModel(calls(SEARCH_TOOL, query="song"), says("Which one?"), says("Ok."))
    config = default_tool_calling().replace(max_tools_per_request=12)
    runner = ToolLoopRunner(model, "m", office.registry, config=config)
    talk = runner.run_sync("Hello.")
    runner.run_sync("The first.", history=talk.history)
    _, second, third = map(sent_names, model.requests)
    assert third[: len(second)] == second
