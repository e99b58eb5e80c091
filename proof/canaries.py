"""D15: a key is found nowhere: not in files, prints, logs, traces, reports or tracebacks.

Canary keys are put where keys are kept. A hostile endpoint, tools and errors repeat them in many
spellings, through the library and the command line; then everything that is left is searched.
"""

import importlib
import tempfile
from pathlib import Path
from typing import Any

from proof.claims import Claim, Outcome, gathered


def attempt(size: int, seed: int) -> Outcome:
    """Send every canary through every flow, `size` times: with DEBUG logs and with crashes."""
    del seed  # every place and every spelling is tried
    cases, hits = 0, []
    for _ in range(size):
        with tempfile.TemporaryDirectory() as folder:
            times, found = sung(Path(folder))
        cases += times
        hits += found
    return Outcome(
        "canary keys in eight places (environment, .env, header, URL, query, what an endpoint, "
        "a tool and an exception say), each repeated in eight spellings, through library and "
        "commands",
        cases,
        gathered([f"{hit.place}: {hit.encoding} in {hit.artefact}" for hit in hits]),
        every=True,
        figures=f"{len(hits)} hits in files, output, logs, traces, reports, and tracebacks",
    )


def sung(folder: Path) -> tuple[int, list[Any]]:
    """Let the canaries sing; return how many cases there were, and where they were heard."""
    found: tuple[int, list[Any]] = importlib.import_module("tests.support.canaries").sing(folder)
    return found


CLAIM = Claim(
    "D15",
    "API keys never appear in files, output, logs, or reports.",
    attempt,
    (1, 1, 3),
)
