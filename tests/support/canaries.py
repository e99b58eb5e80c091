"""Canary keys: put where keys are kept, said aloud by a hostile world, and looked for everywhere.

    places x encodings ─► flows ─► artefacts ─► hits

    cases, hits = sing(folder)        all places and encodings, through all flows

Each place has a canary of its own. The endpoint, the tools and their errors repeat it in all
encodings; then files, prints, logs and tracebacks are searched. The canary of a tool or an error
is the client's key as well: what nobody told the program, it cannot know.
"""

import asyncio
import base64
import contextlib
import io
import itertools
import json
import logging
import os
import random
import re
import sqlite3
import sys
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch
from urllib.parse import quote

from surecall import cli, presets
from surecall.runtime.recording import JsonlSink, save_trace
from surecall.runtime.runner import ToolLoopRunner
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.connection import RetryPolicy
from surecall.tools.registry import tool
from surecall.values.errors import ConfigError, SurecallError
from surecall.values.events import Event, ToolCallEndEvent
from tests.support.servers import Knock, Reply, listening

PLACES: Final = (
    "environment",
    "dotenv",
    "header",
    "userinfo",
    "query",
    "metadata_raw",
    "tool_output",
    "exception",
)
ENCODINGS: Final[dict[str, Callable[[str], str]]] = {
    "value": str,
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "hex": lambda key: key.encode().hex(),
    "url": lambda key: quote(key, safe=""),
    "json": lambda key: json.dumps(key)[1:-1],
    "reversed": lambda key: key[::-1],
    "upper case": str.upper,
    "base64 twice": lambda key: base64.b64encode(base64.b64encode(key.encode())).decode(),
}
# So many characters in a row are a hit: of a key itself, and of a key that was encoded.
_OF_VALUE, _OF_ENCODED = 8, 16
_INPUTS: Final = {".env", "singing.py"}
_PACKED: Final = re.compile(rb"eJ[A-Za-z0-9+/]{40,}=*")
_SCENARIO: Final = '''
from surecall import tool
from surecall.eval import expect, scenario
from tests.support.canaries import heard_by_tools


@tool
def echo(text: str) -> str:
    """Say it again."""
    return heard_by_tools()


@scenario(tools=[echo])
async def repeats(run):
    expect.contains(await run("Call echo."), "nothing of the kind")


@scenario(tools=[echo])
async def crashes(run):
    raise RuntimeError(heard_by_tools(of_exception=True))
'''
_ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"


def canary(place: str) -> str:
    """Return the canary of a place: with the characters that encodings treat in their own way."""
    drawn = random.Random(f"canary of {place}").choices(_ALPHABET, k=30)  # noqa: S311  # made up
    letters = "".join(f"{a}{n}" for a, n in zip(drawn, itertools.cycle("4719"), strict=False))
    return f'{letters[:14]}/{letters[14:30]}+"{letters[30:44]}={letters[44:]}'


@dataclass(frozen=True)
class Hit:
    """A canary, or a part of one, that was found where it must not be."""

    place: str
    encoding: str
    artefact: str


@dataclass
class World:
    """A hostile world: it repeats a canary, wherever it speaks in one encoding after the other."""

    place: str
    spoken: dict[str, Iterator[str]] = field(default_factory=dict, repr=False)

    def words(self, where: str) -> str:
        """Say the canary, unless its place is one where it is said only there."""
        if self.place in PLACES[5:] and self.place != where:
            return "nothing"
        key = canary(self.place)
        encoded = (encode(key) for encode in ENCODINGS.values())
        said = next(self.spoken.setdefault(where, itertools.cycle(encoded)))
        return f"it is {said}, isn't it"

    def reply(self, knock: Knock) -> Reply:
        """Answer a request: with a call, then a text, and now and then with an error."""
        messages = knock.body["messages"]
        if messages[-1].get("content") == "Please fail.":
            raw = {"raw": self.words("metadata_raw"), "headers": knock.headers}
            error = {"message": self.words("error"), "metadata": raw, "code": knock.path}
            return 400, {"error": error}
        message: dict[str, Any] = {"role": "assistant", "content": self.words("content")}
        if knock.body.get("tools") and messages[-1]["role"] != "tool":
            called = {"name": "echo", "arguments": json.dumps({"text": self.words("arguments")})}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": called}]
        return 200, {"id": self.words("id"), "choices": [{"message": message}]}


