"""Prints the lengths of the documents and their limits; exits with 1 if one is exceeded.

    python scripts/check_docs.py

Lower a limit when a page gets shorter; raise none to make room for text.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
README_LINES: Final = 200
README_WORDS: Final = 1_200
PAGES_WORDS: Final = 25_000
ARCHITECTURE_WORDS: Final = 900
# One screen of a tall window.
RELEASE_LINES: Final = 90
# Pages that `scripts/generate_docs.py` writes as a whole.
GENERATED: Final = {"commands.md", "drift.md", "reference.md"}
_GENERATED_PART: Final = re.compile(r"^<!-- (\S+) -->\n.*?^<!-- /\1 -->$", re.DOTALL | re.MULTILINE)
_CODE: Final = re.compile(r"^(```+).*?^\1`*$", re.DOTALL | re.MULTILINE)
_RELEASE: Final = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)


class Length(NamedTuple):
    """How long something is, and how long it may be."""

    name: str
    size: int
    limit: int
    unit: str

    @property
    def is_exceeded(self) -> bool:
        """Whether it is too long."""
        return self.size > self.limit


def count_words(text: str) -> int:
    """Count words as `wc -w` does."""
    return len(text.split())


def hand_written_prose(text: str) -> str:
    """Return a document without code blocks and what the generators write between marks."""
    return _CODE.sub("", _GENERATED_PART.sub("", text))


def measure_lengths(root: Path) -> Iterator[Length]:
    """Yield the length of each document that has a limit."""
    docs = root / "docs"
    readme = (root / "README.md").read_text("utf-8")
    pages = [path for path in sorted(docs.glob("*.md")) if path.name not in GENERATED]
    written = [hand_written_prose(path.read_text("utf-8")) for path in pages]
    architecture = (docs / "architecture.md").read_text("utf-8")
    yield Length("README.md", len(readme.splitlines()), README_LINES, "lines")
    yield Length("README.md", count_words(readme), README_WORDS, "words")
    yield Length("docs/architecture.md", count_words(architecture), ARCHITECTURE_WORDS, "words")
    yield Length(
        "docs/*.md, hand-written, without code",
        sum(map(count_words, written)),
        PAGES_WORDS,
        "words",
    )
    for release, text in _RELEASE.findall((root / "CHANGELOG.md").read_text("utf-8")):
        lines = len(text.strip().splitlines())
        yield Length(f"CHANGELOG.md, {release}", lines, RELEASE_LINES, "lines")


def main() -> int:
    """Print every length; return 1 if one is exceeded."""
    lengths = list(measure_lengths(ROOT))
    for each in lengths:
        mark = "  too long" if each.is_exceeded else ""
        print(f"{each.name:<38} {each.size:>6} of {each.limit:>6} {each.unit}{mark}")
    return int(any(each.is_exceeded for each in lengths))


if __name__ == "__main__":
    sys.exit(main())
