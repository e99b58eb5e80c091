"""How many announcements are detected, and how many complete answers are taken for one.

    python -m bench.false_stops [bfcl_eval-*.whl]

The announcements are ours, in ten languages, and by one author. `held_out` was written before the
detector. `fresh` was written after it: of these 46, it detected 23, with no false alarm in 40; then
its phrases were extended. The complete answers are ours, the sections of the documentation here and
in installed packages, their docstrings, and, with the wheel of `make bfcl`, the answers that BFCL
accepts. Texts that end with a colon are left out of documentation: they were cut there. The users'
questions of BFCL are listed apart: they are no answers, and some begin with "I need to".
"""

import ast
import inspect
import json
import math
import sys
import sysconfig
import time
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from surecall.parsing.announcements import announcement_in

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "tests/corpus/stops"
SHOWN = 12
MIN_CHARS, MAX_CHARS = 20, 20_000
MAX_DOCSTRINGS = 12_000
Z = 1.96


def interval(hits: int, total: int) -> str:
    """Return a share with its 95 % interval (Wilson)."""
    if not total:
        return "none"
    share, spread = hits / total, Z * Z / total
    middle = (share + spread / 2) / (1 + spread)
    half = Z * math.sqrt(share * (1 - share) / total + spread / (4 * total)) / (1 + spread)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return f"{hits} of {total}: {share:.2%} ({low:.2%} to {high:.2%})"


def markdown_texts(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the sections of Markdown files."""
    for path in paths:
        text = path.read_text("utf-8", "ignore")
        sections, is_code = [""], False
        for line in text.splitlines(keepends=True):
            is_code ^= line.lstrip().startswith("```")
            if line.startswith("#") and not is_code:
                sections.append("")
            sections[-1] += line
        yield from _usable(sections)


def docstrings(folder: Path) -> Iterator[str]:
    """Yield the docstrings of the packages in a folder."""
    for path in sorted(folder.rglob("*.py")):
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                yield from _usable([inspect.cleandoc(ast.get_docstring(node) or "")])


def _usable(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        bare = text.strip()
        # What is left unfinished by cutting at a heading or an example is no answer.
        if MIN_CHARS <= len(bare) <= MAX_CHARS and not bare.endswith((":", "：")):  # noqa: RUF001
            yield bare


def bfcl_texts(wheel: str, *, questions: bool) -> Iterator[str]:
    """Yield the texts that BFCL accepts as answers, or what its users ask."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if "/data/" not in name or not name.endswith(".json"):
                continue
            if ("possible_answer" in name) is questions:
                continue
            for line in archive.read(name).decode().splitlines():
                key = "question" if questions else "ground_truth"
                yield from _bfcl_strings(_json_object(line).get(key), is_user=questions)


def _json_object(line: str) -> Any:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _bfcl_strings(value: Any, *, is_user: bool) -> Iterator[str]:
    if isinstance(value, str) and value.strip() and not is_user:
        yield value
    elif isinstance(value, dict) and is_user:
        if value.get("role") == "user" and isinstance(value.get("content"), str):
            yield value["content"]
    elif isinstance(value, list):
        for item in value:
            yield from _bfcl_strings(item, is_user=is_user)


def report(name: str, texts: Iterable[str], *, announces: bool) -> tuple[int, int]:
    """Print how many texts announce work, and list the ones that were judged wrong."""
    unique = list(dict.fromkeys(texts))
    started = time.process_time()
    reasons = {text: announcement_in(text) for text in unique}
    spent = (time.process_time() - started) / max(1, len(unique)) * 1e6
    hits = sum(map(bool, reasons.values()))
    print(f"{name:34} {interval(hits, len(unique)):48} {spent:6.1f} us each")
    wrong = [text for text in unique if bool(reasons[text]) is not announces]
    for text in wrong[:SHOWN]:
        print(f"    {text[-110:]!r} {reasons[text][:40]}")
    return hits, len(unique)


def main(wheels: list[str]) -> None:
    """Print the shares."""
    for half in ("tuning", "held_out", "fresh"):
        corpus = json.loads((CORPUS / f"{half}.json").read_bytes())
        for language, texts in corpus["announcements"].items():
            report(f"{half} {language}, detected", texts, announces=True)
        every = [text for texts in corpus["announcements"].values() for text in texts]
        report(f"{half}, detected", every, announces=True)
        report(f"{half}, false alarms", corpus["complete"], announces=False)
    packages = Path(sysconfig.get_path("purelib"))
    named = list(docstrings(packages))[:MAX_DOCSTRINGS]
    answers = {
        "documentation here": markdown_texts(
            sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md"))
        ),
        "documentation of packages": markdown_texts(
            sorted(packages.rglob("*.md")) + sorted(packages.rglob("METADATA"))
        ),
        "docstrings of packages": named,
    }
    for wheel in wheels:
        answers["BFCL's answers"] = bfcl_texts(wheel, questions=False)
    counts = [
        report(f"{name}, false alarms", texts, announces=False) for name, texts in answers.items()
    ]
    hits, total = (sum(column) for column in zip(*counts, strict=True))
    print(f"{'false alarms in all of these':34} {interval(hits, total)}")
    for wheel in wheels:
        report("BFCL's questions (no answers)", bfcl_texts(wheel, questions=True), announces=False)


if __name__ == "__main__":
    main(sys.argv[1:])
