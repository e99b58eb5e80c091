"""Several calls in one reply: all are made, each once, in order and in few requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import ToolCallingConfig, presets, replay
from surecall.core.outcome import RunResult
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.capabilities import capabilities_for
from surecall.settings.providers import provider_table
from surecall.testing import Built, Reaction, ScriptedModel, calls, calls_many, failure, says
from surecall.values.events import CallsInOrderEvent
from surecall.values.types import JSON
from surecall.wire.history_repair import repair_history

ALL_PROVIDERS = (*provider_table().by_name, "acme", "")
CONFIGS: dict[str, ToolCallingConfig] = {
    **{f"provider {name}": presets.resolve(provider=name) for name in ALL_PROVIDERS},
    **{
        f"preset {name}": presets.PRESET[name](presets.default_tool_calling())
        for name in presets.PRESET.names
        if name != "tool_use_disabled"
    },
    "raw": presets.resolve(strategy="raw"),
    "baseline": presets.resolve(strategy="baseline"),
}
LIMITED = presets.default_tool_calling().replace(max_tool_calls_per_turn=2)


class Library:
    """A tool that looks something up, and a model that wants it all at once, whatever it is told.

    With `again` it also repeats what it has been given already.
    """

    def __init__(self, wanted: int, *, again: bool = False) -> None:
        self.ran: list[int] = []
        self._wanted = range(wanted)
        self._again = again

    def look_up(self, number: int) -> int:
        """Look something up."""
        self.ran.append(number)
        return number

    def reaction(self, _: JSON) -> JSON:
        left = [number for number in self._wanted if number not in self.ran]
        asked = self._wanted if self._again and left else left
        asked_for = calls_many(*(calls("look_up", number=number) for number in asked))
        return asked_for if left else says("Done.")

    def run(self, config: ToolCallingConfig, model: ScriptedModel) -> RunResult:
        runner = ToolLoopRunner(client=model, model="m", registry=[self.look_up], config=config)
        return runner.run_sync("Look everything up.")


def modelled(react: Reaction, most: int = 40) -> ScriptedModel:
    return ScriptedModel(*[react] * most)


def turns_in_order(result: RunResult) -> list[int]:
    return [event.calls for event in result.trace if isinstance(event, CallsInOrderEvent)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("wanted", [2, 5, 15])
def test_many_lookups_at_once_take_at_most_three_requests(name: str, wanted: int) -> None:
    library = Library(wanted)
    model = modelled(library.reaction)
    result = library.run(CONFIGS[name], model)

    assert library.ran == list(range(wanted))
    assert len(model.requests) <= 3
    assert repair_history(result.run.messages) == result.run.messages
    assert replay(result.trace).run == result.run


@given(st.integers(2, 20), st.sampled_from(sorted(CONFIGS)))
def test_of_calls_that_are_repeated_none_is_lost_and_the_run_ends(wanted: int, name: str) -> None:
    library = Library(wanted, again=True)
    model = modelled(library.reaction)
    library.run(CONFIGS[name], model)

    assert set(library.ran) == set(range(wanted))
    assert len(model.requests) <= 3


def test_a_model_is_told_once_and_then_taken_at_its_word() -> None:
    library = Library(15)
    config = presets.default_tool_calling().replace(calls_in_order=False)
    result = library.run(config, modelled(library.reaction))

    first, second, _ = result.trace.turns
    assert [len(first.tool_calls), first.ignored_tool_calls_count] == [1, 14]
    assert [len(second.tool_calls), second.ignored_tool_calls_count] == [14, 0]
    assert turns_in_order(result) == [14]
    assert result.repairs.count("calls_in_order") == 1


def test_a_number_that_is_set_stays_hard_however_often_the_model_insists() -> None:
    library = Library(5)
    result = library.run(LIMITED, modelled(library.reaction))

    assert [len(turn.tool_calls) for turn in result.trace.turns] == [2, 2, 1, 0]
    assert turns_in_order(result) == []


def test_the_caps_of_a_run_hold_for_calls_in_order() -> None:
    library = Library(15)
    config = presets.resolve().replace(max_total_tool_calls=4)
    with pytest.raises(Exception, match="MAX_TOOL_CALLS_EXCEEDED"):
        library.run(config, modelled(library.reaction))

    assert library.ran == [0, 1, 2, 3]


@pytest.mark.parametrize("provider", ALL_PROVIDERS)
def test_the_wish_for_one_call_is_sent_unless_it_is_known_to_be_refused(provider: str) -> None:
    library = Library(2)
    model = modelled(library.reaction)
    library.run(presets.resolve(provider=provider), model)

    able = capabilities_for(provider)
    expected = {False} if able.parallel_tool_calls else {None}
    assert {request.get("parallel_tool_calls") for request in model.requests} == expected
    # Who is not known to comply is not told to repeat its calls.
    assert len(model.requests) == (3 if able.one_call_on_request else 2)


def refusing(react: Reaction) -> Reaction:
    """Make an endpoint refuse the wish, in its own words."""

    def answer(request: JSON) -> Built | Exception:
        if "parallel_tool_calls" in request:
            return failure(400, {"error": {"message": "Unknown name 'parallel_tool_calls'."}})
        return react(request)

    return answer


def test_where_the_wish_is_refused_it_is_dropped_and_the_calls_run() -> None:
    library = Library(5)
    model = modelled(refusing(library.reaction))
    library.run(presets.resolve(), model)

    assert library.ran == [0, 1, 2, 3, 4]
    assert ["parallel_tool_calls" in request for request in model.requests] == [True, False, False]
