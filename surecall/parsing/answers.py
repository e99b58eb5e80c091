"""An answer that is to be JSON, read into its value or into a reason why it has none.

    ok         one JSON value, of any kind, and nothing else
    repaired   a fence around all of it, or a known slip whose cure loses nothing
    unusable   anything else; `problem` says why, as the rest of a sentence that begins with "it"

Words around a value are not dropped: they may say that it is only an example, or not true.
"""

from typing import Any, Final

import msgspec

from surecall.parsing.almost_json import MAX_DEPTH, Unusable
from surecall.parsing.arguments import bare, json_value, whole
from surecall.parsing.budget import MAX_TEXT, MAX_VALUES, most_values

_BEGINS: Final = frozenset('{["')
_TOO_LARGE: Final = "it is too large"
_PROBLEMS: Final = {
    "cut_off": "it ends too early",
    "too_deep": f"it is nested more than {MAX_DEPTH} levels deep",
    "several_objects": "it holds several different JSON values",
    "bad_escape": "it has a backslash that is not an escape of JSON",
    "number": "it has a number that is not finite, or too long",
}
_ABOUT_KEYS: Final = {
    "missing_value": 'the key "{}" has no value',
    "duplicate_key": 'the key "{}" comes twice, with different values',
}


class Value(msgspec.Struct, frozen=True):
    """The verdict: `value` counts unless `problem` says why there is none."""

    value: Any = None
    problem: str = ""
    repairs: tuple[str, ...] = ()


def read_value(text: str) -> Value:
    """Read the one JSON value that a text is; never raise, never guess."""
    if len(text) > MAX_TEXT or most_values(text.encode("utf-8", "replace")) > MAX_VALUES:
        return Value(problem=_TOO_LARGE)
    fired: dict[str, None] = {}
    inside = bare(whole(text, fired), fired)
    try:
        return Value(json_value(inside, fired, _BEGINS), repairs=tuple(fired))
    except Unusable as refusal:
        return Value(problem=_problem(refusal))


def _problem(refusal: Unusable) -> str:
    if refusal.reason in _ABOUT_KEYS:
        return _ABOUT_KEYS[refusal.reason].format(refusal.key)
    near = f" (near `{refusal.near}`)" if refusal.near else ""
    return _PROBLEMS.get(refusal.reason, f"it is not one JSON value with nothing around it{near}")
