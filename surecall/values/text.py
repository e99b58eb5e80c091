"""Text functions shared by every layer."""

from collections.abc import Iterator

_BYTES_PER_TOKEN = 4


def join_surrogates(text: str) -> str:
    """Join surrogate pairs; replace lone surrogates, which UTF-8 cannot encode, with U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def truncate(text: str, limit: int) -> str:
    """Cut a text to `limit` characters, the last of which is then an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def occurrences(text: str, part: str) -> Iterator[int]:
    """Yield every position of `part`, including overlapping ones."""
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def quantity(number: int, noun: str) -> str:
    """Return a count with its noun: `1 call`, `2 calls`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens in a text: a quarter of its bytes, rounded up."""
    # Model output may contain lone surrogates, which strict UTF-8 cannot encode.
    size = len(text.encode("utf-8", "surrogatepass"))
    return -(-size // _BYTES_PER_TOKEN)


# HTML entities, such as `&gt;`. The modules are imported late: few texts have any, and their table
# is slow to load.


def unescape_html(text: str) -> str:
    """Return a text with its HTML entities decoded, as browsers decode them."""
    if "&" not in text:
        return text
    from html import unescape  # noqa: PLC0415 - see above

    return unescape(text)


def escape_html(text: str) -> str:
    """Return a text with its HTML special characters escaped, including quotation marks."""
    from html import escape  # noqa: PLC0415 - see above

    return escape(text)


def html_entity(name: str) -> str | None:
    """Return the text of a named entity (`gt;`), or None if there is no such entity."""
    from html.entities import html5  # noqa: PLC0415 - see above

    return html5.get(name)
