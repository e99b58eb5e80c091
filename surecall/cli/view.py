"""`surecall view`: the report of a run in the browser, as a file or live."""

import asyncio
import webbrowser
from pathlib import Path
from typing import Final

import click

from surecall.cli.common import FAILED, INTERRUPTED, WholeNumber, cannot_listen, complain, note, say
from surecall.cli.report import run_directory
from surecall.eval.report.page.files import PAGE, write_report_at
from surecall.eval.storage.run_directories import DATABASE, LATEST

_MAX_PORT: Final = 65_535
# After its report an evaluation only closes its files; a later change is new data.
_CLOSING_S: Final = 5.0


@click.command()
@click.argument("run", default=LATEST)
@click.option("--runs", metavar="DIR", help="Where runs are kept, if not in the usual place.")
@click.option("--live", is_flag=True, help="Serve it, and follow the run while it goes on.")
@click.option("--open/--no-open", "opened", default=True, help="Start the browser.")
@click.option(
    "--port",
    type=WholeNumber(0, _MAX_PORT),
    default=0,
    help="Port to serve on with --live; 0 picks a free one.  [0]",
)
def command(*, run: str, live: bool, opened: bool, port: int, runs: str | None) -> int:
    """Open the report of a run in the browser.

    RUN is a name, a part of one, a path, or latest. What is missing from the report, because the
    run went on after it was written, is added first.
    """
    directory = run_directory(runs, run)
    if live:
        return _live(directory, port, opened=opened)
    path = directory / PAGE
    if not _is_current(path):
        write_report_at(directory)
    say(str(path))
    if opened:
        show(path.resolve().as_uri())
    return 0


def _is_current(report: Path) -> bool:
    """Whether a report was written after the last trial; a link to a page is no report."""
    if report.is_symlink():
        return False
    try:
        written = report.stat().st_mtime
    except FileNotFoundError:
        return False
    logs = [report.with_name(name) for name in (DATABASE, f"{DATABASE}-wal")]
    changed = max(path.stat().st_mtime for path in logs if path.exists())
    return changed <= written + _CLOSING_S


def _live(directory: Path, port: int, *, opened: bool) -> int:
    try:
        asyncio.run(_serve(directory, port, opened=opened))
    except KeyboardInterrupt:
        # Further up click would print an empty line for it.
        return INTERRUPTED
    except OSError as error:
        return complain(cannot_listen(port, error), FAILED)
    return 0


async def _serve(directory: Path, port: int, *, opened: bool) -> None:
    # Imported here: a file is shown without a server.
    from surecall.eval.report_server import LiveReport  # noqa: PLC0415 - see above

    live = LiveReport(directory, port=port)
    runner = await live.start()
    try:
        say(live.url)
        note(f"run {directory.name}, live; Ctrl-C ends it")
        if opened:
            await asyncio.to_thread(show, live.url)
        await asyncio.Event().wait()
    finally:
        await live.stop(runner)


def show(address: str) -> None:
    """Start the browser on an address."""
    if not webbrowser.open(address):
        note(f"no browser could be started; open this in one: {address}")
