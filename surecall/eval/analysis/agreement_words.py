"""What an agreement means, in one sentence that can be defended."""

from typing import Final

from surecall.eval.analysis.agreement import Agreement, Figure
from surecall.eval.analysis.ratios import Ratio
from surecall.eval.analysis.stats import CLUSTERED_FROM

_WORSE: Final = {
    "answered": "it answers {value} of the requests, {reference} {floor}",
    "decision": (
        "it decides to call as {reference} does with an F1 of {value}, {reference} itself with "
        "{floor}"
    ),
    "calls": "it makes {reference}'s calls with an F1 of {value}, {reference} itself with {floor}",
    "fits": "{value} of its calls fit their schemas, {floor} of {reference}'s do",
}


def agreement_sentence(found: Agreement) -> str:
    """Say whether an endpoint serves the model as the reference does, and what that rests on."""
    name, reference = found.name, found.reference
    if found.verdict == "worse":
        return f"{name} is worse than {reference}: {'; '.join(_worse(found))}."
    if found.lacking == "answers":
        return f"Open: no request was answered by both {name} and {reference}."
    n = _n(found.requests)
    if found.lacking == "calls":
        return f"Open: neither {name} nor {reference} made a call {n}."
    agrees = f"{name} makes {reference}'s calls with an F1 of {percent(found.calls.value)}"
    if found.lacking == "a floor":
        return (
            f"Open: {agrees} {n}, but how well {reference} agrees with itself is not known from "
            "one trial; -n 2 measures it."
        )
    if found.lacking == "requests":
        return f"Open: {agrees} {n}, but fewer than {CLUSTERED_FROM} requests decide nothing."
    lead = f"No difference between {name} and {reference} can be seen"
    if found.verdict == "better":
        lead = f"{name} is no worse than {reference}"
    lost = max(-figure.gap.low for figure in found.figures if figure.gap.value is not None)
    itself = f"{reference} itself with {percent(found.calls.reference)}"
    return (
        f"{lead}: {agrees}, {itself} {n}. A loss of up to {100 * lost:.1f} points in one of the "
        "figures cannot be ruled out."
    )


def _worse(found: Agreement) -> list[str]:
    figures: dict[str, Figure] = {name: getattr(found, name) for name in _WORSE}
    return [
        _WORSE[name].format(
            value=percent(figure.value),
            floor=percent(figure.reference),
            reference=found.reference,
        )
        + f" {_n(figure.value.n)}"
        for name, figure in figures.items()
        if figure.verdict == "worse"
    ]


def _n(requests: int) -> str:
    return f"(n = {requests} request{'' if requests == 1 else 's'})"


def percent(found: Ratio) -> str:
    """Write a ratio with its interval: 81.2% [74.1, 87.0]."""
    if found.value is None:
        return "unknown"
    return f"{_hundredths(found.value)}% [{_hundredths(found.low)}, {_hundredths(found.high)}]"


def points(found: Ratio) -> str:
    """Write a difference with its interval, in points: -2.8 [-8.1, +2.5]."""
    if found.value is None:
        return ""
    value, low, high = (_hundredths(each, "+") for each in (found.value, found.low, found.high))
    return f"{value} [{low}, {high}]"


def _hundredths(share: float, sign: str = "") -> str:
    # Tables are as wide as a terminal: the tenth is left out where it says nothing.
    return f"{100 * share:{sign}.1f}".replace("100.0", "100")