_worlds: list[World] = []


def heard_by_tools(*, of_exception: bool = False) -> str:
    """Return what the tools of the present world say."""
    return _worlds[-1].words("exception" if of_exception else "tool_output")


@tool
def echo(text: str) -> str:
    """Say it again."""
    del text
    return heard_by_tools()


@tool(name="echo")
def crash(text: str) -> str:
    """Fail."""
    del text
    raise RuntimeError(heard_by_tools(of_exception=True))


# Flows


def sing(folder: Path) -> tuple[int, list[Hit]]:
    """Send every canary through every flow; return how many cases there were, and the hits."""
    hits: list[Hit] = []
    for place in PLACES:
        home = folder / place
        home.mkdir()
        hits += flown(place, home)
    return len(PLACES) * len(ENCODINGS), hits


def flown(place: str, home: Path) -> list[Hit]:
    """Send the canary of one place through every flow, and look for it."""
    world = World(place)
    _worlds.append(world)
    try:
        with listening(world.reply) as listener, _watched() as watched:
            _library(place, listener.url, home, watched)
            if place != "header":  # the command line has no headers of one's own
                _commands(place, listener.url, home, watched)
        assert place == "userinfo" or listener.heard, "nothing was sent"
    finally:
        _worlds.remove(world)
    return [
        Hit(place, encoding, name)
        for name, data in (*watched, *_artefacts(home))
        for encoding in encodings_in(data, canary(place))
    ]


def _client(place: str, url: str) -> OpenAICompatible:
    key = canary(place)
    if place == "header":
        return OpenAICompatible(url, headers={"X-Secret": key})
    if place == "userinfo":
        return OpenAICompatible(url.replace("//", f"//me:{quote(key, safe='')}@"))
    if place == "query":
        return OpenAICompatible(f"{url}?code={quote(key, safe='')}")
    return OpenAICompatible(url, key)


def _raising(event: Event) -> None:
    """Watch a run until a tool has ended, and then fail."""
    if isinstance(event, ToolCallEndEvent):
        raise RuntimeError(  # noqa: TRY004  # its kind does not matter
            heard_by_tools(of_exception=True)
        )


def _library(place: str, url: str, home: Path, watched: list[tuple[str, bytes]]) -> None:
    try:
        client = _client(place, url)
    except ConfigError:
        watched.append(("refusal", traceback.format_exc().encode()))
        return
    for number, _ in enumerate(ENCODINGS):
        for kind, tools in {"echo": [echo], "crash": [crash]}.items():
            path = home / f"{kind}{number}"
            sink = JsonlSink(path.with_suffix(".jsonl"), client.secrets)
            runner = ToolLoopRunner(
                client=client,
                model="m",
                tools=tools,
                config=presets.raw(),
                observers=[_raising, sink],
                retry=RetryPolicy(attempts=1),
            )
            result = asyncio.run(runner.run("Call echo."))
            save_trace(result.trace, path.with_suffix(".trace"), client.secrets)
            watched += [("traceback", _failed(runner, stream=stream)) for stream in (False, True)]
    watched.append(("repr", repr(client).encode()))


def _failed(runner: ToolLoopRunner, *, stream: bool) -> bytes:
    try:
        if stream:
            for _ in runner.stream_sync("Please fail."):
                pass
        else:
            asyncio.run(runner.run("Please fail."))
    except SurecallError as error:
        return (traceback.format_exc() + repr(error) + repr(vars(error).get("fault"))).encode()
    raise AssertionError("the endpoint did not refuse")


