"""JUnit XML, for programs that show test results: a suite for each cell, a case for each trial.

What a model did wrong is a failure; what the infrastructure spoiled is an error.
"""

from typing import Final
from xml.etree import ElementTree as ET

from surecall.eval.report.common import Entry, Results

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


def junit(results: Results) -> str:
    """Return the whole run as one document."""
    root = ET.Element("testsuites", _counts(results.all))
    for cell, entries in results.entries.items():
        label = xml_text(results.labels[cell])
        suite = ET.SubElement(root, "testsuite", {"name": label} | _counts(entries))
        if results.columns[cell].simulated:
            properties = ET.SubElement(suite, "properties")
            ET.SubElement(properties, "property", {"name": "simulated", "value": "true"})
        for entry in entries:
            _case(suite, label, entry)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _counts(entries: tuple[Entry, ...]) -> dict[str, str]:
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


def _case(suite: ET.Element, label: str, entry: Entry) -> None:
    name = xml_text(f"{entry.key.scenario} trial {entry.key.trial}")
    case = ET.SubElement(
        suite, "testcase", {"classname": label, "name": name, "time": _seconds(entry.elapsed_ms)}
    )
    if not entry.ok:
        message = xml_text(entry.error or entry.category)
        found = ET.SubElement(case, _TAGS[entry.status], {"message": message})
        found.set("type", xml_text(entry.category))
        found.text = xml_text(entry.hint)


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.3f}"


def xml_text(text: str) -> str:
    """Return the text without characters that no XML document may contain."""
    return text.translate(_REMOVED)
