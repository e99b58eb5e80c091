"""What a decision is called: one sign and one word for it, wherever it is shown.

A simulated model is a script: nobody can use it or avoid it. What is decided about it is whether
surecall handles what it does.
"""

from typing import Final, Literal, TypeAlias

Decision: TypeAlias = Literal["use", "avoid", "more trials"]
Words: TypeAlias = dict[Decision, tuple[str, str]]

# More trials need not be of use: how many would decide, if any, is told beside the word.
VERDICTS: Final[Words] = {
    "use": ("✓", "use"),
    "avoid": ("✗", "avoid"),
    "more trials": ("?", "undecided"),
}
SIMULATED_VERDICTS: Final[Words] = {
    "use": ("✓", "handled"),
    "avoid": ("✗", "not handled"),
    "more trials": ("?", "undecided"),
}


def verdicts(*, simulated: bool) -> Words:
    """Return the signs and words for decisions about real models, or about simulated ones."""
    return SIMULATED_VERDICTS if simulated else VERDICTS
