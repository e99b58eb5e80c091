"""What a run was expected to do and did not, in words, with the turn that decided.

A wrong call decides in its own turn. What never happened was decided by the turn that ended the
run without it, or by a call that tried it in vain. A call that failed and was made good later
decides nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from surecall.core.outcome import RunResult
from surecall.core.state import Run
from surecall.eval.scenarios.scenario import Made
from surecall.eval.storage.trial import Miss
from surecall.settings.contract import From, Need
from surecall.values.nesting import TooDeep, encode_json
from surecall.values.types import JSON
from surecall.wire.messages import encode

MAX_SHOWN: Final = 160
_BEFORE: Final = 60


def missed(check: str, expected: str, got: str, at: Made | int | None) -> Miss:
    """Return what was not met; `at` is the call or the turn that decided."""
    turn, call_id = (at.turn, at.result.call_id) if isinstance(at, Made) else (at, "")
    return Miss(bounded(check), bounded(expected), bounded(got), turn, call_id)


def answer_missed(result: RunResult, check: str, expected: str) -> Miss:
    """Return what the final answer did not meet."""
    return missed(check, expected, what_came(result), last_turn(result.run))


def what_came(result: RunResult) -> str:
    """Say what came as the answer."""
    if result.assistant_text.strip():
        return shown(result.assistant_text)
    calls = result.run.said[-1].calls if result.run.said else ()
    if calls:
        return f"{call_in_words(calls[0].name, calls[0].arguments)} in place of an answer"
    return "a blank answer" if result.run.said else "no reply"


def last_turn(run: Run) -> int | None:
    """Return the turn that ended a run; None if the model never had one."""
    return run.turn - 1 if run.turn else None


def last_write(run: Run, made: Iterable[Made]) -> Made | None:
    """Return the last call that may have changed something."""
    looks = {tool.name for tool in run.tools if tool.read_only}
    writes = [one for one in made if one.ok and one.result.executed and one.name not in looks]
    return writes[-1] if writes else None


def nearest(made: Sequence[Made], name: str, fits: Callable[[Made], bool]) -> Made | None:
    """Return the call that came nearest to one that is missing.

    That is the same call, which failed, or else the last one of that tool: what had failed
    before it has been made good, or made wrong, by it.
    """
    own = [one for one in made if one.name == name]
    closest = [one for one in own if fits(one)] or own
    return closest[-1] if closest else None


def made_in_words(one: Made) -> str:
    """Write a call as it was made, and how it failed if it did."""
    words = call_in_words(one.name, one.arguments)
    return words if one.ok else f"{words}, which failed with {', '.join(one.result.error_codes)}"


def need_in_words(need: Need) -> str:
    """Write the call that a need wants."""
    return call_in_words(need.tool, need.arguments | need.sources)


def call_in_words(name: str, arguments: JSON) -> str:
    """Write a call as one writes it in a program."""
    parts = (f"{key}={_argument(value)}" for key, value in arguments.items())
    return f"{bounded(name)}({bounded(', '.join(parts))})"


def _argument(value: Any) -> str:
    return f"from {value}" if isinstance(value, From) else shown(value)


def shown(value: Any) -> str:
    """Write any value on one line, as JSON where it can be."""
    try:
        return bounded(encode_json(value, encode).decode())
    except TooDeep as error:  # `repr` would recurse, too
        return f"({error})"
    except (TypeError, ValueError, OverflowError):
        return bounded(repr(value))


def around(text: str, found: str) -> str:
    """Write the part of a text that holds another text, whatever the case."""
    begin = max(text.casefold().find(found.casefold()) - _BEFORE, 0)
    return ("…" if begin else "") + shown(text[begin : begin + MAX_SHOWN])


def bounded(text: str) -> str:
    """Keep a text short; an ellipsis marks what is left out."""
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
