"""What `surecall eval` does before and during a run: selection, cost estimate, and progress."""

import asyncio
import hashlib
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

import surecall
from surecall.cli.console import (
    detect_screen,
    is_animated,
    print_columns,
    print_note,
    print_text,
    wrap_line,
)
from surecall.cli.eval_summary import plan_headline
from surecall.cli.interrupts import run_until_interrupted
from surecall.cli.options import print_warnings, read_dotenv
from surecall.cli.tables import CellTable
from surecall.cli.target import Target, open_target
from surecall.eval.analysis.agreement import Agreement, agreement_sentence
from surecall.eval.report.markdown import (
    AGREEMENT_LEGEND,
    agreement_heads,
    agreement_rows,
    request_count_lines,
)
from surecall.eval.report.report_files import load_sheet
from surecall.eval.report.run_results import SHEET_KEY, make_sheet
from surecall.eval.running.ledger import (
    EvaluationEvent,
    EvaluationStopped,
    RateLimited,
    TrialFinished,
    TrialsPlanned,
    TrialStarted,
)
from surecall.eval.running.matrix import CostEstimate, EvaluationPlan, ModelPrice, estimate_cost
from surecall.eval.running.reference_plan import (
    ComparedEndpoint,
    build_reference_plan,
    endpoint_settings,
)
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.settings.endpoint_keys import (
    EnvironmentVariables,
    NamedEndpoint,
    SettingLocation,
    find_endpoints,
)
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.resolution import EffectiveSettings
from surecall.eval.storage.run_directories import (
    StoreError,
    find_run,
    run_directories,
    set_latest,
    translate_os_errors,
)
from surecall.eval.storage.store import (
    MATRIX_KEY,
    Invocation,
    RunStore,
    find_resumable,
    open_for_reading,
    open_or_resume,
    open_to_extend,
    setting_differences,
)
from surecall.eval.storage.trial import Cell, CompletedTrials, Trial
from surecall.settings.connection import redact_url
from surecall.values.errors import ConfigError, ProviderError
from surecall.values.nesting import decode_json
from surecall.values.text import quantity
from surecall.values.types import Secret

# Which run to write to: the same command continues its run. Another matrix, other settings, or
# another version start a new run, unless `--into` names one.


class RunChoice(msgspec.Struct, frozen=True):
    """The user's choice of the run to write to: a new one, or a named one."""

    fresh: bool = False
    into: str | None = None

    def __post_init__(self) -> None:
        if self.fresh and self.into is not None:
            raise ConfigError("--fresh and --into cannot be combined: leave out one of them")

    def find_named(self, base: Path) -> Path | None:
        """Return the directory of the named run, if any."""
        if self.into is None:
            return None
        with translate_os_errors(Path(self.into)):
            return find_run(base, self.into)


def find_completed_trials(plan: EvaluationPlan, choice: RunChoice) -> CompletedTrials:
    """Return the completed trials of the run to write to, without changing or locking it."""
    base = Path(plan.settings.output_dir)
    continued = None if choice.fresh else find_resumable(base, plan.identity)[0]
    directory = choice.find_named(base) or continued
    if directory is None:
        return CompletedTrials()
    with open_for_reading(directory) as store:
        return store.completed_trials(infra=False)


class RecordedTrials:
    """The stored trials of a plan: their keys and their table, read in one pass.

    Raises if a scenario has changed since its stored trials.
    """

    def __init__(self, planned: EvaluationPlan, store: RunStore) -> None:
        self.done = CompletedTrials()
        cells = [each.cell for each in planned.cells]
        self.table = CellTable(cells, planned.threshold, stopping=load_sheet(store).stopping)
        prompts = {scenario.id: scenario.prompt_hash for scenario in planned.scenarios}
        wanted = planned.is_planned
        for trial in store.trials():
            _check_prompt(trial, prompts, store)
            if trial.status != "infra":
                self.done.add(trial.key)
            if wanted(trial.key):
                self.table.add(trial)


