"""Preload script of worker processes: leaves Ctrl-C to the parent.

A terminal sends it to all processes at once, but running trials must be finished.
"""

import signal


def dask_setup(_worker: object) -> None:
    """Ignore interrupts. Dask calls this by name."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
