"""The cases that all clients meet: every fault of the catalogue, in the tasks where it shows.

A case is a scripted model of the simulator and a task. Each fault is met with one call and, if it
shows there too, with two calls at once. Left out is what makes a client wait until its patience
ends, what floods it, and models whose replies are well formed but do not do the work: neither is
drift. What an endpoint refuses for good is here: the application must be told, and nothing may run.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from surecall.simulator.demo_tasks import (
    FAMILY_TITLES,
    LIST,
    PAIR,
    QUOTE,
    SAVE,
    DemoCase,
    DemoTask,
    Judgment,
    RecordedCall,
    family_of,
    has_visible_fault,
    is_slow,
    judge_run,
)
from surecall.simulator.personas.persona import Persona
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.values.errors import ErrorCode

PLAIN, STREAMED = FORMS = ("plain", "streamed")
CONTROL, RULES, REFUSED, QUOTES, STREAM = "control", "rules", "refused", "quotes", "stream"
HEADINGS: Final = FAMILY_TITLES | {
    RULES: "provider-specific request rules",
    REFUSED: "permanent refusals, which must be reported",
}
TASKS: Final = {"save": SAVE, "list": LIST, "two": PAIR, "quote": QUOTE}
_FOR_GOOD: Final = frozenset(
    {
        ErrorCode.AUTH,
        ErrorCode.CONTENT_POLICY,
        ErrorCode.CONTEXT_TOO_LONG,
        ErrorCode.DECODE_ERROR,
        ErrorCode.NO_TOOL_USE_ENDPOINT,
        ErrorCode.PAYMENT_REQUIRED,
    }
)
_LEFT_OUT: Final = frozenset(
    {ErrorCode.ARGUMENTS_TOO_LARGE, ErrorCode.NO_TOOL_CALLS, ErrorCode.RESPONSE_TOO_LARGE}
)


class Case(NamedTuple):
    """A scripted model, the family of its fault, and the task it is given."""

    persona: Persona
    family: str
    task_name: str

    @property
    def key(self) -> str:
        """The name of the case."""
        return f"{self.persona.id} {self.task_name}"

    @property
    def task(self) -> DemoTask:
        """What is asked."""
        return TASKS[self.task_name]


@cache
def cases(form: str) -> tuple[Case, ...]:
    """List the cases of a form: what is wrong with a stream alone cannot be met without one."""
    met = (case for persona in PERSONAS.values() for case in _cases_of(persona))
    return tuple(case for case in met if form == STREAMED or case.family != STREAM)


def _cases_of(persona: Persona) -> Iterator[Case]:
    family = _family(persona)
    if not family:
        return
    if family in {CONTROL, RULES}:
        names = ["save", "two"]
    elif family == QUOTES:
        names = ["quote"]
    else:
        shown = [
            name
            for name, task in TASKS.items()
            if has_visible_fault(DemoCase(persona, family, task))
        ]
        alone = [name for name in shown if name in {"save", "list"}][:1]
        names = alone if family == REFUSED else [*alone, *({"two"} & {*shown})]
    yield from (Case(persona, family, name) for name in names)


def _family(persona: Persona) -> str:
    """Return the family of a persona; blank if it is left out."""
    if persona.kind == "clean":
        return CONTROL
    if persona.kind == "strict":
        return RULES
    family = family_of(persona)
    if not family or is_slow(persona) or persona.outcome in _LEFT_OUT:
        return ""
    return REFUSED if persona.outcome in _FOR_GOOD else family


def verdict_of(case: Case, made: list[RecordedCall], answer: str | BaseException) -> Judgment:
    """Judge a run. Where an endpoint refuses for good, an error is right if nothing ran."""
    judgement = judge_run(case.task, made, answer)
    if case.family == REFUSED and judgement.verdict == "error" and not made:
        return Judgment("right")
    return judgement
