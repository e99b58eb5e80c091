"""A provider that misbehaves on purpose: faults, personas, strict checks, and the server.

In Python: `with Simulator(seed=1) as simulator: client = OpenAICompatible(simulator.url)`, or
`client = stand_in()` where a key is missing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surecall.simulator.server import Simulator
    from surecall.simulator.without_key import stand_in

__all__ = ["Simulator", "stand_in"]

_MODULES = {"Simulator": "server", "stand_in": "without_key"}

if not TYPE_CHECKING:  # pragma: no branch  # or a type checker would take any name for ours

    def __getattr__(name: str) -> Any:
        """Import the server, and aiohttp with it, at its first use."""
        if name not in _MODULES:
            raise AttributeError(f"module 'surecall.simulator' has no attribute {name!r}")
        return getattr(import_module(f"surecall.simulator.{_MODULES[name]}"), name)
