"""`surecall pack`: convert a public benchmark to scenario files.

surecall includes no benchmark data: the command reads files that the user has downloaded.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from surecall.cli.console import ExitCode, WholeNumber, print_columns, print_text
from surecall.eval.scenarios.bfcl import (
    EXCLUDED_SETS,
    SET_NAMES,
    MappingCounts,
    find_data,
    is_unanswerable,
    read_set,
)
from surecall.eval.scenarios.bfcl_turns import (
    MULTI_TURN_SETS,
    find_code,
    multi_turn_files,
    read_multi_turn_cases,
)
from surecall.eval.storage.run_directories import translate_os_errors, write_file
from surecall.values.errors import ConfigError
from surecall.values.family import canonical_name, unknown_name_message
from surecall.values.text import quantity
from surecall.values.types import JSON
from surecall.wire.chat_format import encode

# Scenarios with tool code have their own folder, so that the code runs only if it is named.
_CODE_FOLDER: Final = "multi_turn"


@click.command()
@click.argument("kind", metavar="bfcl")
@click.argument("source", metavar="WHEEL_OR_DIR", type=click.Path(path_type=Path))
@click.option("--into", required=True, type=click.Path(path_type=Path), help="Folder to write to.")
@click.option("--most", type=WholeNumber(1), help="Maximum number of cases per set, spread evenly.")
def command(*, kind: str, source: Path, into: Path, most: int | None) -> ExitCode:
    """Convert the cases of a public benchmark to scenario files.

    bfcl is the Berkeley Function Calling Leaderboard. WHEEL_OR_DIR is the wheel of bfcl-eval (pip
    download --no-deps bfcl-eval) or a directory with its data. Writes a .jsonl data file for each
    single-turn set, and a folder multi_turn for the sets whose tools are Python code, which is not
    run here. Prints what was mapped and what was left out.
    """
    name = canonical_name(kind)
    if name not in _PACKS:
        raise ConfigError(unknown_name_message("pack", kind, _PACKS))
    _PACKS[name](source, into, most)
    return 0


def _pack_bfcl(source: Path, target: Path, max_cases: int | None) -> None:
    mapped = MappingCounts()
    folder, code = find_data(source), find_code(source)
    sets = {name: read_set(folder, name, mapped, max_cases) for name in SET_NAMES}
    files = {
        f"{name}.jsonl": b"".join(encode(one) + b"\n" for one in each)
        for name, each in sets.items()
    }
    rows = [(name, str(len(each)), str(target / f"{name}.jsonl")) for name, each in sets.items()]
    if code is not None:
        turns = {name: read_multi_turn_cases(folder, name, max_cases) for name in MULTI_TURN_SETS}
        found = multi_turn_files(folder, code, turns, mapped)
        files |= {f"{_CODE_FOLDER}/{path}": data for path, data in found}
        places = {name: target / _CODE_FOLDER / f"{name}.py" for name in turns}
        rows += [(name, str(len(each)), str(places[name])) for name, each in turns.items()]
    _write_files(target, files)
    _print_report(rows, mapped, [request for each in sets.values() for request in each])
    if code is None:
        print_text("left out: multi_turn: the tool classes are missing; they are only in the wheel")
    total = quantity(sum(int(cases) for _, cases, _ in rows), "case")
    print_text(f"\n{total}; run them with: surecall eval -n 1 -s {rows[0][2]}")


def _print_report(
    rows: Sequence[tuple[str, str, str]], mapped: MappingCounts, requests: Sequence[JSON]
) -> None:
    """Print what was written, what was mapped, and what was left out."""
    print_columns(("set", "cases", "file"), rows)
    print_text("")
    print_columns(
        ("mapped", "times", "cases, classes"),
        [(what, str(mapped.times[what]), str(mapped.cases[what])) for what in mapped.times],
    )
    print_text("")
    _print_cases("no tools in", (each for each in requests if not each["tools"]))
    impossible = "no call can pass, because the expected answer does not fit the function, in"
    _print_cases(impossible, filter(is_unanswerable, requests))
    for names, reason in EXCLUDED_SETS.items():
        print_text(f"left out: {names}: {reason}")


def _print_cases(heading: str, cases: Iterable[JSON]) -> None:
    if names := [request["id"] for request in cases]:
        print_text(f"{heading} {quantity(len(names), 'case')}: {', '.join(names)}")


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files to a folder that is new or empty."""
    with translate_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty: choose another folder")
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_file(folder / name, data)


_PACKS: Final[Mapping[str, Callable[[Path, Path, int | None], None]]] = {"bfcl": _pack_bfcl}
