"""What a decision is called: one sign and one word for it, wherever it is shown.

    use, avoid      decided: the whole interval lies on one side of the bar
    more trials     undecided, and it is known how many more runs would decide if the rates stay
    too close       undecided, and more runs of the kind are not planned, or would not decide
    not measured    no run with tools was judged

A simulated model is a script: nobody can use it or avoid it. What is decided about it is whether
surecall handles what it does.
"""

from typing import Final, Literal, TypeAlias

Decision: TypeAlias = Literal["use", "avoid", "more trials", "too close", "not measured"]
Words: TypeAlias = dict[Decision, tuple[str, str]]

_OPEN: Final[Words] = {
    "more trials": ("?", "undecided"),
    "too close": ("≈", "too close to call"),
    "not measured": ("\N{EN DASH}", "not measured"),
}
VERDICTS: Final[Words] = {"use": ("✓", "use"), "avoid": ("✗", "avoid"), **_OPEN}
SIMULATED_VERDICTS: Final[Words] = {
    "use": ("✓", "handled"),
    "avoid": ("✗", "not handled"),
    **_OPEN,
}


def verdicts(*, simulated: bool) -> Words:
    """Return the signs and words for decisions about real models, or about simulated ones."""
    return SIMULATED_VERDICTS if simulated else VERDICTS
