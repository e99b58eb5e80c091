"""Writes what the search page knows of every page: how much it weighs, and its text."""

import html
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

from scripts.site.pages import NAVIGATION, place

# A guide answers a question sooner than a table does, and a decision hardly ever does.
_WEIGHT_BY_GROUP: Final = {"Tutorial": 1.0, "Guides": 1.0, "Reference": 0.6, "Explanation": 0.5}
_WEIGHT_OF_OTHERS: Final = 0.1
_FOR_CONTRIBUTORS: Final = {"CHANGELOG.md", "CONTRIBUTING.md"}
_NOT_SHOWN: Final = {"script", "style"}
_BLOCKS: Final = {"p", "li", "td", "th", "pre", "h1", "h2", "h3", "h4"}


class _TextReader(HTMLParser):
    """Keeps the article's text, and of its elements only the sections with an id."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._inside = False
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "article" and found.get("role") == "main":
            self._inside = True
        elif self._inside and tag == "section":
            self.parts.append(f'<section id="{html.escape(found.get("id") or "")}">')
        elif tag in _NOT_SHOWN or (tag == "a" and found.get("class") == "headerlink"):
            self._hidden += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self._inside = False
        elif self._inside and tag == "section":
            self.parts.append("</section>")
        elif self._hidden and tag in {*_NOT_SHOWN, "a"}:
            self._hidden -= 1
        elif self._inside and tag in _BLOCKS:
            self.parts.append(" ")

    def handle_data(self, data: str) -> None:
        if self._inside and not self._hidden:
            self.parts.append(html.escape(data, quote=False))


def page_text(page: str) -> str:
    """Return a page's text, in the sections that a result can point to."""
    reader = _TextReader()
    reader.feed(page)
    reader.close()
    return f'<div role="main">{" ".join("".join(reader.parts).split())}</div>'


def page_weight(name: str) -> float:
    """Return how much a match in a page counts, by its place in the navigation."""
    for group, pages in NAVIGATION.items():
        for path in set(pages) - _FOR_CONTRIBUTORS:
            if place(path).removesuffix(".md") == name:
                return _WEIGHT_BY_GROUP[group]
    return 1.0 if name == "index" else _WEIGHT_OF_OTHERS


def write_search_pages(site: Path, names: list[str]) -> None:
    """Write the script with the weight and text of every page."""
    pages = {
        name: {
            "weight": page_weight(name),
            "html": page_text((site / f"{name}.html").read_text("utf-8")),
        }
        for name in names
    }
    script = f"const SEARCH_PAGES = {json.dumps(pages, ensure_ascii=False)};\n"
    (site / "_static" / "search_pages.js").write_text(script, "utf-8")
