"""Entities of HTML, as in `&gt;`. Few texts have any, and their table takes long to load."""


def without_entities(text: str) -> str:
    """Return a text with what its entities stand for, read as a browser would."""
    if "&" not in text:
        return text
    from html import unescape  # noqa: PLC0415 - see the module's first line

    return unescape(text)


def with_entities(text: str) -> str:
    """Return a text in which the marks of HTML are entities, quotation marks too."""
    from html import escape  # noqa: PLC0415 - see the module's first line

    return escape(text)


def entity_named(name: str) -> str | None:
    """Return what an entity stands for, by its name with the semicolon; None if there is none."""
    from html.entities import html5  # noqa: PLC0415 - see the module's first line

    return html5.get(name)
