"""Whole runs that search for tools."""

import asyncio
import json
from typing import Any

import pytest

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
from surecall.core.state import Run
from surecall.core.streaming import CallAnnounced
from surecall.core.tool_search import MAX_SEARCHES_IN_A_ROW
from surecall.settings.contract import Contract
from surecall.settings.presets import default_tool_calling, raw
from surecall.testing import ScriptedModel, calls, calls_many, failure, says, streams
from surecall.tools.ranking import SEARCH_TOOL
from surecall.tools.registry import ToolDefinition
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.events import ToolCallStartEvent, ToolSearchEvent
from surecall.values.types import JSON

_ANY: JSON = {"type": "object", "properties": {}}
_THINGS = ("invoice", "parcel", "weather", "ticket", "meeting", "invitation", "recipe", "song")
NAMES = tuple(f"{verb}_{thing}" for thing in _THINGS for verb in ("get", "delete", "update"))


class Office:
    """A registry of many tools that write down their calls."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.registry = ToolRegistry([self._tool(name) for name in NAMES])

    def _tool(self, name: str) -> ToolDefinition:
        def handler(**_: Any) -> str:
            self.ran.append(name)
            return "done"

        destructive = name.startswith("delete")
        return ToolDefinition(
            *(name, f"{name.replace('_', ' one ')}."),
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
    assert [[call.name for call in turn.tool_calls] for turn in result.trace.turns] == [
        *([], ["get_song"], []),
    ]
    assert "not run" not in str(result.trace)
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


REFUSAL = failure(
    400,
    {
        "error": {
            "message": "Invalid 'tools': array too long. Expected an array with maximum length 6, "
            "but got an array with length 24 instead.",
            "type": "invalid_request_error",
            "param": "tools",
            "code": "array_above_max_length",
        }
    },
)


@pytest.mark.parametrize("contract", [None, Contract(all_of=("update_recipe",))])
def test_a_limit_is_learned_from_a_refusal_and_holds_for_the_rest_of_the_run(
    contract: Contract | None,
) -> None:
    office = Office()
    name = "get_song" if contract is None else "update_recipe"
    model = ScriptedModel(REFUSAL, calls(SEARCH_TOOL, query="get"), calls(name), says("Done."))
    config = default_tool_calling().replace(contract=contract)
    runner = ToolLoopRunner(model, "m", office.registry, config=config)
    result = runner.run_sync("Hello.")
    assert (result.text, office.ran) == ("Done.", [name])
    counts = [len(each.get("tools", ())) for each in model.requests]
    assert counts[0] == 24
    assert max(counts[1:]) == 6
    needed = set() if contract is None else {name}
    assert all(needed <= set(sent_names(each)) for each in model.requests[:3])
    assert replay(result.trace).run == result.run
