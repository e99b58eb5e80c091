"""Serves the live report on loopback: the report page, updated while a run is written.

    GET /<token>/                   the current page
    GET /<token>/data?since=N       204 if nothing changed, else the whole report and its version
    GET /<token>/trace?model=…      one trial: its result and its events, as JSON lines

The run is only read, and reloaded when its files change, so another process may write it, stop, and
resume. The URL contains an unguessable token: any program that knows it may read the report. Pages
of other sites are refused (`GuardedListener`).
"""

import asyncio
import secrets
from pathlib import Path
from typing import ClassVar, Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from surecall.eval.report.page.data import Report
from surecall.eval.report.page.html import render_page, render_sections, runs_json
from surecall.eval.report.page.page_files import load_report
from surecall.eval.report.page.traces import run_record
from surecall.eval.storage.run_directories import DATABASE
from surecall.eval.storage.store import open_for_reading
from surecall.eval.storage.trial import Cell, Key
from surecall.runtime.http_server import NO_FRAMES_POLICY, HttpServer, page_headers
from surecall.runtime.loopback_server import HEAD_S
from surecall.values.errors import ConfigError

_TOKEN_BYTES: Final = 18
# A URL names a trial by its model and scenario, whose names may be long.
_MAX_LINE_BYTES: Final = 65_536
# The size of an integer in the database.
_TRIAL_NUMBER_BITS: Final = 64
# The largest share of time spent on reading the run.
_MAX_READ_SHARE: Final = 0.2
# The page allows its own script in its head; other responses allow none.
_HEADERS: Final = page_headers(NO_FRAMES_POLICY)


class ReportVersion(msgspec.Struct, frozen=True):
    """One version of the report. Numbers increase; equal numbers mean equal reports."""

    number: int
    report: Report

    def page_html(self) -> str:
        """Return the whole page."""
        return render_page(self.report, live=True)

    def update_json(self) -> bytes:
        """Return the JSON that updates an open page to this version."""
        data = msgspec.Raw(runs_json(self.report, live=True).encode())
        sections = render_sections(self.report)
        return msgspec.json.encode({"number": self.number, "sections": sections, "data": data})


class ReportCache:
    """Reloads the report when the run changes, limiting the time spent on it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._latest_state: tuple[object, ...] = ()
        self._latest: ReportVersion | None = None
        self._next_read_at = 0.0
        self._lock = asyncio.Lock()

    async def latest(self) -> ReportVersion:
        """Return the latest version, or a slightly older one within the time limit."""
        async with self._lock:
            clock = asyncio.get_running_loop().time
            # Taken before reading, so that writes during it are noticed next time.
            state = _file_state(self._directory)
            if self._latest is None or (
                state != self._latest_state and clock() >= self._next_read_at
            ):
                began = clock()
                report = await asyncio.to_thread(_read_report, self._directory)
                self._next_read_at = clock() + (clock() - began) / _MAX_READ_SHARE
                number = 1 if self._latest is None else self._latest.number + 1
                self._latest, self._latest_state = ReportVersion(number, report), state
            return self._latest


def _file_state(directory: Path) -> tuple[object, ...]:
    """Return values that change with every commit: size and time of the database and its log."""
    found: list[object] = []
    for name in (DATABASE, f"{DATABASE}-wal"):
        try:
            at = (directory / name).stat()
        except OSError:
            continue
        # Readers create and remove an empty log.
        found += (name, at.st_size, at.st_mtime_ns) if at.st_size else ()
    return tuple(found)


def _read_report(directory: Path) -> Report:
    with open_for_reading(directory) as store:
        return load_report(store)


def _read_run_record(directory: Path, key: Key) -> bytes | None:
    """Return one trial for the page: its record, then its events."""
    with open_for_reading(directory) as store:
        found = store.find(key)
    return None if found is None else run_record(*found)


class LiveReport(HttpServer):
    """Serves the report of one run on loopback."""

    options: ClassVar = {"max_line_size": _MAX_LINE_BYTES}

    def __init__(self, directory: Path, *, port: int = 0, head_s: float = HEAD_S) -> None:
        super().__init__(port=port, head_s=head_s)
        self._directory = directory
        self._token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._reports = ReportCache(directory)

    async def start(self) -> None:
        """Start listening in the running event loop."""
        await super().start()
        self.url += f"/{self._token}/"

    def _add_routes(self, app: web.Application) -> None:
        app.middlewares.append(_answer_config_errors_with_503)
        app.on_response_prepare.append(_add_security_headers)
        for path, handler in (
            ("", self._serve_page),
            ("data", self._serve_data),
            ("trace", self._serve_trace),
        ):
            app.router.add_get(f"/{self._token}/{path}", handler, allow_head=False)

    def _refusal(self, status: int, message: str) -> web.Response:
        return web.Response(status=status, text=f"{message}\n")

    async def _serve_page(self, _: web.Request) -> web.Response:
        edition = await self._reports.latest()
        text = await asyncio.to_thread(edition.page_html)
        headers = {"Content-Security-Policy": NO_FRAMES_POLICY}
        return web.Response(text=text, content_type="text/html", headers=headers)

    async def _serve_data(self, request: web.Request) -> web.Response:
        edition = await self._reports.latest()
        if request.query.get("since") == str(edition.number):
            return web.Response(status=204)
        news = await asyncio.to_thread(edition.update_json)
        response = web.Response(body=news, content_type="application/json")
        response.enable_compression()
        return response

    async def _serve_trace(self, request: web.Request) -> web.Response:
        try:
            key = _requested_key(request)
        except (KeyError, ValueError):
            raise web.HTTPBadRequest(
                text="pass model, profile, strategy, scenario, and trial\n"
            ) from None
        lines = await asyncio.to_thread(_read_run_record, self._directory, key)
        if lines is None:
            raise web.HTTPNotFound(text="this run has no such trial\n")
        response = web.Response(body=lines, content_type="application/jsonl", charset="utf-8")
        response.enable_compression()
        return response


@web.middleware
async def _answer_config_errors_with_503(
    request: web.Request, handler: Handler
) -> web.StreamResponse:
    try:
        return await handler(request)
    except ConfigError as error:
        raise web.HTTPServiceUnavailable(text=f"{error}\n") from error


async def _add_security_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


def _requested_key(request: web.Request) -> Key:
    of = request.query
    trial = int(of["trial"])
    if trial.bit_length() >= _TRIAL_NUMBER_BITS:
        raise ValueError("the trial number is too large")
    return Key(Cell(of["model"], of["profile"], of["strategy"]), of["scenario"], trial)
