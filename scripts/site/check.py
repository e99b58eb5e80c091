"""What is wrong with the pages of a site: something from outside, or a link that leads nowhere."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

# An ordinary link may lead outside: nothing is asked for before somebody follows it.
_FOLLOWED: Final = {("a", "href"), ("area", "href")}
_REFERRING: Final = ("href", "src", "srcset", "poster", "data", "action", "background", "style")
_OUTSIDE: Final = re.compile(r"(?:https?:)?//[^\s\"')]+")
_IN_STYLES: Final = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\s\"')]+)")
_IN_SCRIPTS: Final = re.compile(
    r"(?:fetch|import|importScripts|Worker|EventSource|WebSocket|sendBeacon|open)\s*\(\s*[\"'`]((?:https?:|wss?:)?//[^\"'`]+)"
)


@dataclass
class Page:
    """What a page refers to, and what can be referred to in it."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        hidden = any(name == "hidden" for name, _ in attrs)  # nobody can follow it
        for name, value in attrs:
            if value is None:
                continue
            if name in {"id", "name"}:
                self.page.anchors.add(value)
            elif (tag, name) in _FOLLOWED:
                self.page.links += [] if hidden else [value]
            elif name in _REFERRING:
                self._refer(name, value)

    def _refer(self, name: str, value: str) -> None:
        if name in {"style", "srcset"}:
            self.page.asked += _OUTSIDE.findall(value)
        else:
            self.page.asked.append(value)

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self.page.asked += _IN_STYLES.findall(data)
        elif self._inside == "script":
            self.page.asked += _IN_SCRIPTS.findall(data)


def read(text: str) -> Page:
    """Read a page."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.page


def trouble(site: Path) -> list[str]:
    """Say of each page and file what it asks for outside, and which links lead nowhere."""
    pages = {
        path.relative_to(site).as_posix(): read(path.read_text("utf-8"))
        for path in sorted(site.rglob("*.html"))
    }
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    found = [line for name in pages for line in _of_page(name, pages, files)]
    return [*found, *_of_files(site)]


def _of_page(name: str, pages: Mapping[str, Page], files: set[str]) -> Iterator[str]:
    page = pages[name]
    for address in page.asked:
        if _OUTSIDE.match(address):
            yield f"{name} asks for {address}"
    for address in [*page.links, *page.asked]:
        if urlsplit(address).scheme or address.startswith("//"):
            continue
        path, anchor = urlsplit(address).path, unquote(urlsplit(address).fragment)
        where = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(path)))
        there = where if path else name
        if there not in files:
            yield f"{name} links to {address}, which is not there"
        elif anchor and there in pages and anchor not in pages[there].anchors:
            yield f"{name} links to {address}, which has no such place"


def _of_files(site: Path) -> Iterator[str]:
    for pattern, ending in ((_IN_STYLES, "css"), (_IN_SCRIPTS, "js")):
        for path in sorted(site.rglob(f"*.{ending}")):
            for address in pattern.findall(path.read_text("utf-8")):
                yield f"{path.relative_to(site).as_posix()} asks for {address}"
