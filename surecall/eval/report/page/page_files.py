"""Reads a run from its store and writes its page.

    report.html         the page, with its traces
    report_data/        the traces, if they would make the page too large

A page is written even if the store is damaged; it tells what is missing and why.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final, TypeVar

import msgspec

from surecall.eval.report.markdown import agreement_notices, compare_endpoints
from surecall.eval.report.page.data import Origin, Report, ReportContext, RunColumns, build_report
from surecall.eval.report.page.html import page_pieces
from surecall.eval.report.page.traces import (
    PackedTrials,
    TraceBlock,
    TraceSource,
    block_file_name,
    block_script,
    trace_blocks,
)
from surecall.eval.report.report_files import incomplete_notice
from surecall.eval.report.run_results import Sheet, merge_sheets
from surecall.eval.settings.endpoint import resolve_endpoint
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.run_directories import (
    StoreError,
    make_private_folder,
    reject_symlink,
    translate_os_errors,
    write_file,
    write_pieces,
)
from surecall.eval.storage.store import RunMeta, RunStore, open_for_reading
from surecall.values.errors import ConfigError
from surecall.values.types import Secret
from surecall.values.version import __version__

PAGE: Final = "report.html"
MAX_INLINE_BYTES: Final = 50 * 1000 * 1000

T = TypeVar("T")


def write_report(store: RunStore, directory: Path, *, max_bytes: int = MAX_INLINE_BYTES) -> Path:
    """Write the page of a run. Traces that exceed `max_bytes` go to a folder beside it."""
    return _write_store_report(store, directory / PAGE, max_bytes)


def write_report_at(directory: Path, *, target: Path | None = None) -> Path:
    """Write the page of the run in a directory, even if its store cannot be opened."""
    path = directory / PAGE if target is None else target
    try:
        store = open_for_reading(directory)
    except StoreError as error:
        report = Report(origin=Origin(name=directory.name), notices=(f"{error}.",))
        return _write_page(page_pieces(report), path)
    with store:
        return _write_store_report(store, path, MAX_INLINE_BYTES)


def load_report(store: RunStore) -> Report:
    """Return the report of a run. Its notices list the parts that could not be read."""
    salvage = _PartialReader()
    meta = _readable_meta(store)
    context = _report_context(store.directory.name, meta)
    report = build_report(salvage.read_rows(store.trials()), context)
    notices = [
        *agreement_notices(compare_endpoints(context.sheet, salvage.read_rows(store.trials()))),
        *report.notices,
        *([f"Some results are missing: {salvage.problem}."] if salvage.problem else []),
    ]
    if meta is not None:
        totals = {view.cell: view.totals for view in report.cells}
        notices += filter(None, [incomplete_notice(totals, meta)])
    return msgspec.structs.replace(report, notices=tuple(notices))


class _PartialReader:
    """Reads rows up to the first store error, which it records as `problem`."""

    def __init__(self) -> None:
        self.problem = ""

    def read_rows(self, rows: Iterable[T]) -> Iterator[T]:
        """Yield rows; end at a store error and record it."""
        try:
            yield from rows
        except StoreError as error:
            self.problem = str(error)


def _readable_meta(store: RunStore) -> RunMeta | None:
    """Return the metadata of a run; None if it cannot be read."""
    # A store without a recorded command has no rows; a damaged one may contain anything.
    with suppress(StoreError, msgspec.MsgspecError, IndexError):
        return store.meta
    return None


def _report_context(name: str, meta: RunMeta | None) -> ReportContext:
    """Return the inputs of a report from a run's metadata; defaults without any."""
    if meta is None or not meta.invocations:
        notice = "The plan and settings of this run could not be read."
        return ReportContext(origin=Origin(name=name), notices=(notice,))
    problem = ""
    try:
        sheet = merge_sheets([each.config for each in meta.invocations])
    except ConfigError as error:
        sheet, problem = Sheet(), f"{error}."
    return ReportContext(
        sheet=sheet,
        origin=_origin(name, meta, sheet),
        provider=_preset_provider(sheet),
        notices=(problem,) if problem else (),
    )


