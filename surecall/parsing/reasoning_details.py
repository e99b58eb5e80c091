"""Thoughts of a streamed reply that come as lists: which piece continues which, and what is new.

That is `reasoning_details` of routers, `thinking_blocks` of gateways before Anthropic's models, and
parts of the content that are neither text nor calls.
"""

from typing import Any

from surecall.parsing.almost_json import mended
from surecall.parsing.budget import Budget
from surecall.parsing.call_fragments import VOID, Text
from surecall.values.types import JSON

_GROWING_KEYS = ("text", "summary", "thinking")
_WHOLE_KEYS = ("type", "index", "id", "signature", "data")


class Details:
    """Reasoning details: texts grow, signatures and encrypted data stay byte by byte."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._all: list[_Detail] = []
        # By type and index, and under None the last of all.
        self._latest: dict[tuple[str, int] | None, _Detail] = {}

    def add(self, raw: Any) -> str:
        """Take one detail of a delta; return the text it added."""
        if not isinstance(raw, dict):
            return ""
        kind, index = raw.get("type"), raw.get("index")
        key = (kind, index) if isinstance(kind, str) and isinstance(index, int) else None
        detail = self._latest.get(key)
        if detail is None or not detail.takes(raw):
            detail = _Detail(self._budget)
            self._all.append(detail)
        self._latest[None] = self._latest[key] = detail
        return detail.add(raw)

    def render(self) -> list[JSON]:
        """Write the details in the order in which they began, which must not change."""
        return [detail.render() for detail in self._all]


class _Detail:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._fields: JSON = {}
        self._texts: dict[str, Text] = {}
        self._lists: dict[str, list[Any]] = {}

    def takes(self, raw: JSON) -> bool:
        """Whether this is more of the same: no key says otherwise, and no signed text grows."""
        for key in _WHOLE_KEYS:
            value = raw.get(key)
            if isinstance(value, str | int) and self._fields.get(key, value) != value:
                return False
        for key in _GROWING_KEYS:
            held: Any = self._texts if isinstance(raw.get(key), list) else self._lists
            if raw.get(key) is not None and key in held:
                return False  # it came in another form
        is_signed = "signature" in self._fields and not raw.get("signature")
        return not (is_signed and any(raw.get(key) for key in _GROWING_KEYS))

    def add(self, raw: JSON) -> str:
        added = ""
        for key, value in raw.items():
            if key in _GROWING_KEYS and isinstance(value, str):
                self._texts.setdefault(key, Text()).append(value)
                self._budget.spend_text(value)
                added += value
            elif key in _GROWING_KEYS and isinstance(value, list):
                self._lists.setdefault(key, []).extend(value)
                self._budget.spend(value)
            elif value not in VOID and self._fields.get(key) != value:
                self._fields[key] = value
                self._budget.spend([key, value])
        return mended(added)

    def render(self) -> JSON:
        texts = {key: mended(text.joined()) for key, text in self._texts.items()}
        return self._fields | self._lists | texts
