"""`surecall eval`: run the matrix, keep every trial, and end with advice on what to use."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
import msgspec

from surecall.cli.common import note, say, say_exactly
from surecall.cli.conclusion import headline, print_conclusion
from surecall.cli.ending import ended, in_vain
from surecall.cli.engine import check_engine, engine_for
from surecall.cli.listing import json_line
from surecall.cli.opening import Choice, Recorded, done_before, opened_run, viewing, with_choice
from surecall.cli.options import GroupedCommand, settled, with_settings
from surecall.cli.price import announce, guessed, in_words
from surecall.cli.progress import Progress, shown
from surecall.cli.reference import named_endpoints, open_reference, print_agreement
from surecall.cli.stored import opened, write_stored
from surecall.cli.target import Target, open_target, simulation_notes
from surecall.cli.view import show
from surecall.eval.analysis.agreement import Agreement
from surecall.eval.analysis.outcomes import Outcomes
from surecall.eval.analysis.paired import Comparisons, compare_runs
from surecall.eval.analysis.recommend import Recommendation, candidates, plain_row, recommend
from surecall.eval.analysis.summary import Summary, summarise
from surecall.eval.report.agreement import agreement_document, agreements_in
from surecall.eval.report.common import results_of, sheet_for
from surecall.eval.report.files import results_in, sheet_of
from surecall.eval.report.page.files import PAGE
from surecall.eval.report.summary_json import document
from surecall.eval.report.unfinished import partial
from surecall.eval.report_server import LiveReport
from surecall.eval.running.harness import Engine, Stop, evaluate
from surecall.eval.running.harness_events import Finished, Notice, Report
from surecall.eval.running.matrix import Plan, chosen, plan
from surecall.eval.scenarios.plugins import choose, installed
from surecall.eval.settings.endpoints import NamedEndpoint
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.load import Effective
from surecall.eval.storage.done import Done
from surecall.eval.storage.store import Store
from surecall.eval.storage.trial import Trial
from surecall.values.errors import ConfigError


@click.command(cls=GroupedCommand)
@with_settings()
@click.option("--dry-run", is_flag=True, help="Show what would run, and what it would take.")
@with_choice
@click.option("--open", "opens", is_flag=True, help="Show the report in the browser as it fills.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@click.option("-v", "louder", count=True, help="A line for each trial.")
def command(  # the options of the command, by keyword
    *,
    dry_run: bool,
    choice: Choice,
    opens: bool,
    as_json: bool,
    quiet: bool,
    louder: int,
    **flags: Any,
) -> int:
    """Measure models: run scenarios many times, and say which model to use and why.

    Without a key and without an address, the models are simulated. The same command continues
    where it was interrupted, and with more trials it adds what is missing; other models,
    profiles, strategies, scenarios or settings begin a run of their own.
    """
    effective = _complete(settled(flags, sends=True), quiet=quiet, louder=louder)
    settings = effective.settings
    check_engine(settings)
    named = named_endpoints(effective)
    with _opened(effective, named) as (planned, target):
        for told in simulation_notes(planned, target):
            note(told)
        # Before this run is opened: it becomes the latest one.
        earlier = _earlier(settings)
        if dry_run:
            return _dry_run(planned, target, done_before(planned, choice), as_json=as_json)
        engine = engine_for(settings, target)
        keys = (*effective.secrets, *(each.key for each in named if each.key))
        kept, recorded = opened_run(planned, target, keys, choice)
        with kept as store, _watched(store, opens=opens):
            announce(planned, target, recorded.done)
            report = asyncio.run(_evaluated(planned, engine, store, recorded))
            summary = _concluded(planned, target, store, report, as_json=as_json)
            # A local server has an address, but nobody chose it; of several, the report names one.
            where = "" if target.endpoint.local or named else target.client.base_url
            compared = _compared(earlier, planned, store)
            return ended(settings, where, report, summary, compared, _agreed(planned, store))


def _complete(effective: Effective, *, quiet: bool, louder: int) -> Effective:
    """Settle how much is told; refuse to measure something else than what was asked for."""
    if effective.unloaded:
        raise ConfigError(f"nothing was run without {', '.join(effective.unloaded)}; see above")
    verbose = 0 if quiet else effective.settings.verbose + louder
    settings = msgspec.structs.replace(effective.settings, verbose=verbose)
    return msgspec.structs.replace(effective, settings=settings)


@contextmanager
def _opened(effective: Effective, named: Sequence[NamedEndpoint]) -> Iterator[tuple[Plan, Target]]:
    """Open where it is sent, and plan what to run there."""
    settings = effective.settings
    scenarios = chosen("scenarios", settings.scenarios, lambda part: choose(part, installed()))
    if named:
        with open_reference(effective, named, scenarios) as found:
            yield found
        return
    with open_target(settings) as target:
        yield plan(settings, scenarios, target.library, target.endpoint), target


@contextmanager
def _watched(store: Store, *, opens: bool) -> Iterator[None]:
    """Serve the report while the block lasts and open it, if asked for."""
    if not opens:
        yield
        return
    with LiveReport(store.directory) as live:
        show(live.url)
        yield
    # The served page ends with its server; the file stays.
    show((store.directory / PAGE).resolve().as_uri())


def _earlier(settings: Settings) -> Outcomes | None:
    """Read the run that this one is compared with, if any."""
    if not settings.against or settings.reference:
        return None
    with opened(settings.output_dir, settings.against) as other:
        return Outcomes(other.trials())


def _compared(earlier: Outcomes | None, planned: Plan, store: Store) -> Comparisons:
    if earlier is None:
        return Comparisons()
    return compare_runs(earlier, Outcomes(_own_trials(planned, store)))


def _agreed(planned: Plan, store: Store) -> Sequence[Agreement]:
    """Compare the endpoints, if there are several."""
    return agreements_in(sheet_of(store), _own_trials(planned, store))


def _own_trials(planned: Plan, store: Store) -> Iterator[Trial]:
    """Read the trials that this command asks for; the run may hold others too."""
    wanted = planned.wants
    return (trial for trial in store.trials() if wanted(trial.key))


def _dry_run(planned: Plan, target: Target, done: Done, *, as_json: bool) -> int:
    recorded = planned.left().total() - planned.left(done).total()
    guess = guessed(planned, target, done)
    cells = [each.cell for each in planned.cells]
    if as_json:
        names = [scenario.id for scenario in planned.scenarios]
        found = {"cells": cells, "scenarios": names, "recorded": recorded, "estimate": guess}
        say_exactly(json_line(msgspec.to_builtins(found)))
        return 0
    for cell in cells:
        say(f"{cell.model}  {cell.profile}  {cell.strategy}")
    for skip in planned.skips:
        say(f"skipped: {skip.cell.model} {skip.cell.strategy} {skip.scenario}: {skip.reason}")
    say(headline(planned, recorded))
    say(in_words(guess, planned.settings.max_cost))
    say("nothing was sent to a model")
    return 0


async def _evaluated(planned: Plan, engine: Engine, store: Store, recorded: Recorded) -> Report:
    stop = Stop()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, stop.request)
    loop.add_signal_handler(signal.SIGTERM, stop.terminate)
    progress = Progress(planned, recorded.table, recorded.done)
    with shown(progress, planned.settings.verbose) as take:
        told = _discreet(take, store)
        report = await evaluate(planned, store, engine, told, stop)
    return msgspec.structs.replace(report, error=store.cleaned_text(report.error))


def _discreet(take: Callable[[Notice], None], store: Store) -> Callable[[Notice], None]:
    """Tell of a trial what is recorded of it: no secrets."""

    def told(notice: Notice) -> None:
        if isinstance(notice, Finished):
            notice = Finished(store.cleaned(notice.trial), notice.spent)
        take(notice)

    return told


def _concluded(
    planned: Plan,
    target: Target,
    store: Store,
    report: Report,
    *,
    as_json: bool,
) -> Summary:
    """Write the reports of the whole run, print this command's part, and return its figures."""
    cells = [each.cell for each in planned.cells]
    names = [scenario.id for scenario in planned.scenarios]
    stored = results_in(store)
    stopping = stored.sheet.stopping
    own = _own_trials(planned, store)
    summary = summarise(own, cells=cells, scenarios=names, stopping=stopping)
    advice = advised(summary, planned, target)
    write_stored(store, stored, store.directory)
    if as_json:
        rows = [plain_row(each) for each in advice]
        ended = {"ending": report.ending, "wanted": report.wanted, "missing": report.missing}
        run = {"directory": str(store.directory)} | ended
        sheet = sheet_for(planned, target.endpoint)
        sheet = msgspec.structs.replace(sheet, asked=stored.sheet.asked)
        results = results_of(sheet, _own_trials(planned, store))
        found = document(results, run=run, recommendations=rows)
        if agreed := _agreed(planned, store):
            found |= {"agreement": agreement_document(agreed, planned.endpoints)}
        say_exactly(json_line(found))
    elif not in_vain(report, summary):
        notice = partial(report.missing, report.wanted)
        if agreed := _agreed(planned, store):
            print_agreement(agreed, notice)
        else:
            print_conclusion(advice, summary, planned.bar, notice)
        note(f"report  {store.directory / PAGE}      {viewing(store, planned.settings)}")
    return summary


def advised(summary: Summary, planned: Plan, target: Target) -> Sequence[Recommendation]:
    """Return the advice for each model."""
    models = [each.model for each in planned.cells]
    provider = "openrouter" if target.endpoint.simulated else target.endpoint.provider
    return recommend(
        candidates(summary.cells),
        bar=planned.bar,
        provider=provider,
        catalog=target.library.catalog,
        profiles=target.library.profiles,
        simulated={model.name: model.subject for model in models if model.simulated},
    )
