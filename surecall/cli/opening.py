"""Which run an evaluation writes to: the one that it continues, one that was named, or a new one.

The same command continues its run. Another matrix, other settings or another version begin a run
of their own, unless `--into` names one to add to.
"""

import functools
import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

import surecall
from surecall.cli.common import note
from surecall.cli.conclusion import headline
from surecall.cli.table import CellTable
from surecall.cli.target import Target
from surecall.eval.report.common import SHEET, sheet_for
from surecall.eval.report.files import sheet_of
from surecall.eval.running.matrix import Plan
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.done import Done
from surecall.eval.storage.identity import MATRIX, differences
from surecall.eval.storage.run_directories import StoreError, find_run, point_to, runs, typed_errors
from surecall.eval.storage.store import (
    Invocation,
    Store,
    open_for_reading,
    open_or_resume,
    open_to_add,
    resumable,
)
from surecall.eval.storage.trial import Trial
from surecall.settings.connection import shown_url
from surecall.values.errors import ConfigError
from surecall.values.types import Secret

F = TypeVar("F", bound=Callable[..., Any])


class Choice(msgspec.Struct, frozen=True):
    """Where to write, if the user said so: into a new run, or into one that is named."""

    fresh: bool = False
    into: str | None = None

    def __post_init__(self) -> None:
        if self.fresh and self.into is not None:
            raise ConfigError("--fresh begins a run and --into adds to one: leave out one of them")

    def named(self, base: Path) -> Path | None:
        """Return the run that was named, if one was."""
        if self.into is None:
            return None
        with typed_errors(Path(self.into)):
            return find_run(base, self.into)


def with_choice(function: F) -> Callable[..., Any]:
    """Give a command the options that choose a run."""

    @functools.wraps(function)
    def combined(*, fresh: bool, into: str | None, **options: Any) -> Any:
        return function(choice=Choice(fresh, into), **options)

    new = click.option("--fresh", is_flag=True, help="Start a new run instead of continuing.")
    said = "Add to this run: a name, a part of one, latest, or a path."
    return new(click.option("--into", metavar="RUN", help=said)(combined))


def done_before(planned: Plan, choice: Choice) -> Done:
    """Return the trials of the run that would be written to; change and lock nothing."""
    base = Path(planned.settings.output_dir)
    continued = None if choice.fresh else resumable(base, planned.identity)[0]
    directory = choice.named(base) or continued
    if directory is None:
        return Done()
    with open_for_reading(directory) as store:
        return store.done_keys(infra=False)


class Recorded:
    """What a run holds of a plan before anything is added: its keys and its table, read at once.

    Trials of a scenario are not mixed with those of its earlier version: that is refused.
    """

    def __init__(self, planned: Plan, store: Store) -> None:
        self.done = Done()
        cells = [each.cell for each in planned.cells]
        self.table = CellTable(cells, planned.bar, stopping=sheet_of(store).stopping)
        prompts = {scenario.id: scenario.prompt_hash for scenario in planned.scenarios}
        wanted = planned.wants
        for trial in store.trials():
            _check_prompt(trial, prompts, store)
            if trial.status != "infra":
                self.done.add(trial.key)
            if wanted(trial.key):
                self.table.add(trial)


def opened_run(
    planned: Plan, target: Target, keys: Sequence[Secret], choice: Choice
) -> tuple[Store, Recorded]:
    """Open the run that a plan belongs to, or begin one, and say which it is."""
    base = Path(planned.settings.output_dir)
    secrets, told = (*target.secrets, *keys), _invocation(planned, target)
    named = choice.named(base)
    if named is None:
        store = open_or_resume(base, planned.identity, told, fresh=choice.fresh, secrets=secrets)
    else:
        store = open_to_add(named, planned.identity, told, secrets=secrets)
        if named in runs(base):
            point_to(base, named)
    for path in store.unreadable:
        note(f"warning: {path} cannot be read, and is left alone")
    try:
        recorded = Recorded(planned, store)
    except ConfigError:
        store.close()
        raise
    _announce(planned, store, recorded.done, fresh=choice.fresh)
    return store, recorded


def viewing(store: Store, settings: Settings) -> str:
    """Return the command that shows a run: the latest needs no name."""
    usual = store.directory in runs(Path(settings.output_dir))
    return "surecall view" if usual else f"surecall view {store.directory}"


def _announce(planned: Plan, store: Store, done: Done, *, fresh: bool) -> None:
    if planned.settings.verbose <= 0:
        return
    if len(store.meta.invocations) == 1 and not fresh:
        _tell_of_earlier(planned)
    note(headline(planned, planned.left().total() - planned.left(done).total()))
    note(f"run {store.directory.name}   Ctrl-C is safe: the same command continues")


def _tell_of_earlier(planned: Plan) -> None:
    """Say where an earlier version kept trials of this plan, beside those of other matrices."""
    wanted = planned.left()
    for directory in runs(Path(planned.settings.output_dir)):
        with suppress(StoreError), open_for_reading(directory) as store:
            identity = store.meta.identity
            same = MATRIX not in identity and not differences(identity, planned.identity)
            if same and planned.left(store.done_keys()) != wanted:
                name = directory.name
                note(
                    f"{name}, of an earlier version, has trials of this command among others; it "
                    f"stays as it is (surecall view {name}), and --into {name} would add to it"
                )
                return


def _invocation(planned: Plan, target: Target) -> Invocation:
    sheet = msgspec.to_builtins(sheet_for(planned, target.endpoint))
    words = ("surecall", *_words(each.endpoint.base_url for each in target.every))
    return Invocation(command=words, code=code_hash(), config={SHEET: sheet})


def _words(addresses: Iterable[str]) -> list[str]:
    """Return the words of the command, without what an address may hold of a secret."""
    words = sys.argv[1:]
    for given in addresses:
        words = [word.replace(given, shown_url(given)) for word in words]
    return words


def _check_prompt(trial: Trial, now: Mapping[str, str], store: Store) -> None:
    """Refuse to go on with a scenario that is another one than a trial was made with."""
    name = trial.key.scenario
    if trial.prompt_hash and now.get(name, trial.prompt_hash) != trial.prompt_hash:
        raise ConfigError(
            f"scenario {name!r} has changed since {store.directory.name} began; "
            "start over with --fresh"
        )


def code_hash() -> str:
    """Return a hash of the program itself, for the record."""
    root = Path(surecall.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{surecall.__version__}+{digest.hexdigest()[:12]}"
