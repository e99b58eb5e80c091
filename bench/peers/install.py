"""Installs the peers, those that do not fit together in environments of their own.

    python -m bench.peers.install [ENVIRONMENT …]

An environment is made again when its list of packages changes. Node's packages are left out where
there is no npm: that peer is then shown as not run.
"""

import hashlib
import shutil
import subprocess
import sys
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import Distribution
from pathlib import Path
from typing import Final

import msgspec

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
PLACE: Final = ROOT / ".venv" / "peers"
NODE: Final = "node"
LISTS: Final = {
    "agents": HERE / "agents.txt",
    "litellm": HERE / "litellm.txt",
    "smolagents": HERE / "smolagents.txt",
    NODE: HERE / "package.json",
}
AT_ONCE: Final = 2
_PIP: Final = ("-m", "pip", "install", "-q", "--disable-pip-version-check")


def installed(name: str) -> None:
    """Make an environment, unless it is there."""
    place, stamp = PLACE / name, PLACE / name / "ready"
    wanted = hashlib.sha256(LISTS[name].read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return
    if name == NODE and not shutil.which("npm"):
        print("npm is missing: the peers that need Node are left out", file=sys.stderr)
        return
    began = time.monotonic()
    if name == NODE:
        _install_node(place)
    else:
        _install_python(place, LISTS[name])
    stamp.write_text(wanted, "utf-8")
    print(f"installed {name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _install_python(place: Path, packages: Path) -> None:
    venv.create(place, with_pip=True, clear=True)
    _run([str(place / "bin" / "python"), *_PIP, "-e", str(ROOT), "-r", str(packages)], ROOT)


def _install_node(place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(LISTS[NODE], place / "package.json")
    _run(["npm", "install", "--silent", "--no-package-lock", "--no-audit", "--no-fund"], place)


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, check=True, cwd=folder)  # noqa: S603  # pip and npm, with our own lists


def version_of(environment: str, package: str) -> str:
    """Return the version of a package in an environment; blank if it is not there."""
    if environment == NODE:
        described = PLACE / NODE / "node_modules" / package / "package.json"
        return (
            str(msgspec.json.decode(described.read_bytes())["version"])
            if _is_there(described)
            else ""
        )
    folders = [str(path) for path in (PLACE / environment).glob("lib/python*/site-packages")]
    found = list(Distribution.discover(name=package, path=folders))
    return found[0].version if found else ""


def _is_there(described: Path) -> bool:
    return described.exists() and shutil.which("node") is not None


def main() -> int:
    """Make the environments that are named, or all; two at a time, as there are cores."""
    names = sys.argv[1:] or list(LISTS)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(installed, names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
