"""`surecall replay`: replay recorded trials offline."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, Final

import click
import msgspec

from surecall.cli.console import (
    FAILED,
    NOTHING,
    ExitCode,
    print_columns,
    print_document,
    print_error,
    print_note,
    print_text,
)
from surecall.cli.options import load_settings, settings_options
from surecall.cli.target import open_stored_run
from surecall.eval.report.report_files import load_results
from surecall.eval.report.run_results import RunResults, TrialBrief
from surecall.eval.report.summary_json import key_json
from surecall.eval.storage.run_directories import DATABASE, LATEST, translate_os_errors
from surecall.eval.storage.store import RunStore
from surecall.runtime.recording import parse_trace
from surecall.runtime.redaction import REDACTED
from surecall.runtime.replay import replay
from surecall.values.errors import ConfigError, ReplayDiverged
from surecall.values.family import unknown_name_message
from surecall.values.text import quantity
from surecall.values.trace import Trace
from surecall.values.types import JSON

_JSON_SUFFIX: Final = ".json"
_MOST_DIGITS: Final = 9
_SAME, _DIFFERS, _NO_RECORDING = "same", "differs", "no recording"


class NumberedTrial(msgspec.Struct, frozen=True):
    """A trial of a run, with its number and name."""

    number: int
    name: str
    entry: TrialBrief

    @property
    def outcome(self) -> str:
        """The status and category."""
        return f"{self.entry.status} {self.entry.category}".rstrip()


@click.command()
@click.argument("what", metavar="[RUN[/TRIAL]]", default=LATEST)
@settings_options("output_dir")
@click.option("--failed", is_flag=True, help="Replay every failed trial of the run.")
@click.option("--run-id", metavar="ID", help="Which run to replay, if the file has several.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    *, what: str, failed: bool, run_id: str | None, as_json: bool, **flags: Any
) -> ExitCode:
    """Replay recorded trials offline and check that the results are the same.

    RUN is a name, part of a name, a path, or latest. TRIAL is a number, a name, or part of a name;
    without it, the trials are listed. With --failed, every failed trial is replayed; exits with 1
    if one differs. Instead of RUN/TRIAL, you can pass a .jsonl trace file.
    """
    if failed and run_id:
        raise ConfigError("--run-id selects a run of a trace file: leave out --failed")
    if what.endswith(".jsonl") and not failed:
        with translate_os_errors(Path(what)):
            data = Path(what).read_bytes()
        return _replay_and_print(data, parse_trace(data, run_id, what), {}, as_json=as_json)
    base = load_settings(flags).settings.output_dir
    run, wanted = _split_target(what)
    if failed and wanted:
        raise ConfigError(f"--failed replays all failed trials of a run: leave out /{wanted}")
    with open_stored_run(base, run) as store:
        results = load_results(store)
        trials = _numbered_trials(results)
        if failed:
            return _replay_failed(store, trials, as_json=as_json)
        if not wanted:
            return _print_trials(store, trials, as_json=as_json)
        trial = _find_trial(trials, wanted)
        simulated = results.columns[trial.entry.key.cell].simulated
        return _replay_trial(store, trial, simulated=simulated, as_json=as_json)


def _numbered_trials(results: RunResults) -> list[NumberedTrial]:
    return [
        NumberedTrial(number, results.file_name(entry.key).removesuffix(_JSON_SUFFIX), entry)
        for number, entry in enumerate(results.all_entries, 1)
    ]


def _split_target(what: str) -> tuple[str, str]:
    """Split RUN/TRIAL; a run may be a path, and trial names contain no slash."""
    with translate_os_errors(Path(what)):
        if "/" not in what or (Path(what) / DATABASE).is_file():
            return what, ""
    run, _, trial = what.rpartition("/")
    return run, trial


def _print_trials(store: RunStore, trials: Sequence[NumberedTrial], *, as_json: bool) -> ExitCode:
    order = ("failed", "infra", "skipped", "passed")
    ranked = sorted(trials, key=lambda trial: order.index(trial.entry.status))
    if as_json:
        rows = [
            {"number": one.number, "name": one.name} | _outcome_json(one.entry) for one in ranked
        ]
        print_document({"run": store.directory.name, "trials": rows})
        return 0
    print_columns(
        ("#", "outcome", "model", "scenario", "trial", "profile", "strategy", "error"),
        map(_trial_row, ranked),
    )
    print_note(f"replay one with: surecall replay {store.directory.name}/NUMBER")
    return 0


def _trial_row(trial: NumberedTrial) -> tuple[str, ...]:
    key = trial.entry.key
    return (
        str(trial.number),
        trial.outcome,
        key.cell.model,
        key.scenario,
        str(key.trial),
        key.cell.profile,
        key.cell.strategy,
        shorten(trial.entry.error, 100, placeholder="…"),
    )


def _outcome_json(entry: TrialBrief) -> JSON:
    return key_json(entry.key) | {
        "status": entry.status,
        "category": entry.category,
        "error": entry.error,
        "hint": entry.hint,
    }


def _find_trial(trials: Sequence[NumberedTrial], text: str) -> NumberedTrial:
    if text.isdecimal() and len(text) <= _MOST_DIGITS:
        if not 1 <= int(text) <= len(trials):
            raise ConfigError(f"no trial {text}: the run has trials 1 to {len(trials)}")
        return trials[int(text) - 1]
    by_name = {trial.name: trial for trial in trials}
    name = text.removesuffix(_JSON_SUFFIX)
    alike = [by_name[name]] if name in by_name else [one for one in trials if name in one.name]
    if not alike:
        raise ConfigError(unknown_name_message("trial", text, by_name))
    if len(alike) > 1:
        names = ", ".join(one.name for one in alike[:3])
        raise ConfigError(f'"{text}" matches {len(alike)} trials, such as {names}')
    return alike[0]


def _replay_failed(store: RunStore, trials: Sequence[NumberedTrial], *, as_json: bool) -> ExitCode:
    """Replay every failed trial and print which ones differ."""
    failed = [one for one in trials if one.entry.status == "failed"]
    replayed = [(one, _replay_difference(store, one)) for one in failed]
    differing = [one for one, (result, _) in replayed if result == _DIFFERS]
    if as_json:
        rows = [
            {"number": one.number, "name": one.name}
            | _outcome_json(one.entry)
            | {"replay": result, "diverged": where or None}
            for one, (result, where) in replayed
        ]
        print_document({"run": store.directory.name, "trials": rows})
    elif replayed:
        print_columns(
            ("#", "replay", "outcome", "model", "scenario", "trial", "difference"),
            (_replayed_row(one, result, where) for one, (result, where) in replayed),
        )
    replayed_text = quantity(len(failed), "failed trial")
    if differing:
        numbers = ", ".join(str(one.number) for one in differing)
        verb = "differs" if len(differing) == 1 else "differ"
        return print_error(f"{len(differing)} of {replayed_text} {verb}: {numbers}", FAILED)
    unrecorded = sum(result == _NO_RECORDING for _, (result, _) in replayed)
    rest = f"; {unrecorded} without a recording" if unrecorded else ""
    print_note(f"{replayed_text} in {store.directory.name}, none differs{rest}")
    return 0


def _replay_difference(store: RunStore, trial: NumberedTrial) -> tuple[str, str]:
    """Return the result of a replay, and where it diverged."""
    data = store.trace(trial.entry.key)
    if not data:
        return _NO_RECORDING, ""
    try:
        replay(parse_trace(data, path=trial.name))
    except ReplayDiverged as error:
        removed = " (secrets were removed)" if REDACTED.encode() in data else ""
        return _DIFFERS, f"{error}{removed}"
    return _SAME, ""


def _replayed_row(one: NumberedTrial, result: str, divergence: str) -> tuple[str, ...]:
    number, outcome, model, scenario, trial, *_ = _trial_row(one)
    return (
        number,
        result,
        outcome,
        model,
        scenario,
        trial,
        shorten(divergence, 100, placeholder="…"),
    )


def _replay_trial(
    store: RunStore, trial: NumberedTrial, *, simulated: bool, as_json: bool
) -> ExitCode:
    data = store.trace(trial.entry.key)
    if not data:
        return print_error(f"trial {trial.number} has no recording: {trial.outcome}", NOTHING)
    head = {"run": store.directory.name, "number": trial.number, "name": trial.name}
    facts = head | _outcome_json(trial.entry) | {"simulated": simulated}
    if not as_json:
        _print_head(trial, simulated=simulated)
    return _replay_and_print(data, parse_trace(data, path=trial.name), facts, as_json=as_json)


def _print_head(trial: NumberedTrial, *, simulated: bool) -> None:
    entry = trial.entry
    cell = entry.key.cell
    mark = " (simulated)" if simulated else ""
    place = (cell.profile, cell.strategy, entry.key.scenario, f"trial {entry.key.trial}")
    print_text(f"{trial.number}  {trial.outcome}".replace("\n", " "))
    print_text("  ".join((f"{cell.model}{mark}", *place)).replace("\n", " "))
    for words in filter(None, (entry.error, entry.hint)):
        print_text(" ".join(words.split()))
    print_text("")


def _replay_and_print(recording: bytes, trace: Trace, details: JSON, *, as_json: bool) -> ExitCode:
    """Replay a recording, and print whether the result is the same."""
    if not as_json:
        print_text(str(trace))
    diverged = ""
    try:
        replay(trace)
    except ReplayDiverged as error:
        diverged = str(error)
    if as_json:
        outcome = {"same": not diverged, "diverged": diverged or None}
        print_document(details | outcome | {"events": trace.events})
    if diverged and REDACTED.encode() in recording:
        print_note("secrets were removed from this recording, which may cause the difference")
    if diverged:
        return print_error(f"the replay diverged at {diverged}", FAILED)
    if not as_json:
        print_text(f"replayed: same result after {quantity(len(trace.turns), 'turn')}")
    return 0
