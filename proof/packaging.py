"""D19: the wheel holds what git holds, is the same each time, and needs what it says it needs."""

import ast
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from proof.claims import Claim, Outcome, gathered

ROOT = Path(__file__).parents[1]
PACKAGE = "surecall"
WANTED_DEPENDENCIES = 3
# What is imported under another name than it is installed.
OTHER_NAMES = {"opentelemetry_api": "opentelemetry"}
# pytest loads the plugin, so it is there; the other is for type checkers, which have it built in.
NOT_NEEDED = {"pytest", "typing_extensions"}
# Any moment will do, if it is the same for both builds.
MOMENT = "1700000000"
NEEDED = ("pyproject.toml", "README.md", "LICENSE")


def attempt(size: int, seed: int) -> Outcome:
    """Build wheels in different places; `size` says how many."""
    del seed
    tracked = tracked_files()
    declared = dependencies()
    imported = imports_of(ROOT / name for name in tracked if name.endswith(".py"))
    with tempfile.TemporaryDirectory() as name:
        places = [ROOT, *(_copied(Path(name) / str(at), tracked) for at in range(1, size))]
        wheels = [built(place, Path(name) / f"wheel{at}") for at, place in enumerate(places)]
        failures = [*content_failures(wheels[0], tracked), *sameness_failures(wheels)]
        files = len(zipfile.ZipFile(wheels[0]).namelist())
        digest = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    failures += dependency_failures(declared, imported - extras() - NOT_NEEDED)
    return Outcome(
        f"{size} wheels built in different folders; every file compared with git, every import "
        "with the declared dependencies; pip-audit needs the network and was not run",
        files,
        gathered(failures),
        every=True,
        figures=f"{len(declared)} direct dependencies against a target of {WANTED_DEPENDENCIES} "
        f"({', '.join(sorted(declared))}; docs/adr/0004 explains why), none undeclared, "
        "none unused; "
        f"sha256 {digest[:16]}…",
    )


def tracked_files() -> list[str]:
    """Return the files of the package that git knows."""
    listed = _done(["git", "ls-files", "-z", PACKAGE], ROOT)
    return [name for name in listed.split("\0") if name]


def dependencies() -> set[str]:
    """Return the names of what is declared to be needed, as they are imported."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return {_import_name(text) for text in project["dependencies"]}


def extras() -> set[str]:
    """Return the names of what only some need, who ask for it when they install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = project["optional-dependencies"].values()
    return {_import_name(text) for group in groups for text in group}


def _import_name(requirement: str) -> str:
    end = next((at for at, char in enumerate(requirement) if char in "<>=!~[; "), None)
    name = requirement[:end].lower().replace("-", "_")
    return OTHER_NAMES.get(name, name)


def imports_of(files: Iterable[Path]) -> set[str]:
    """Return the packages of others that files import, wherever in them."""
    found: set[str] = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {PACKAGE}


def _copied(place: Path, tracked: Iterable[str]) -> Path:
    """Copy what git knows to another place; times and permissions are not kept."""
    for name in (*NEEDED, *tracked):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, place / name)
    return place


def built(place: Path, folder: Path) -> Path:
    """Build a wheel."""
    _done([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], place)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _done(command: list[str], place: Path) -> str:
    environment = os.environ | {"SOURCE_DATE_EPOCH": MOMENT}
    ran = subprocess.run(  # noqa: S603  # our own commands
        command, cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(f"{command[0]} {command[1]} failed: {ran.stderr.strip()[-300:]}")
    return ran.stdout


def content_failures(wheel: Path, tracked: Iterable[str]) -> Iterator[str]:
    """Say where a wheel and git differ, and what a wheel must not have."""
    archive, wanted = zipfile.ZipFile(wheel), set(tracked)
    names = set(archive.namelist())
    ours = {name for name in names if not name.partition("/")[0].endswith(".dist-info")}
    yield from (f"{name} is in git but not in the wheel" for name in sorted(wanted - ours))
    yield from (f"{name} is in the wheel but not in git" for name in sorted(ours - wanted))
    yield from (f"{name} is a .pth file" for name in sorted(names) if name.endswith(".pth"))
    for name in sorted(ours & wanted):
        if archive.read(name) != (ROOT / name).read_bytes():
            yield f"{name} differs from the file in the checkout"
    top = sorted({name.partition("/")[0] for name in names})
    if len(top) != 2 or top[0] != PACKAGE:
        yield f"at the top of the wheel are {', '.join(top)}"


def sameness_failures(wheels: Iterable[Path]) -> Iterator[str]:
    """Say that wheels differ, if they do."""
    digests = {hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels}
    if len(digests) != 1:
        yield f"the wheels differ: {', '.join(sorted(digests))}"


def dependency_failures(declared: set[str], imported: set[str]) -> list[str]:
    """Say what is imported and not declared, and the other way round."""
    undeclared = [f"{name} is imported but not declared" for name in sorted(imported - declared)]
    return undeclared + [
        f"{name} is declared but not imported" for name in sorted(declared - imported)
    ]


CLAIM = Claim(
    "D19",
    "The wheel holds what git tracks and needs only what it declares.",
    attempt,
    (2, 2, 3),
)
