"""Habits at work: models that do a job in which one call needs what another has found.

A job is a look-up and a write. A good model looks first, and writes with what it has seen. These do
something else, and no reader of replies can cure that; what helps is what the client offers, binds
and refuses. They can be asked in every protocol, and where a grammar binds them they keep to it.

    begins-with-write   writes first, with values of its own
    invents-ids         looks, and writes with values of its own, until it is told what there is
    alternates          looks and writes and looks and writes, for ever
    refuses-honestly    when a write fails it says that it cannot be done
    claims-success      when a write fails it says that it is done
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from surecall.simulator.personas.intent import DONE, Intent, Outcome, Wanted, offered, outcomes
from surecall.simulator.personas.worded_requests import ReadRequest, understood, worded
from surecall.simulator.scripted_replies import calls, continuing, says
from surecall.values.types import JSON

INVENTED: Final = "12345"
HONEST_NO: Final = "I cannot do that: the tool does not work."
_TOLD: Final = "must be one of"


class Job(msgspec.Struct, frozen=True):
    """What is to be done: look, then write. Both are what a good model would call."""

    look: Wanted
    write: Wanted


class _View(msgspec.Struct, frozen=True):
    """What a model sees of the job: how far it is, and what was last said."""

    job: Job
    done: Sequence[Outcome]

    def has(self, call: Wanted) -> bool:
        return any(item.ok and item.tool == call.tool for item in self.done)

    @property
    def made_up(self) -> Wanted:
        """The write, with values of the model's own."""
        return Wanted(self.job.write.tool, dict.fromkeys(self.job.write.arguments, INVENTED))

    @property
    def failed(self) -> bool:
        last = self.done[-1] if self.done else None
        return last is not None and last.tool == self.job.write.tool and not last.ok


_Decide: TypeAlias = Callable[[_View], Wanted | str]


def _good(view: _View) -> Wanted | str:
    if not view.has(view.job.look):
        return view.job.look
    return DONE if view.has(view.job.write) else view.job.write


def _begins_with_write(view: _View) -> Wanted | str:
    return _good(view) if view.done else view.made_up


def _invents_ids(view: _View) -> Wanted | str:
    wanted = _good(view)
    told = any(_TOLD in item.content for item in view.done)
    return view.made_up if wanted == view.job.write and not told else wanted


def _alternates(view: _View) -> Wanted | str:
    return view.job.look if len(view.done) % 2 == 0 else view.job.write


def _refuses_honestly(view: _View) -> Wanted | str:
    return HONEST_NO if view.failed else _good(view)


def _claims_success(view: _View) -> Wanted | str:
    return DONE if view.failed else _good(view)


HABITS: Final[dict[str, _Decide]] = {
    "good": _good,
    "begins-with-write": _begins_with_write,
    "invents-ids": _invents_ids,
    "alternates": _alternates,
    "refuses-honestly": _refuses_honestly,
    "claims-success": _claims_success,
}


def working(habit: str, job: Job) -> Callable[[JSON], JSON]:
    """Return a model with a habit: what it answers to a request."""

    def answer(request: JSON) -> JSON:
        reading = understood(request)
        messages = [item for item in reading.request["messages"] if isinstance(item, dict)]
        decided = HABITS[habit](_View(job, outcomes(messages)))
        intent = _bound(reading, decided, job) if reading.bound else _free(reading, decided)
        words = worded(reading, intent)
        if words is not None or not intent.calls:
            return says(intent.text if words is None else words)
        return continuing(calls(intent.calls[0].tool, **intent.calls[0].arguments), request)

    return answer


def _free(reading: ReadRequest, decided: Wanted | str) -> Intent:
    """Do what was decided; without tools there is only the answer."""
    if isinstance(decided, str):
        return Intent(text=decided)
    return Intent(calls=(decided,)) if offered(reading.request) else Intent(text=DONE)


def _bound(reading: ReadRequest, decided: Wanted | str, job: Job) -> Intent:
    """Keep to what a grammar allows: a tool that is on offer, values that may be written."""
    tools = offered(reading.request)
    may_end = "tool_choice" not in reading.request
    if not tools or (isinstance(decided, str) and may_end):
        return Intent(text=decided if isinstance(decided, str) else DONE)
    wanted = job.write if isinstance(decided, str) else decided
    name = wanted.tool if wanted.tool in tools else next(iter(tools))
    right = next((one for one in (job.look, job.write) if one.tool == name), Wanted(name))
    given = wanted.arguments if wanted.tool == name else right.arguments
    properties = tools[name].get("parameters", {}).get("properties", {})
    fitting = {key: _fit(properties.get(key), item, right, key) for key, item in given.items()}
    return Intent(calls=(Wanted(name, fitting),))


def _fit(schema: Any, value: Any, right: Wanted, key: str) -> Any:
    """Return a value that may be written; the right one, where it is one of those."""
    match schema:
        case {"const": only}:
            return only
        case {"enum": list(values)}:
            meant = right.arguments.get(key)
            return meant if meant in values else values[0]
        case _:
            return value
