"""`surecall eval`: run trials of models on scenarios, store them, and recommend a model."""

import asyncio
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click
import msgspec

from surecall.cli.console import INDENT, ExitCode, json_line, print_exact, print_note, print_text
from surecall.cli.eval_run import (
    ProgressDisplay,
    RecordedTrials,
    RunChoice,
    estimate_remaining,
    estimate_text,
    find_completed_trials,
    named_endpoints,
    open_reference,
    open_run,
    print_agreement,
    print_estimate,
    report_command,
    show_progress,
)
from surecall.cli.eval_summary import has_no_results, plan_headline, print_conclusion, print_ending
from surecall.cli.interrupts import SignalCounts, current_interrupts, run_until_interrupted
from surecall.cli.options import GroupedCommand, load_settings, settings_options
from surecall.cli.report import open_browser
from surecall.cli.target import (
    Target,
    build_advice,
    check_engine,
    engine_for,
    open_stored_run,
    open_target,
    simulation_notes,
    write_run_reports,
)
from surecall.eval.analysis.agreement import Agreement
from surecall.eval.analysis.comparisons import Comparisons, ToolOutcomes, compare_runs
from surecall.eval.analysis.recommendations import recommendation_json
from surecall.eval.analysis.summary import Summary, summarize
from surecall.eval.analysis.verdict_text import verdict_json
from surecall.eval.report.markdown import agreement_json, compare_endpoints
from surecall.eval.report.page.page_files import PAGE
from surecall.eval.report.report_files import load_results, load_sheet, partial_notice
from surecall.eval.report.run_results import collect_results, make_sheet
from surecall.eval.report.summary_json import results_document
from surecall.eval.report_server import LiveReport
from surecall.eval.running.harness import StopRequest, TrialEngine, evaluate
from surecall.eval.running.ledger import EvaluationEvent, EvaluationReport, TrialFinished
from surecall.eval.running.matrix import EvaluationPlan, apply_filter, build_plan
from surecall.eval.scenarios.plugins import choose_scenarios, load_installed
from surecall.eval.settings.endpoint_keys import NamedEndpoint, SettingLocation
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.resolution import DEFAULT, EffectiveSettings
from surecall.eval.storage.store import RunStore
from surecall.eval.storage.trial import CompletedTrials, Trial
from surecall.settings.catalog import EVERYTHING
from surecall.settings.connection import redact_url
from surecall.values.errors import ConfigError, ProviderError
from surecall.values.nesting import decode_json
from surecall.values.text import quantity

# The options that `--help` shows.
_COMMON_OPTIONS: Final = (
    *("model_filter", "scenarios", "strategy_filter", "trials", "base_url"),
    *("max_cost", "fail_under", "output_dir", "dry_run", "opens"),
)
_INTO_HELP: Final = "Add trials to this run: a name, part of a name, latest, or a path."


