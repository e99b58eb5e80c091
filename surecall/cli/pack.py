"""`surecall pack`: cases of a public benchmark as scenario files, which are data.

Nothing of a benchmark comes with surecall: the command reads what the user has downloaded.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import click

from surecall.cli.common import WholeNumber, say
from surecall.cli.listing import count, say_columns
from surecall.eval.scenarios.bfcl import LEFT_OUT, SETS, Mapped, out_of_reach
from surecall.eval.scenarios.bfcl_data import data_in, read_set
from surecall.eval.storage.run_directories import typed_errors, write_file
from surecall.values.errors import ConfigError
from surecall.values.family import canonical, unknown
from surecall.values.types import JSON
from surecall.wire.messages import encode

Sets: TypeAlias = Mapping[str, Sequence[JSON]]


@click.command()
@click.argument("kind", metavar="bfcl")
@click.argument("source", metavar="WHEEL_OR_DIR", type=click.Path(path_type=Path))
@click.option("--into", required=True, type=click.Path(path_type=Path), help="Folder to write to.")
@click.option(
    "--most", type=WholeNumber(1), help="At most so many cases of each set, spread evenly over it."
)
def command(*, kind: str, source: Path, into: Path, most: int | None) -> int:
    """Turn the cases of a public benchmark into scenario files.

    bfcl: the single-turn cases of the Berkeley leaderboard, from the wheel of bfcl-eval (pip
    download --no-deps bfcl-eval) or from a directory with its data. One .jsonl file for each set;
    no code of theirs is run. Prints what had to be mapped, and what was left out.
    """
    name = canonical(kind)
    if name not in _PACKS:
        raise ConfigError(unknown("pack", kind, _PACKS))
    _PACKS[name](source, into, most)
    return 0


def _bfcl(source: Path, into: Path, most: int | None) -> None:
    mapped = Mapped()
    folder = data_in(source)
    sets = {name: read_set(folder, name, mapped, most) for name in SETS}
    _write(into, sets)
    say_columns(
        ("set", "cases", "file"),
        [(name, str(len(each)), str(into / _file(name))) for name, each in sets.items()],
    )
    say("")
    say_columns(
        ("mapped", "times", "cases"),
        [(what, str(mapped.times[what]), str(mapped.cases[what])) for what in mapped.times],
    )
    say("")
    requests = [request for each in sets.values() for request in each]
    _say_cases("no tool is offered in", (each for each in requests if not each["tools"]))
    hopeless = "no call can be right, because the accepted answer does not fit the function, in"
    _say_cases(hopeless, filter(out_of_reach, requests))
    for names, reason in LEFT_OUT.items():
        say(f"left out: {names}: {reason}")
    say(f"\n{count(len(requests), 'case')}; surecall eval -n 1 -s {into / _file(SETS[0])}")


def _say_cases(what: str, found: Iterable[JSON]) -> None:
    if names := [request["id"] for request in found]:
        say(f"{what} {count(len(names), 'case')}: {', '.join(names)}")


def _file(name: str) -> str:
    return f"{name}.jsonl"


def _write(into: Path, sets: Sets) -> None:
    """Write a file for each set, into a folder that is new or empty."""
    with typed_errors(into):
        into.mkdir(parents=True, exist_ok=True)
        if any(into.iterdir()):
            raise ConfigError(f"{into} is not empty; name another folder")
        for name, requests in sets.items():
            write_file(into / _file(name), b"".join(encode(each) + b"\n" for each in requests))


_PACKS: Final[Mapping[str, Callable[[Path, Path, int | None], None]]] = {"bfcl": _bfcl}
