"""The pages of the site: the README in front, `docs/` beside it, and the files they link to.

Links in the documents are relative to the repository, so they work on a code host. Here they are
rewritten to where the same files are on the site.
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
# Diátaxis: learn, do, look up, understand. A page that is missing here fails the build.
NAVIGATION: Final[Mapping[str, Mapping[str, str]]] = {
    "Tutorial": {
        "docs/tutorial.md": "From a first call to a proxy",
    },
    "Guides": {
        "docs/my-agent-breaks.md": "My agent breaks",
        "docs/guide.md": "Using the runner",
        "docs/proxy.md": "Use it as a proxy",
        "docs/options.md": "Sampling options",
        "docs/contracts.md": "Contracts",
        "docs/typed-answers.md": "Typed answers",
        "docs/conversations.md": "Conversations and approval",
        "docs/fallback.md": "Model fallback",
        "docs/mcp.md": "MCP servers",
        "docs/bridges.md": "Other frameworks' tools",
        "docs/testing.md": "Testing an agent",
        "docs/opentelemetry.md": "OpenTelemetry",
        "docs/openrouter.md": "OpenRouter",
        "docs/gateways.md": "Gateways",
        "docs/local.md": "Local models",
        "docs/evaluation.md": "Evaluation",
        "docs/distributed.md": "Distributed evaluation",
        "CONTRIBUTING.md": "Contributing",
    },
    "Reference": {
        "docs/commands.md": "Commands",
        "docs/reference.md": "Settings and error codes",
        "docs/drift.md": "Known drift",
        "CHANGELOG.md": "Changelog",
    },
    "Explanation": {
        "docs/guarantees.md": "Guarantees",
        "docs/proof.md": "Proof",
        "docs/comparison.md": "Comparison",
        "docs/study.md": "A study of small models",
        "docs/architecture.md": "Architecture",
        DECISIONS: "Decisions",
    },
}
_FENCED: Final = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)[`~]*$", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
_LINK_OF_HTML: Final = re.compile(r"(?<=href=\")(?P<path>[\w./-]+)\.md(?=[\"#])")
_LANGUAGES: Final = {".py": "python", ".toml": "toml"}


def place(path: str) -> str:
    """Return where on the site a file of the repository is."""
    if path == FRONT:
        return "index.md"
    if path == DECISIONS:
        return "adr/index.md"
    inside = path.removeprefix("docs/")
    return inside if path.endswith(".md") or inside != path else f"source/{path}.md"


def linked_files(text: str, path: str) -> list[str]:
    """List the files of the repository that a document links to."""
    return [_target(path, link) for link in _LINK.finditer(_FENCED.sub("", text))]


def rewrite_links(text: str, path: str) -> str:
    """Return a document with its links pointing to places on the site."""
    here = posixpath.dirname(place(path))

    def turn(link: re.Match[str]) -> str:
        there = posixpath.relpath(place(_target(path, link)), here)
        # HTML opens unchanged; Sphinx would offer it as a download.
        opened = f"unchanged:{there}" if there.endswith(".html") else there
        return opened + (link["anchor"] or "")

    parts, end = [], 0
    for fenced in _FENCED.finditer(text):
        parts += [_LINK.sub(turn, text[end : fenced.start()]), fenced[0]]
        end = fenced.end()
    return "".join([*parts, _LINK.sub(turn, text[end:])])


def front(text: str) -> str:
    """Return the front page: the README, followed by the hidden navigation."""
    return "\n".join([rewrite_links(text, FRONT), *(_tree(title) for title in NAVIGATION)])


def decisions(names: Iterable[str]) -> str:
    """Return the page that lists the decisions."""
    tree = "\n".join(["```{toctree}", ":maxdepth: 1", "", *names, "```"])
    return f"# Decisions\n\nWhy surecall is built this way: one page per decision.\n\n{tree}\n"


def source(text: str, path: str) -> str:
    """Return the page that shows a file of the repository."""
    language = _LANGUAGES.get(Path(path).suffix, "text")
    body = f"# `{path}`\n\n`````{language}\n{text.rstrip()}\n`````\n"
    return f"---\norphan: true\nnosearch: true\n---\n{body}"


def gather(root: Path, into: Path) -> None:
    """Write every page of the site as Markdown, with the files the pages use."""
    shutil.rmtree(into, ignore_errors=True)
    documents = [FRONT, "CHANGELOG.md", "CONTRIBUTING.md", *_files(root, "docs")]
    wanted = set(documents)
    for path in documents:
        target = into / place(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".md"):
            text = (root / path).read_text("utf-8")
            wanted.update(linked_files(text, path))
            target.write_text(front(text) if path == FRONT else rewrite_links(text, path), "utf-8")
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