@click.command(cls=GroupedCommand, common=_COMMON_OPTIONS)
@settings_options()
@click.option("--dry-run", is_flag=True, help="Show what would run and what it would cost.")
@click.option("--fresh", is_flag=True, help="Start a new run instead of continuing the last one.")
@click.option("--into", metavar="RUN", help=_INTO_HELP)
@click.option("--open", "opens", is_flag=True, help="Open a live report in the browser.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("-q", "--quiet", is_flag=True, help="Do not show progress.")
@click.option("-v", "louder", count=True, help="Print a line for each trial.")
def command(  # the options of the command, by keyword
    *,
    dry_run: bool,
    opens: bool,
    as_json: bool,
    quiet: bool,
    louder: int,
    **flags: Any,
) -> ExitCode:
    """Evaluate models on scenarios and recommend which one to use.

    Each scenario runs many times per model. Without a key and an address, the models are
    simulated. Run the same command again to continue an interrupted run, or with more trials to add
    the missing ones. Other models, profiles, strategies, scenarios, or settings start a new run.
    """
    choice = RunChoice(fresh=flags.pop("fresh"), into=flags.pop("into"))
    effective = _with_verbosity(load_settings(flags, sends=True), quiet=quiet, louder=louder)
    settings = effective.settings
    check_engine(settings)
    named = named_endpoints(effective)
    with _open_plan(effective, named) as (planned, target):
        for text in simulation_notes(planned, target):
            print_note(text)
        # Before this run is opened, because it becomes `latest`.
        earlier = _load_baseline(settings)
        if dry_run:
            done = find_completed_trials(planned, choice)
            return _dry_run(planned, target, done, as_json=as_json)
        engine = engine_for(settings, target)
        keys = (*effective.secrets, *(each.key for each in named if each.key))
        kept, recorded = open_run(planned, target, keys, choice)
        with kept as store, _live_report(store, opens=opens):
            print_estimate(planned, target, recorded.done)
            report = asyncio.run(_evaluate(planned, engine, store, recorded))
            summary = _write_conclusion(planned, target, store, report, as_json=as_json)
            # Blank if the user chose no address; with several, the report names the endpoint.
            where = "" if target.endpoint.is_local or named else target.client.base_url
            compared = _compare_with_baseline(earlier, planned, store)
            agreed = _find_agreements(planned, store)
            return print_ending(settings, where, report, summary, compared, agreed)


def _with_verbosity(effective: EffectiveSettings, *, quiet: bool, louder: int) -> EffectiveSettings:
    """Set the verbosity; raise if scenario files from the settings were not loaded."""
    if effective.skipped_files:
        files = ", ".join(effective.skipped_files)
        raise ConfigError(f"nothing was run, because {files} was not loaded; see the warning above")
    verbose = 0 if quiet else effective.settings.verbose + louder
    settings = msgspec.structs.replace(effective.settings, verbose=verbose)
    return msgspec.structs.replace(effective, settings=settings)


@contextmanager
def _open_plan(
    effective: EffectiveSettings, named: Sequence[NamedEndpoint]
) -> Iterator[tuple[EvaluationPlan, Target]]:
    """Open the target and plan what to run there."""
    settings = effective.settings
    scenarios = apply_filter(
        "scenarios", settings.scenarios, lambda part: choose_scenarios(part, load_installed())
    )
    if named:
        with open_reference(effective, named, scenarios) as found:
            yield found
        return
    with open_target(settings) as target:
        chosen = choose_served_model(effective, target)
        yield build_plan(chosen, scenarios, target.library, target.endpoint), target


@contextmanager
def _live_report(store: RunStore, *, opens: bool) -> Iterator[None]:
    """Serve the live report for the duration of the block, with `--open`."""
    if not opens:
        yield
        return
    with LiveReport(store.directory) as live:
        open_browser(live.url)
        yield
    # The live page stops with its server, so show the file instead.
    open_browser((store.directory / PAGE).resolve().as_uri())


def _load_baseline(settings: Settings) -> ToolOutcomes | None:
    """Load the run that `--against` names, if any."""
    if not settings.against or settings.reference:
        return None
    with open_stored_run(settings.output_dir, settings.against) as other:
        return ToolOutcomes(other.trials())


def _compare_with_baseline(
    baseline: ToolOutcomes | None, plan: EvaluationPlan, store: RunStore
) -> Comparisons:
    if baseline is None:
        return Comparisons()
    return compare_runs(baseline, ToolOutcomes(_planned_trials(plan, store)))


def _find_agreements(plan: EvaluationPlan, store: RunStore) -> Sequence[Agreement]:
    """Compare the endpoints with the reference; empty for a single endpoint."""
    return compare_endpoints(load_sheet(store), _planned_trials(plan, store))


def _planned_trials(plan: EvaluationPlan, store: RunStore) -> Iterator[Trial]:
    """Yield the stored trials of the plan; the run may have others, too."""
    wanted = plan.is_planned
    return (trial for trial in store.trials() if wanted(trial.key))


def _dry_run(
    plan: EvaluationPlan, target: Target, completed: CompletedTrials, *, as_json: bool
) -> ExitCode:
    """Print the plan and the estimate without sending a trial."""
    recorded = plan.count_remaining().total() - plan.count_remaining(completed).total()
    guess = estimate_remaining(plan, target, completed)
    cells = [each.cell for each in plan.cells]
    if as_json:
        names = [scenario.id for scenario in plan.scenarios]
        found = {"cells": cells, "scenarios": names, "recorded": recorded, "estimate": guess}
        print_exact(json_line(msgspec.to_builtins(found)))
        return 0
    for cell in cells:
        print_text(f"{cell.model}  {cell.profile}  {cell.strategy}")
    for skip in plan.skips:
        print_text(
            f"skipped: {skip.cell.model} {skip.cell.strategy} {skip.scenario}: {skip.reason}"
        )
    print_text(plan_headline(plan, recorded))
    print_text(estimate_text(guess, plan.settings.max_cost))
    print_text("nothing was sent to a model")
    return 0


async def _evaluate(
    plan: EvaluationPlan, engine: TrialEngine, store: RunStore, recorded: RecordedTrials
) -> EvaluationReport:
    stop = StopRequest()
    loop = asyncio.get_running_loop()
    progress = ProgressDisplay(plan, recorded.table, recorded.done)
    with (
        show_progress(progress, plan.settings.verbose) as take,
        current_interrupts().redirect_to(
            lambda received: loop.call_soon_threadsafe(_forward_signals, received, stop)
        ),
    ):
        notify = _redact_notices(take, store)
        report = await evaluate(plan, store, engine, notify, stop)
    return msgspec.structs.replace(report, error=store.redact_text(report.error))


def _forward_signals(received: SignalCounts, stop: StopRequest) -> None:
    """Stop the evaluation: after the trials in flight, or immediately."""
    if received.terminated:
        stop.terminate()
    elif received.is_final or not stop.is_requested:  # the same signal may arrive twice
        stop.request(now=received.is_final)


def _redact_notices(
    on_event: Callable[[EvaluationEvent], None], store: RunStore
) -> Callable[[EvaluationEvent], None]:
    """Return a callback that removes secrets from finished trials before it calls `on_event`."""

    def take_redacted(notice: EvaluationEvent) -> None:
        if isinstance(notice, TrialFinished):
            notice = TrialFinished(store.redact_trial(notice.trial), notice.spent)
        on_event(notice)

    return take_redacted


def _write_conclusion(
    plan: EvaluationPlan,
    target: Target,
    store: RunStore,
    report: EvaluationReport,
    *,
    as_json: bool,
) -> Summary:
    """Write the reports of the run, print the results of this command, and return its summary."""
    cells = [each.cell for each in plan.cells]
    names = [scenario.id for scenario in plan.scenarios]
    stored = load_results(store)
    stopping = stored.sheet.stopping
    own = _planned_trials(plan, store)
    summary = summarize(own, cells=cells, scenarios=names, stopping=stopping)
    models = [each.model for each in plan.cells]
    simulated = {model.name: model.catalog_id for model in models if model.simulated}
    advice = build_advice(summary, plan.threshold, target.endpoint, target.library, simulated)
    write_run_reports(store, stored, store.directory)
    if as_json:
        rows = [recommendation_json(each) for each in advice]
        ended = {"ending": report.end_reason, "wanted": report.wanted, "missing": report.missing}
        run = {"directory": str(store.directory)} | ended
        sheet = make_sheet(plan, target.endpoint)
        sheet = msgspec.structs.replace(sheet, asked=stored.sheet.asked)
        results = collect_results(sheet, _planned_trials(plan, store))
        verdict = verdict_json(advice)
        found = results_document(results, run=run, recommendations=rows, verdict=verdict)
        if agreed := _find_agreements(plan, store):
            found |= {"agreement": agreement_json(agreed, plan.endpoints)}
        print_exact(json_line(found))
    elif not has_no_results(report, summary):
        notice = partial_notice(report.missing, report.wanted)
        if agreed := _find_agreements(plan, store):
            print_agreement(agreed, notice)
        else:
            print_conclusion(advice, summary, plan.threshold, notice)
        command = report_command(store, plan.settings)
        print_note(f"report  {store.directory / PAGE}      {command}")
    return summary


# The model of an endpoint that no catalog knows

_HTTP_OK: Final = 200
_LISTING_TIMEOUT_S: Final = 5.0
_MAX_LISTED: Final = 30
# Ids that a filter selects literally; others, such as those with a comma, cannot be typed after -m.
_PLAIN_ID: Final = re.compile(r"[\w.][\w./:@+=-]{0,199}", re.ASCII)


def choose_served_model(effective: EffectiveSettings, target: Target) -> Settings:
    """Return the settings, with the endpoint's only model if the user chose none.

    If an unknown endpoint serves several models, list them and raise `ConfigError`.
    """
    endpoint = target.endpoint
    is_known = bool(target.library.models) or endpoint.is_simulated or endpoint.is_local
    if is_known or effective.sources["model_filter"] != DEFAULT:
        return effective.settings
    address = redact_url(target.client.base_url)
    ids, problem = run_until_interrupted(_fetch_model_ids(target))
    if not ids:
        raise ConfigError(
            f"no model is selected, and {address} lists none ({problem}): pass a model id with -m"
        )
    if len(ids) > 1:
        _print_models(address, ids)
        raise ConfigError(f"no model is selected: run {_example_command(effective, ids[0])}")
    print_note(f"{address} serves one model: {ids[0]}")
    return msgspec.structs.replace(effective.settings, model_filter=ids[0])


def _print_models(address: str, ids: list[str]) -> None:
    print_note(f"{address} serves {quantity(len(ids), 'model')}:")
    for name in ids[:_MAX_LISTED]:
        print_note(f"{INDENT}{name}")
    if len(ids) > _MAX_LISTED:
        print_note(f"{INDENT}… and {len(ids) - _MAX_LISTED} more")


def _example_command(effective: EffectiveSettings, name: str) -> str:
    """Return a command that selects the model; the address only if it is not set elsewhere."""
    words = ["surecall", "eval"]
    if effective.location("base_url") is SettingLocation.COMMAND_LINE:
        words += ["--base-url", redact_url(effective.settings.base_url)]
    return shlex.join([*words, "-m", name])


async def _fetch_model_ids(target: Target) -> tuple[list[str], str]:
    """Return the ids that the endpoint lists; if there are none, the reason."""
    try:
        async with asyncio.timeout(_LISTING_TIMEOUT_S):
            answer = await target.client.models()
    except TimeoutError:
        return [], f"no reply in {_LISTING_TIMEOUT_S:.0f} s"
    except ProviderError as error:
        return [], str(error.fault.message).rstrip(".")
    if answer.status != _HTTP_OK:
        return [], f"HTTP {answer.status}"
    try:
        ids = model_ids(decode_json(answer.body))
    except ValueError:
        return [], "the list is not JSON"
    return ids, "the list is empty"


def model_ids(listing: Any) -> list[str]:
    """Return the model ids in a list of models; those that cannot follow -m are left out."""
    models = listing.get("data") if isinstance(listing, dict) else None
    entries = models if isinstance(models, list) else ()
    names = [each.get("id") for each in entries if isinstance(each, dict)]
    return list(
        dict.fromkeys(
            name
            for name in names
            if isinstance(name, str)
            and _PLAIN_ID.fullmatch(name)
            and name.casefold() not in EVERYTHING
        )
    )
