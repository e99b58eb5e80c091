"""Tests of `surecall.simulator.personas.behaviors`."""

import asyncio
import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from surecall import OpenAICompatible, RunFailed, RunResult, ToolLoopRunner
from surecall.eval.running.trial_run import TrialCase, make_cell_setup, run_trial
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.settings.presets import CONTRACT_STRATEGIES, Strategy
from surecall.simulator.personas.behaviors import (
    CONVERSATION_BEHAVIORS,
    REFUSAL_ANSWER,
    apply_behavior,
)
from surecall.simulator.personas.intent import COMPLAINTS, DONE, next_intent
from surecall.simulator.personas.persona import REPLY_BEHAVIORS, Persona, answer_request
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.simulator.server import Simulator
from surecall.values.events import (
    FinalEvent,
    ForcedContinuationEvent,
    LlmRequestEndEvent,
    RunFailedEvent,
    ToolCallEndEvent,
)
from surecall.values.trace import Trace
from surecall.values.types import JSON, Usage
from surecall.wire.assembler import TextDelta
from surecall.wire.chat_format import tool_choice_for
from tests.support.persona_trials import BY_ID, QUICK, setup_of
from tests.support.simulator import (
    ASKED,
    LONG,
    READ,
    READ_FAILED,
    STATE,
    answered,
    follow,
    message_of,
    request_of,
    system_text,
)

# Behaviours: what a model does that no reader can cure, and what makes it do otherwise


RULES = system_text("Be kind.")
DENIED = '{"ok":false,"errors":[{"code":"REPEATED_CALL","message":"no"}]}'
SAID: JSON = {"role": "assistant", "content": DONE}
COMPLAINT: JSON = {"role": "user", "content": f"{COMPLAINTS[0]}: no call. Call a tool now."}


@pytest.mark.parametrize("name", CONVERSATION_BEHAVIORS)
def test_a_behaviour_does_not_show_without_instructions(name: str) -> None:
    for body in (request_of(ASKED), request_of(ASKED, tools=STATE)):
        plain = next_intent(body)
        assert apply_behavior(name, plain, body) is plain


def test_a_behaviour_leaves_alone_what_it_is_not_about() -> None:
    chat, work = (request_of(system_text("x"), ASKED, tools=tools) for tools in (None, STATE))
    for name in ("apologetic", "premature", "stubborn", "shortcut", "sloppy", "forgetful"):
        assert apply_behavior(name, next_intent(chat), chat) == next_intent(chat)
    for name in ("chatty-final", "talkative", "premature", "stubborn", "mute", "cut-final"):
        assert apply_behavior(name, next_intent(work), work) == next_intent(work)


def test_a_behaviour_holds_for_a_conversation_and_variants_of_it_draw_the_same() -> None:
    persona = Persona(id="sim/x", kind="mixed", summary="", faults=(("chatty-final", 0.5),))

    def faults(variant: str, **options: Any) -> list[str]:
        users = [{"role": "user", "content": f"Go, ws_{n}{variant}"} for n in range(40)]
        return [
            answer_request(persona, request_of(system_text("x"), user, **options), 0).fault
            for user in users
        ]

    assert 5 < faults("").count("chatty-final") < 35
    assert faults("~a") == faults("~b", temperature=1) == faults("")


def decided(behaviour: str, *messages: JSON, **options: Any) -> list[str] | str:
    """Return the tools that a persona calls next, or what it says."""
    body = request_of(RULES, ASKED, *messages, tools=STATE, **options)
    message = message_of(answer_request(PERSONAS[f"sim/{behaviour}"], body, 0))
    calls = message.get("tool_calls", ())
    return [call["function"]["name"] for call in calls] or str(message["content"])


AGAIN = answered("state_get", '{"ok":true}', 1)
REFUSED = answered("state_get", DENIED, 1)


