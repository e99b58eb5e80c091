"""Plays every case of `tests/corpus/wild` without a config, and prints a score for each.

    python scripts/score_wild.py              all of them
    python scripts/score_wild.py vllm sglang  those whose id begins so

Right: exactly the expected calls ran, and the run ended as expected. First: right, with no more
requests than an ideal run. Wrong: something ran that must not. Silent: a success without the calls,
and nobody was told. Illegal: a request that a strict endpoint refuses.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.corpus import Score, load_wild, score

WIDTH = 48
MARKS = ("right", "first_try", "wrong", "silent", "illegal")


def row(result: Score) -> str:
    """Return the line of one case."""
    marks = " ".join(f"{name if getattr(result, name) else '-':9}" for name in MARKS)
    rules = f"  {', '.join(result.illegal)}" if result.illegal else ""
    ran = "" if result.right else f"  ran {result.ran}"
    return f"{result.id:{WIDTH}} {marks} {result.requests:3}  {result.end[:90]}{ran}{rules}"


def totals(results: Sequence[Score]) -> str:
    """Return how many there are of each mark, with their number beside it."""
    counts = {name: sum(bool(getattr(result, name)) for result in results) for name in MARKS}
    return ", ".join(f"{name} {count} of {len(results)}" for name, count in counts.items())


def main(prefixes: Sequence[str]) -> None:
    """Score the cases whose id begins with one of the prefixes, or all."""
    cases = [case for name, case in load_wild().items() if name.startswith(tuple(prefixes) or "")]
    results = [score(case) for case in cases]
    print("\n".join(map(row, results)))
    print("\n" + totals(results))


if __name__ == "__main__":
    main(sys.argv[1:])
