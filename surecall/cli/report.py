"""`surecall report`: open the report of a run, or write it in another format."""

import asyncio
import os
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

import click
import msgspec

from surecall.cli.console import (
    PORT,
    ExitCode,
    escape_unprintable,
    json_line,
    print_exact,
    print_note,
    print_text,
)
from surecall.cli.interrupts import serve_until_interrupted
from surecall.cli.options import load_settings, settings_options
from surecall.cli.target import open_stored_run, stored_advice, write_run_reports
from surecall.eval.analysis.recommendations import recommendation_json, recommendation_row
from surecall.eval.analysis.verdict_text import verdict_json, verdict_sentence
from surecall.eval.report.markdown import markdown_report
from surecall.eval.report.page.page_files import PAGE, write_report_at
from surecall.eval.report.report_files import junit_lines, load_results, write_trials
from surecall.eval.report.run_results import RunResults, pretty_json
from surecall.eval.report.summary_json import TRIALS_FOLDER, results_document
from surecall.eval.storage.run_directories import (
    DATABASE,
    LATEST,
    find_run,
    translate_os_errors,
    write_file,
)
from surecall.eval.storage.store import RunStore
from surecall.values.errors import ConfigError
from surecall.values.text import quantity

# After the report, an evaluation only closes its files. A later change is new data.
_CLOSING_S: Final = 5.0
STANDARD_OUTPUT: Final = "-"
_HTML, _TRIALS = "html", "trials"
_FORMATS: Final = (_HTML, "json", "jsonl", "markdown", "junit", _TRIALS)
_FORMAT_BY_SUFFIX: Final = {".json": "json", ".jsonl": "jsonl", ".md": "markdown", ".xml": "junit"}
DocumentWriter: TypeAlias = Callable[[RunStore, RunResults], str]
Escape: TypeAlias = Callable[[str], str]


@click.command()
@click.argument("run", default=LATEST)
@click.option("--open/--no-open", "opened", default=True, help="Open the browser.")
@click.option("--live", is_flag=True, help="Serve a live report that follows a running evaluation.")
@click.option("--port", type=PORT, default=0, help="Port for --live; 0 picks a free one.  [0]")
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    help="Write this format instead of opening the report.",
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="File to write, - for standard output, or a directory for every format.",
)
@settings_options("output_dir")
def command(
    *,
    run: str,
    opened: bool,
    live: bool,
    port: int,
    form: str | None,
    output: str | None,
    **flags: Any,
) -> ExitCode:
    """Open the report of a run in the browser, or write it.

    RUN is a name, part of a name, a path, or latest. The report is updated first if the run has
    newer results. With --format or -o, it is written instead: html and trials (a file for each
    trial) to the run's directory, other formats to standard output, unless -o names a path. Without
    --format, the ending of the path decides: .json, .jsonl, .md, .xml; anything else is HTML.
    """
    base = load_settings(flags).settings.output_dir
    if form is None and output is None:
        directory = _run_directory(base, run)
        if live:
            return _serve_live(directory, port, opened=opened)
        return _show_page(directory, opened=opened)
    if live:
        raise ConfigError("--live serves the report: leave out --format and -o")
    return _write_format(base, run, form, output)


def _run_directory(base: str, name: str) -> Path:
    """Return the directory of a run, by any name that `find_run` accepts."""
    with translate_os_errors(Path(name)):
        return find_run(Path(base), name)


def _show_page(directory: Path, *, opened: bool) -> ExitCode:
    """Print the path of a run's page, after updating it; open it in the browser if wanted."""
    path = directory / PAGE
    if not _is_current(path):
        write_report_at(directory)
    print_text(str(path))
    if opened:
        open_browser(path.resolve().as_uri())
    return 0


def _is_current(report: Path) -> bool:
    """Whether a report was written after the last trial; a symbolic link does not count."""
    if report.is_symlink():
        return False
    try:
        written = report.stat().st_mtime
    except FileNotFoundError:
        return False
    logs = [report.with_name(name) for name in (DATABASE, f"{DATABASE}-wal")]
    changed = max(path.stat().st_mtime for path in logs if path.exists())
    return changed <= written + _CLOSING_S


