"""Work habits: models that look something up and then write, correctly or not.

A good model looks up first and writes the values that it found. The others deviate in ways that
parsing cannot repair; only exposed tools, schemas, and rejections help. They answer in every
protocol and obey grammars.

    begins-with-write   writes first, with invented values
    invents-ids         looks up, and writes invented values until an error lists the allowed ones
    alternates          alternates between looking up and writing, endlessly
    refuses-honestly    reports failure when a write fails
    claims-success      reports success when a write fails
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from surecall.simulator.personas.intent import (
    DONE,
    Intent,
    PlannedCall,
    call_outcomes,
    callable_tools,
)
from surecall.simulator.personas.recipes import CallOutcome
from surecall.simulator.personas.text_protocols import ParsedRequest, parse_request, text_reply
from surecall.simulator.request_checks import messages_of
from surecall.simulator.scripted_replies import assign_call_ids, calls, says
from surecall.values.types import JSON

INVENTED_VALUE: Final = "12345"
HONEST_REFUSAL: Final = "I cannot do that: the tool does not work."
_ALLOWED_VALUES_HINT: Final = "must be one of"


class LookupJob(msgspec.Struct, frozen=True):
    """A lookup and a write, with the arguments of a good model."""

    look: PlannedCall
    write: PlannedCall


HABITS: Final = (
    *("good", "begins-with-write", "invents-ids", "alternates", "refuses-honestly"),
    "claims-success",
)


def _next_action(habit: str, job: LookupJob, outcomes: Sequence[CallOutcome]) -> PlannedCall | str:
    """Return the model's next call or its answer."""
    succeeded = {item.tool for item in outcomes if item.ok}
    good: PlannedCall | str = DONE if job.write.tool in succeeded else job.write
    if job.look.tool not in succeeded:
        good = job.look
    made_up = PlannedCall(job.write.tool, dict.fromkeys(job.write.arguments, INVENTED_VALUE))
    has_failed = bool(outcomes) and outcomes[-1].tool == job.write.tool and not outcomes[-1].ok
    was_corrected = any(_ALLOWED_VALUES_HINT in item.content for item in outcomes)
    match habit:
        case "begins-with-write" if not outcomes:
            return made_up
        case "invents-ids" if good == job.write and not was_corrected:
            return made_up
        case "alternates":
            return job.look if len(outcomes) % 2 == 0 else job.write
        case "refuses-honestly" if has_failed:
            return HONEST_REFUSAL
        case "claims-success" if has_failed:
            return DONE
        case _:
            return good


def build_model(habit: str, job: LookupJob) -> Callable[[JSON], JSON]:
    """Return a model with a habit, as a function from request to reply."""

    def answer(request: JSON) -> JSON:
        reading = parse_request(request)
        action = _next_action(habit, job, call_outcomes(messages_of(reading.request)))
        intent = (
            _grammar_constrained_intent(reading, action, job)
            if reading.bound
            else _unconstrained_intent(reading, action)
        )
        words = text_reply(reading, intent)
        if words is not None or not intent.calls:
            return says(intent.text if words is None else words)
        return assign_call_ids(calls(intent.calls[0].tool, **intent.calls[0].arguments), request)

    return answer


def _unconstrained_intent(parsed: ParsedRequest, action: PlannedCall | str) -> Intent:
    """Return the action as an intent; without tools, an answer."""
    if isinstance(action, str):
        return Intent(text=action)
    return Intent(calls=(action,)) if callable_tools(parsed.request) else Intent(text=DONE)


def _grammar_constrained_intent(
    parsed: ParsedRequest, action: PlannedCall | str, job: LookupJob
) -> Intent:
    """Return the closest intent that the grammar allows, with exposed tools and allowed values."""
    tools = callable_tools(parsed.request)
    may_end = "tool_choice" not in parsed.request
    if not tools or (isinstance(action, str) and may_end):
        return Intent(text=action if isinstance(action, str) else DONE)
    wanted = job.write if isinstance(action, str) else action
    name = wanted.tool if wanted.tool in tools else next(iter(tools))
    right = next((one for one in (job.look, job.write) if one.tool == name), PlannedCall(name))
    given = wanted.arguments if wanted.tool == name else right.arguments
    properties = tools[name].get("parameters", {}).get("properties", {})
    fitting = {
        key: _allowed_value(properties.get(key), item, right, key) for key, item in given.items()
    }
    return Intent(calls=(PlannedCall(name, fitting),))


def _allowed_value(schema: Any, value: Any, correct_call: PlannedCall, key: str) -> Any:
    """Return an allowed value, the right one if possible."""
    match schema:
        case {"const": only}:
            return only
        case {"enum": list(values)}:
            meant = correct_call.arguments.get(key)
            return meant if meant in values else values[0]
        case _:
            return value
