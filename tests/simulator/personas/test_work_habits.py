"""Habits at work: what each comes to, with and without the levers, in exact numbers."""

from typing import Annotated, Any

import pytest

from surecall import Contract, Grounded, RunFailed, ToolError, ToolLoopRunner, tool
from surecall.settings.presets import Strategy, resolve
from surecall.simulator.personas.intent import DONE, PlannedCall
from surecall.simulator.personas.work_habits import HABITS, HONEST_REFUSAL, LookupJob, build_model
from surecall.testing import ScriptedModel

JOB = LookupJob(
    PlannedCall("find_order", {"customer": "Ada"}), PlannedCall("refund", {"item_id": "i-2"})
)
ITEMS = {"items": [{"item_id": "i-1", "name": "lamp"}, {"item_id": "i-2", "name": "desk"}]}
ORDERED = Contract(in_order=["find_order", "refund"])
PLAIN = Contract(all_of=["refund"])
STRATEGIES: tuple[Strategy, ...] = ("production", "contract", "guided", "guided_contract")


class Desk:
    """Finds an order and refunds an item of it, unless the gateway is dead."""

    def __init__(self, *, dead: bool = False) -> None:
        self.refunds: list[str] = []
        self._dead = dead

    def _refund(self, item_id: str) -> str:
        self.refunds.append(item_id)
        if self._dead:
            raise ToolError("The gateway is offline.", retry=False)
        return "refunded"

    def tools(self, *, grounded: bool) -> list[Any]:
        @tool(read_only=True)
        def find_order(customer: str) -> Any:
            """Find the order of a customer."""
            return ITEMS | {"customer": customer}

        @tool
        def refund(item_id: str) -> str:
            """Refund an item."""
            return self._refund(item_id)

        @tool(name="refund")
        def sure_refund(item_id: Annotated[str, Grounded("find_order")]) -> str:
            """Refund an item."""
            return self._refund(item_id)

        return [find_order, sure_refund if grounded else refund]


def course(
    habit: str, strategy: Strategy, *, levers: bool, dead: bool = False
) -> tuple[str, int, list[str]]:
    """Return how a run ends, after how many requests, and what was refunded."""
    desk = Desk(dead=dead)
    model = ScriptedModel(*[build_model(habit, JOB)] * 40)
    config = resolve(strategy=strategy)
    if strategy in {"contract", "guided_contract"}:
        config = config.replace(contract=ORDERED if levers else PLAIN)
    runner = ToolLoopRunner(
        client=model, model="m", tools=desk.tools(grounded=levers), config=config
    )
    try:
        stop = runner.run_sync("Refund the desk of Ada's order.").stop_reason
    except RunFailed as failed:
        stop = failed.result.stop_reason
    return stop, len(model.requests), desk.refunds


RIGHT, MADE_UP = ["i-2"], ["12345"]
GOOD = ("final", 3, RIGHT)
# By habit and strategy: without grounds and order, and with them.
COURSES: dict[str, dict[Strategy, tuple[Any, Any]]] = {
    "good": {
        "production": (GOOD, GOOD),
        "contract": (GOOD, GOOD),
        "guided": (GOOD, GOOD),
        "guided_contract": (GOOD, GOOD),
    },
    "begins-with-write": {
        "production": (("final", 3, MADE_UP), ("final", 4, RIGHT)),
        "contract": (("final", 2, MADE_UP), ("final", 4, RIGHT)),
        "guided": (("final", 3, MADE_UP), GOOD),
        "guided_contract": (("final", 2, MADE_UP), GOOD),
    },
    "invents-ids": {
        "production": (("final", 3, MADE_UP), ("final", 4, RIGHT)),
        "contract": (("final", 3, MADE_UP), ("final", 4, RIGHT)),
        "guided": (("final", 3, MADE_UP), GOOD),
        "guided_contract": (("final", 3, MADE_UP), GOOD),
    },
    "alternates": {
        "production": (("LOOP_DETECTED", 6, RIGHT), ("LOOP_DETECTED", 6, RIGHT)),
        "contract": (("final", 3, RIGHT), ("final", 3, RIGHT)),
        "guided": (("LOOP_DETECTED", 6, RIGHT), ("LOOP_DETECTED", 6, RIGHT)),
        "guided_contract": (GOOD, GOOD),
    },
    "refuses-honestly": {
        "production": (GOOD, GOOD),
        "contract": (GOOD, GOOD),
        "guided": (GOOD, GOOD),
        "guided_contract": (GOOD, GOOD),
    },
    "claims-success": {
        "production": (GOOD, GOOD),
        "contract": (GOOD, GOOD),
        "guided": (GOOD, GOOD),
        "guided_contract": (GOOD, GOOD),
    },
}
# The same where the gateway is dead: a refund is tried once, and the end is honest at once.
DEAD: dict[str, dict[Strategy, tuple[str, int, list[str]]]] = {
    "refuses-honestly": {
        "production": GOOD,
        "contract": ("GAVE_UP", 3, RIGHT),
        "guided": GOOD,
        "guided_contract": ("GAVE_UP", 3, RIGHT),
    },
    "claims-success": {
        "production": GOOD,
        "contract": ("GAVE_UP", 3, RIGHT),
        "guided": GOOD,
        "guided_contract": ("GAVE_UP", 3, RIGHT),
    },
    "good": {
        "production": ("LOOP_DETECTED", 4, RIGHT),
        "contract": ("LOOP_DETECTED", 4, RIGHT),
        "guided": ("LOOP_DETECTED", 5, RIGHT),
        "guided_contract": ("GAVE_UP", 3, RIGHT),
    },
}


def test_every_habit_has_its_courses() -> None:
    assert COURSES.keys() == {*HABITS}


@pytest.mark.parametrize("levers", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("habit", COURSES)
def test_a_habit_takes_its_course(habit: str, strategy: Strategy, *, levers: bool) -> None:
    assert course(habit, strategy, levers=levers) == COURSES[habit][strategy][levers]


@pytest.mark.parametrize("levers", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("habit", DEAD)
def test_where_it_cannot_be_done_the_end_is_honest_and_soon(
    habit: str, strategy: Strategy, *, levers: bool
) -> None:
    assert course(habit, strategy, levers=levers, dead=True) == DEAD[habit][strategy]


def test_the_words_of_the_end_are_kept() -> None:
    for habit, words in (("refuses-honestly", HONEST_REFUSAL), ("claims-success", DONE)):
        desk = Desk(dead=True)
        config = resolve(strategy="contract").replace(contract=PLAIN)
        runner = ToolLoopRunner(
            client=ScriptedModel(*[build_model(habit, JOB)] * 9),
            model="m",
            tools=desk.tools(grounded=False),
            config=config,
        )
        with pytest.raises(RunFailed, match="The gateway is offline") as failed:
            runner.run_sync("Refund the desk.")
        assert failed.value.result.assistant_text == words
        assert failed.value.result.false_finals == 0


@pytest.mark.parametrize("habit", HABITS)
def test_where_one_value_was_seen_no_habit_writes_another(
    habit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ITEMS, "items", ITEMS["items"][1:])

    _, _, refunds = course(habit, "guided_contract", levers=True)
    assert refunds in ([], ["i-2"])


@pytest.mark.parametrize("habit", ["good", "invents-ids"])
def test_where_nothing_tells_values_apart_one_that_may_be_written_is(
    habit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ITEMS, "items", [{"item_id": "i-1"}, {"item_id": "i-2"}])
    assert course(habit, "guided_contract", levers=True) == GOOD
