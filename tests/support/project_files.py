"""Where the project's files are, and what its documents ask readers to try."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

# Where things are, for tests that read files of the project


ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
CORPUS = TESTS / "corpus"


# What the readers of a document are to try: a command or a program, and what it prints


_SECTION: Final = re.compile(r"^## Try it\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Trial(NamedTuple):
    """What is run, and what is shown of its output; `…` stands for anything."""

    language: str
    code: str
    shown: str

    def prints(self, output: str) -> bool:
        """Say whether this is the output that is shown."""
        pattern = ".*".join(map(re.escape, self.shown.strip().split("…")))
        return re.fullmatch(pattern, output.strip(), re.DOTALL) is not None


def trial_of(text: str) -> Trial:
    """Return what a document asks its readers to try."""
    (section,) = _SECTION.findall(text)
    (language, code), (_, shown) = _BLOCK.findall(section)
    return Trial(language, code, shown)


def without_trial(text: str) -> str:
    """Return a document without what is to be tried."""
    return _SECTION.sub("", text)


def _is_ours(name: str) -> bool:
    """Whether a variable is a key, or for surecall: a reader has none of them."""
    return name.endswith("_API_KEY") or name.startswith("SURECALL_")


def tried(trial: Trial, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it as a reader would, in an empty folder, without a key."""
    (folder / "project_files.py").write_text(trial.code, "utf-8")
    by_language = {
        "python": [sys.executable, "-W", "error", "project_files.py"],
        "sh": ["/bin/sh", "-ec", trial.code],
    }
    bare = {key: value for key, value in os.environ.items() if not _is_ours(key)}
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        by_language[trial.language],
        cwd=folder,
        env=bare | {"PATH": tools, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
