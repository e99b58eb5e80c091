"""Install each library of the table in an environment of its own, in the versions of the table.

python -m scripts.features.install [--environments FOLDER]
"""

import argparse
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from scripts.features.__main__ import ENVIRONMENTS
from scripts.features.common import ROOT
from scripts.features.table import OURS, TABLE, Library

PIP = ("-m", "pip", "install", "-q", "--disable-pip-version-check")


def main() -> int:
    """Make the environments that are not there yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS)
    folder = parser.parse_args().environments
    for library in TABLE.libraries:
        if library.name != OURS and not (folder / library.name / "ready").exists():
            print(f"installing {library.title}", flush=True)
            install(library, folder / library.name)
    return 0


def install(library: Library, place: Path) -> None:
    """Install one library, surecall with its scripted provider, and the SDK of OpenTelemetry."""
    venv.create(place, with_pip=True)
    pins = place / "constraints.txt"
    pins.write_text("".join(f"{name}=={at}\n" for name, at in library.versions.items()), "utf-8")
    wanted = [name for name in library.versions if name not in library.alone]
    python = str(place / "bin" / "python")
    needed = [each for each in _dependencies() if not each.startswith(library.without)]
    wanted += [*library.requires, *needed, "opentelemetry-sdk"]
    _run([python, *PIP, "-c", str(pins), *wanted])
    _run([python, *PIP, "-c", str(pins), "--no-deps", "-e", str(ROOT), *library.alone])
    (place / "ready").touch()


def _dependencies() -> list[str]:
    """Return what surecall declares to need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return list(project["dependencies"])


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)  # noqa: S603  # pip, with the table's own words


if __name__ == "__main__":
    sys.exit(main())
