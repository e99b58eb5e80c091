"""A worker process leaves Ctrl-C to its parent."""

import signal

from surecall.eval.running.cluster.worker_process import dask_setup


def test_an_interrupt_does_not_end_a_worker_process() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        dask_setup(object())
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
