"""How the conduct of runs is shown: what they did and said, beside how many were right.

Only runs whose side effects were judged are counted, so a report without such runs has none of it.
"""

from collections.abc import Iterable
from typing import Final

from surecall.eval.report.common import Entry
from surecall.eval.storage.trial import Conduct
from surecall.values.types import JSON

# The heads of the columns; a row has them in this order.
COLUMNS: Final = (
    "right",
    "silent wrong",
    "false success",
    "wrong effects",
    "repeated effects",
    "runs with such",
    "requests after a no",
    "requests/run",
    "tokens/run",
)


def conduct_of(entries: Iterable[Entry]) -> Conduct:
    """Add up what some runs did and said."""
    return sum((entry.conduct for entry in entries), Conduct())


def conduct_row(conduct: Conduct) -> tuple[str, ...]:
    """Write one row of a table: runs, but for effects and what a run took on average."""
    return (
        f"{conduct.right}/{conduct.runs}",
        str(conduct.silent),
        str(conduct.false_success),
        str(conduct.wrong),
        str(conduct.repeated),
        str(conduct.astray),
        str(conduct.after_no),
        f"{conduct.requests_per_run or 0:.1f}",
        f"{conduct.tokens_per_run or 0:.0f}",
    )


def conduct_json(conduct: Conduct) -> JSON | None:
    """Return the same for programs; None where nothing was judged."""
    if not conduct.runs:
        return None
    return {
        "runs": conduct.runs,
        "right": conduct.right,
        "silent_wrong": conduct.silent,
        "false_success": conduct.false_success,
        "wrong_effects": conduct.wrong,
        "repeated_effects": conduct.repeated,
        "runs_with_such_effects": conduct.astray,
        "requests_after_no": conduct.after_no,
        "requests": conduct.requests,
        "requests_per_run": conduct.requests_per_run,
        "tokens": conduct.tokens,
        "tokens_per_run": conduct.tokens_per_run,
    }