@pytest.mark.parametrize(
    ("behaviour", "messages", "move"),
    [
        ("hasty", [], DONE),
        ("hasty", [SAID, COMPLAINT], ["state_get"]),
        ("hasty", READ, ["state_patch"]),
        ("premature", [], ["state_get"]),
        ("premature", READ, DONE),
        ("premature", [*READ, SAID, COMPLAINT], DONE),
        ("premature", [*READ, SAID, COMPLAINT, SAID, COMPLAINT], ["state_patch"]),
        ("heedless", READ, ["state_patch"]),
        ("heedless", READ_FAILED, DONE),
        ("heedless", [*READ_FAILED, SAID, COMPLAINT], ["state_get"]),
        ("circling", [], ["state_get"]),
        ("circling", READ, ["state_get"]),
        ("circling", READ_FAILED, ["state_get"]),
        ("circling", [*READ, *REFUSED], ["state_patch"]),
        ("circling", [*READ, *AGAIN, *answered("state_get", DENIED, 2)], ["state_get"]),
        ("circling", [*READ, *answered("state_patch", '{"ok":true}', 1)], DONE),
        ("unmoved", [*READ, SAID, COMPLAINT, SAID, COMPLAINT], DONE),
        ("unwilling", [], REFUSAL_ANSWER),
    ],
)
def test_what_a_behaviour_does_and_what_it_is_moved_by(
    behaviour: str, messages: list[JSON], move: list[str] | str
) -> None:
    assert decided(behaviour, *messages) == move


WRITTEN = answered("state_patch", '{"ok":true}', 1)


@pytest.mark.parametrize(
    ("behaviour", "messages", "value"),
    [
        ("stubborn", [], "x" * 300),
        ("stubborn", WRITTEN, "x" * 300),
        ("shortcut", [], "x" * 100),
        ("shortcut", WRITTEN, DONE),
        ("sloppy", [], "Bar"),
    ],
)
def test_what_a_behaviour_writes_where_a_long_text_is_asked_for(
    behaviour: str, messages: list[JSON], value: str
) -> None:
    body = request_of(system_text(LONG), ASKED, *READ, *messages, tools=STATE)
    message = message_of(answer_request(PERSONAS[f"sim/{behaviour}"], body, 0))
    calls = message.get("tool_calls", ())
    written = [json.loads(call["function"]["arguments"])["ops"][0]["value"] for call in calls]

    assert (written or [message["content"]]) == [value]


@pytest.mark.parametrize("choice", ["required", tool_choice_for("state_get")])
def test_a_call_that_is_demanded_is_made_unless_the_model_is_deaf(choice: Any) -> None:
    deaf = {
        name for name, behaviour in CONVERSATION_BEHAVIORS.items() if behaviour.ignores_tool_choice
    }
    answers = {
        name
        for name in (*CONVERSATION_BEHAVIORS, "lazy")
        if decided(name, tool_choice=choice) == DONE
    }
    refusals = {
        name
        for name in CONVERSATION_BEHAVIORS
        if decided(name, tool_choice=choice) == REFUSAL_ANSWER
    }

    assert answers | refusals == deaf | {"lazy"}
    assert refusals == {"unwilling"}


def test_a_demand_is_met_also_when_everything_is_done_or_was_given_up() -> None:
    done = [*READ, *answered("state_patch", '{"ok":true}', 1)]
    lost = [part for at in range(4) for part in answered("state_get", '{"ok":false}', at)]
    assert decided("clean", *done) == DONE
    assert decided("clean", *done, tool_choice="required") == ["state_patch"]
    assert str(decided("clean", *lost)).startswith("I could not")
    assert decided("clean", *lost, tool_choice="required") == ["state_get"]


def test_an_objection_that_names_nothing_gets_the_same_answer_again() -> None:
    objection = {"role": "user", "content": f"{COMPLAINTS[1]}: too short. Correct it."}
    done = [*READ, *answered("state_patch", '{"ok":true}', 1), SAID, objection]
    assert decided("clean", *done) == DONE
    assert follow(PERSONAS["sim/hasty"], STATE, ASKED)[0]["tool_calls"]


@pytest.mark.parametrize("name", REPLY_BEHAVIORS)
def test_the_behaviour_of_a_single_reply_leaves_the_intent_alone(name: str) -> None:
    body = request_of(RULES, ASKED, tools=STATE)
    meant = next_intent(body)

    assert REPLY_BEHAVIORS[name].change(meant, body) is meant


# What lifts a weak model: reminders, demands, contracts and guided calls, against personas


