"""Typed answers: request, validate, and correct a final answer that must match a schema.

How the answer is requested depends on the request:

    guided protocol            the reply schema includes the schema of the answer
    prompted protocol          the prompt that describes the calls also describes the answer
    no tools, form is `bound`  the endpoint constrains the reply: `response_format`
    otherwise                  a sentence at the end of the system message

An endpoint that ignores `response_format` gets the sentence as well, after the first answer that
does not match.

Every answer is checked the same way: parsed as JSON, coerced to the schema where nothing is lost,
and validated. An invalid answer is sent back with the error; after `MAX_CORRECTIONS` of them, and
in the last turn, the run fails with OUTPUT_INVALID. So does a refusal by the model; its text is in
the result.

All of this is derived from the transcript. Errors that only the Python type can find are found by
the driver, recorded, and counted here as corrections.
"""

from functools import lru_cache
from typing import Final

import msgspec

from surecall.core.prompted import ANSWER_SCHEMA_PROMPT
from surecall.core.state import OUTPUT, Run, once_per_run
from surecall.parsing.arguments import ParsedValue
from surecall.tools.output import answer_parser
from surecall.tools.validation import clip_middle
from surecall.values.types import JSON, System, ToolSpec, User
from surecall.wire.finish_reasons import UNFINISHED, finish_kind

MAX_CORRECTIONS: Final = 3
_MAX_REASON_CHARS: Final = 500
_UNFINISHED: Final = "it was cut off before its end"
# Prompts ask for plain text; with an output type they ask for the form instead.
_AS_TEXT: Final = (" as plain text", " in plain text")
_IN_REQUESTED_FORM: Final = " in the form that was asked for"


@once_per_run
def typed_answer(run: Run) -> ParsedValue | None:
    """Parse the newest reply as the typed answer; None if the run has no output type."""
    if run.output is None or not run.replies:
        return None
    reply = run.replies[-1]
    if finish_kind(reply.finish_reason) in UNFINISHED:
        return ParsedValue(problem=_UNFINISHED)
    reader = answer_parser(run.output.schema)
    return reader.parse(reply.text, coerce=run.config.endpoint.coerce_arguments)


def answer_problem(run: Run) -> str:
    """Return why the newest reply is no valid typed answer; blank if it is."""
    answer = typed_answer(run)
    return "" if answer is None else answer.problem


def can_correct(run: Run) -> bool:
    """Whether an invalid answer may still be sent back to the model."""
    return _count_corrections(run) < MAX_CORRECTIONS and run.counted_turns < run.config.max_turns


def _count_corrections(run: Run) -> int:
    return sum(isinstance(item, User) and item.rung == OUTPUT for item in run.own_messages)


def correction_message(reason: str) -> User:
    """Return the prompt that sends an invalid answer back to the model."""
    wrong = f"This answer does not have the form that was asked for: {_shorten_reason(reason)}."
    return User(f"{wrong} Correct it, and answer with JSON alone.", nudge=True, rung=OUTPUT)


def mismatch_message(reason: str) -> str:
    """Return the error message of a run that ends with an invalid answer."""
    return f"the answer does not match the requested schema: {_shorten_reason(reason)}"


def _shorten_reason(reason: str) -> str:
    return clip_middle(reason.rstrip(". "), _MAX_REASON_CHARS)


def prompt_in_form(run: Run, prompt: str) -> str:
    """Return a prompt that asks for the requested form instead of plain text, if there is one."""
    if run.output is None:
        return prompt
    for plain in _AS_TEXT:
        prompt = prompt.replace(plain, _IN_REQUESTED_FORM)
    return prompt


def system_message(run: Run, known_tools: tuple[ToolSpec, ...]) -> System | None:
    """Return the system message; it requests the form if nothing else in the request does."""
    form = run.output
    if form is None or (known_tools and run.config.call_protocol != "native"):
        return run.system
    is_bound = form.bound and not known_tools and not _count_corrections(run)
    return run.system if is_bound else with_answer_schema(run.system, form.schema)


def with_answer_schema(system: System | None, schema: JSON) -> System:
    """Return a system message that ends with the schema of the answer.

    Equal arguments return the same object, so that it is encoded only once.
    """
    return _append_schema(system, msgspec.json.encode(schema))


@lru_cache(maxsize=64)
def _append_schema(system: System | None, schema: bytes) -> System:
    words = f"{ANSWER_SCHEMA_PROMPT[0].upper()}{ANSWER_SCHEMA_PROMPT[1:]} {schema.decode()}"
    if system is None:
        return System(words)
    return system if system.text.endswith(words) else System(f"{system.text}\n\n{words}")


def answer_response_format(
    run: Run, known_tools: tuple[ToolSpec, ...], tools: tuple[ToolSpec, ...]
) -> JSON | None:
    """Return the `response_format` of the answer, if the endpoint supports it without tools."""
    form = run.output
    if form is None or not form.bound or tools:
        return None
    if known_tools and run.config.call_protocol != "native":
        return None  # the protocol sets its own, or none
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": form.schema}}
