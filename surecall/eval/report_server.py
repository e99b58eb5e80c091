"""The live report: the same page, served on loopback while the trials of a run come in.

    GET /<token>/                   the page, as it is now
    GET /<token>/data?since=N       nothing new (204), or the whole report and its number
    GET /<token>/trace?model=…      one run: its result and its events, as JSON lines

The run is only read, and read again when its files have changed, so it makes no difference which
process writes it, whether that has ended, or whether it begins again. Every program that knows the
address may read: it holds a token that cannot be guessed. Pages of other sites cannot (`Door`).
"""

import asyncio
import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from surecall.eval.report.page.data import Report
from surecall.eval.report.page.files import report_in
from surecall.eval.report.page.html import render_page, render_sections, runs_json
from surecall.eval.report.page.traces import record
from surecall.eval.storage.run_directories import DATABASE
from surecall.eval.storage.store import open_for_reading
from surecall.eval.storage.trial import Cell, Key
from surecall.runtime.event_loop_thread import in_background
from surecall.runtime.loopback import LOOPBACK
from surecall.runtime.loopback_server import HEAD_S, Door
from surecall.values.errors import ConfigError

_TOKEN_BYTES: Final = 18
# An address names a trial by its model and scenario, which may be called anything.
_LONGEST_LINE: Final = 65_536
# What the database can hold.
_NUMBER_BITS: Final = 64
# Reading a large run takes a while; it may use this part of the time, and no more.
_SHARE_OF_TIME: Final = 0.2
# The page says in its head which script may run in it; nothing may in any other answer.
_EVERYWHERE: Final = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"default-src 'none'; {_EVERYWHERE}",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Edition(msgspec.Struct, frozen=True):
    """The report as it was at one moment. Numbers grow; the same number means the same report."""

    number: int
    report: Report

    def page(self) -> str:
        """Return the whole page."""
        return render_page(self.report, live=True)

    def news(self) -> bytes:
        """Return what a page that is already open needs to become this edition, as JSON."""
        data = msgspec.Raw(runs_json(self.report, live=True).encode())
        sections = render_sections(self.report)
        return msgspec.json.encode({"number": self.number, "sections": sections, "data": data})


class Newsroom:
    """Makes a new edition when the run has changed, one at a time, and not too often."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: tuple[object, ...] = ()
        self._latest: Edition | None = None
        self._rests_until = 0.0
        self._busy = asyncio.Lock()

    async def latest(self) -> Edition:
        """Return the report as it is now, or as it was a moment ago."""
        async with self._busy:
            clock = asyncio.get_running_loop().time
            # Looked at before reading: what is written meanwhile is seen the next time.
            state = _state(self._directory)
            if self._latest is None or (state != self._seen and clock() >= self._rests_until):
                began = clock()
                report = await asyncio.to_thread(_read, self._directory)
                self._rests_until = clock() + (clock() - began) / _SHARE_OF_TIME
                number = 1 if self._latest is None else self._latest.number + 1
                self._latest, self._seen = Edition(number, report), state
            return self._latest


def _state(directory: Path) -> tuple[object, ...]:
    """Return what differs after every commit: size and time of the file and of its log."""
    found: list[object] = []
    for name in (DATABASE, f"{DATABASE}-wal"):
        try:
            at = (directory / name).stat()
        except OSError:
            continue
        # Readers make and remove an empty log.
        found += (name, at.st_size, at.st_mtime_ns) if at.st_size else ()
    return tuple(found)


def _read(directory: Path) -> Report:
    with open_for_reading(directory) as store:
        return report_in(store)


def _read_run(directory: Path, key: Key) -> bytes | None:
    """Return one run as a page reads it: its record, then its events."""
    with open_for_reading(directory) as store:
        found = store.find(key)
    return None if found is None else record(*found)


class LiveReport:
    """Serves the report of one run, from a thread of its own when used in a `with` block."""

    def __init__(self, directory: Path, *, port: int = 0, head_s: float = HEAD_S) -> None:
        self.url = ""
        self._directory = directory
        self._port = port
        self._token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._door = Door(LOOPBACK, _refused, head_s=head_s)
        self._newsroom = Newsroom(directory)
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        self._cleanup = in_background(self.start, self.stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    async def start(self) -> web.AppRunner:
        """Listen, in the running event loop."""
        app = web.Application(middlewares=[_explained])
        app.on_response_prepare.append(_hardened)
        for path, handler in (("", self._page), ("data", self._data), ("trace", self._trace)):
            app.router.add_get(f"/{self._token}/{path}", handler, allow_head=False)
        runner = await self._door.open(app, self._port, max_line_size=_LONGEST_LINE)
        self.url = f"{self._door.url}/{self._token}/"
        return runner

    async def stop(self, runner: web.AppRunner) -> None:
        """Stop listening."""
        await runner.cleanup()

    async def _page(self, _: web.Request) -> web.Response:
        edition = await self._newsroom.latest()
        text = await asyncio.to_thread(edition.page)
        headers = {"Content-Security-Policy": _EVERYWHERE}
        return web.Response(text=text, content_type="text/html", headers=headers)

    async def _data(self, request: web.Request) -> web.Response:
        edition = await self._newsroom.latest()
        if request.query.get("since") == str(edition.number):
            return web.Response(status=204)
        news = await asyncio.to_thread(edition.news)
        response = web.Response(body=news, content_type="application/json")
        response.enable_compression()
        return response

    async def _trace(self, request: web.Request) -> web.Response:
        try:
            key = _key(request)
        except (KeyError, ValueError):
            raise web.HTTPBadRequest(text="which trial is meant?\n") from None
        lines = await asyncio.to_thread(_read_run, self._directory, key)
        if lines is None:
            raise web.HTTPNotFound(text="there is no such trial in this run\n")
        response = web.Response(body=lines, content_type="application/jsonl", charset="utf-8")
        response.enable_compression()
        return response


@web.middleware
async def _explained(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ConfigError as error:
        raise web.HTTPServiceUnavailable(text=f"{error}\n") from error


def _refused(status: int, message: str) -> web.Response:
    return web.Response(status=status, text=f"{message}\n")


async def _hardened(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


def _key(request: web.Request) -> Key:
    of = request.query
    trial = int(of["trial"])
    if trial.bit_length() >= _NUMBER_BITS:
        raise ValueError("no trial has this number")
    return Key(Cell(of["model"], of["profile"], of["strategy"]), of["scenario"], trial)