PROTOCOLS = ("native", "guided", "prompted")
HAPPY, TYPE_ERROR = BY_ID["happy_path"], BY_ID["type_error_recovery"]
CLEAN = [persona for persona in PERSONAS.values() if persona.kind in {"clean", "strict"}]
# What an endpoint refuses once, and is not asked for again.
TAUGHT = {
    ("sim/strict-deepseek", "native"): ["choice_refused"],
    ("sim/strict-moonshot", "native"): ["choice_refused"],
    ("sim/strict-zai", "native"): ["choice_refused"],
    ("sim/strict-dashscope", "native"): ["choice_refused"],
    ("sim/strict-no-parallel", "native"): ["option_refused"],
    ("sim/strict-no-required", "native"): ["choice_refused"],
    ("sim/strict-no-format", "guided"): ["option_refused"],
}
UNMET, UNFINISHED = "CONTRACT_UNMET", "ASSERTION_FAILED"


def play(
    simulator: Simulator,
    name: str,
    strategy: Strategy = "production",
    scenario: Scenario = HAPPY,
    **changes: Any,
) -> tuple[Trial, Trace]:
    """Hold one conversation with a client of its own."""
    persona = PERSONAS[f"sim/{name}"]
    setup = make_cell_setup(
        persona.id,
        strategy=strategy,
        provider=persona.provider,
        catalog_id=persona.imitates,
        retry=QUICK,
        simulated=True,
        contracted=strategy in CONTRACT_STRATEGIES,
    )
    setup = msgspec.structs.replace(setup, config=setup.config.replace(**changes))
    key = Key(Cell(persona.id, strategy=strategy), scenario.id, 1)
    return asyncio.run(run_trial(key, TrialCase(scenario, setup), OpenAICompatible(simulator.url)))


def rungs(trace: Trace) -> list[str]:
    return [event.rung for event in trace if isinstance(event, ForcedContinuationEvent)]


def early(trace: Trace) -> int:
    (end,) = (event for event in trace if isinstance(event, FinalEvent | RunFailedEvent))
    return end.false_finals


WHOLE = ["remind", "require"]
NOTHING: tuple[str, int, int, list[str]] = ("NO_TOOL_CALLS", 1, 1, [])
# By strategy: how it ends, after how many requests, with how many false ends and which steps.
COURSES: dict[str, dict[Strategy, tuple[str, int, int, list[str]]]] = {
    "hasty": {
        "raw": NOTHING,
        "production": ("", 4, 1, ["remind"]),
        "contract": ("", 4, 1, ["remind"]),
        "guided": ("", 3, 0, []),
        "guided_contract": ("", 3, 0, []),
    },
    "premature": {
        "raw": (UNFINISHED, 2, 0, []),
        "production": (UNFINISHED, 2, 0, []),
        "contract": ("", 5, 2, WHOLE),
        "guided": (UNFINISHED, 2, 0, []),
        "guided_contract": ("", 3, 0, []),
    },
    "premature-no-required": {
        "raw": (UNFINISHED, 2, 0, []),
        "production": (UNFINISHED, 2, 0, []),
        "contract": ("", 5, 2, WHOLE),
        "guided": (UNFINISHED, 2, 0, []),
        "guided_contract": ("", 3, 0, []),
    },
    "circling": {
        "raw": ("LOOP_DETECTED", 6, 0, []),
        "production": ("LOOP_DETECTED", 6, 0, []),
        "contract": ("", 5, 0, []),
        "guided": ("", 4, 0, []),
        "guided_contract": ("", 4, 0, []),
    },
    "unmoved": {
        "raw": NOTHING,
        "production": ("NO_TOOL_CALLS", 3, 3, WHOLE),
        "contract": (UNMET, 3, 3, WHOLE),
        "guided": (UNFINISHED, 2, 0, []),
        "guided_contract": ("", 3, 0, []),
    },
    "unwilling": {
        "raw": NOTHING,
        "production": ("NO_TOOL_CALLS", 3, 3, WHOLE),
        "contract": (UNMET, 3, 3, WHOLE),
        "guided": (UNFINISHED, 2, 0, []),
        "guided_contract": ("", 3, 0, []),
    },
    "strict-no-format": dict.fromkeys(
        ("raw", "production", "contract", "guided", "guided_contract"), ("", 3, 0, [])
    ),
    "formless": dict.fromkeys(
        ("raw", "production", "contract", "guided", "guided_contract"), ("", 3, 0, [])
    ),
}
# The same in a scenario in which a call fails.
AFTER_A_FAILURE: dict[Strategy, tuple[str, int, int, list[str]]] = {
    "raw": ("TOOL_ERROR", 3, 1, []),
    "production": ("", 5, 1, ["remind"]),
    "contract": ("", 5, 1, ["remind"]),
    "guided": ("", 4, 0, []),
    "guided_contract": ("", 4, 0, []),
}
PLAYED = [
    *((name, HAPPY, strategy) for name in COURSES for strategy in COURSES[name]),
    *(("heedless", TYPE_ERROR, strategy) for strategy in AFTER_A_FAILURE),
]


