"""`surecall replay`: a recorded trial, run again without a network."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, Final

import click
import msgspec

from surecall.cli.common import FAILED, NOTHING, complain, note, say
from surecall.cli.listing import count, say_columns, say_document
from surecall.cli.options import settled, with_settings
from surecall.cli.stored import opened
from surecall.eval.report.common import Entry, Results
from surecall.eval.report.files import results_in
from surecall.eval.storage.run_directories import DATABASE, LATEST, typed_errors
from surecall.eval.storage.store import Store
from surecall.runtime.redaction import REDACTED
from surecall.runtime.replay import replay
from surecall.runtime.trace import parse_trace
from surecall.values.errors import ConfigError, ReplayDiverged
from surecall.values.family import unknown
from surecall.values.trace import Trace
from surecall.values.types import JSON

_TRACE_FILE: Final = ".jsonl"
_RECORD: Final = ".json"
_ORDER: Final = ("failed", "infra", "skipped", "passed")
_MOST_DIGITS: Final = 9
_NAMED: Final = 3
_SHOWN: Final = 100


class Listed(msgspec.Struct, frozen=True):
    """A trial of a run, by its number and its name."""

    number: int
    name: str
    entry: Entry

    @property
    def outcome(self) -> str:
        """How it ended, and why."""
        return f"{self.entry.status} {self.entry.category}".rstrip()


@click.command()
@click.argument("what", metavar="[RUN[/TRIAL]]", default=LATEST)
@with_settings("output_dir")
@click.option("--run-id", metavar="ID", help="Which run to replay, in a file of several.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(*, what: str, run_id: str | None, as_json: bool, **flags: Any) -> int:
    """Replay a recorded trial, offline, and say whether the result is the same.

    RUN is a name, a part of one, a path, or latest; TRIAL is a number from the list that is printed
    without it, or the name of a trial, or a part of it. A .jsonl file with a trace works as well.
    """
    if what.endswith(_TRACE_FILE):
        with typed_errors(Path(what)):
            data = Path(what).read_bytes()
        return _replayed(data, parse_trace(data, run_id, what), {}, as_json=as_json)
    base = settled(flags).settings.output_dir
    run, wanted = _split(what)
    with opened(base, run) as store:
        results = results_in(store)
        trials = _listed(results)
        if not wanted:
            return _list(store, trials, as_json=as_json)
        trial = _picked(trials, wanted)
        simulated = results.columns[trial.entry.key.cell].simulated
        return _one(store, trial, simulated=simulated, as_json=as_json)


def _split(what: str) -> tuple[str, str]:
    """Tell a run from a trial of it; a run may be a path, and no trial has a slash in it."""
    with typed_errors(Path(what)):
        if "/" not in what or (Path(what) / DATABASE).is_file():
            return what, ""
    run, _, trial = what.rpartition("/")
    return run, trial


def _listed(results: Results) -> list[Listed]:
    return [
        Listed(number, results.file_name(entry.key).removesuffix(_RECORD), entry)
        for number, entry in enumerate(results.all, 1)
    ]


def _list(store: Store, trials: Sequence[Listed], *, as_json: bool) -> int:
    ranked = sorted(trials, key=lambda trial: _ORDER.index(trial.entry.status))
    if as_json:
        rows = [{"number": one.number, "name": one.name} | _outcome(one.entry) for one in ranked]
        say_document({"run": store.directory.name, "trials": rows})
        return 0
    say_columns(
        ("#", "outcome", "model", "scenario", "trial", "profile", "strategy", "error"),
        map(_row, ranked),
    )
    note(f"surecall replay {store.directory.name}/NUMBER shows one")
    return 0


def _row(one: Listed) -> tuple[str, ...]:
    key = one.entry.key
    return (
        str(one.number),
        one.outcome,
        key.cell.model,
        key.scenario,
        str(key.trial),
        key.cell.profile,
        key.cell.strategy,
        shorten(one.entry.error, _SHOWN, placeholder="…"),
    )


def _outcome(entry: Entry) -> JSON:
    cell = entry.key.cell
    return {
        "model": cell.model,
        "profile": cell.profile,
        "strategy": cell.strategy,
        "scenario": entry.key.scenario,
        "trial": entry.key.trial,
        "status": entry.status,
        "category": entry.category,
        "error": entry.error,
        "hint": entry.hint,
    }


def _picked(trials: Sequence[Listed], wanted: str) -> Listed:
    if wanted.isdecimal() and len(wanted) <= _MOST_DIGITS:
        if not 1 <= int(wanted) <= len(trials):
            raise ConfigError(f"there is no trial {wanted}: the run has {len(trials)}")
        return trials[int(wanted) - 1]
    by_name = {trial.name: trial for trial in trials}
    name = wanted.removesuffix(_RECORD)
    alike = [by_name[name]] if name in by_name else [one for one in trials if name in one.name]
    if not alike:
        raise ConfigError(unknown("trial", wanted, by_name))
    if len(alike) > 1:
        names = ", ".join(one.name for one in alike[:_NAMED])
        raise ConfigError(f'"{wanted}" is part of {len(alike)} names, such as {names}')
    return alike[0]


def _one(store: Store, trial: Listed, *, simulated: bool, as_json: bool) -> int:
    data = store.trace(trial.entry.key)
    if not data:
        return complain(f"nothing was recorded of trial {trial.number}: {trial.outcome}", NOTHING)
    head = {"run": store.directory.name, "number": trial.number, "name": trial.name}
    facts = head | _outcome(trial.entry) | {"simulated": simulated}
    if not as_json:
        _print_head(trial, simulated=simulated)
    return _replayed(data, parse_trace(data, path=trial.name), facts, as_json=as_json)


def _print_head(trial: Listed, *, simulated: bool) -> None:
    entry = trial.entry
    cell = entry.key.cell
    mark = " (simulated)" if simulated else ""
    place = (cell.profile, cell.strategy, entry.key.scenario, f"trial {entry.key.trial}")
    say(f"{trial.number}  {trial.outcome}".replace("\n", " "))
    say("  ".join((f"{cell.model}{mark}", *place)).replace("\n", " "))
    for words in filter(None, (entry.error, entry.hint)):
        say(" ".join(words.split()))
    say("")


def _replayed(data: bytes, trace: Trace, facts: JSON, *, as_json: bool) -> int:
    if not as_json:
        say(str(trace))
    diverged = ""
    try:
        replay(trace)
    except ReplayDiverged as error:
        diverged = str(error)
    if as_json:
        outcome = {"same": not diverged, "diverged": diverged or None}
        say_document(facts | outcome | {"events": trace.events})
    if diverged and REDACTED.encode() in data:
        note("secrets were removed from this recording; that may be the only difference")
    if diverged:
        return complain(f"the replay diverged at {diverged}", FAILED)
    if not as_json:
        say(f"replayed: the same run came out, {count(len(trace.turns), 'turn')}")
    return 0
