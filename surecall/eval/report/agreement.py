"""How endpoints compare with the reference: as rows, as Markdown, and as data."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from surecall.eval.analysis.agreement import UNSEEN, Agreement, Counts, Figure, agreements, side_of
from surecall.eval.analysis.agreement_words import agreement_sentence, percent, points
from surecall.eval.report.common import Sheet
from surecall.eval.report.markdown import table, text
from surecall.eval.storage.trial import Trial
from surecall.values.types import JSON

AGREEMENT: Final = "agreement.json"
_AT: Final = "@"
APART: Final = (
    "The rates on this page are about each endpoint by itself: whether its calls fit their "
    "schemas, and whatever the requests expect."
)
EXPLAINED: Final = (
    "Answered: of the requests that were not spoiled on the way. Call or not, same calls: F1, with "
    "{reference} as the truth; its own figure is how it agrees with itself. Calls fit: the schemas "
    "of their tools. Intervals are 95 %, those of differences for all comparisons together."
)


def agreements_in(sheet: Sheet, trials: Iterable[Trial]) -> tuple[Agreement, ...]:
    """Compare the endpoints of a run with its reference; none if it has no reference."""
    if not sheet.endpoints:
        return ()
    reference = str(sheet.settings.get("reference"))
    names = (reference, *str(sheet.settings.get("against", "")).split(","))
    found: dict[str, list[Trial]] = {name: [] for name in names}
    for trial in trials:
        if trial.key.cell.model in found:
            found[trial.key.cell.model].append(trial)
    called = short_names(names)
    sides = {called[name]: side_of(own) for name, own in found.items()}
    return agreements(called[reference], sides)


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Name each by its endpoint alone, where that is enough to tell them apart."""
    short = [name.rpartition(_AT)[2] for name in names]
    alone = len(set(short)) == len(short)
    return dict(zip(names, short if alone else names, strict=True))


def heads(found: Agreement) -> tuple[str, ...]:
    """Return the names of the columns."""
    return ("", found.name, found.reference, "difference", "")


def rows(found: Agreement) -> list[tuple[str, ...]]:
    """Return a row for each figure."""
    return [
        _row("answered", found.answered),
        _row("call or not", found.decision),
        ("  precision", percent(found.precision), "", "", ""),
        ("  recall", percent(found.recall), "", "", ""),
        _row("same calls", found.calls),
        _row("calls fit", found.fits),
    ]


def _row(name: str, figure: Figure) -> tuple[str, ...]:
    floor = percent(figure.reference) if figure.reference.value is not None else ""
    verdict = "" if figure.verdict == UNSEEN else figure.verdict
    return (name, percent(figure.value), floor, points(figure.gap), verdict)


def count_lines(found: Sequence[Agreement]) -> list[str]:
    """Say what became of the requests, endpoint by endpoint."""
    counts = {each.reference: each.reference_counts for each in found}
    counts |= {each.name: each.counts for each in found}
    return [f"{name}: {_counted(each)}" for name, each in counts.items()]


def _counted(counts: Counts) -> str:
    parts = [f"{counts.answered} of {counts.asked} answered", f"{counts.calls} calls"]
    if counts.refused:
        parts.append(f"{counts.refused} refused")
    parts += [f"{number} failed ({code})" for code, number in sorted(counts.errors.items())]
    return ", ".join(parts)


def section(found: Sequence[Agreement]) -> str:
    """Write it as Markdown; blank if there is nothing."""
    if not found:
        return ""
    parts = ["## Endpoints, by the same requests"]
    for each in found:
        cells = [[text(cell.strip()) for cell in row] for row in rows(each)]
        parts += [text(agreement_sentence(each)), table(list(map(text, heads(each))), cells)]
    parts.append("\n".join(f"- {text(line)}" for line in count_lines(found)))
    parts.append(EXPLAINED.format(reference=text(found[0].reference)))
    return "\n\n".join([*parts, "## Every endpoint by itself"])


def notices(found: Sequence[Agreement]) -> list[str]:
    """Say it in sentences, for a page that shows each endpoint by itself."""
    if not found:
        return []
    return [*map(agreement_sentence, found), APART]


def agreement_document(found: Sequence[Agreement], addresses: Mapping[str, str]) -> JSON:
    """Write it as data; every ratio has its n and its interval."""
    plain: list[JSON] = [
        {
            **msgspec.to_builtins(each),
            "verdict": each.verdict,
            "verdicts": {name: getattr(each, name).verdict for name in _COMPARED},
            "sentence": agreement_sentence(each),
        }
        for each in found
    ]
    return {"endpoints": dict(addresses), "comparisons": plain}


_COMPARED: Final = ("answered", "decision", "calls", "fits")
