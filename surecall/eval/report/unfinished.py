"""Whether all that was planned is recorded; every report says it in the same words."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from surecall.eval.report.common import SHEET, sheet_in
from surecall.eval.running.matrix import FIRST_TRIALS
from surecall.eval.settings.parse import AUTO
from surecall.eval.storage.store import Invocation
from surecall.eval.storage.trial import Cell
from surecall.values.errors import ConfigError

Counts: TypeAlias = Mapping[tuple[Cell, str], int]
WHY: Final = (
    "The evaluation was interrupted, its budget was used up, or it is still going on; the same "
    "command continues it."
)


def partial(missing: int, wanted: int) -> str:
    """Say that a run is not complete; blank when it is."""
    if missing <= 0:
        return ""
    return f"Partial: {missing} of {wanted} planned runs are not recorded."


def unfinished(latest: Invocation, found: Counts, skipped: Counts) -> str:
    """Say how many runs of the last command are missing, given how many there are of each kind.

    Runs that cannot apply are recorded as skipped, and are no part of what is planned. A shard
    does not know its share here, so nothing is said of it.
    """
    if SHEET not in latest.config:
        return ""
    try:
        sheet = sheet_in([latest.config])
    except ConfigError:
        return ""
    trials = sheet.settings.get("trials")
    trials = FIRST_TRIALS if trials == AUTO else trials
    if not isinstance(trials, int) or sheet.settings.get("shard"):
        return ""
    wanted = [(column.cell, name) for column in sheet.columns for name in sheet.scenarios]
    missing = sum(max(0, trials - found.get(place, 0)) for place in wanted)
    left_out = sum(min(trials, skipped.get(place, 0)) for place in wanted)
    return partial(missing, len(wanted) * trials - left_out)
