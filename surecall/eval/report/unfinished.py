"""Whether all that was planned is recorded; every report says it in the same words."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from surecall.eval.report.common import sheet_in
from surecall.eval.running.matrix import FIRST_TRIALS
from surecall.eval.settings.parse import AUTO
from surecall.eval.storage.store import Invocation
from surecall.eval.storage.trial import Cell
from surecall.values.errors import ConfigError

Place: TypeAlias = tuple[Cell, str]
Counts: TypeAlias = Mapping[Place, int]
WHY: Final = (
    "The evaluation was interrupted, its budget was used up, or it is still going on; the same "
    "command continues it."
)


def partial(missing: int, wanted: int) -> str:
    """Say that a run is not complete; blank when it is."""
    if missing <= 0:
        return ""
    return f"Partial: {missing} of {wanted} planned runs are not recorded."


def unfinished(invocations: Iterable[Invocation], found: Counts, skipped: Counts) -> str:
    """Say how many planned runs are missing, given how many there are of each kind.

    Of the commands with the same cells and scenarios the last one counts. Runs that cannot apply
    are recorded as skipped, and are no part of what is planned.
    """
    plans: dict[frozenset[Place], int] = {}
    for invocation in invocations:
        places, trials = _planned(invocation)
        plans[places] = trials
    wanted: dict[Place, int] = {}
    for places, trials in plans.items():
        wanted |= {place: max(trials, wanted.get(place, 0)) for place in places}
    missing = sum(max(0, n - found.get(place, 0)) for place, n in wanted.items())
    left_out = sum(min(n, skipped.get(place, 0)) for place, n in wanted.items())
    return partial(missing, sum(wanted.values()) - left_out)


def _planned(invocation: Invocation) -> tuple[frozenset[Place], int]:
    """Return what a command planned, and how often; a shard does not know its share here."""
    try:
        sheet = sheet_in([invocation.config])
    except ConfigError:
        return frozenset(), 0
    trials = sheet.settings.get("trials")
    trials = FIRST_TRIALS if trials == AUTO else trials
    places = frozenset((each.cell, name) for each in sheet.columns for name in sheet.scenarios)
    if not isinstance(trials, int) or sheet.settings.get("shard"):
        trials = 0
    return places, trials
