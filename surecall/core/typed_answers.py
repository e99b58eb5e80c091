"""Typed answers: how a final answer of a given schema is asked for, judged and corrected.

Who asks for it depends on the request:

    the reply is guided          its form has a place for the answer, which is bound to the schema
    calls are described in words the same words describe the answer
    no tools, and it is `bound`  the endpoint binds the reply: `response_format`
    anything else                a sentence at the end of the instructions

An endpoint that does not bind what it was asked to bind gets the sentence as well, from the first
answer on that does not fit.

Which of them it is never decides what counts. An answer is read as JSON, fitted to the schema where
nothing is lost, and validated. One that does not fit is answered with what is wrong, in a sentence;
after `MOST_CORRECTIONS` of them, and in the last turn, the run fails with OUTPUT_INVALID. So does a
model that refuses: what it says instead is in the result.

All this is derived from the transcript. What only the Python type can say is asked by the driver,
recorded, and counted here as a correction like any other.
"""

from functools import lru_cache
from typing import Final

import msgspec

from surecall.core.state import OUTPUT, Run, once_per_run
from surecall.parsing.answers import Value
from surecall.tools.output import answer_reader
from surecall.tools.validation import clipped
from surecall.values.types import JSON, System, ToolSpec, User
from surecall.wire.finish_reasons import UNFINISHED, ending_of
from surecall.wire.protocols.in_words import IN_FORM

MOST_CORRECTIONS: Final = 3
_LONGEST_REASON: Final = 500
_UNFINISHED: Final = "it was cut off before its end"
# What is said to a model without a type; with one, it is to keep to the form.
_AS_TEXT: Final = (" as plain text", " in plain text")
_AS_ASKED: Final = " in the form that was asked for"


@once_per_run
def typed_answer(run: Run) -> Value | None:
    """Read the newest reply as the answer; None where every answer is a text."""
    if run.output is None or not run.said:
        return None
    said = run.said[-1]
    if ending_of(said.finish_reason) in UNFINISHED:
        return Value(problem=_UNFINISHED)
    reader = answer_reader(run.output.schema)
    return reader.read(said.text, coerce=run.config.endpoint.coerce_arguments)


def form_problem(run: Run) -> str:
    """Say why the newest reply does not have the type of the answer; nothing if all is well."""
    answer = typed_answer(run)
    return "" if answer is None else answer.problem


def may_correct(run: Run) -> bool:
    """Whether the model may still be told what is wrong with its answer."""
    return _corrections(run) < MOST_CORRECTIONS and run.turn < run.config.max_turns


def _corrections(run: Run) -> int:
    return sum(isinstance(item, User) and item.rung == OUTPUT for item in run.own)


def correction(reason: str) -> User:
    """Tell the model what is wrong with its answer."""
    wrong = f"This answer does not have the form that was asked for: {_short(reason)}."
    return User(f"{wrong} Correct it, and answer with JSON alone.", nudge=True, rung=OUTPUT)


def misfit(reason: str) -> str:
    """Say why a run fails whose answer did not get its type."""
    return f"the answer does not have the form that was asked for: {_short(reason)}"


def _short(reason: str) -> str:
    return clipped(reason.rstrip(". "), _LONGEST_REASON)


def in_form(run: Run, words: str) -> str:
    """Return what is said to a model, without asking for plain text where another form is asked."""
    if run.output is None:
        return words
    for plain in _AS_TEXT:
        words = words.replace(plain, _AS_ASKED)
    return words


def instructions(run: Run, described: tuple[ToolSpec, ...]) -> System | None:
    """Return the instructions of a run; they ask for the form if nothing else in a plan does."""
    form = run.output
    if form is None or (described and run.config.call_protocol != "native"):
        return run.system
    is_bound = form.bound and not described and not _corrections(run)
    return run.system if is_bound else asking(run.system, form.schema)


def asking(system: System | None, schema: JSON) -> System:
    """Return instructions that end with what the answer must be.

    The same ones for the same ones, so that what was written for a turn is not written again.
    """
    return _asking(system, msgspec.json.encode(schema))


@lru_cache(maxsize=64)
def _asking(system: System | None, schema: bytes) -> System:
    words = f"{IN_FORM[0].upper()}{IN_FORM[1:]} {schema.decode()}"
    if system is None:
        return System(words)
    return system if system.text.endswith(words) else System(f"{system.text}\n\n{words}")


def binding(run: Run, described: tuple[ToolSpec, ...], tools: tuple[ToolSpec, ...]) -> JSON | None:
    """Return what binds the reply to the form, where the endpoint does that without tools."""
    form = run.output
    if form is None or not form.bound or tools:
        return None
    if described and run.config.call_protocol != "native":
        return None  # the protocol has a form of its own, or none
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": form.schema}}
