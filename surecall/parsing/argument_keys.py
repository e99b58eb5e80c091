"""Keys of arguments that the tool does not declare, and which of its own they can only stand for.

    calendarId, Calendar-ID    calendar_id      the same words, joined in another way
    path</arg_key>             path             a mark of the template that a parser left behind

Synonyms are not looked for: what resembles a key is not it.
"""

from collections import Counter
from collections.abc import Iterable

from surecall.parsing.control_tokens import without_control_tokens
from surecall.values.types import JSON

_LONGEST = 128


def with_own_keys(value: JSON, properties: Iterable[str]) -> JSON | None:
    """Return the arguments under the tool's own keys; None if there is nothing to rename.

    A key is renamed only if exactly one declared key, not yet given, has the same words.
    """
    declared = list(properties)
    open_places = [name for name in declared if name not in value]
    folded = Counter(map(_folded, declared))
    own = {_folded(name): name for name in open_places if folded[_folded(name)] == 1}
    renamed = {key: own.get(_folded(key), key) for key in value if key not in declared}
    if len(set(renamed.values())) < len(renamed) or all(old == new for old, new in renamed.items()):
        return None
    return {renamed.get(key, key): item for key, item in value.items()}


def _folded(key: str) -> str:
    """Take away how words are joined, and marks around them; of long keys nothing."""
    if len(key) > _LONGEST:
        return key
    bare = without_control_tokens(key)
    return bare.replace("_", "").replace("-", "").lower() if bare.isascii() else bare
