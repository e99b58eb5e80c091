"""What `make peers` came to, as a small file: the cases of each form, and a letter for each run.

The letter is the first of the verdict (right, wrong, error, silent), and a capital where a request
broke the rules that all providers share. Only a run without such a request counts as right; one
that came out right in spite of it counts as an error.
"""

from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from bench.peers.corpus import FORMS, cases
from bench.peers.measure import Outcome
from surecall.values.types import JSON

ROOT: Final = Path(__file__).resolve().parents[2]
FILE: Final = ROOT / "docs" / "peers.json"
VERDICTS: Final = ("right", "wrong", "error", "silent")
_LETTERS: Final = {verdict[0]: verdict for verdict in VERDICTS}


class Runs(msgspec.Struct, frozen=True):
    """What one peer came to: its version, blank if it was not run, and its runs in each form."""

    version: str = ""
    plain: str = ""
    streamed: str = ""

    def letters(self, form: str) -> str:
        """Return the runs of a form."""
        return self.streamed if form == "streamed" else self.plain


class Results(msgspec.Struct, frozen=True):
    """All runs of all peers; `cases` names the family of each case, in the order of the letters."""

    date: str
    cases: dict[str, dict[str, str]]
    peers: dict[str, Runs]

    def counts(self, peer: str, form: str, family: str = "") -> Counter[str]:
        """Count the verdicts of a peer, in all families or in one."""
        met = zip(self.cases[form].values(), self.peers[peer].letters(form), strict=True)
        return Counter(verdict_of(letter) for each, letter in met if family in {"", each})

    def illegal(self, peer: str, form: str) -> int:
        """Count the runs with a request that broke the rules of everybody."""
        return sum(letter.isupper() for letter in self.peers[peer].letters(form))

    def verdicts(self, peer: str, form: str) -> dict[str, str]:
        """Return the verdict on each case."""
        met = zip(self.cases[form], self.peers[peer].letters(form), strict=True)
        return {case: verdict_of(letter) for case, letter in met}


def verdict_of(letter: str) -> str:
    """Return what a letter stands for."""
    return "error" if letter == "R" else _LETTERS[letter.lower()]


def letter_of(outcome: Outcome) -> str:
    """Write an outcome as a letter."""
    letter = outcome.verdict[0]
    return letter.upper() if outcome.illegal else letter


def families() -> dict[str, dict[str, str]]:
    """Name the cases of each form, with their families."""
    return {form: {case.key: case.family for case in cases(form)} for form in FORMS}


def load(path: Path = FILE) -> Results:
    """Read a file of results."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def save(results: Results, path: Path = FILE) -> None:
    """Write a file of results, one case on a line, so that changes can be read."""
    plain: JSON = msgspec.to_builtins(results)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plain), indent=1) + b"\n")
