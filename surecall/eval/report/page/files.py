"""Reports as files: a run is read from its store, the page is written whole or not at all.

    report.html         the page, with its traces
    report_data/        the traces, when the page would grow too large with them

A page is written even if the store is damaged; it says what is missing and why.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final, TypeVar

import msgspec

from surecall.eval.report.agreement import agreements_in
from surecall.eval.report.agreement import notices as agreement_notices
from surecall.eval.report.common import Sheet, sheet_in
from surecall.eval.report.page.data import Context, Origin, Report, report_of
from surecall.eval.report.page.html import page_pieces
from surecall.eval.report.page.runs import STATUSES, Runs
from surecall.eval.report.page.traces import Block, Packed, Source, blocks, file_name, script
from surecall.eval.report.unfinished import WHY, unfinished
from surecall.eval.settings.endpoint import endpoint_of
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.run_directories import (
    make_folder,
    refuse_link,
    typed_errors,
    write_file,
    write_pieces,
)
from surecall.eval.storage.store import Invocation, Meta, Store, StoreError, open_for_reading
from surecall.eval.storage.trial import Cell
from surecall.values.errors import ConfigError
from surecall.values.types import Secret
from surecall.values.version import __version__

PAGE: Final = "report.html"
MOST_INLINE_BYTES: Final = 50 * 1000 * 1000
_SHORT_HASH: Final = 12

T = TypeVar("T")


def write_report(store: Store, directory: Path, *, most_bytes: int = MOST_INLINE_BYTES) -> Path:
    """Write the page of a run, and its traces beside it if it would pass `most_bytes` with them."""
    return _write(store, directory / PAGE, most_bytes)


def write_report_at(directory: Path, *, target: Path | None = None) -> Path:
    """Write the page of the run in a directory, even if its store cannot be opened."""
    path = directory / PAGE if target is None else target
    try:
        store = open_for_reading(directory)
    except StoreError as error:
        report = Report(origin=Origin(name=directory.name), notices=(f"{error}.",))
        return _written(page_pieces(report), path)
    with store:
        return _write(store, path, MOST_INLINE_BYTES)


def report_in(store: Store) -> Report:
    """Read a run. What cannot be read is missing from the report, and the report says so."""
    salvage = _Salvage()
    meta = _meta(store)
    context = _context(store.directory.name, meta)
    report = report_of(salvage.read(store.trials()), context)
    notices = [
        *agreement_notices(agreements_in(context.sheet, salvage.read(store.trials()))),
        *report.notices,
        *([f"Part of the results is missing: {salvage.problem}."] if salvage.problem else []),
        *([] if meta is None else _unfinished(meta.invocations, report.runs)),
    ]
    return msgspec.structs.replace(report, notices=tuple(notices))


class _Salvage:
    """Reads as far as it goes; `problem` says why no further."""

    def __init__(self) -> None:
        self.problem = ""

    def read(self, rows: Iterable[T]) -> Iterator[T]:
        try:
            yield from rows
        except StoreError as error:
            self.problem = str(error)


def _meta(store: Store) -> Meta | None:
    # A store that was made but never signed has no rows; a damaged one may hold anything.
    with suppress(StoreError, msgspec.MsgspecError, IndexError):
        return store.meta
    return None


def _context(name: str, meta: Meta | None) -> Context:
    if meta is None or not meta.invocations:
        notice = "What was planned, and with which settings, could not be read."
        return Context(origin=Origin(name=name), notices=(notice,))
    problem = ""
    try:
        sheet = sheet_in([each.config for each in meta.invocations])
    except ConfigError as error:
        sheet, problem = Sheet(), f"{error}."
    return Context(
        sheet=sheet,
        origin=_origin(name, meta, sheet),
        provider=_provider(sheet),
        notices=(problem,) if problem else (),
    )


def _origin(name: str, meta: Meta, sheet: Sheet) -> Origin:
    seed = sheet.settings.get("seed")
    latest = meta.latest
    return Origin(
        name=name,
        started=meta.created,
        version=str(meta.identity.get("version", __version__)),
        code=latest.code,
        config_hash=latest.config_hash[:_SHORT_HASH],
        base_url=str(sheet.settings.get("base_url", "")),
        api_prefix=str(sheet.settings.get("api_prefix", "")),
        seed=seed if isinstance(seed, int) else None,
        command="; ".join(dict.fromkeys(" ".join(each.command) for each in meta.invocations)),
        served_by=str(sheet.settings.get("served_by", "")),
    )


def _provider(sheet: Sheet) -> str:
    """Name the presets' provider as the evaluation did: by the address, unless it was given."""
    base_url, told = (str(sheet.settings.get(name, "")) for name in ("base_url", "endpoint"))
    # With any key at all: the address is known, and no request will be made.
    endpoint = endpoint_of(Settings(base_url=base_url, endpoint=told, api_key=Secret("-")))
    return "openrouter" if endpoint.simulated else endpoint.provider


