"""What the scripts of the feature table share: one scenario for all, a verdict, other processes.

A script holds one scenario and plays it with every library that has a way to play it. It is
started in the environment of that library, prints its verdict and one sentence of what was seen:

    python -m scripts.features.fallback langgraph
    > fallback: yes: the second model answered

The model is a scripted provider on loopback. Libraries are imported where they are used: each has
an environment of its own. Where one documents a switch for the scenario, the switch is on.
"""

import asyncio
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
KEY: Final = "none"
# Some libraries print much; what a script says itself begins with this.
MARK: Final = "> "
MODEL: Final = "scripted"
CHILD_TIMEOUT_S: Final = 120
# No library may ask the network for anything but the provider, nor report to its maker.
_QUIET: Final = {
    "INSPECT_DISPLAY": "none",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OPENAI_API_KEY": KEY,
}


class Verdict(NamedTuple):
    """Whether a library has the feature of a row, and what was seen."""

    word: str
    seen: str


def yes(seen: str) -> Verdict:
    """Say that it has it."""
    return Verdict("yes", seen)


def in_part(seen: str) -> Verdict:
    """Say that it has some of it."""
    return Verdict("in part", seen)


def no(seen: str) -> Verdict:
    """Say that it does not have it."""
    return Verdict("no", seen)


Probe = Callable[[str], Mapping[str, Verdict]]
Part = Callable[..., Coroutine[Any, Any, None] | None]


def main(probes: Mapping[str, Probe], parts: Mapping[str, Part] | None = None) -> None:
    """Play the scenario with the library that is named first, or a part of it in this process."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.update(_QUIET)
    name, *rest = sys.argv[1:]
    if rest and parts:
        playing = parts[f"{name} {rest[0]}"](*rest[1:])
        if playing is not None:
            asyncio.run(playing)
        return
    for row, verdict in probes[name](name).items():
        print(f"{MARK}{row}: {verdict.word}: {verdict.seen}", flush=True)


def child(name: str, part: str, *words: object) -> "subprocess.Popen[str]":
    """Start a part of the running script in a process of its own."""
    spec = sys.modules["__main__"].__spec__
    module = spec.name if spec else ""
    command = [sys.executable, "-m", module, name, part, *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)  # noqa: S603  # our own


def elsewhere(name: str, part: str, *words: object) -> tuple[int, str]:
    """Play a part in another process; return its exit code and the last line it said."""
    return ended(child(name, part, *words))


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Wait for a process; return its exit code and the last line it said."""
    try:
        out, err = process.communicate(timeout=CHILD_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return -1, "it did not end"
    said = (out.strip() or err.strip()).splitlines()
    return process.returncode, said[-1] if said else ""


def lines(path: Path | str) -> list[str]:
    """Read what a tool has written down of its effects."""
    file = Path(path)
    return file.read_text("utf-8").split() if file.exists() else []


def note(path: Path | str, what: object) -> None:
    """Write an effect down, so that it outlives this process."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{what}\n")
        file.flush()
        os.fsync(file.fileno())
