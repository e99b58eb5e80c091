"""`surecall pack`: cases of a public benchmark as scenario files.

Nothing of a benchmark comes with surecall: the command reads what the user has downloaded.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from surecall.cli.common import WholeNumber, say
from surecall.cli.listing import count, say_columns
from surecall.eval.scenarios.bfcl import LEFT_OUT, SETS, Mapped, out_of_reach
from surecall.eval.scenarios.bfcl_data import data_in, read_set
from surecall.eval.scenarios.bfcl_turns_data import (
    MULTI_TURN_SETS,
    code_in,
    multi_turn_cases,
    multi_turn_files,
)
from surecall.eval.storage.run_directories import typed_errors, write_file
from surecall.values.errors import ConfigError
from surecall.values.family import canonical, unknown
from surecall.values.types import JSON
from surecall.wire.messages import encode

# Scenarios whose tools are code have a folder of their own, so that it runs only if it is named.
_CODE: Final = "multi_turn"


@click.command()
@click.argument("kind", metavar="bfcl")
@click.argument("source", metavar="WHEEL_OR_DIR", type=click.Path(path_type=Path))
@click.option("--into", required=True, type=click.Path(path_type=Path), help="Folder to write to.")
@click.option(
    "--most", type=WholeNumber(1), help="At most so many cases of each set, spread evenly over it."
)
def command(*, kind: str, source: Path, into: Path, most: int | None) -> int:
    """Turn the cases of a public benchmark into scenario files.

    bfcl: the cases of the Berkeley leaderboard, from the wheel of bfcl-eval (pip download --no-deps
    bfcl-eval) or from a directory with its data. One .jsonl file, which is data, for each set of
    one turn; a folder multi_turn for those whose tools are code of theirs. None of it is run here.
    Prints what had to be mapped, and what was left out.
    """
    name = canonical(kind)
    if name not in _PACKS:
        raise ConfigError(unknown("pack", kind, _PACKS))
    _PACKS[name](source, into, most)
    return 0


def _bfcl(source: Path, into: Path, most: int | None) -> None:
    mapped = Mapped()
    folder, code = data_in(source), code_in(source)
    sets = {name: read_set(folder, name, mapped, most) for name in SETS}
    files = {f"{name}.jsonl": _lines(each) for name, each in sets.items()}
    rows = [(name, str(len(each)), str(into / f"{name}.jsonl")) for name, each in sets.items()]
    if code is not None:
        turns = {name: multi_turn_cases(folder, name, most) for name in MULTI_TURN_SETS}
        found = multi_turn_files(folder, code, turns, mapped)
        files |= {f"{_CODE}/{path}": data for path, data in found}
        places = {name: into / _CODE / f"{name}.py" for name in turns}
        rows += [(name, str(len(each)), str(places[name])) for name, each in turns.items()]
    _write(into, files)
    _report(rows, mapped, [request for each in sets.values() for request in each])
    if code is None:
        say("left out: multi_turn: the classes of their tools are not there, only in the wheel")
    total = count(sum(int(cases) for _, cases, _ in rows), "case")
    say(f"\n{total}; surecall eval -n 1 -s {rows[0][2]}")


def _report(rows: Sequence[tuple[str, str, str]], mapped: Mapped, requests: Sequence[JSON]) -> None:
    """Print what was written, what was mapped, and what to know about it."""
    say_columns(("set", "cases", "file"), rows)
    say("")
    say_columns(
        ("mapped", "times", "cases, classes"),
        [(what, str(mapped.times[what]), str(mapped.cases[what])) for what in mapped.times],
    )
    say("")
    _say_cases("no tool is offered in", (each for each in requests if not each["tools"]))
    hopeless = "no call can be right, because the accepted answer does not fit the function, in"
    _say_cases(hopeless, filter(out_of_reach, requests))
    for names, reason in LEFT_OUT.items():
        say(f"left out: {names}: {reason}")


def _say_cases(what: str, found: Iterable[JSON]) -> None:
    if names := [request["id"] for request in found]:
        say(f"{what} {count(len(names), 'case')}: {', '.join(names)}")


def _lines(requests: Iterable[JSON]) -> bytes:
    return b"".join(encode(each) + b"\n" for each in requests)


def _write(into: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder that is new or empty."""
    with typed_errors(into):
        into.mkdir(parents=True, exist_ok=True)
        if any(into.iterdir()):
            raise ConfigError(f"{into} is not empty; name another folder")
        for name, data in files.items():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            write_file(into / name, data)


_PACKS: Final[Mapping[str, Callable[[Path, Path, int | None], None]]] = {"bfcl": _bfcl}