def _unfinished(invocations: Iterable[Invocation], runs: Runs) -> Iterator[str]:
    """Say how many of the runs that were asked for are missing."""
    names = [Cell(runs.models[m], runs.profiles[p], runs.strategies[s]) for m, p, s in runs.cells]
    off = STATUSES.index("skipped")
    found: Counter[tuple[Cell, str]] = Counter()
    skipped: Counter[tuple[Cell, str]] = Counter()
    places = zip(runs.cell, runs.scenario, runs.status, strict=True)
    for (cell, scenario, status), number in Counter(places).items():
        place = names[cell], runs.scenarios[scenario]
        found[place] += number
        skipped[place] += number if status == off else 0
    if said := unfinished(invocations, found, skipped):
        yield f"{said} {WHY}"


def _write(store: Store, path: Path, most_bytes: int) -> Path:
    report = report_in(store)
    salvage = _Salvage()
    found = blocks(_aligned(salvage.read(store.packed(salvage=True)), report.runs))
    with TemporaryFile() as file:
        with typed_errors(path.parent):
            folder = path.with_name(f"{path.stem}_data")
            source = _placed(found, _Spool(file), folder, most_bytes)
        note = f"Part of the records is missing: {salvage.problem}." if salvage.problem else ""
        source = msgspec.structs.replace(source, note=note)
        return _written(page_pieces(report, source), path)


def _aligned(packed: Packed, runs: Runs) -> Packed:
    """Leave out what was added since the report was made: a block counts by place."""
    place = 0
    for trial, lines in packed:
        if place < runs.count and trial.key == runs.key(place):
            place += 1
            yield trial, lines


class _Spool:
    """Blocks that wait in a file of their own until it is known where they belong."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.starts: list[int] = []
        self.size = 0

    def add(self, block: Block) -> None:
        self.starts.append(block.start)
        self.size += len(block.text)
        self._file.write(block.text.encode() + b"\n")

    def __iter__(self) -> Iterator[str]:
        self._file.seek(0)
        return (line.decode().rstrip() for line in self._file)


def _placed(found: Iterator[Block], kept: _Spool, folder: Path, most_bytes: int) -> Source:
    """Keep blocks for the page while they fit, or else write all of them to files."""
    for block in found:
        kept.add(block)
        if kept.size > most_bytes:
            first = map(Block, kept.starts, kept)
            starts = _bundled(chain(first, found), folder)
            return Source("bundle", starts, folder=folder.name)
    _clear(folder, frozenset())
    return Source("inline" if kept.starts else "none", tuple(kept.starts), kept)


def _bundled(every: Iterable[Block], folder: Path) -> tuple[int, ...]:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_folder(folder)
    starts: list[int] = []
    for block in every:
        write_file(folder / file_name(block.start), script(block).encode())
        starts.append(block.start)
    _clear(folder, frozenset(map(file_name, starts)))
    return tuple(starts)


def _clear(folder: Path, keep: frozenset[str]) -> None:
    """Remove the traces of an earlier report."""
    refuse_link(folder)
    for path in folder.glob("traces_*.js"):
        if path.name not in keep:
            path.unlink()


def _written(page: Iterable[str], path: Path) -> Path:
    with typed_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_pieces(path, (piece.encode() for piece in page))
    return path
