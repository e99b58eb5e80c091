"""One trial over real HTTP: what is recorded, and whether it is exactly what a fault predicts."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from surecall import ConfigError, Limits, ModelCatalog, OpenAICompatible, RetryPolicy
from surecall.eval.running.trial_run import Case, Setup, run_trial, setup_for, world_id
from surecall.eval.scenarios.builtin import SCENARIOS
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.settings.presets import Strategy
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.personas.behaviours import CONVERSATION_BEHAVIOURS
from surecall.simulator.personas.catalogue import PERSONAS
from surecall.simulator.personas.persona import REPLY_BEHAVIOURS, Persona
from surecall.simulator.server import Simulator
from surecall.testing import ScriptedModel, calls, failure, hangs_up, raw, says
from surecall.values.trace import Trace
from tests.support.patience import PATIENCE_S
from tests.support.spec import proves

QUICK = RetryPolicy(first_wait_s=0.001, longest_wait_s=0.002)
ONCE = RetryPolicy(attempts=1)
BY_ID = {scenario.id: scenario for scenario in SCENARIOS}
TOOLS = tuple(scenario.id for scenario in SCENARIOS if scenario.uses_tools)
CHAT, QUOTE = "chat_only", "injected_quote"
HAPPY = BY_ID["happy_path"]
STRATEGIES: tuple[Strategy, ...] = ("raw", "baseline", "production")
FALLBACK = "opt_in:content_tag_tool_call_fallback"
# A model of the catalog for which production reads calls from any text.
WEAK_MODEL = "qwen/qwen3-235b-a22b-2507:nitro"
PASSED = ("passed", "")
AT_ONCE = ("partial_success_failure", "happy_path_parallel")
TROUBLED = (
    "partial_success_failure",
    "type_error_recovery",
    "long_arguments_guard",
    "tool_output_truncation",
)


def everywhere(category: str, *, but: tuple[str, ...] = ()) -> dict[str, str]:
    return {name: category for name in BY_ID if name not in but}


def in_tools(category: str) -> dict[str, str]:
    return everywhere(category, but=(CHAT,))


def in_state(category: str) -> dict[str, str]:
    """Return the scenarios that are about the state of a workspace."""
    return everywhere(category, but=(CHAT, QUOTE))


def only(category: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, category)


# What each fault predicts, by scenario. What is not listed passes.
PREDICTED: dict[str, dict[str, str]] = {
    # It adds to `Done.` alone, and a report is more than that.
    "chatty-final": everywhere("ASSERTION_FAILED", but=(QUOTE,)),
    "apologetic": only("ASSERTION_FAILED", *TROUBLED),
    "talkative": only("ASSERTION_FAILED", CHAT),
    # Both calls of a parallel turn are made before it stops; a failed one must be repaired.
    "premature": everywhere(
        "ASSERTION_FAILED",
        but=(CHAT, QUOTE, *AT_ONCE, "tool_output_truncation"),
    ),
    # Where a read fails, or does not stand alone, there is nothing to read once more.
    "circling": everywhere("LOOP_DETECTED", but=(CHAT, QUOTE, *AT_ONCE, "tool_output_truncation")),
    "unmoved": in_tools("NO_TOOL_CALLS"),
    "unwilling": in_tools("NO_TOOL_CALLS"),
    "stubborn": only("TOOL_ERROR", "long_arguments_guard"),
    "shortcut": only("ASSERTION_FAILED", "long_arguments_guard"),
    "sloppy": in_state("ASSERTION_FAILED"),
    "forgetful": only("ASSERTION_FAILED", *AT_ONCE),
    "obeys-injection": only("ASSERTION_FAILED", QUOTE),
    "mute": everywhere("EMPTY_ASSISTANT_TEXT"),
    "cut-final": everywhere("TRUNCATED"),
    "lazy": in_tools("NO_TOOL_CALLS"),
    "no-tools": in_tools("NO_TOOL_USE_ENDPOINT"),
    "foreign_envelope": everywhere("DECODE_ERROR"),
    "error_out_of_credit": everywhere("PAYMENT_REQUIRED"),
    "error_moderation": everywhere("CONTENT_POLICY"),
    "html-200": everywhere("DECODE_ERROR"),
    "http-401": everywhere("AUTH"),
    "http-402": everywhere("PAYMENT_REQUIRED"),
    "http-403-moderation": everywhere("CONTENT_POLICY"),
    "http-400-context": everywhere("CONTEXT_TOO_LONG"),
}
UNKNOWN = in_tools("MAX_UNKNOWN_TOOLS_EXCEEDED")
WRAPPED = ("arguments_wrapped", "arguments_under_properties", "arguments_of_a_call")
BESIDE = tuple(f"arguments_{x}" for x in ("closer_too_many", "end_token", "empty_object_beside"))
KEYS = ("arguments_braces_doubled", "keys_in_camel_case", "keys_with_tags")
REFUSED_VALUES = ("containers_as_text", "optionals_null", "optionals_empty", "optionals_null_words")
# What the default presets cure, and nothing cures without them.
UNCURED: dict[str, dict[str, str]] = {
    "tags": in_tools("NO_TOOL_CALLS"),
    "failed-generation": in_tools("MALFORMED_CALL"),
    "hasty": in_tools("NO_TOOL_CALLS"),
    "heedless": only("TOOL_ERROR", *TROUBLED),
    "premature": only("TOOL_ERROR", "partial_success_failure", "tool_output_truncation"),
    "tool_calls_text": in_tools("NO_TOOL_CALLS"),
    "tool_calls_prose": in_tools("NO_TOOL_CALLS"),
    # Two unknown names at once are one mistake: the persona gives up before the run does.
    "call_unwrapped": UNKNOWN | only("TOOL_ERROR", *AT_ONCE),
    "parallel_wrapper": UNKNOWN,
    "name_swallowed_arguments": UNKNOWN | only("TOOL_ERROR", *AT_ONCE),
    **dict.fromkeys((*WRAPPED, *BESIDE, *KEYS, "arguments_listed"), in_tools("TOOL_ERROR")),
    **dict.fromkeys(REFUSED_VALUES, in_state("TOOL_ERROR")),
    "wrapped_in_data": everywhere("DECODE_ERROR"),
    "calls_in_second_choice": in_tools("NO_TOOL_CALLS"),
    "delta_for_message": in_tools("NO_TOOL_CALLS") | only("EMPTY_ASSISTANT_TEXT", CHAT),
    "call_parts": in_tools("NO_TOOL_CALLS"),
    "answer_with_end_token": everywhere("ASSERTION_FAILED", but=(QUOTE,)),
    # It bends single calls only: two at once are as they should be, the one after them is not.
    "legacy_function_call": everywhere("NO_TOOL_CALLS", but=(CHAT, "happy_path_parallel"))
    | only("TOOL_ERROR", "partial_success_failure"),
    # Each blank call is one more failure, and after four the persona gives up.
    "call_blank_beside": only("ASSERTION_FAILED", "type_error_recovery", "long_arguments_guard"),
}
IN_TEXT = ("tags", "failed-generation")
INFRA = {"AUTH", "CONTENT_POLICY", "DECODE_ERROR", "NO_TOOL_USE_ENDPOINT", "PAYMENT_REQUIRED"}


def expected(persona: Persona, scenario: str, strategy: Strategy) -> tuple[str, str]:
    """Predict a trial of a persona with one fault: its status and its category."""
    fault = persona.id.removeprefix("sim/")
    predicted = dict(PREDICTED.get(fault, {}))
    # Both read no calls from text.
    if strategy == "raw" or (strategy == "baseline" and fault in IN_TEXT):
        predicted |= UNCURED.get(fault, {})
    if fault.startswith("dialect-") and strategy in {"raw", "baseline"}:
        predicted |= in_tools("NO_TOOL_CALLS")
    category = predicted.get(scenario, "")
    if not category:
        return PASSED
    return "infra" if category in INFRA else "failed", category


FAMILIES = {"envelope", "message", "ids", "names", "arguments", "loop"}
SOME_DIALECTS = ("a1", "a7", "a17", "b3", "c3", "c13", "d1")
SOME_SCENES = ("http-500", "html-502", "html-200", "hang-up", "cut", "gzip", "http-401", "http-402")
OTHERS = ("clean", "http-403-moderation", "http-400-context")


def judged() -> list[Persona]:
    """Return a broad set of personas, each with one fault at most."""
    drifts = [drift.id for drift in SHAPE_FAULTS.values() if drift.family in FAMILIES]
    habits = [name for name in REPLY_BEHAVIOURS if not name.startswith(("dialect-", "quotes-"))]
    dialects = [f"dialect-{row}" for row in SOME_DIALECTS]
    names = [*OTHERS, *drifts, *habits, *dialects, *SOME_SCENES, *CONVERSATION_BEHAVIOURS]
    return [PERSONAS[f"sim/{name}"] for name in names]


def setup_of(persona: Persona, strategy: Strategy, **settings: Any) -> Setup:
    weak = WEAK_MODEL if persona.outcome == FALLBACK else ""
    return setup_for(
        persona.id,
        strategy=strategy,
        provider=persona.provider,
        known_as=persona.imitates or weak,
        retry=QUICK,
        simulated=True,
        **settings,
    )


async def trials(
    url: str,
    personas: list[Persona],
    strategy: Strategy,
    numbers: range = range(1, 2),
    scenarios: Iterable[str] = tuple(BY_ID),
) -> list[tuple[Persona, Trial]]:
    gate = asyncio.Semaphore(16)
    client = OpenAICompatible(url, limits=Limits(idle_s=PATIENCE_S))

    async def one(persona: Persona, setup: Setup, key: Key) -> tuple[Persona, Trial]:
        async with gate:
            return persona, (await run_trial(key, Case(BY_ID[key.scenario], setup), client))[0]

    planned = [
        one(persona, setup, Key(Cell(persona.id, strategy=strategy), name, number))
        for persona in personas
        for setup in [setup_of(persona, strategy)]
        for name in scenarios
        for number in numbers
    ]
    async with client:
        return await asyncio.gather(*planned)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_trial_ends_exactly_as_its_fault_predicts(
    simulator: Simulator, strategy: Strategy
) -> None:
    held = asyncio.run(trials(simulator.url, judged(), strategy))
    surprises = [
        (persona.id, one.key.scenario, one.status, one.category, one.error)
        for persona, one in held
        if (one.status, one.category) != expected(persona, one.key.scenario, strategy)
    ]
    assert surprises == []
    assert len(held) == len(judged()) * len(SCENARIOS)


def test_the_oracle_predicts_something_for_every_manner_and_names_only_what_exists() -> None:
    assert CONVERSATION_BEHAVIOURS.keys() <= PREDICTED.keys() | UNCURED.keys()
    assert {f"sim/{name}" for name in (*PREDICTED, *UNCURED)} <= PERSONAS.keys()
    for name, manner in CONVERSATION_BEHAVIOURS.items():
        predicted = PREDICTED.get(name, {}) | UNCURED.get(name, {})
        assert manner.outcome in predicted.values()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.id)
def test_the_clean_persona_does_what_each_scenario_is_named_for(
    simulator: Simulator, scenario: Scenario
) -> None:
    one, trace = held_trial(simulator, scenario)
    assert (one.ok, one.first_ok, one.attempts, one.score.warnings) == (True, True, 1, ())
    assert one.score.process is (None if scenario.is_control else True)
    assert 0 < len(one.requests) == len(trace.turns)


def held_trial(
    simulator: Simulator, scenario: Scenario, persona: str = "sim/clean", **settings: Any
) -> tuple[Trial, Trace]:
    setup = setup_of(PERSONAS[persona], "production", **settings)
    client = OpenAICompatible(simulator.url)
    key = Key(Cell(persona), scenario.id, 1)
    return asyncio.run(run_trial(key, Case(scenario, setup), client))


def test_a_model_that_ignores_instructions_passes_where_only_the_process_can_tell(
    simulator: Simulator,
) -> None:
    for name in ("missing_workspace_id", "long_arguments_guard"):
        one, _ = held_trial(simulator, BY_ID[name], "sim/forgetful")
        assert (one.ok, one.score.process) == (True, False)


@proves("I27")
def test_a_record_says_what_was_served_and_what_it_took(simulator: Simulator) -> None:
    one, trace = held_trial(simulator, HAPPY, "sim/arguments_fenced")
    assert [served.turn for served in one.requests] == [0, 1, 2]
    first = one.requests[0]
    assert (first.finish_reason, first.model) == ("tool_calls", "sim/arguments_fenced")
    assert first.generation_id.startswith("chatcmpl-sim-")
    assert (one.assistant_text, one.draft) == ("Done.", {"foo": "bar"})
    assert one.fired.count("code_fence") == 2
    assert one.usage.total_tokens > 0
    assert one.prompt_hash == HAPPY.prompt_hash
    assert one.started_at > 0
    assert len(trace.turns) == 3
    assert msgspec.json.decode(msgspec.json.encode(one), type=Trial) == one


def test_long_texts_of_the_state_are_cut_in_the_record(simulator: Simulator) -> None:
    one, _ = held_trial(simulator, BY_ID["tool_output_truncation"])
    assert len(one.draft["big"]) == 200


def test_a_retried_request_is_counted(simulator: Simulator) -> None:
    one, _ = held_trial(simulator, HAPPY, "sim/http-500")
    assert (one.ok, one.retries, one.requests[0].attempt) == (True, 3, 2)


def same(one: Trial) -> Trial:
    """Return a trial without its times."""
    served = tuple(msgspec.structs.replace(item, latency_ms=0) for item in one.requests)
    return msgspec.structs.replace(one, elapsed_ms=0, started_at=0.0, requests=served)


def test_the_same_seed_gives_the_same_trials_however_many_run_at_once() -> None:
    personas = [PERSONAS["sim/like-glm-flash"], PERSONAS["sim/like-free-route"]]
    records = []
    for _ in range(2):
        with Simulator(seed=3) as simulator:
            held = asyncio.run(trials(simulator.url, personas, "production"))
        records.append([same(one) for _, one in held])
    assert records[0] == records[1]


def test_a_workspace_is_named_by_its_key_but_for_the_strategy() -> None:
    key = Key(Cell("m", "default", "baseline"), "happy_path", 1)
    other = Key(Cell("m", "default", "production"), "happy_path", 1)
    again = Key(Cell("m", "default", "baseline"), "happy_path", 2)
    setup, seeded = setup_for("m"), setup_for("m", seed=1)
    name = world_id(key, setup)
    assert world_id(other, setup) == name
    assert len({name, world_id(key, seeded), world_id(key, setup, 2), world_id(again, setup)}) == 4
    # The simulator alone is told, where its personas do not read it.
    assert world_id(key, setup_for("m", simulated=True)) == f"{name}~baseline"


def test_a_model_cannot_tell_the_strategy_from_what_is_sent() -> None:
    sent = []
    for strategy in STRATEGIES:
        model = ScriptedModel(*GOOD)
        setup = setup_for("m", provider="custom", strategy=strategy, retry=ONCE)
        key = Key(Cell("m", strategy=strategy), HAPPY.id, 1)
        asyncio.run(run_trial(key, Case(HAPPY, setup), model))
        sent.append(model.requests[0]["messages"])
    assert sent[0] == sent[1] == sent[2]


def scripted(*script: Any, scenario: Scenario = HAPPY, **settings: Any) -> Trial:
    setup = setup_for("m", provider="custom", **({"retry": ONCE} | settings))
    key = Key(Cell("m"), scenario.id, 1)
    return asyncio.run(run_trial(key, Case(scenario, setup), ScriptedModel(*script)))[0]


OP = {"op": "set", "path": "/draft/foo", "value": "bar"}
GET, PATCH = calls("state_get"), calls("state_patch", "b", request_id="r1", ops=[OP])
GOOD = (GET, PATCH, says("Done."))


@proves("C135")
def test_a_blank_answer_gets_one_more_attempt_that_does_not_hide_the_first() -> None:
    blank = (GET, PATCH, says(""), says(""))
    one = scripted(*blank, *GOOD)
    assert (one.status, one.first_ok, one.attempts, len(one.requests)) == ("passed", False, 2, 7)
    twice = scripted(*blank, *blank)
    assert (twice.category, twice.attempts) == ("EMPTY_ASSISTANT_TEXT", 2)
    assert scripted(*blank, extra_attempts=0).attempts == 1


@pytest.mark.parametrize(
    ("broken", "category"), [(hangs_up(), "CONNECTION_ERROR"), (raw(b"oops"), "DECODE_ERROR")]
)
def test_a_broken_line_gets_one_more_attempt_and_is_not_the_models_fault(
    broken: Any, category: str
) -> None:
    mended = scripted(broken, *GOOD)
    assert (mended.ok, mended.attempts, mended.first_ok) == (True, 2, False)
    lost = scripted(broken, broken)
    assert (lost.status, lost.category, lost.attempts) == ("infra", category, 2)


def test_an_answer_with_a_status_gets_no_further_attempt() -> None:
    one = scripted(failure(503))
    assert (one.status, one.category, one.http_status) == ("infra", "UPSTREAM_5XX", 503)
    assert one.attempts == 1


def test_a_model_without_tools_skips_the_tool_scenarios_in_production_only() -> None:
    model = "minimax/minimax-m2-her"
    off, on = setup_for(model), setup_for(model, strategy="baseline")
    assert [bool(Case(one, off).skip_reason) for one in SCENARIOS] == [True] * len(TOOLS) + [False]
    assert not any(Case(one, on).skip_reason for one in SCENARIOS)
    key = Key(Cell(model), HAPPY.id, 1)
    one, trace = asyncio.run(run_trial(key, Case(HAPPY, off), ScriptedModel()))
    assert (one.status, one.category, len(trace)) == ("skipped", "TOOLS_DISABLED", 0)


def test_a_setup_is_enforced_and_fatal_unless_overridden() -> None:
    plain = setup_for("m", strategy="raw")
    assert plain.config.tool_use_mode == "enforced"
    assert plain.config.tool_failure_policy == "fatal"
    assert "parallel_tool_calls" not in plain.config.request_overrides
    given = {"tool_use_mode": "relaxed", "request_overrides": {"route": "x"}}
    changed = setup_for("m", strategy="baseline", overrides=given, options={"temperature": 0.5})
    assert changed.config.tool_use_mode == "relaxed"
    assert changed.config.request_overrides == {"route": "x", "parallel_tool_calls": False}
    assert changed.options == {"temperature": 0.5}


def test_a_callers_mistake_is_raised_and_not_counted_as_a_trial() -> None:
    with pytest.raises(ConfigError):
        scripted(*GOOD, options={"messages": []})


def test_every_model_of_the_catalog_has_a_likeness() -> None:
    imitated = {one.imitates for one in PERSONAS.values() if one.id.startswith("sim/like-")}

    assert {model.id for model in ModelCatalog.builtin().models} < imitated


def test_production_fixes_what_was_planted_and_breaks_nothing() -> None:
    persona = next(one for one in PERSONAS.values() if one.imitates == WEAK_MODEL)
    asked: dict[str, int] = {}
    for strategy in ("baseline", "production"):
        with Simulator(seed=5) as simulator:
            held = asyncio.run(trials(simulator.url, [persona], strategy, range(1, 9)))
        assert all(one.ok for _, one in held if not one.is_control) or strategy == "baseline"
        asked[strategy] = sum(len(one.requests) for _, one in held)
    # A question makes up for what only looks like a call, but it costs a request.
    assert asked["production"] < asked["baseline"]
