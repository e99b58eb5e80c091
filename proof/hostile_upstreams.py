"""D14, through a proxy: the same hostile answers, asked for by the clients of each face.

A client gets an answer, or an error in the words of its API. A few proxies, each in a process of
its own, are asked one thing at a time, so that the memory each takes is that of one answer.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import aiohttp
import msgspec

from proof.hostile_answers import CASES, KEY, MODES, REDIRECTS
from proof.hostile_requests import ASKED, TOOL
from proof.proxy_process import Running, proxy_process
from surecall.settings.connection import Limits, RetryPolicy
from surecall.values.types import JSON

TOTAL_S: Final = 2.0
PATIENCE_S: Final = 20.0
PROXIES: Final = 2
LIMITS: Final = Limits(total_s=TOTAL_S)
ONCE: Final = RetryPolicy(attempts=1)
PASSED: Final = "passed"
_SAID: Final = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
_OWN: Final = TOOL["function"]
BODIES: Final[dict[str, tuple[str, JSON]]] = {
    "chat": ("chat/completions", ASKED),
    "responses": (
        "responses",
        {"model": "m", "input": "hi", "tools": [{"type": "function", **_OWN}]},
    ),
    "messages": (
        "messages",
        {**_SAID, "tools": [{"name": "get_weather", "input_schema": _OWN["parameters"]}]},
    ),
    PASSED: ("embeddings", {"model": "m", "input": "hi"}),
}
# What the other faces are asked: one case of each kind.
FEW: Final = (
    *("endless stream", "endless body", "drip of a stream", "gzip bomb", "endless headers"),
    *("invalid UTF-8", "byte order mark", "byte order mark in a stream", "302"),
)
_OTHERS: Final = ("responses", "messages")


class Asked(msgspec.Struct, frozen=True):
    """One question: which answer is played, to which face, plain or streamed."""

    name: str
    face: str
    mode: str

    def __str__(self) -> str:
        return f"{self.name}, {self.face}, {self.mode}"

    @property
    def expected(self) -> bool | None:
        """Whether it can be answered; None leaves it open."""
        answered = () if self.name.isdigit() else CASES[self.name].answered
        if answered is None or self.face == PASSED:
            return None
        return self.mode in answered


class Got(msgspec.Struct, frozen=True):
    """What a client got, and what it took. `code` is that of an error, blank for an answer."""

    code: str = ""
    peak_mib: float = 0.0
    seconds: float = 0.0
    problem: str = ""


def questions() -> list[Asked]:
    """Name everything: all answers to chat, a few to the other faces and to what passes."""
    every = [*CASES, *map(str, REDIRECTS)]
    return [
        *(Asked(name, "chat", mode) for name in every for mode in MODES),
        *(Asked(name, face, mode) for name in FEW for face in _OTHERS for mode in MODES),
        *(Asked(name, PASSED, "plain") for name in FEW),
    ]


def code_of(error: Any, face: str) -> str:
    """Return the code of an error in the form of a face; raise if it has another form."""
    match face, error:
        case "messages", {"type": "error", "error": {"type": str(code), "message": str()}}:
            return code
        case "responses", {"type": "response.failed", "response": {"error": {"code": str(code)}}}:
            return code
        case (
            ("chat" | "responses" | "passed"),
            {"error": {"message": str(), "type": str(), "code": str(code)}},
        ):
            return code
        case _:
            raise ValueError(f"no error of this face: {str(error)[:200]}")


def read(face: str, status: int, kind: str, data: bytes) -> str:
    """Return the code of the failure, blank if there is an answer; raise if it is neither."""
    if status != 200:
        # What passes through comes as it is, redirects without their address included.
        return code_of(msgspec.json.decode(data), face) if status >= 400 else f"status {status}"
    if face == PASSED:
        return ""
    last = _last_event(data) if "event-stream" in kind else msgspec.json.decode(data)
    if "error" in last or last.get("type") in {"error", "response.failed"}:
        return code_of(last, face)
    if b"Hello" not in data:
        raise ValueError(f"no answer: {str(last)[:200]}")
    return ""


def _last_event(data: bytes) -> Any:
    lines = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: ")]
    return msgspec.json.decode([line for line in lines if line != b"[DONE]"][-1])


async def ask(proxy: Running, asked: Asked) -> Got:
    """Ask a proxy, and measure it."""
    path, body = BODIES[asked.face]
    before = await asyncio.to_thread(proxy.state)
    started = time.perf_counter()
    code, problem = "", ""
    try:
        async with asyncio.timeout(PATIENCE_S):
            body = {**body, "stream": asked.mode == "streamed"}
            code = await _post(f"{proxy.url}/v1/{path}", body, asked)
    except Exception as error:  # noqa: BLE001  # whatever is no answer is told
        problem = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - started
    after = await asyncio.to_thread(proxy.state)
    return Got(code, after.peak_mib - before.rss_mib, seconds, problem)


async def _post(url: str, body: JSON, asked: Asked) -> str:
    headers = {"X-Request-Id": asked.name.replace(" ", "+")}
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.post(url, json=body, headers=headers, allow_redirects=False) as response,
    ):
        assert KEY not in str(response.headers)
        assert "Location" not in response.headers
        try:
            data = await response.read()
        except aiohttp.ClientPayloadError:
            if asked.face == PASSED:
                return "broken off"
            raise
        assert KEY.encode() not in data
        return read(asked.face, response.status, response.content_type, data)


def judged(asked: Asked, got: Got, bar_mib: float, grace_s: float) -> list[str]:
    """Say what is not as it should be."""
    told = [f"{asked}: {got.problem}"] if got.problem else []
    if got.peak_mib > bar_mib:
        told.append(f"{asked}: {got.peak_mib:.0f} MiB over the base")
    if got.seconds > TOTAL_S + grace_s:
        told.append(f"{asked}: {got.seconds:.1f} s")
    if asked.expected is False and not got.code and not got.problem:
        told.append(f"{asked}: it was taken for an answer")
    if asked.expected and got.code:
        told.append(f"{asked}: {got.code}, though it can be read")
    return told


async def asked_through(upstream: str, names: Sequence[Asked]) -> list[tuple[Asked, Got]]:
    """Ask everything of a few proxies, each of which is asked one thing at a time."""
    todo = list(names)

    async def work() -> list[tuple[Asked, Got]]:
        settings: JSON = {"api_key": KEY, "limits": LIMITS, "retry": ONCE}
        starting = proxy_process(upstream, **settings)
        proxy = await asyncio.to_thread(starting.__enter__)
        try:
            # The first one warms the process up.
            await ask(proxy, Asked("byte order mark", "chat", "plain"))
            return [(one, await ask(proxy, one)) for one in _taken(todo)]
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)

    done = await asyncio.gather(*(work() for _ in range(PROXIES)))
    return [pair for pairs in done for pair in pairs]


def _taken(todo: list[Asked]) -> Iterator[Asked]:
    while todo:
        yield todo.pop()
