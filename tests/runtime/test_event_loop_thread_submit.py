"""Work that is handed to an event loop in a thread of its own, without waiting for it."""

import threading

from surecall.runtime.event_loop_thread import EventLoopThread
from tests.support.patience import PATIENCE_S, never


def test_work_may_be_handed_over_and_cancelled_without_waiting_for_it() -> None:
    thread = EventLoopThread()
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await never()
        finally:
            ended.set()

    submitted = thread.submit(work())
    begun.wait(PATIENCE_S)
    submitted.cancel()

    assert ended.wait(PATIENCE_S)
    thread.close()
