"""Servers for tests: raw, recording, and third-party ones."""

import asyncio
import gzip
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import traceback
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeAlias

import pytest

from surecall import RetryPolicy, RunResult, ToolLoopRunner
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.connection import Limits
from surecall.values.errors import Fault, ProviderError
from surecall.values.types import JSON, HttpResponse
from tests.support.project_files import ROOT, TESTS
from tests.support.timing import PATIENCE_S, until

# A raw server on this machine that sends exactly the bytes it is told, or nothing at all


KEY = "sk-canary-4711"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
PATIENT: dict[str, Any] = {
    "connect_s": PATIENCE_S,
    "idle_s": PATIENCE_S,
    "total_s": PATIENCE_S,
    "max_response_bytes": 1_000_000,
}
# A part of a reply: nothing more comes until the client has gone.
SILENCE = None


@dataclass
class Served:
    """What a raw server has seen: one head per request, one talk per connection."""

    url: str = ""
    heads: list[bytes] = field(default_factory=list, repr=False)
    talks: list[asyncio.Future[None]] = field(default_factory=list)


@asynccontextmanager
async def served(*reply: bytes | None, stays: bool = True) -> AsyncIterator[Served]:
    """Serve the same reply to every request; at the end, every client must have gone."""
    wire = Served()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError), closing(writer):
            while stays or not wire.heads:
                wire.heads.append(await reader.readuntil(b"\r\n\r\n"))
                for part in reply:
                    if part is SILENCE:
                        await reader.read()
                    else:
                        writer.write(part)
                await reader.readexactly(2)
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(
        lambda *streams: wire.talks.append(asyncio.ensure_future(talk(*streams))), "127.0.0.1", 0
    )
    wire.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield wire
    finally:
        await asyncio.gather(*wire.talks)
        server.close()


def sent(url: str, body: bytes = b"{}", **options: Any) -> HttpResponse:
    return asyncio.run(OpenAICompatible(url, KEY, **options).send(body))


def fault_of(work: Coroutine[Any, Any, object]) -> Fault:
    """Run something that must fail, and make sure that the failure tells no secret."""
    with pytest.raises(ProviderError) as caught:
        asyncio.run(work)
    error = caught.value
    told = traceback.TracebackException.from_exception(error, capture_locals=True).format()
    assert KEY not in "".join([*told, *traceback.format_exception(error), repr(error)])
    assert error.__context__ is None
    assert error.__cause__ is None
    return error.fault


async def asked(*reply: bytes | None, scheme: str = "http", **limits: float) -> HttpResponse:
    async with served(*reply, stays=False) as wire:
        url = wire.url.replace("http", scheme)
        return await OpenAICompatible(url, KEY, limits=Limits(**PATIENT | limits)).send(b"{}")


async def streamed(*reply: bytes | None, **limits: float) -> bytes:
    async with served(*reply, stays=False) as wire:
        client = OpenAICompatible(wire.url, KEY, limits=Limits(**PATIENT | limits))
        async with client.stream(b"{}") as incoming:
            return b"".join([chunk async for chunk in incoming.chunks])


# Raw replies of a server: heads to go on from, and a body that unpacks to far too much


LENGTH_9 = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BOMB = ENDLESS.replace(b"OK", b"OK\r\nContent-Encoding: gzip") + gzip.compress(bytes(50_000_000))


# A server on this machine that remembers who knocked: paths, headers and bodies of requests


@dataclass(frozen=True)
class Knock:
    """One request as it came."""

    path: str
    headers: dict[str, str] = field(repr=False)
    body: Any = field(repr=False)


Reply: TypeAlias = tuple[int, Any]


def done(_: Knock) -> Reply:
    """Answer with a word."""
    return 200, {"choices": [{"message": {"role": "assistant", "content": "Done."}}]}


@dataclass
class Listener:
    """Where it listens, and what it heard."""

    url: str
    heard: list[Knock] = field(default_factory=list, repr=False)

    @property
    def keys(self) -> set[str | None]:
        """The keys that came with the requests."""
        return {knock.headers.get("authorization") for knock in self.heard}


@contextmanager
def listening(reply: Callable[[Knock], Reply] = done) -> Iterator[Listener]:
    """Serve while the block lasts; `reply` makes status and JSON of each answer."""
    heard: list[Knock] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or a body would wait for its head, 40 ms

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            heard.append(Knock(self.path, headers, body))
            status, answer = reply(heard[-1])
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Listener(f"http://127.0.0.1:{server.server_port}", heard)
        finally:
            server.shutdown()
            thread.join()


# Servers that others wrote, each in a process of its own, bound to loopback. `make third-party`
# installs them in an environment of their own. Without it the tests that need them are skipped;
# where SURECALL_TEST_THIRD_PARTY is set, they fail.


DEMANDED: Final = "SURECALL_TEST_THIRD_PARTY"
INSTALLED: Final = ROOT / ".venv" / "third-party"
FILES: Final = ROOT / "tests" / "third_party"
NONE_FOUND: Final = ".venv/third-party is not there"
_SKIPPED: Final = "no servers of others were tested: {}; `make third-party` installs them"
_SHOWN: Final = 2000
# Nothing listens there: whatever a server would tell its authors ends at this address.
_NOWHERE: Final = "http://127.0.0.1:9"
_QUIET: Final = {
    "DO_NOT_TRACK": "1",
    "HTTP_PROXY": _NOWHERE,
    "HTTPS_PROXY": _NOWHERE,
    "NO_PROXY": "127.0.0.1",
}


