"""The pages of the site: the README in front, `docs/` beside it, and the files they link to.

Links in the documents are made for the repository, where a code host or an editor follows them.
Here they are turned to where the same files are in the site: no document is written twice.
"""

import os
import posixpath
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

FRONT: Final = "README.md"
DECISIONS: Final = "docs/adr"
# What a newcomer needs first comes first. A page that is named nowhere fails the build.
NAVIGATION: Final[Mapping[str, Mapping[str, str]]] = {
    "Start here": {
        "docs/my-agent-breaks.md": "My agent breaks",
        "docs/guide.md": "Using the runner",
        "docs/proxy.md": "A proxy before any agent",
        "docs/trust.md": "Keys and trust",
    },
    "Your agent": {
        "docs/contracts.md": "Contracts",
        "docs/typed-answers.md": "Typed answers",
        "docs/approval.md": "A person decides",
        "docs/effects.md": "How often a tool runs",
        "docs/conversations.md": "Kept conversations",
        "docs/fallback.md": "A chain of models",
        "docs/mcp.md": "Tools of MCP servers",
        "docs/bridges.md": "Other frameworks' tools",
        "docs/testing.md": "Testing an agent",
        "docs/opentelemetry.md": "OpenTelemetry",
        "docs/text-calls.md": "Calls in text",
        "docs/history.md": "What goes back to the model",
    },
    "Which model?": {
        "docs/evaluation.md": "Evaluation",
        "docs/local.md": "On your own machine",
        "docs/comparability.md": "What can be compared",
        "docs/past-one-machine.md": "Past one machine",
    },
    "Evidence": {
        "docs/study.md": "A study on small models",
        "docs/peers.md": "Bent replies, beside others",
        "docs/features.md": "Features, beside others",
        "docs/proof.md": "Proof",
    },
    "Reference": {
        "docs/commands.md": "Commands",
        "docs/reference.md": "Settings and codes",
        "docs/drift.md": "Known drift",
        "CHANGELOG.md": "Changes",
        "CONTRIBUTING.md": "Contributing",
        DECISIONS: "Decisions",
    },
}
_FENCED: Final = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)[`~]*$", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
_LINK_OF_HTML: Final = re.compile(r"(?<=href=\")(?P<path>[\w./-]+)\.md(?=[\"#])")
_LANGUAGES: Final = {".py": "python", ".toml": "toml"}


def place(path: str) -> str:
    """Say where in the site a file of the repository is."""
    if path == FRONT:
        return "index.md"
    if path == DECISIONS:
        return "adr/index.md"
    inside = path.removeprefix("docs/")
    return inside if path.endswith(".md") or inside != path else f"source/{path}.md"


def linked(text: str, path: str) -> list[str]:
    """List the files of the repository that a document links to."""
    return [_target(path, link) for link in _LINK.finditer(_FENCED.sub("", text))]


def turned(text: str, path: str) -> str:
    """Turn the links of a document to where the files are in the site."""
    here = posixpath.dirname(place(path))

    def turn(link: re.Match[str]) -> str:
        there = posixpath.relpath(place(_target(path, link)), here)
        # A page that is ready is opened as it is; Sphinx would offer it for download.
        opened = f"as-it-is:{there}" if there.endswith(".html") else there
        return opened + (link["anchor"] or "")

    parts, end = [], 0
    for fenced in _FENCED.finditer(text):
        parts += [_LINK.sub(turn, text[end : fenced.start()]), fenced[0]]
        end = fenced.end()
    return "".join([*parts, _LINK.sub(turn, text[end:])])


def front(text: str) -> str:
    """Make the front page of the README: the navigation is kept with it, and not shown in it."""
    return "\n".join([turned(text, FRONT), *(_tree(title) for title in NAVIGATION)])


def decisions(names: Iterable[str]) -> str:
    """Write the page that lists the decisions."""
    tree = "\n".join(["```{toctree}", ":maxdepth: 1", "", *names, "```"])
    return f"# Decisions\n\nWhy it is built as it is: one page for each decision.\n\n{tree}\n"


def source(text: str, path: str) -> str:
    """Write the page that shows a file of the repository."""
    language = _LANGUAGES.get(Path(path).suffix, "text")
    body = f"# `{path}`\n\n`````{language}\n{text.rstrip()}\n`````\n"
    return f"---\norphan: true\nnosearch: true\n---\n{body}"


def gather(root: Path, into: Path) -> None:
    """Write every page of the site, as Markdown, and what the pages show."""
    shutil.rmtree(into, ignore_errors=True)
    documents = [FRONT, "CHANGELOG.md", "CONTRIBUTING.md", *_files(root, "docs")]
    wanted = set(documents)
    for path in documents:
        target = into / place(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".md"):
            text = (root / path).read_text("utf-8")
            wanted.update(linked(text, path))
            target.write_text(front(text) if path == FRONT else turned(text, path), "utf-8")
        elif path.endswith(".html"):
            text = (root / path).read_text("utf-8")
            target.write_text(_LINK_OF_HTML.sub(r"\g<path>.html", text), "utf-8")
        else:
            shutil.copy(root / path, target)
    for path in sorted(wanted.difference(documents)):
        if (root / path).is_file():  # Sphinx says which page links to what is not there
            _write(into, place(path), source((root / path).read_text("utf-8"), path))
    names = [Path(path).name for path in _files(root, DECISIONS)]
    _write(into, place(DECISIONS), decisions(names))


def _target(path: str, link: re.Match[str]) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link["path"]))


def _tree(title: str) -> str:
    rows = [f"{label} <{place(path)}>" for path, label in NAVIGATION[title].items()]
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *rows, "```"])


def _files(root: Path, folder: str) -> list[str]:
    found = [path for path in (root / folder).rglob("*") if path.is_file()]
    return sorted(os.fspath(path.relative_to(root).as_posix()) for path in found)


def _write(into: Path, name: str, text: str) -> None:
    (into / name).parent.mkdir(parents=True, exist_ok=True)
    (into / name).write_text(text, "utf-8")
