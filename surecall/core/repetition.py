"""Calls that are made again and again: in a row, or in a circle of any number of turns.

    A A A            in a row, period 1
    A B A B A B      in a circle, period 2
    A B C A B C      period 3, and so on

A turn in which the model only talks breaks both. What is meant to be repeated is no repetition: a
`repeatable` tool, and a need of the contract that says `repeat`. A circle with such a call in it is
none either.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from surecall.core.obligations import same_call
from surecall.core.state import Run, once_per_run
from surecall.values.types import Assistant, ToolCall

_Made: TypeAlias = tuple[str, bytes, int]
_Turn: TypeAlias = frozenset[_Made] | None


class Recurrence(NamedTuple):
    """How often a call recurs, counting now; over how many turns; with which period."""

    times: int = 1
    turns: int = 1
    period: int = 1

    @property
    def words(self) -> str:
        """Say it, as in `3 times in a row`."""
        how = "in a row" if self.period == 1 else f"in a circle of {self.period} steps"
        return f"{self.times} times {how}"


def may_repeat(run: Run, call: ToolCall) -> bool:
    """Whether running a call twice does no more than running it once."""
    return any(spec.may_repeat for spec in run.tools if spec.name == call.name)


def is_repeatable(run: Run, call: ToolCall) -> bool:
    """Whether a call is meant to be made again and again, as its tool or the contract says."""
    contract = run.config.contract
    return any(spec.repeatable for spec in run.tools if spec.name == call.name) or (
        contract is not None and any(need.repeat and need.met_by(call) for need in contract.needs)
    )


@once_per_run
def before_newest(run: Run) -> Run:
    """Return the run as it was before the newest turn."""
    said = len(run.messages) - len(run.tail)
    return run.until(max(said - 1, run.start))


def recurrence(run: Run, call: ToolCall) -> Recurrence:
    """Return how a call recurs that is made in the turn after those of the run."""
    if is_repeatable(run, call):
        return Recurrence()
    if row := streak(run, call):
        return Recurrence(row + 1, row + 1)
    if not _was_made(run, call):
        return Recurrence()
    return _circle(_turns(run), _made(call))


def _was_made(run: Run, call: ToolCall) -> bool:
    """Whether a call was ever made before; most were not, and then there is nothing to compare."""
    earlier = (one for said in run.said for one in said.calls)
    return any(one.name == call.name and one.arguments == call.arguments for one in earlier)


def streak(run: Run, call: ToolCall) -> int:
    """Count the turns in a row, up to the newest, in which the same call was made."""
    count = 0
    for message in reversed(run.own):
        if isinstance(message, Assistant):
            if not any(same_call(call, earlier) for earlier in message.calls):
                break
            count += 1
    return count


def _circle(turns: Sequence[_Turn], made: _Made) -> Recurrence:
    """Find the shortest circle that a call closes: at least two whole rounds of the same turns."""
    here = len(turns)
    for period in range(2, (here + 1) // 2 + 1):
        before = turns[here - period]
        if before is None or made not in before:
            continue
        same = 0
        while same + period < here and _is_same(turns, here - 1 - same, period):
            same += 1
        if same >= period - 1:
            return Recurrence(2 + same // period, same + 1 + period, period)
    return Recurrence()


def _is_same(turns: Sequence[_Turn], at: int, period: int) -> bool:
    return turns[at] is not None and turns[at] == turns[at - period]


@once_per_run
def _turns(run: Run) -> list[_Turn]:
    """Return what was called in each turn; None for one that breaks a circle."""
    return [_turn(run, said) for said in run.said]


def _turn(run: Run, said: Assistant) -> _Turn:
    made = [call for call in said.calls if not call.ignored]
    if not made or any(is_repeatable(run, call) for call in made):
        return None
    return frozenset(map(_made, made))


def _made(call: ToolCall) -> _Made:
    # Arguments that could not be read are empty here; their size tells two attempts apart.
    size = 0 if call.arguments else call.arguments_bytes
    return call.name, msgspec.json.encode(call.arguments, order="deterministic"), size