def _serve_live(directory: Path, port: int, *, opened: bool) -> ExitCode:
    # Imported here: only --live needs a server.
    from surecall.eval.report_server import LiveReport  # noqa: PLC0415 - see above

    live = LiveReport(directory, port=port)

    async def announce() -> None:
        print_text(live.url)
        print_note(f"live report of {directory.name}; press Ctrl-C to stop")
        if opened:
            await asyncio.to_thread(open_browser, live.url)

    return serve_until_interrupted(live, announce, port)


def open_browser(address: str) -> None:
    """Open an address in the browser."""
    if not webbrowser.open(address):
        print_note(f"cannot start a browser; open this address in one: {address}")


def _write_format(base: str, run: str, form: str | None, output: str | None) -> ExitCode:
    """Write the report in the format of `form`, or of the ending of `output`."""
    if form is None and output is not None and not _is_directory_path(output):
        form = _FORMAT_BY_SUFFIX.get(Path(output).suffix, _HTML)
    if form == _HTML:
        _write_page(_run_directory(base, run), output)
        return 0
    with open_stored_run(base, run) as store:
        results = load_results(store)
        if form is None or form == _TRIALS:
            _write_files(store, results, output, everything=form is None)
        else:
            write, spell = _DOCUMENTS[form]
            _write_or_print(write(store, results), spell, output or STANDARD_OUTPUT)
    return 0


def _is_directory_path(output: str) -> bool:
    with translate_os_errors(Path(output)):
        return output.endswith(os.sep) or Path(output).is_dir()


def _write_page(directory: Path, output: str | None) -> None:
    if output != STANDARD_OUTPUT:
        path = directory if output is None else Path(output)
        is_file = output is not None and not _is_directory_path(output)
        print_text(str(write_report_at(directory, target=path if is_file else path / PAGE)))
        return
    with TemporaryDirectory() as folder:
        page = write_report_at(directory, target=Path(folder) / PAGE)
        if len(list(page.parent.iterdir())) > 1:
            raise ConfigError("the traces are too large for one document: pass -o FILE")
        _write_or_print(page.read_text("utf-8"), _xml_entity, output)


def _write_files(
    store: RunStore, results: RunResults, output: str | None, *, everything: bool
) -> None:
    if output == STANDARD_OUTPUT:
        raise ConfigError("cannot print several files: pass -o DIRECTORY")
    directory = store.directory if output is None else Path(output)
    with translate_os_errors(directory):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    # The trials first: the summary names their files.
    written = write_trials(directory, results, store.trials(), store.trace)
    for path in write_run_reports(store, results, directory, filed=True) if everything else ():
        print_text(str(path))
    print_text(str(directory / TRIALS_FOLDER))
    print_note(quantity(written, "trial"))


def _write_or_print(text: str, escape: Escape, output: str) -> None:
    if output == STANDARD_OUTPUT:
        print_exact(escape_unprintable(text, escape).removesuffix("\n"))
        return
    path = Path(output)
    data = text.encode("utf-8", "replace")
    with translate_os_errors(path):
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # a pipe or a device must not be replaced by a file
        else:
            write_file(path, data)


def _json_text(store: RunStore, results: RunResults) -> str:
    run = {"directory": str(store.directory), "created": store.meta.created_at}
    advice = stored_advice(store, results.sheet)
    rows = [recommendation_json(each) for each in advice]
    found = results_document(results, run=run, recommendations=rows, verdict=verdict_json(advice))
    return b"".join(pretty_json(found)).decode()


def _jsonl_text(store: RunStore, results: RunResults) -> str:
    lines = (
        {"simulated": results.columns[trial.key.cell].simulated, **msgspec.to_builtins(trial)}
        for trial in store.trials()
    )
    return "".join(f"{json_line(line)}\n" for line in lines)


def _markdown_text(store: RunStore, results: RunResults) -> str:
    advice = stored_advice(store, results.sheet)
    rows = map(recommendation_row, advice)
    return markdown_report(results, rows, verdict=verdict_sentence(advice))


def _json_escape(char: str) -> str:
    return json_line(char)[1:-1]


def _xml_entity(char: str) -> str:
    return f"&#{ord(char)};"


# How each format is written, and how its control characters are escaped when printed.
_DOCUMENTS: Final[Mapping[str, tuple[DocumentWriter, Escape]]] = {
    "json": (_json_text, _json_escape),
    "jsonl": (_jsonl_text, _json_escape),
    "markdown": (_markdown_text, _xml_entity),
    "junit": (lambda _, results: "".join(junit_lines(results)), _xml_entity),
}