def open_run(
    plan: EvaluationPlan, target: Target, keys: Sequence[Secret], choice: RunChoice
) -> tuple[RunStore, RecordedTrials]:
    """Open or create the run that a plan belongs to, and print its name."""
    base = Path(plan.settings.output_dir)
    secrets, record = (*target.secrets, *keys), _invocation(plan, target)
    named = choice.find_named(base)
    if named is None:
        store = open_or_resume(base, plan.identity, record, fresh=choice.fresh, secrets=secrets)
    else:
        store = open_to_extend(named, plan.identity, record, secrets=secrets)
        if named in run_directories(base):
            set_latest(base, named)
    for path in store.unreadable:
        print_note(f"warning: {path} is unreadable and was skipped")
    try:
        recorded = RecordedTrials(plan, store)
    except ConfigError:
        store.close()
        raise
    _print_run(plan, store, recorded.done, fresh=choice.fresh)
    return store, recorded


def report_command(store: RunStore, settings: Settings) -> str:
    """Return the command that opens the report of the current run."""
    is_usual = settings.output_dir == Settings().output_dir
    is_listed = is_usual and store.directory in run_directories(Path(settings.output_dir))
    return "surecall report" if is_listed else f"surecall report {store.directory}"


def _print_run(
    plan: EvaluationPlan, store: RunStore, completed: CompletedTrials, *, fresh: bool
) -> None:
    """Print the plan and the name of its run, unless output is quiet."""
    if plan.settings.verbose <= 0:
        return
    if len(store.meta.invocations) == 1 and not fresh:
        _note_older_run(plan)
    print_note(
        plan_headline(
            plan, plan.count_remaining().total() - plan.count_remaining(completed).total()
        )
    )
    print_note(
        f"run {store.directory.name}   press Ctrl-C to stop; run the same command to continue"
    )


def _note_older_run(plan: EvaluationPlan) -> None:
    """Print the name of a run by an earlier version that has trials of this plan."""
    wanted = plan.count_remaining()
    for directory in run_directories(Path(plan.settings.output_dir)):
        with suppress(StoreError), open_for_reading(directory) as store:
            identity = store.meta.identity
            same = MATRIX_KEY not in identity and not setting_differences(identity, plan.identity)
            if same and plan.count_remaining(store.completed_trials()) != wanted:
                name = directory.name
                print_note(
                    f"{name}, by an earlier version, has trials of this command and stays "
                    f"unchanged; pass --into {name} to add to it"
                )
                return


def _invocation(plan: EvaluationPlan, target: Target) -> Invocation:
    """Return the record of this command, which is stored with its trials."""
    sheet = msgspec.to_builtins(make_sheet(plan, target.endpoint))
    words = ("surecall", *_command_words(each.endpoint.base_url for each in target.all_targets))
    return Invocation(command=words, code=code_hash(), config={SHEET_KEY: sheet})


def _command_words(addresses: Iterable[str]) -> list[str]:
    """Return the command's arguments, with secrets in addresses removed."""
    words = sys.argv[1:]
    for given in addresses:
        words = [word.replace(given, redact_url(given)) for word in words]
    return words


def _check_prompt(trial: Trial, prompts: Mapping[str, str], store: RunStore) -> None:
    """Raise if a trial was made with another version of its scenario."""
    name = trial.key.scenario
    if trial.prompt_hash and prompts.get(name, trial.prompt_hash) != trial.prompt_hash:
        raise ConfigError(
            f"scenario {name!r} has changed since {store.directory.name} was started; "
            "pass --fresh to start a new run"
        )


