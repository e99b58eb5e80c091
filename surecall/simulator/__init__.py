"""A simulated provider with faults, personas, and strict request checks.

    with Simulator(seed=1) as simulator:
        client = OpenAICompatible(simulator.url)

Without an API key, `client = stand_in()` returns a client for a simulator.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surecall.simulator.server import Simulator
    from surecall.simulator.without_key import stand_in

__all__ = ["Simulator", "stand_in"]

_MODULES = {"Simulator": "server", "stand_in": "without_key"}

if (
    not TYPE_CHECKING
):  # pragma: no branch  # hidden from type checkers, or they would accept any name

    def __getattr__(name: str) -> Any:
        """Import the server, and with it aiohttp, on first use."""
        if name not in _MODULES:
            raise AttributeError(f"module 'surecall.simulator' has no attribute {name!r}")
        return getattr(import_module(f"surecall.simulator.{_MODULES[name]}"), name)
