"""`surecall view`: the report of a run in the browser, as a file or live."""

import asyncio
import webbrowser
from pathlib import Path
from typing import Any, Final

import click

from surecall.cli.common import FAILED, INTERRUPTED, WholeNumber, cannot_listen, complain, note, say
from surecall.cli.options import settled, with_settings
from surecall.eval.rundirs import DATABASE, LATEST, find_run
from surecall.eval.store import open_for_reading
from surecall.viewer.write import REPORT, write_report

_MAX_PORT: Final = 65_535
# After its report an evaluation only closes its files; what comes later is news.
_CLOSING_S: Final = 5.0


@click.command()
@click.argument("run", default=LATEST)
@with_settings("output_dir")
@click.option("--live", is_flag=True, help="Serve it, and follow the run while it goes on.")
@click.option("--open/--no-open", "opened", default=True, help="Start the browser.")
@click.option(
    "--port",
    type=WholeNumber(0, _MAX_PORT),
    default=0,
    help="Port to serve on with --live; 0 picks a free one.  [0]",
)
def command(*, run: str, live: bool, opened: bool, port: int, **flags: Any) -> int:
    """Open the report of a run in the browser.

    RUN is a name, a part of one, or a directory; without it, the run that was written last.
    """
    directory = find_run(Path(settled(flags).settings.output_dir), run)
    if live:
        return _live(directory, port, opened=opened)
    path = directory / REPORT
    if not _is_current(path):
        with open_for_reading(directory) as store:
            path = write_report(store, directory)
    say(str(path))
    if opened:
        _open(path.resolve().as_uri())
    return 0


def _is_current(report: Path) -> bool:
    """Tell whether a report was written after the last trial."""
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
        return complain(cannot_listen("127.0.0.1", port, error), FAILED)
    return 0


async def _serve(directory: Path, port: int, *, opened: bool) -> None:
    # Imported here: a file is shown without a server.
    from surecall.viewer.live import LiveReport  # noqa: PLC0415 - see above

    live = LiveReport(directory, port=port)
    runner = await live.start()
    try:
        say(live.url)
        note(f"run {directory.name}, live; Ctrl-C ends it")
        if opened:
            await asyncio.to_thread(_open, live.url)
        await asyncio.Event().wait()
    finally:
        await live.stop(runner)


def _open(address: str) -> None:
    if not webbrowser.open(address):
        note("no browser could be started; open the address above in one")
