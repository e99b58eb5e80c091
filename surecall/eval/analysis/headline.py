"""Which strategy a headline is about. Figures of several strategies are never added up."""

from surecall.eval.analysis.recommend import candidates
from surecall.eval.analysis.summary import Summary, Totals


def headline_strategy(summary: Summary) -> str:
    """Return the strategy that advice is about; blank if there is none to advise on."""
    found = candidates(summary.cells)
    return found[0].instead_of or found[0].strategy if found else ""


def headline(summary: Summary) -> Totals:
    """Return the figures of that strategy, or those of all trials if there is none."""
    return summary.strategies.get(headline_strategy(summary), summary.totals)
