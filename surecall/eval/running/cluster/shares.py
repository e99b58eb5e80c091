"""How a limit is divided among workers, so that all of them together keep it."""


class Shares:
    """The parts of one limit that workers hold. A part is given back before another gets it."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    def grant(self, worker: str, limit: int, claimants: int) -> int:
        """Return the new part of a worker: its fair one of so many, if the others leave it.

        A worker that held more than its fair part while it was alone gives the rest back here.
        """
        others = sum(part for name, part in self._held.items() if name != worker)
        fair = -(-limit // max(1, claimants))
        self._held[worker] = max(0, min(fair, limit - others))
        return self._held[worker]

    def give_back(self, worker: str) -> None:
        """Take back what a worker holds: it has nothing to do with it, or is gone."""
        self._held.pop(worker, None)