@pytest.mark.parametrize(("name", "scenario", "strategy"), PLAYED)
def test_a_weak_model_is_lifted_or_fails_with_the_right_code_after_few_requests(
    simulator: Simulator, name: str, scenario: Scenario, strategy: Strategy
) -> None:
    one, trace = play(simulator, name, strategy, scenario)
    courses = AFTER_A_FAILURE if scenario is TYPE_ERROR else COURSES[name]

    assert (one.category, len(one.requests), early(trace), rungs(trace)) == courses[strategy]
    assert one.ok == (one.category == "")


@pytest.mark.parametrize(
    ("name", "strategy", "course"),
    [
        ("hasty", "production", ("", 4, 1, ["remind"])),
        ("premature", "contract", ("", 5, 2, WHOLE)),
        ("unmoved", "production", ("NO_TOOL_CALLS", 3, 3, WHOLE)),
        ("unwilling", "contract", (UNMET, 3, 3, WHOLE)),
        ("circling", "production", ("LOOP_DETECTED", 6, 0, [])),
    ],
)
def test_where_calls_are_only_described_the_ladder_works_by_words_alone(
    simulator: Simulator, name: str, strategy: Strategy, course: Any
) -> None:
    one, trace = play(simulator, name, strategy, call_protocol="prompted")

    assert (one.category, len(one.requests), early(trace), rungs(trace)) == course


def test_a_model_that_needs_the_demand_is_not_lifted_by_reminders_of_one_kind(
    simulator: Simulator,
) -> None:
    reminded, _ = play(simulator, "premature", "contract", final_ladder=("remind",))
    demanded, trace = play(simulator, "premature", "contract", final_ladder=("require",))

    assert (reminded.category, len(reminded.requests)) == (UNMET, 3)
    assert (demanded.category, len(demanded.requests), rungs(trace)) == ("", 4, ["require"])


def test_a_refused_demand_is_made_softly_and_paid_for_once(simulator: Simulator) -> None:
    simulator.violations.clear()
    one, _ = play(simulator, "premature-no-required", "contract")
    (seen,) = simulator.violations
    simulator.violations.clear()

    assert (one.ok, one.retries, seen.rule) == (True, 1, "choice_refused")


def test_a_refused_form_is_left_out_and_paid_for_once(simulator: Simulator) -> None:
    simulator.violations.clear()
    one, _ = play(simulator, "strict-no-format", "guided_contract")
    (seen,) = simulator.violations
    simulator.violations.clear()

    assert (one.ok, one.retries, seen.rule) == (True, 1, "option_refused")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("strict", [persona.id for persona in CLEAN])
