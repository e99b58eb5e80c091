"""What tells the values of a grounded parameter apart, in the words of the results they came from.

    parcel_id   P-4411   contents 'books', status 'delivered'
                P-4478   contents 'a lamp', status 'in transit'

A small model that may choose between ids takes the first or the last. In a guided reply it
first writes what the thing is, and then its id: the order of keys is an order of decisions. What
all of them have in common says nothing, and is left out; so is what the user did not ask about, if
the user has named something that tells them apart (`status 'in transit'`). What differs at once
comes before what begins alike: who has written `name 'Le` has all but decided between Lea and Leo.
"""

from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Any, Final

from surecall.parsing.whole_words import stands_in
from surecall.values.types import JSON

MOST_DESCRIBED: Final = 24
_LONGEST: Final = 40
_MOST_TOLD: Final = 5


def described(
    name: str, values: Sequence[Any], records: Sequence[JSON], asked: Sequence[str]
) -> dict[Any, str]:
    """Return each value after what tells it from the others; nothing if nothing does."""
    rows = [_row(name, value, records) for value in values]
    telling = [key for key in _keys(rows) if len({str(row.get(key)) for row in rows}) > 1]
    if not telling:
        return {}
    words = " ".join(asked).casefold()
    named = [key for key in telling if any(_is_named(row.get(key), words) for row in rows)]
    told_by = sorted(named or telling, key=lambda key: _alike([str(row.get(key)) for row in rows]))
    first = told_by[:_MOST_TOLD]
    return {
        value: ", ".join([*_told(row, first), str(value)])
        for value, row in zip(values, rows, strict=True)
    }


def told(name: str, value: Any, records: Sequence[JSON]) -> str:
    """Return what stands beside a value, as in `supplier 'Quist', day 'Friday'`."""
    if isinstance(value, list | dict):
        return ""
    row = _row(name, value, records)
    return ", ".join(_told(row, [*row][:_MOST_TOLD]))


def _row(name: str, value: Any, records: Sequence[JSON]) -> JSON:
    """Return what stands beside a value: where it is under that name, else wherever it is."""
    named = [each for each in records if each.get(name) == value]
    found = named or [each for each in records if value in each.values()]
    return {key: item for key, item in found[0].items() if item != value} if found else {}


def _is_named(item: Any, words: str) -> bool:
    return item is not None and stands_in(str(item).casefold(), words)


def _alike(texts: Sequence[str]) -> int:
    """Return how many characters two of some texts begin alike with: Lea and Leo with two."""
    pairs = pairwise(sorted(set(texts)))
    return max((_shared(*pair) for pair in pairs), default=0)


def _shared(first: str, second: str) -> int:
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    )


def _keys(rows: Sequence[JSON]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def _told(row: JSON, keys: Sequence[str]) -> list[str]:
    return [f"{key[:_LONGEST]} '{str(row[key])[:_LONGEST]}'" for key in keys if key in row]