def code_hash() -> str:
    """Return the version and a hash of the program's code."""
    root = Path(surecall.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{surecall.__version__}+{digest.hexdigest()[:12]}"


# Cost estimate, printed before anything is sent. Prices come from the endpoint's list of models, in
# OpenRouter's format: dollars per token, `pricing.prompt` and `pricing.completion`.

_HTTP_OK: Final = 200
_MILLION: Final = 1_000_000
_THOUSAND: Final = 1_000
_CENT: Final = 0.01


def estimate_remaining(
    plan: EvaluationPlan, target: Target, completed: CompletedTrials
) -> CostEstimate:
    """Estimate the rest of a plan; prices are requested from each endpoint."""
    total = CostEstimate()
    for each in target.all_targets:
        cells = tuple(cell for cell in plan.cells if target.target_for(cell.model) is each)
        total += _estimate_at_endpoint(each, msgspec.structs.replace(plan, cells=cells), completed)
    return total


def _estimate_at_endpoint(
    target: Target, plan: EvaluationPlan, completed: CompletedTrials
) -> CostEstimate:
    """Estimate the rest of a plan at one endpoint; local and simulated models cost nothing."""
    missing = plan.count_remaining(completed)
    ids = {each.model.sent_id for each in plan.cells}
    if target.endpoint.is_simulated or target.endpoint.is_local:
        return estimate_cost(plan, missing, dict.fromkeys(ids, ModelPrice(0.0, 0.0)))
    listed = run_until_interrupted(_fetch_prices(target)) if missing.total() else {}
    return estimate_cost(plan, missing, dict(_match_prices(ids, listed)))


def print_estimate(plan: EvaluationPlan, target: Target, completed: CompletedTrials) -> None:
    """Print the estimate for real models, unless nothing is left to run or output is quiet."""
    if target.is_simulated or plan.settings.verbose <= 0:
        return
    found = estimate_remaining(plan, target, completed)
    if found.trials:
        print_note(estimate_text(found, plan.settings.max_cost))


def estimate_text(estimate: CostEstimate, max_cost: float | None) -> str:
    """Return an estimate as text: requests, tokens, and cost."""
    read, written = _short_number(estimate.prompt_tokens), _short_number(estimate.completion_tokens)
    sizes = (
        f"about {quantity(estimate.requests, 'request')}, {read} input and {written} output tokens"
    )
    return f"{sizes}; {_cost_text(estimate.cost, max_cost)}"


def _cost_text(cost: float | None, max_cost: float | None) -> str:
    if cost is None:
        return "cost unknown: the endpoint lists no prices"
    if not cost:
        return "no cost"
    amount = f"about ${cost:.2f}" if cost >= _CENT else "less than $0.01"
    if max_cost is None:
        return f"{amount} at list prices, more for reasoning models; set a limit with --max-cost"
    ends = ", which will stop it early" if cost > max_cost else ""
    return f"{amount} at list prices, limited to ${max_cost:.2f} by --max-cost{ends}"


def _short_number(number: int) -> str:
    if number >= _MILLION:
        return f"{number / _MILLION:.1f}M"
    return f"{number / _THOUSAND:.0f}k" if number >= _THOUSAND else str(number)


async def _fetch_prices(target: Target) -> dict[str, ModelPrice]:
    """Return the prices that an endpoint lists by model id; empty if it lists none."""
    try:
        async with asyncio.timeout(5.0):
            answer = await target.client.models()
        found = decode_json(answer.body) if answer.status == _HTTP_OK else None
    except (ProviderError, TimeoutError, ValueError):
        return {}
    return dict(parse_prices(found))


def parse_prices(listing: Any) -> Iterator[tuple[str, ModelPrice]]:
    """Yield the prices in a list of models; invalid entries are skipped."""
    models = listing.get("data") if isinstance(listing, dict) else None
    for model in models if isinstance(models, list) else ():
        match model:
            case {"id": str(name), "pricing": {"prompt": prompt, "completion": completion}}:
                read, written = _parse_price(prompt), _parse_price(completion)
                if read is not None and written is not None:
                    yield name, ModelPrice(read * _MILLION, written * _MILLION)
            case _:
                pass


def _parse_price(value: Any) -> float | None:
    """Parse the price of a token; None if it is invalid, or -1 for a router without a price."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and found >= 0 else None


def _match_prices(
    ids: Iterable[str], prices: Mapping[str, ModelPrice]
) -> Iterator[tuple[str, ModelPrice]]:
    """Yield the price of each model; variants such as `:nitro` fall back to the plain id."""
    for name in ids:
        price = prices.get(name) or prices.get(name.partition(":")[0])
        if price is not None:
            yield name, price


def named_endpoints(effective: EffectiveSettings) -> tuple[NamedEndpoint, ...]:
    """Return the endpoints that `--reference` and `--against` name; empty without a reference."""
    settings = effective.settings
    if not settings.reference:
        return ()
    if effective.location("base_url") is SettingLocation.COMMAND_LINE:
        raise ConfigError("--reference and --against name the endpoints: leave out --base-url")
    variables = EnvironmentVariables(os.environ, read_dotenv(Path.cwd()))
    found = find_endpoints(settings.reference, settings.against, variables)
    print_warnings(each.warning for each in found if each.warning)
    return found


@contextmanager
def open_reference(
    effective: EffectiveSettings, named: Sequence[NamedEndpoint], scenarios: tuple[Scenario, ...]
) -> Iterator[tuple[EvaluationPlan, Target]]:
    """Open every endpoint, and plan the same requests for each."""
    settings = effective.settings
    with ExitStack() as stack:
        targets = [
            stack.enter_context(open_target(endpoint_settings(settings, each))) for each in named
        ]
        candidates = [
            ComparedEndpoint(each, target.endpoint, target.library)
            for each, target in zip(named, targets, strict=True)
        ]
        planned = build_reference_plan(settings, scenarios, candidates)
        others = dict(
            zip((each.model.endpoint_name for each in planned.cells), targets, strict=True)
        )
        yield planned, msgspec.structs.replace(targets[0], others=others)


def print_agreement(agreements: Sequence[Agreement], notice: str) -> None:
    """Print the verdict on each endpoint, its figures, and the request counts."""
    if notice:
        print_text(f"{notice}\n")
    for each in agreements:
        print_text(agreement_sentence(each))
        print_text("")
        print_columns(agreement_heads(each), agreement_rows(each))
        print_text("")
    for line in request_count_lines(agreements):
        print_text(line)
    print_note(AGREEMENT_LEGEND.format(reference=agreements[0].reference))


# Progress: a live table on a terminal, plain lines elsewhere.

if TYPE_CHECKING:
    from rich.console import RenderableType

_BAR_WIDTH: Final = 30
_SEPARATOR: Final = "   "
_MINUTE: Final = 60
_ECHO_WIDTH: Final = len("^C")
_STOP_REASONS: Final = {
    "budget": "stopping: the budget is used up",
    "unpriced": "stopping: the endpoint reports no prices, so the budget cannot be enforced",
    "unusable": "stopping: the endpoint cannot be used",
    "lost": "stopping: the connection to the cluster was lost",
}


class ProgressDisplay:
    """Counts events of the evaluation and renders its progress."""

    def __init__(self, plan: EvaluationPlan, table: CellTable, done: CompletedTrials) -> None:
        self.table = table
        self._limit_s = plan.settings.timeout
        self._simulated = any(each.model.simulated for each in plan.cells)
        self._started = time.monotonic()
        self._left: Counter[Cell] = Counter()
        for (cell, _), missing in plan.count_remaining(done).items():
            self._left[cell] += missing
        self._wanted = self._recorded = self._finished = self._in_flight = self._retries = 0
        self._spent = 0.0
        self._remark = ""

    def update(self, notice: EvaluationEvent) -> None:
        """Count an event."""
        match notice:
            case TrialsPlanned(wanted, recorded):
                self._wanted, self._recorded = wanted, recorded
            case TrialStarted():
                self._in_flight += 1
            case TrialFinished(trial, spent):
                self.table.add(trial)
                self._left[trial.key.cell] -= 1
                self._in_flight -= 1
                self._finished += 1
                self._retries += trial.retries
                self._spent = spent
            case RateLimited(provider, wait_s, _):
                self._remark = f"rate limit ({provider}, waiting {wait_s:.0f} s)"
            case EvaluationStopped("interrupted", under_way):
                self._remark = (
                    f"stopping: {self._finishing_text(under_way)}; Ctrl-C again stops now"
                )
            case EvaluationStopped(reason, _):
                self._remark = _STOP_REASONS.get(reason, reason)

    def _finishing_text(self, under_way: int) -> str:
        """Return what the stop waits for, and its time limit."""
        limit_s = self._limit_s
        limit = "" if limit_s is None else f" within {_duration_text(limit_s)}"
        return f"{quantity(under_way, 'trial')} to finish{limit}"

    @property
    def line(self) -> str:
        """The progress and the current remark, in one line."""
        return _SEPARATOR.join(filter(None, (self._progress_line(), self._remark)))

    def _progress_line(self, width: int | None = None) -> str:
        """Return the progress bar and figures; figures that do not fit are dropped."""
        parts = self._figures()
        while width is not None and len(parts) > 1 and len(_SEPARATOR.join(parts)) > width:
            parts.pop()
        return _SEPARATOR.join(parts)

    def _figures(self) -> list[str]:
        """Return the bar, the time left, and the counts, without those that are zero."""
        done = self._recorded + self._finished
        share = done / self._wanted if self._wanted else 1.0
        bar = "━" * round(_BAR_WIDTH * share)
        figures = (
            f"{bar:·<{_BAR_WIDTH}}  {done}/{self._wanted}",
            self._time_left(),
            f"in flight {self._in_flight}",
            f"retries {self._retries}" if self._retries else "",
            f"${self._spent:.2f}" if self._spent else "",
        )
        return list(filter(None, figures))

    def _time_left(self) -> str:
        left = self._wanted - self._recorded - self._finished
        if not self._finished or not left:
            return ""
        seconds = round((time.monotonic() - self._started) / self._finished * left)
        return f"{seconds // 60}:{seconds % 60:02} left"

    def lines(self, width: int) -> list[str]:
        """Return the whole display; a remark has its own lines, so that it is not truncated."""
        table = self.table.lines(width, left=self._left, simulated=self._simulated)
        remark = wrap_line(self._remark, width - _ECHO_WIDTH) if self._remark else []
        return [*table, "", self._progress_line(width - _ECHO_WIDTH), *remark]

    def is_cell_done(self, cell: Cell) -> bool:
        """Whether a cell has all its trials."""
        return self._left[cell] <= 0


def _duration_text(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 2 * _MINUTE else f"{seconds / _MINUTE:.3g} min"


@contextmanager
def show_progress(
    progress: ProgressDisplay, verbosity: int
) -> Iterator[Callable[[EvaluationEvent], None]]:
    """Show progress on standard error; yield the callback for notices."""
    if verbosity <= 0:
        yield progress.update
    elif verbosity == 1 and is_animated(sys.stderr):
        with _live_table(progress) as take:
            yield take
    else:
        yield _line_printer(progress, verbosity)


def _line_printer(progress: ProgressDisplay, verbosity: int) -> Callable[[EvaluationEvent], None]:
    """Return a callback that prints a line for each finished cell or, if verbose, trial."""

    def take(notice: EvaluationEvent) -> None:
        """Print a line about a notice, if it deserves one."""
        progress.update(notice)
        match notice:
            case TrialFinished(trial, _) if verbosity > 1:
                key = trial.key
                where = f"{key.cell.model} {key.cell.profile} {key.cell.strategy} {key.scenario}"
                print_note(
                    f"{trial.status:7} {where} {key.trial} {trial.elapsed_ms} ms {trial.error}"
                )
            case TrialFinished(trial, _) if progress.is_cell_done(trial.key.cell):
                cell = trial.key.cell
                tool = progress.table.counts[cell].tool
                print_note(f"{cell.model} {cell.profile} {cell.strategy}: {tool.k}/{tool.n}")
            case RateLimited() | EvaluationStopped():
                print_note(progress.line)
            case _:
                pass

    return take


@contextmanager
def _live_table(progress: ProgressDisplay) -> Iterator[Callable[[EvaluationEvent], None]]:
    # Imported here: needed only on a terminal.
    from rich.console import Console, Group  # noqa: PLC0415 - see above
    from rich.live import Live  # noqa: PLC0415 - see above
    from rich.text import Text  # noqa: PLC0415 - see above

    console = Console(stderr=True)
    screen = detect_screen(sys.stderr)

    def render() -> "RenderableType":
        texts = progress.lines(console.width)[-console.height + 1 :]
        rendered = map(screen.render, texts)
        return Group(*(Text.from_ansi(text, no_wrap=True, overflow="crop") for text in rendered))

    with Live(console=console, get_renderable=render, refresh_per_second=4, transient=True):
        yield progress.update
