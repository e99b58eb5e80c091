"""The same small conversation, held with every server that others wrote.

The model must look up two cities, one after the other, and sum up. The next step depends on the
result that was sent: an answer shows that both arrived.
"""

import asyncio
import json
import urllib.request
from collections.abc import Callable
from typing import Any, Final

from surecall import OpenAICompatible, RetryPolicy, RunResult, ToolLoopRunner
from surecall.settings.connection import Limits
from tests.support.foreign_servers import Foreign
from tests.support.patience import PATIENCE_S

ASKED: Final = "What is the weather at home, and at work?"
CITIES: Final = ("Paris", "Oslo")
WEATHER: Final = {"Paris": "clear in Paris", "Oslo": "snow in Oslo"}
ANSWER: Final = "Clear at home, snow at work."
# A wait that was asked for is honoured; one of our own is short.
RETRY: Final = RetryPolicy(attempts=3, first_wait_s=0.001, longest_retry_after_s=0.5)


class Weather:
    """A tool that remembers which cities it was asked about, and tells before the next request."""

    def __init__(self, before: Callable[[int], None] | None = None) -> None:
        self.looked_up: list[str] = []
        self.before = before or (lambda _: None)

    def get_weather(self, city: str) -> str:
        """Weather for a city."""
        self.looked_up.append(city)
        self.before(len(self.looked_up))
        return WEATHER[city]


def answered(
    server: Foreign,
    tool: Callable[..., Any],
    *,
    streamed: bool,
    asked: str = ASKED,
    idle_s: float = PATIENCE_S,
) -> RunResult:
    """Hold a conversation, plain or streamed, and return its result; a failure is raised."""
    limits = Limits(connect_s=PATIENCE_S, idle_s=idle_s, total_s=PATIENCE_S)
    client = OpenAICompatible(
        server.url, api_key=server.key, api_prefix=server.prefix, limits=limits
    )
    runner = ToolLoopRunner(client=client, model=server.model, tools=[tool], retry=RETRY)

    async def watched() -> RunResult:
        async with runner.stream(asked) as stream:
            async for _ in stream:
                pass
            return stream.result

    return asyncio.run(watched() if streamed else runner.run(asked))


def control(url: str, body: Any = None, method: str = "POST") -> Any:
    """Tell a server's own controls something, and return what they say."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310  # loopback
        url, data, {"content-type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request) as reply:  # noqa: S310  # loopback
        return json.loads(reply.read())
