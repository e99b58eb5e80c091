"""What every worker process of a cluster of our own does first: leave Ctrl-C to its parent.

A terminal sends it to all processes at once; but trials under way are to be finished.
"""

import signal


def dask_setup(_worker: object) -> None:
    """Ignore interrupts; Dask calls this by its name."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