def _commands(place: str, url: str, home: Path, watched: list[tuple[str, bytes]]) -> None:
    key = canary(place)
    secret = quote(key, safe="")
    address = {"userinfo": url.replace("//", f"//me:{secret}@"), "query": f"{url}?code={secret}"}
    target = ("--base-url", address.get(place, url), "-m", "m")
    (home / "singing.py").write_text(_SCENARIO)
    if place == "dotenv":
        (home / ".env").write_text(f"SURECALL_API_KEY='{key}'\n")
    environ = {"XDG_CONFIG_HOME": str(home)}
    if place not in {"dotenv", "userinfo", "query"}:
        environ["SURECALL_API_KEY"] = key
    trials = ("-s", "singing.py,chat_only", "-n", str(len(ENCODINGS)), "-j", "1", "-v")
    with patch.dict(os.environ, environ), contextlib.chdir(home):
        commands = (
            ("check", "-v", *target),
            ("check", "--json", *target, "--request-overrides", json.dumps({"user": key})),
            ("eval", *target, *trials, "--x-title", key),
            ("eval", *target, *trials, "--json", "--strategy", "raw"),
            *_AFTERWARDS,
        )
        watched += [(f"surecall {words[0]}", _printed(words)) for words in commands]


_AFTERWARDS: Final = (
    ("report", "-o", "written/"),
    *(("report", "--format", form) for form in ("json", "jsonl", "markdown", "junit", "trials")),
    *(("replay", f"latest/{number}") for number in range(1, 9)),
    ("replay",),
    ("report", "--format", "html"),
    ("report", "-o", "-"),
    ("ls", "runs"),
    ("report", "--no-open"),
    ("merge", "latest", "--into", "merged"),
)


def _printed(words: tuple[str, ...]) -> bytes:
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        patch.object(sys, "argv", ["surecall", *words]),
    ):
        try:
            code = str(cli.main(words))
        except Exception:  # noqa: BLE001  # a crash shows a traceback
            code = traceback.format_exc()
    return f"{out.getvalue()}\n{err.getvalue()}\n{code}".encode()


# Looking


@contextmanager
def _watched() -> Iterator[list[tuple[str, bytes]]]:
    """Take down every log record, with its arguments, while the block lasts."""
    found: list[tuple[str, bytes]] = []

    class Watching(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(("log", f"{record.getMessage()} {vars(record)!r}".encode()))

    handler, root = Watching(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield found
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


def _artefacts(home: Path) -> Iterator[tuple[str, bytes]]:
    """Read every file that was written, and what is packed inside of it."""
    for path in sorted(home.rglob("*")):
        if not path.is_file() or path.name in _INPUTS or "__pycache__" in path.parts:
            continue
        name, data = path.relative_to(home).as_posix(), path.read_bytes()
        yield name, name.encode() + data
        for packed in _PACKED.findall(data):
            with contextlib.suppress(ValueError, zlib.error):
                yield name, zlib.decompress(base64.b64decode(packed))
        if path.suffix == ".sqlite":
            yield from ((name, row) for row in _rows(path))


def _rows(path: Path) -> Iterator[bytes]:
    with closing(sqlite3.connect(path)) as store:
        for table in ("meta", "trials", "traces"):
            for row in store.execute(f"SELECT * FROM {table}"):  # noqa: S608  # names of ours
                for item in row:
                    yield zlib.decompress(item) if isinstance(item, bytes) else str(item).encode()


def encodings_in(data: bytes, key: str) -> list[str]:
    """Name the encodings in which a key, or a telling part of it, stands in some data."""
    return [
        name
        for name, encode in ENCODINGS.items()
        if any(part in data for part in _parts(name, encode(key)))
    ]


def _parts(name: str, text: str) -> Iterator[bytes]:
    size = _OF_VALUE if name in {"value", "reversed", "upper case"} else _OF_ENCODED
    for at in range(len(text) - size + 1):
        yield text[at : at + size].encode()
