"""Test doubles for programs that use surecall.

    ScriptedModel       a client without a network: pass it to a runner
    ScriptedProvider    a real HTTP server on 127.0.0.1, to test network behavior
    RecordingObserver   stores every event of a run
    ScriptedPerson      decides about calls that need human approval

A script is a list of answers, one per request. Plain answers are chat completion bodies, built
with `says`, `calls` and `calls_many`; all others are `Scripted`, built with `streams`, `failure`,
`raw`, `hangs`, `hangs_up` and `cuts`. An item may also be a function that takes the decoded request
and returns the answer. `replies_of(trace)` is the script of a recorded run.

    model = ScriptedModel(calls("add", a=1, b=2), says("3"))

The test doubles are imported on first use, because every run of pytest imports this package for its
plugin.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surecall.testing.doubles import (
        Built,
        Item,
        Reaction,
        RecordingObserver,
        Scripted,
        ScriptedModel,
        ScriptedPerson,
        ScriptedProvider,
        calls,
        calls_many,
        cuts,
        failure,
        hangs,
        hangs_up,
        raw,
        replies_of,
        says,
        streams,
    )

__all__ = [
    "Built",
    "Item",
    "Reaction",
    "RecordingObserver",
    "Scripted",
    "ScriptedModel",
    "ScriptedPerson",
    "ScriptedProvider",
    "calls",
    "calls_many",
    "cuts",
    "failure",
    "hangs",
    "hangs_up",
    "raw",
    "replies_of",
    "says",
    "streams",
]

if not TYPE_CHECKING:  # pragma: no branch  # or type checkers would accept any name

    def __getattr__(name: str) -> Any:
        """Import the test doubles on first use."""
        if name not in __all__:
            raise AttributeError(f"module 'surecall.testing' has no attribute {name!r}")
        return getattr(import_module("surecall.testing.doubles"), name)

    def __dir__() -> list[str]:
        """List the public names."""
        return __all__
