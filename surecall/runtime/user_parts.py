"""The user's words in parts, text and images: what would be refused later is refused at once.

    [{"type": "text", "text": "…"}, {"type": "image_url", "image_url": {"url": "data:…"}}]

Parts of other types (audio, files, what a provider has of its own) are passed on as they are.
"""

from collections.abc import Mapping
from typing import Any

from surecall.values.errors import ConfigError

_TEXT = '{"type": "text", "text": "…"}'
_IMAGE = '{"type": "image_url", "image_url": {"url": "data:image/png;base64,…"}}'


def check_parts(parts: list[Any]) -> None:
    """Refuse parts that no endpoint would take."""
    for number, part in enumerate(parts, start=1):
        if problem := _problem(part):
            raise ConfigError(f"part {number} of the user's words {problem}")


def _problem(part: Any) -> str | None:
    if not isinstance(part, Mapping):
        return f"must be a mapping such as {_TEXT}, not {type(part).__name__}"
    match part.get("type"):
        case "text":
            return None if isinstance(part.get("text"), str) else f"has no text: write {_TEXT}"
        case "image_url":
            return _image_problem(part.get("image_url"))
        case str(kind) if kind:
            return None
        case _:
            return f"does not say its type: write {_TEXT} or {_IMAGE}"


def _image_problem(image: Any) -> str | None:
    url = image.get("url") if isinstance(image, Mapping) else None
    if not isinstance(url, str):
        return f"has no address of an image: write {_IMAGE}"
    # Endpoints do not read the caller's files, and say so less clearly.
    if ":" not in url[:32]:
        return (
            f"is an image with the address {url[:80]!r}: write https://… or data:image/png;base64,…"
        )
    return None
