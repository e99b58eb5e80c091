"""What a decision is called: one sign and one word for it, wherever it is shown."""

from typing import Final, Literal, TypeAlias

Decision: TypeAlias = Literal["use", "avoid", "more trials"]

# More trials need not be of use: how many would decide, if any, is told beside the word.
VERDICTS: Final[dict[Decision, tuple[str, str]]] = {
    "use": ("✓", "use"),
    "avoid": ("✗", "avoid"),
    "more trials": ("?", "undecided"),
}