class Foreign(NamedTuple):
    """Where a server listens, and how it is asked."""

    url: str
    model: str = "gpt-4o"
    prefix: str = "/v1"
    key: str = "sk-none"


def missing(reason: str) -> NoReturn:
    """Skip what needs servers of others; where they are demanded, fail."""
    if os.environ.get(DEMANDED):
        pytest.fail(reason)
    pytest.skip(_SKIPPED.format(reason))


def program(name: str) -> str:
    """Find a command of the environment."""
    return str(_installed() / "bin" / name)


def script(name: str) -> tuple[str, str]:
    """Find node, and a script of a package for it."""
    found, node = _installed() / "node_modules" / name, shutil.which("node")
    if node is None:
        missing("node is not on the PATH")
    return node, str(found)


def _installed() -> Path:
    if not (INSTALLED / ".ready").exists():
        missing(NONE_FOUND)
    return INSTALLED


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    folder: Path, port: int, *command: str, variables: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Start a server, wait until it listens, and end it; what it prints is kept in the folder."""
    known = {"PATH": os.environ["PATH"], "HOME": str(folder)} | _QUIET | dict(variables or {})
    printed = folder / "printed.txt"
    with (
        printed.open("wb") as output,
        subprocess.Popen(
            command, cwd=folder, env=known, stdout=output, stderr=subprocess.STDOUT
        ) as server,
    ):
        try:
            until(lambda: _listens(port) or server.poll() is not None)
            if server.poll() is not None:
                pytest.fail(f"{command[0]} ended: {printed.read_text('utf-8')[-_SHOWN:]}")
            yield f"http://127.0.0.1:{port}"
        finally:
            # They keep nothing, and some would first finish what they are asked to delay.
            server.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


# The same small conversation, held with every server that others wrote.
# The model must look up two cities, one after the other, and sum up. The next step depends on the
# result that was sent: an answer shows that both arrived.


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


# What servers with controls of their own are told to answer, step by step, and to get wrong.
# A step is the number of cities that were looked up. Its reply stays until the next step begins, so
# that a request that is sent again is answered, too; a fault strikes the first request of its step,
# or every one.


STEPS: Final = range(len(CITIES) + 1)


class Strike(NamedTuple):
    """A fault, and where it strikes."""

    fault: JSON
    step: int
    always: bool = False


class Script(Protocol):
    """A server that can be told what to say at the next step."""

    def at(self, step: int) -> None:
        """Say this from now on."""


class LlmockScript:
    """Behaviours for llmock, whose verdict on the client is read at the end."""

    def __init__(self, url: str, strike: Strike | None = None) -> None:
        self._url = f"{url}/_llmock"
        self._strike = strike
        control(f"{self._url}/reset")
        self.at(0)

    def at(self, step: int) -> None:
        """Say this from now on."""
        if step < len(CITIES):
            call = {"name": "get_weather", "arguments": {"city": CITIES[step]}}
            reply: JSON = {"type": "reply", "times": None, "tool_calls": [call]}
        else:
            reply = {"type": "reply", "times": None, "text": ANSWER}
        struck = [self._struck(self._strike)] if self._strike and self._strike.step == step else []
        control(f"{self._url}/scenario", method="DELETE")
        control(f"{self._url}/scenario", {"behaviors": [*struck, reply]})

    def _struck(self, strike: Strike) -> JSON:
        return strike.fault | {"times": None if strike.always else 1}

    def requests(self) -> list[JSON]:
        """Return what it was asked."""
        return list(control(f"{self._url}/requests", method="GET")["requests"])

    def findings(self) -> list[str]:
        """Name what it finds wrong with the client."""
        verdict = control(f"{self._url}/verdict", method="GET")
        return [finding["code"] for finding in verdict["findings"]]


class AimockScript:
    """Fixtures for aimock."""

    def __init__(self, url: str, strike: Strike | None = None) -> None:
        self._url = f"{url}/__aimock"
        self._strike = strike
        control(f"{self._url}/reset")
        self.at(0)

    def at(self, step: int) -> None:
        """Say this from now on."""
        response: JSON = {"content": ANSWER}
        if step < len(CITIES):
            call = {"name": "get_weather", "arguments": {"city": CITIES[step]}}
            response = {"toolCalls": [call]}
        fixtures: list[Any] = [{"match": {"toolName": "get_weather"}, "response": response}]
        if self._strike and self._strike.step == step:
            only = {} if self._strike.always else {"sequenceIndex": 0}
            match = {"match": {"toolName": "get_weather"} | only}
            fixtures.insert(0, match | {"response": response} | self._strike.fault)
        control(f"{self._url}/fixtures", method="DELETE")
        control(f"{self._url}/fixtures", {"fixtures": fixtures})

    def requests(self) -> list[JSON]:
        """Return what it was asked."""
        return list(control(f"{self._url}/journal", method="GET"))


SUPPORT = TESTS / "support"


ENGINE = str(SUPPORT / "engine")


def write_model(path: Path) -> Path:
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + bytes(1000))
    return path


def child_command(behaviour: str) -> tuple[str, ...]:
    # With -P, or the folder `typing` beside it would take the standard module's place.
    return (sys.executable, "-P", str(SUPPORT / "local_child.py"), behaviour)


def is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE_S).close()
    except ConnectionRefusedError:
        return False
    return True


def closes(address: str) -> bool:
    until(lambda: not is_open(address))
    return True
