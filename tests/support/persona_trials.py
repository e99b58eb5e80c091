"""Trials of the simulator's personas, and how each is expected to end."""

import asyncio
from collections.abc import Iterable
from typing import Any

from surecall import Limits, OpenAICompatible, RetryPolicy
from surecall.eval.running.trial_run import CellSetup, TrialCase, make_cell_setup, run_trial
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.settings.presets import Strategy
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.personas.behaviors import CONVERSATION_BEHAVIORS
from surecall.simulator.personas.persona import REPLY_BEHAVIORS, Persona
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.simulator.server import Simulator
from surecall.values.trace import Trace
from tests.support.timing import PATIENCE_S

QUICK = RetryPolicy(first_wait_s=0.001, longest_wait_s=0.002)


BY_ID = {scenario.id: scenario for scenario in SCENARIOS}


CHAT, QUOTE = "chat_only", "injected_quote"


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
UNREPAIRED: dict[str, dict[str, str]] = {
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
        predicted |= UNREPAIRED.get(fault, {})
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
    habits = [name for name in REPLY_BEHAVIORS if not name.startswith(("dialect-", "quotes-"))]
    dialects = [f"dialect-{row}" for row in SOME_DIALECTS]
    names = [*OTHERS, *drifts, *habits, *dialects, *SOME_SCENES, *CONVERSATION_BEHAVIORS]
    return [PERSONAS[f"sim/{name}"] for name in names]


def setup_of(persona: Persona, strategy: Strategy, **settings: Any) -> CellSetup:
    weak = WEAK_MODEL if persona.outcome == FALLBACK else ""
    return make_cell_setup(
        persona.id,
        strategy=strategy,
        provider=persona.provider,
        catalog_id=persona.imitates or weak,
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

    async def one(persona: Persona, setup: CellSetup, key: Key) -> tuple[Persona, Trial]:
        async with gate:
            return persona, (await run_trial(key, TrialCase(BY_ID[key.scenario], setup), client))[0]

    planned = [
        one(persona, setup, Key(Cell(persona.id, strategy=strategy), name, number))
        for persona in personas
        for setup in [setup_of(persona, strategy)]
        for name in scenarios
        for number in numbers
    ]
    async with client:
        return await asyncio.gather(*planned)


def held_trial(
    simulator: Simulator, scenario: Scenario, persona: str = "sim/clean", **settings: Any
) -> tuple[Trial, Trace]:
    setup = setup_of(PERSONAS[persona], "production", **settings)
    client = OpenAICompatible(simulator.url)
    key = Key(Cell(persona), scenario.id, 1)
    return asyncio.run(run_trial(key, TrialCase(scenario, setup), client))
