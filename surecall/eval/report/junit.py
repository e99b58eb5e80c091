"""JUnit XML, for programs that show test results: a suite for each cell, a case for each trial.

What a model did wrong is a failure; what the infrastructure spoiled is an error.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final
from xml.etree import ElementTree as ET

from surecall.eval.report.common import Entry, Results
from surecall.eval.storage.trial import Cell

_INDENT: Final = "  "
_TAGS: Final = {"failed": "failure", "infra": "error", "skipped": "skipped"}
# XML knows only three of the control characters, even escaped, and no half surrogates; the others
# that begin at DEL it discourages.
_REMOVED: Final = dict.fromkeys(
    (
        *(set(range(0x20)) - {0x09, 0x0A, 0x0D}),
        *(set(range(0x7F, 0xA0)) - {0x85}),
        *range(0xD800, 0xE000),
        *(0xFFFE, 0xFFFF),
    )
)


def junit(results: Results) -> Iterator[str]:
    """Return the whole run as one document, line by line."""
    suites = (
        line for cell, entries in results.entries.items() for line in _suite(results, cell, entries)
    )
    yield from _enclosed(ET.Element("testsuites", _counts(results.all)), suites, 0)


def _suite(results: Results, cell: Cell, entries: Sequence[Entry]) -> Iterator[str]:
    label = xml_text(results.labels[cell])
    properties = ET.Element("properties")
    ET.SubElement(properties, "property", {"name": "simulated", "value": "true"})
    first = [properties] if results.columns[cell].simulated else []
    cases = (_case(label, entry) for entry in entries)
    suite = ET.Element("testsuite", {"name": label} | _counts(entries))
    yield from _enclosed(suite, (_lines(each, 2) for each in chain(first, cases)), 1)


def _enclosed(element: ET.Element, inner: Iterator[str], level: int) -> Iterator[str]:
    """Write an element that is empty by itself around some lines."""
    opening, _, closing = _lines(element, level, short=False).rpartition("</")
    yield f"{opening}\n"
    yield from inner
    yield f"{_INDENT * level}</{closing}"


def _lines(element: ET.Element, level: int, *, short: bool = True) -> str:
    ET.indent(element, level=level)
    text = ET.tostring(element, encoding="unicode", short_empty_elements=short)
    return f"{_INDENT * level}{text.rstrip()}\n"


def _counts(entries: Sequence[Entry]) -> dict[str, str]:
    found = {
        tag: sum(_TAGS.get(entry.status) == tag for entry in entries) for tag in _TAGS.values()
    }
    return {
        "tests": str(len(entries)),
        "failures": str(found["failure"]),
        "errors": str(found["error"]),
        "skipped": str(found["skipped"]),
        "time": _seconds(sum(entry.elapsed_ms for entry in entries)),
    }


def _case(label: str, entry: Entry) -> ET.Element:
    name = xml_text(f"{entry.key.scenario} trial {entry.key.trial}")
    case = ET.Element(
        "testcase", {"classname": label, "name": name, "time": _seconds(entry.elapsed_ms)}
    )
    if not entry.ok:
        message = xml_text(entry.error or entry.category)
        found = ET.SubElement(case, _TAGS[entry.status], {"message": message})
        found.set("type", xml_text(entry.category))
        found.text = xml_text(entry.hint)
    return case


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.3f}"


def xml_text(text: str) -> str:
    """Return the text without characters that no XML document may contain."""
    return text.translate(_REMOVED)
