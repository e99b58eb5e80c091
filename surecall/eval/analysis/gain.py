"""What changed between two columns of the same conversations: strategies, or whole runs."""

from surecall.eval.analysis.paired import Comparison, Comparisons

_WORDS = {
    "better": "this is more than chance",
    "worse": "this is more than chance",
    "no evidence": "this may be chance",
}


def gains_of(found: Comparisons) -> dict[tuple[str, str], Comparison]:
    """Compare the first strategy with the last one, for each model and profile."""
    return {(row.model, row.profile): row for row in found.rows if _spans(row, found)}


def change_sentence(row: Comparison) -> str:
    """Say what changed from the first to the second, and whether that may be chance."""
    before, after = row.rates
    told = f" with {row.strategy}" if row.strategy else ""
    passed = (
        f"From {row.first} to {row.second}{told}: {before.k} of {before.n} runs passed, then "
        f"{after.k}"
    )
    if not row.fixed and not row.broken:
        return f"{passed}; no difference."
    changed = f"{points(row)} ({row.fixed} fixed, {row.broken} broken)"
    return f"{passed}; {changed}; {_WORDS[row.verdict()]}."


def points(row: Comparison) -> str:
    """Write a difference of rates: +80 points."""
    return f"{round(100 * (row.difference or 0.0)):+} points"


def _spans(row: Comparison, found: Comparisons) -> bool:
    """Whether a row goes from the first strategy to the last; they come in this order."""
    return (row.first, row.second) == (found.overall[0].first, found.overall[-1].second)
