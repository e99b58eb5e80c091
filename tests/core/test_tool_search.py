"""Tests of `surecall.core.tool_search`."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.core.exposed_tools import next_plan
from surecall.core.loop import next_move, record_reply
from surecall.core.observed_values import observed_values
from surecall.core.state import AskModel, Run
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
    with_room_for_other_tools,
    without_searches,
)
from surecall.settings.contract import Contract
from surecall.settings.presets import raw
from surecall.tools.ranking import SEARCH_TOOL
from surecall.values.errors import ErrorCode
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
    assert with_room_for_other_tools(run, 0) is run
    assert with_room_for_other_tools(run_of(most=None), 3).config == run_of(most=None).config
    assert with_room_for_other_tools(run, 4).config.endpoint.max_tools_per_request == 2
    assert with_room_for_other_tools(run, 40).config.endpoint.max_tools_per_request == 1


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
