"""A provider that misbehaves on purpose: faults, personas, strict checks, and the server.

In Python: `with Simulator(seed=1) as simulator: client = OpenAICompatible(simulator.url)`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surecall.simulator.server import Simulator

__all__ = ["Simulator"]

if not TYPE_CHECKING:  # pragma: no branch  # or a type checker would take any name for ours

    def __getattr__(name: str) -> Any:
        """Import the server, and aiohttp with it, at its first use."""
        if name != "Simulator":
            raise AttributeError(f"module 'surecall.simulator' has no attribute {name!r}")
        from surecall.simulator.server import Simulator  # noqa: PLC0415  # see above

        return Simulator
