"""Checks the language of names and prose against `CONTRIBUTING.md`, and fails if it gets worse.

Counts functions that are named with a bare participle, class and module names that occur twice, and
words that have a plainer equivalent.

    python scripts/check_language.py [--list]
"""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "surecall"
# What CI accepts. Lower a limit when a count falls; never raise one. The participles left are
# public names and parameters that pass through `**settings`; the words are in
# texts that were measured.
LIMITS: Final = {"participles": 10, "recurring classes": 0, "recurring modules": 0, "words": 2}
# Irregular participles that are no imperative; `read`, `put`, `cut`, and `split` are both.
IRREGULAR: Final = frozenset(
    re.findall(
        r"\w+",
        "told heard ran kept held made said written drawn given shown known sent found left built "
        "meant met spoken taken seen done gone lost bent led laid paid caught brought thought "
        "taught felt hidden broken chosen driven fallen torn worn won sunk spent swept bound "
        "begun",
    )
)
# Words that only look like participles.
OTHERS: Final = frozenset(
    re.findall(
        r"\w+",
        "between children embed exceed feed frozen golden happen listen need open red redden "
        "reopen screen seed shorten speed token",
    )
)
# Each pattern, and what to write instead.
WORDS: Final = {
    r"bent": "malformed",
    r"heal(s|ed|ing)?": "repair",
    r"mended": "repaired",
    r"told": "reported, sent back",
    r"asked again": "re-prompted, requested again",
    r"goes on|going on with|go on with": "continues",
    r"kept conversations?": "stored conversation",
    r"waits? for a person|waiting for a person": "needs human approval",
    r"foreign|of others|nobody here wrote": "third-party",
    r"doubtful": "ambiguous",
    r"opaque state": "provider state",
    r"levers?": "technique",
    r"seen values": "observed values",
    r"ways? out": "giving up",
    r"early answers?": "premature answer",
    r"spoiled": "invalid",
    r"cures?|cured": "repair",
    r"laws?": "property test",
    r"silent ends?": "silent failure",  # `conduct` is a key of stored summaries
    r"in vain": "unsuccessfully",
    r"as it is": "unchanged",
    r"by itself": "automatically",
    r"kept in mind|known of": "cached, recorded",
    r"put it before": "use it as a proxy",
    r"whoever|who wants|somebody": "name the actor",
}
PROSE: Final = ("surecall", "README.md", "docs", "CONTRIBUTING.md")
# Records of the past, and words that are quoted from others.
SKIPPED: Final = re.compile(r"docs/(adr/|peers\.json|snapshot\.html)|surecall/settings/data/")


def main() -> int:
    """Print each count beside its limit; return 1 if one is exceeded."""
    found = {"participles": [*participles()], "words": [*words()]}
    found |= {"recurring classes": [*recurring(classes())]}
    found |= {"recurring modules": [*recurring(modules())]}
    for kind, limit in LIMITS.items():
        print(f"{kind:<20}{len(found[kind]):>6} of at most {limit}")
        if "--list" in sys.argv or len(found[kind]) > limit:
            print("".join(f"  {line}\n" for line in found[kind]), end="")
    return int(any(len(found[kind]) > limit for kind, limit in LIMITS.items()))


def participles() -> Iterator[str]:
    """Yield the functions that are named with a participle and nothing else."""
    for path, node in _definitions():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_participle(node.name):
            yield f"{path}:{node.lineno}: {node.name}"


def is_participle(name: str) -> bool:
    """Whether a name is one past participle."""
    word = name.strip("_")
    if word in OTHERS or "_" in word or name.startswith("__"):
        return False
    return word in IRREGULAR or re.fullmatch(r"[a-z]+(ed|en)", word) is not None


def classes() -> Iterator[tuple[str, str]]:
    """Yield the name and place of each class."""
    for path, node in _definitions():
        if isinstance(node, ast.ClassDef):
            yield node.name, f"{path}:{node.lineno}"


def modules() -> Iterator[tuple[str, str]]:
    """Yield the name and path of each module; a module of `cli` is named after its command."""
    for path in SOURCE.rglob("*.py"):
        if not path.stem.startswith("__") and path.parent.name != "cli":
            yield path.stem, str(path.relative_to(ROOT))


def recurring(named: Iterator[tuple[str, str]]) -> Iterator[str]:
    """Yield the names that stand for more than one thing, with their places."""
    places = defaultdict(list)
    for name, place in named:
        places[name].append(place)
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"{name}: {', '.join(found)}"


def words() -> Iterator[str]:
    """Yield the lines with a word that has a plainer equivalent."""
    listed = subprocess.run(  # noqa: S603  # arguments from this file
        ["git", "ls-files", "-z", *PROSE],  # noqa: S607  # git from the PATH
        cwd=ROOT, capture_output=True, check=True, text=True,
    )  # fmt: skip
    pattern = re.compile(rf"\b(?:{'|'.join(f'({each})' for each in WORDS)})\b", re.IGNORECASE)
    for name in filter(None, listed.stdout.split("\0")):
        if SKIPPED.match(name) or Path(name).suffix not in {".py", ".md", ".html", ".js", ".toml"}:
            continue
        for number, line in enumerate((ROOT / name).read_text("utf-8").splitlines(), 1):
            for match in pattern.finditer(line):
                yield f"{name}:{number}: {match[0]}: {line.strip()[:90]}"


def _definitions() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            yield str(path.relative_to(ROOT)), node


if __name__ == "__main__":
    sys.exit(main())
