"""Writes every page of the site as Markdown, too, and `llms.txt`, which lists them."""

import re
from pathlib import Path
from typing import Final

from scripts.site.pages import NAVIGATION, place

_TREE: Final = re.compile(r"^```\{toctree\}\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)
_FRONT_MATTER: Final = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
_SUMMARY: Final = (
    "Tool calling that survives real models: a Python library, a proxy, a simulator, and an "
    "evaluation harness for any OpenAI-compatible endpoint."
)


def plain_markdown(text: str) -> str:
    """Return a page without what only Sphinx understands."""
    listed = _TREE.sub(_shown_rows, _FRONT_MATTER.sub("", text))
    return listed.replace("](unchanged:", "](").rstrip() + "\n"


def _shown_rows(tree: re.Match[str]) -> str:
    rows = [row for row in tree[1].splitlines() if row and not row.startswith(":")]
    return "" if ":hidden:" in tree[1] else "".join(f"- [{row}]({row})\n" for row in rows)


def list_for_models() -> str:
    """Return `llms.txt`: one link per page, in the order of the navigation."""
    parts = ["# surecall", f"> {_SUMMARY}", "- [Overview](index.md)"]
    for group, pages in NAVIGATION.items():
        rows = [f"- [{label}]({place(path)})" for path, label in pages.items()]
        parts += [f"## {group}", "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def write_markdown(pages: Path, site: Path) -> list[str]:
    """Write the Markdown beside the HTML, and return the names of the pages."""
    names = []
    for path in sorted(pages.rglob("*.md")):
        target = site / path.relative_to(pages)
        target.write_text(plain_markdown(path.read_text("utf-8")), "utf-8")
        names.append(path.relative_to(pages).with_suffix("").as_posix())
    (site / "llms.txt").write_text(list_for_models(), "utf-8")
    return names