def test_no_step_of_the_ladder_makes_a_request_that_a_strict_provider_refuses(
    simulator: Simulator, strict: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = msgspec.structs.replace(PERSONAS[strict], faults=(("premature", 1.0),))
    monkeypatch.setitem(PERSONAS, strict, rules)
    simulator.violations.clear()
    one, _ = play(
        simulator, strict.removeprefix("sim/"), "contract", TYPE_ERROR, call_protocol=protocol
    )

    assert one.ok
    assert [seen.rule for seen in simulator.violations] == TAUGHT.get((strict, protocol), [])
    simulator.violations.clear()


@pytest.mark.parametrize("deaf", ["formless", "no-format"])
def test_without_a_grammar_the_ladder_is_what_is_left(
    simulator: Simulator, deaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = (("hasty", 1.0), ("formless", 1.0)) if deaf == "formless" else (("hasty", 1.0),)
    rules = "common" if deaf == "formless" else deaf
    both = Persona(id="sim/both", kind="mixed", summary="", rules=rules, faults=faults)
    monkeypatch.setitem(PERSONAS, both.id, both)
    one, trace = play(simulator, "both", "guided_contract")

    assert (one.category, len(one.requests), early(trace), rungs(trace)) == ("", 4, 1, ["remind"])


def test_a_result_counts_its_false_ends_and_an_honest_refusal_is_an_answer_where_none_is_owed(
    simulator: Simulator,
) -> None:
    def result(mode: str) -> RunResult:
        config = setup_of(PERSONAS["sim/unwilling"], "production").config.replace(
            tool_use_mode=mode
        )
        world = HAPPY.begin("ws_1")
        runner = ToolLoopRunner(
            client=OpenAICompatible(simulator.url),
            model="sim/unwilling",
            registry=world.registry,
            executor=world.executor,
            config=config,
            system="Be kind.",
        )
        try:
            return runner.run_sync("workspace_id=ws_1")
        except RunFailed as failure:
            return failure.result

    free, forced = result("relaxed"), result("enforced")
    assert (free.assistant_text, free.false_finals, free.run.turn_count) == (REFUSAL_ANSWER, 0, 1)
    assert (forced.assistant_text, forced.false_finals, forced.run.turn_count) == (
        REFUSAL_ANSWER,
        3,
        3,
    )


# What costs nothing where nothing is wrong.


@pytest.mark.slow
@pytest.mark.parametrize("persona", CLEAN, ids=lambda persona: persona.id)
def test_a_clean_model_pays_nothing_for_the_ladder_and_no_request_for_a_contract(
    simulator: Simulator, persona: Persona
) -> None:
    name = persona.id.removeprefix("sim/")

    def cost(one: Trial, trace: Trace) -> tuple[bool, int, Usage]:
        assert rungs(trace) == []
        return one.ok, len(one.requests), one.usage

    for scenario in BY_ID.values():
        plain = cost(*play(simulator, name, scenario=scenario, final_ladder=()))
        assert cost(*play(simulator, name, scenario=scenario)) == plain
        assert plain[0]
        ok, requests, _ = cost(*play(simulator, name, "contract", scenario))
        assert (ok, requests) == plain[:2]


# The call protocols.


def course(trace: Trace) -> tuple[list[Any], str, int]:
    """Return the calls with their arguments and results, the last word, and the turns."""
    heard = [event for event in trace if isinstance(event, LlmRequestEndEvent)]
    calls = [(call.name, call.arguments) for event in heard for call in event.reply.calls]
    results = [
        (event.result.name, event.result.ok, event.result.content)
        for event in trace
        if isinstance(event, ToolCallEndEvent)
    ]
    return [*zip(calls, results, strict=True)], heard[-1].reply.text, len(heard)


@pytest.mark.parametrize("scenario", BY_ID.values(), ids=lambda scenario: scenario.id)
def test_the_call_protocols_give_equal_runs(simulator: Simulator, scenario: Scenario) -> None:
    runs = {
        protocol: course(play(simulator, "clean", scenario=scenario, call_protocol=protocol)[1])
        for protocol in PROTOCOLS
    }

    assert runs["guided"] == runs["prompted"] == runs["native"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_streamed_run_is_the_same_and_shows_nothing_but_the_answer(
    simulator: Simulator, protocol: str
) -> None:
    async def watch() -> tuple[str, RunResult]:
        world = HAPPY.begin("ws_1")
        setup = setup_of(PERSONAS["sim/clean"], "production")
        runner = ToolLoopRunner(
            client=OpenAICompatible(simulator.url),
            model="sim/clean",
            registry=world.registry,
            executor=world.executor,
            config=setup.config.replace(call_protocol=protocol),
            system=HAPPY.system,
        )
        stream = runner.stream("workspace_id=ws_1")
        shown = [event.text async for event in stream if isinstance(event, TextDelta)]
        return "".join(shown), stream.result

    shown, result = asyncio.run(watch())
    assert (shown, result.assistant_text, result.run.turn_count) == ("Done.", "Done.", 3)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["guided", "guided_contract"])
def test_whoever_is_bound_by_a_grammar_writes_what_the_schema_allows(strategy: Strategy) -> None:
    with Simulator(seed=11) as simulator:
        for name in ("clean", "lazy", "tags", *CONVERSATION_BEHAVIORS):
            for scenario in BY_ID.values():
                play(simulator, name, strategy, scenario)
        asked: list[JSON] = [item for item in simulator.requests if "response_format" in item]

    assert len(asked) > len(CONVERSATION_BEHAVIORS) * 16
    for sent in asked:
        choice = answer_request(PERSONAS[sent["model"]], sent, 11).body["choices"][0]
        schema = sent["response_format"]["json_schema"]["schema"]
        if choice["finish_reason"] != "length":
            assert jsonschema_rs.is_valid(schema, json.loads(choice["message"]["content"]))