def _origin(name: str, meta: RunMeta, sheet: Sheet) -> Origin:
    """Return where the results of a run come from."""
    seed = sheet.settings.get("seed")
    latest = meta.latest
    return Origin(
        name=name,
        started=meta.created_at,
        version=str(meta.identity.get("version", __version__)),
        code=latest.code,
        config_hash=latest.config_hash[:12],
        base_url=str(sheet.settings.get("base_url", "")),
        api_prefix=str(sheet.settings.get("api_prefix", "")),
        seed=seed if isinstance(seed, int) else None,
        command="; ".join(dict.fromkeys(" ".join(each.command) for each in meta.invocations)),
        served_by=str(sheet.settings.get("served_by", "")),
    )


def _preset_provider(sheet: Sheet) -> str:
    """Return the provider of the presets, inferred from the URL unless it was given."""
    base_url, given = (str(sheet.settings.get(name, "")) for name in ("base_url", "endpoint"))
    # Any key will do: the URL is known, and no request is made.
    endpoint = resolve_endpoint(Settings(base_url=base_url, endpoint=given, api_key=Secret("-")))
    return "openrouter" if endpoint.is_simulated else endpoint.provider


def _write_store_report(store: RunStore, path: Path, max_bytes: int) -> Path:
    """Write the page of an open store, with the traces that can be read."""
    report = load_report(store)
    salvage = _PartialReader()
    found = trace_blocks(
        _matching_trials(salvage.read_rows(store.packed_trials(salvage=True)), report.runs)
    )
    with TemporaryFile() as file:
        with translate_os_errors(path.parent):
            folder = path.with_name(f"{path.stem}_data")
            source = _place_blocks(found, _BlockSpool(file), folder, max_bytes)
        note = f"Some traces are missing: {salvage.problem}." if salvage.problem else ""
        source = msgspec.structs.replace(source, note=note)
        return _write_page(page_pieces(report, source), path)


def _matching_trials(packed: PackedTrials, runs: RunColumns) -> PackedTrials:
    """Skip trials added since the report was made, because blocks refer to runs by index."""
    place = 0
    for trial, lines in packed:
        if place < runs.count and trial.key == runs.key_at(place):
            place += 1
            yield trial, lines


class _BlockSpool:
    """Blocks buffered in a temporary file until their destination is known."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.starts: list[int] = []
        self.size = 0

    def add(self, block: TraceBlock) -> None:
        """Append a block to the file."""
        self.starts.append(block.start)
        self.size += len(block.text)
        self._file.write(block.text.encode() + b"\n")

    def __iter__(self) -> Iterator[str]:
        self._file.seek(0)
        return (line.decode().rstrip() for line in self._file)


def _place_blocks(
    blocks: Iterator[TraceBlock], spool: _BlockSpool, folder: Path, max_bytes: int
) -> TraceSource:
    """Return blocks inline if they fit into the page, else write all of them to files."""
    for block in blocks:
        spool.add(block)
        if spool.size > max_bytes:
            first = map(TraceBlock, spool.starts, spool)
            starts = _write_block_files(chain(first, blocks), folder)
            return TraceSource("bundle", starts, folder=folder.name)
    _remove_old_blocks(folder, frozenset())
    return TraceSource("inline" if spool.starts else "none", tuple(spool.starts), spool)


def _write_block_files(blocks: Iterable[TraceBlock], folder: Path) -> tuple[int, ...]:
    """Write blocks as files; return the index of the first run of each."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_private_folder(folder)
    starts: list[int] = []
    for block in blocks:
        write_file(folder / block_file_name(block.start), block_script(block).encode())
        starts.append(block.start)
    _remove_old_blocks(folder, frozenset(map(block_file_name, starts)))
    return tuple(starts)


def _remove_old_blocks(folder: Path, keep: frozenset[str]) -> None:
    """Remove the traces of an earlier report."""
    reject_symlink(folder)
    for path in folder.glob("traces_*.js"):
        if path.name not in keep:
            path.unlink()


def _write_page(pieces: Iterable[str], path: Path) -> Path:
    with translate_os_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_pieces(path, (piece.encode() for piece in pieces))
    return path
