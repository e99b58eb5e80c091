"""Sending a stream while the loop is at work."""

import asyncio

from surecall.proxy.faces.chat import ChatEvents
from surecall.proxy.healing.live import Live
from surecall.proxy.serving.exchange import Settled
from surecall.proxy.serving.streams import WAITING, News, summary
from surecall.wire.assembler import TextDelta


def news() -> News:
    return News(Live(ChatEvents(wants_usage=False), {"id": "x"}, buffered=False))


def test_news_come_in_order_and_a_pause_is_filled() -> None:
    async def work() -> list[bytes]:
        told, goes_on = news(), asyncio.Event()

        async def speak() -> None:
            told.begun({"id": "up"})
            told.begun({"id": "again"})
            await goes_on.wait()
            told.show(TextDelta("Hi."))

        heard: list[bytes] = []
        async for data in told.until(asyncio.create_task(speak()), 0.01):
            heard.append(data)
            if data == WAITING:
                goes_on.set()
        return heard

    first, *pauses, last = asyncio.run(work())
    assert b'"id":"up"' in first
    assert set(pauses) == {WAITING}
    assert b"Hi." in last


def test_a_summary_is_a_comment() -> None:
    said = summary(Settled("r", None, fired=("a", "b", "a"), attempts=2))
    assert said == b": surecall attempts=2 fired=a,b\n\n"
