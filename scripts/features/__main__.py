"""Check the table of features: run every script in the environment of each library, and compare.

    python -m scripts.features [--environments FOLDER] [--only LIBRARY …] [--scripts SCRIPT …]

Each library has an environment in the folder under its own name; surecall uses this one. Prints
what each script saw; exits with 1 if a cell of the table says something else, or a version differs.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from scripts.features.common import MARK, ROOT
from scripts.features.table import OURS, TABLE, Library

ENVIRONMENTS = ROOT / ".venv" / "features"
LONGEST_S = 900
NUMBER = re.compile(r"\d+")
VERSION = "from importlib.metadata import version; print(version({!r}))"


def main() -> int:
    """Compare the chosen cells; the exit code says whether all of them hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS)
    parser.add_argument("--only", nargs="+", default=[library.name for library in TABLE.libraries])
    parser.add_argument("--scripts", nargs="+", default=scripts())
    options = parser.parse_args()
    wrong = 0
    for library in TABLE.libraries:
        if library.name in options.only:
            for line in compared(library, options.environments, options.scripts):
                wrong += line.startswith("WRONG")
                print(line, flush=True)
    print(f"{wrong} cells are wrong" if wrong else "every cell holds")
    return 1 if wrong else 0


def scripts() -> list[str]:
    """List the scripts that the table names, and the one for names and words."""
    return ["names", *dict.fromkeys(row.script for row in TABLE.rows if row.script)]


def compared(library: Library, environments: Path, names: list[str]) -> Iterator[str]:
    """Run the scripts that play a scene with a library, and say what differs from the table."""
    own = environments / library.name / "bin" / "python"
    python = sys.executable if library.name == OURS else str(own)
    for package, version in library.versions.items():
        found = _said([python, "-c", VERSION.format(package)])[-1]
        yield f"{_sign(found == version)} {library.name} {package} {found}, table: {version}"
    for name in names:
        if library.name not in import_module(f"scripts.features.{name}").PROBES:
            continue
        said = _said([python, "-m", f"scripts.features.{name}", library.name])
        verdicts = [line for line in said if line.startswith(MARK)] or said[-1:]
        yield from (_judged(library.name, name, line.removeprefix(MARK)) for line in verdicts)


def _judged(library: str, script: str, line: str) -> str:
    key, _, rest = line.partition(": ")
    word, _, seen = rest.partition(": ")
    cells = {row.key: row.cells[library] for row in TABLE.rows}
    if key not in cells or not seen:
        return f"WRONG {library} {script}: {line}"
    cell = cells[key]
    counted = set(NUMBER.findall(cell.shown)) <= set(NUMBER.findall(seen))
    holds = word == cell.word and counted
    return f"{_sign(holds)} {library} {key}: {word}, table: {cell.word} {cell.shown}; {seen}"


def _sign(holds: bool) -> str:  # noqa: FBT001  # a sign for either
    return "ok   " if holds else "WRONG"


def _said(command: list[str]) -> list[str]:
    """Return the lines that a command says, or the last line of what went wrong."""
    try:
        done = subprocess.run(  # noqa: S603  # our own scripts
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LONGEST_S
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return [f"{type(problem).__name__}: {problem}"]
    told = done.stdout if not done.returncode else done.stderr
    lines = [line.strip() for line in told.strip().splitlines() if line.strip()]
    return lines if not done.returncode else lines[-1:] or [f"exit code {done.returncode}"]


if __name__ == "__main__":
    sys.exit(main())
