"""Numbers that Python reads and no JSON holds: what is kept must be JSON."""

import json
import math
from typing import Any, Final

# Where calls have their arguments, in OpenAI's format and in those that are read as well.
ARGUMENT_KEYS: Final = frozenset({"arguments", "parameters", "args", "input", "tool_input"})


def finite(value: Any) -> Any:
    """Write NaN and the infinities, which no JSON holds, as text.

    Arguments that hold one become text as a whole: their reader sees the number, and refuses it.
    """
    match value:
        case float() if not math.isfinite(value):
            return json.dumps(value)
        case list() | tuple():
            return [finite(item) for item in value]
        case dict():
            return {key: _finite_member(key, item) for key, item in value.items()}
        case _:
            return value


def _finite_member(key: Any, value: Any) -> Any:
    if key in ARGUMENT_KEYS and isinstance(value, dict | list):
        return value if is_finite(value) else json.dumps(value, ensure_ascii=False)
    return finite(value)


def is_finite(value: Any) -> bool:
    """Whether a value holds neither NaN nor an infinity."""
    if isinstance(value, float):
        return math.isfinite(value)
    items = value.values() if isinstance(value, dict) else value
    return not isinstance(value, dict | list | tuple) or all(map(is_finite, items))
