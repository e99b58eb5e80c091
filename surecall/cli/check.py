"""`surecall check`: show the effective settings and test the endpoint.

The test request has the presets and options of an evaluation, and one small tool. If the endpoint
responds, one more request in each call protocol shows which ones it supports.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import click
import msgspec

from surecall.cli.console import (
    INCOMPLETE,
    WRONG_USAGE,
    ExitCode,
    json_line,
    print_columns,
    print_document,
    print_error,
    print_note,
    print_text,
)
from surecall.cli.interrupts import run_until_interrupted
from surecall.cli.options import GroupedCommand, load_settings, settings_options
from surecall.cli.target import SIMULATED_NOTE, Target, open_target
from surecall.core.outcome import RunFailed
from surecall.eval.running.cells import PlannedCell, split_strategy
from surecall.eval.running.matrix import EvaluationPlan, build_plan
from surecall.eval.running.protocol_probe import (
    PROMPT,
    PROTOCOLS,
    ProtocolProbe,
    echo,
    probe_protocols,
)
from surecall.eval.scenarios.plugins import choose_scenarios, load_installed
from surecall.eval.settings.endpoint import connection_limits
from surecall.eval.settings.fields import FIELDS
from surecall.eval.settings.resolution import DEFAULT, EffectiveSettings
from surecall.runtime.learned_lessons import lesson_store
from surecall.runtime.redaction import Redactor
from surecall.runtime.runner import ToolLoopRunner
from surecall.runtime.transport import Client, proxy_for
from surecall.settings.catalog import ModelCatalog
from surecall.settings.config import ToolCallingConfig, ToolUseMode, all_settings
from surecall.settings.connection import (
    CHAT_COMPLETIONS_PATH,
    RetryPolicy,
    query_secrets,
    redact_url,
)
from surecall.settings.presets import origins
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.events import LlmRequestEndEvent
from surecall.values.text import quantity
from surecall.values.types import JSON, Secret
from surecall.wire.request_adaptations import describe_lesson

_MAX_WAIT_S: Final = 30.0
_MAX_TURNS: Final = 4
# Errors that the settings cause. All others may be temporary.
_SETTINGS_AT_FAULT: Final = frozenset(
    {
        ErrorCode.AUTH,
        ErrorCode.BAD_REQUEST,
        ErrorCode.DECODE_ERROR,
        ErrorCode.FORBIDDEN,
        ErrorCode.NOT_FOUND,
        ErrorCode.NO_TOOL_USE_ENDPOINT,
        ErrorCode.PAYMENT_REQUIRED,
        ErrorCode.UNPROCESSABLE,
    }
)
# The source of run settings that the evaluation sets.
_FROM_EVALUATION: Final = "evaluation"
# The options that `--help` shows.
_COMMON_OPTIONS: Final = (
    *("model_filter", "strategy_filter", "base_url", "api_prefix", "endpoint", "gguf"),
    *("client_timeout", "offline", "everything", "as_json"),
)
Setting: TypeAlias = tuple[str, str, str]


class Finding(msgspec.Struct, frozen=True):
    """The result of the test. `problem` is blank if the endpoint works.

    `answered` is true if the endpoint responded at all, even if too slowly. `protocols` has the
    result of the request in each call protocol; it is empty without tools.
    """

    model: str
    summary: str = ""
    problem: str = ""
    fault: Fault | None = None
    exit_code: int = 0
    answered: bool = True
    protocols: tuple[ProtocolProbe, ...] = ()


@click.command(cls=GroupedCommand, common=_COMMON_OPTIONS)
@settings_options()
@click.option("--offline", is_flag=True, help="Show the settings, but send no request.")
@click.option("-v", "--all", "everything", is_flag=True, help="Also show defaults and presets.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(*, offline: bool, everything: bool, as_json: bool, **flags: Any) -> ExitCode:
    """Show the effective settings and test the endpoint with one small request.

    Shows the source of each setting and the address of the endpoint; the key is never shown. The
    first selected model gets a small tool to call, then once more in each call protocol (`native`,
    `guided`, `prompted`), to see which ones the endpoint supports.
    """
    effective = load_settings(flags, sends=True)
    rows = list(_setting_rows(effective, everything=everything))
    if not as_json and rows:
        print_columns(("setting", "value", "from"), rows)
        print_text("")
    with open_target(effective.settings) as target:
        where = _endpoint_fields(effective, target)
        if target.endpoint.is_simulated:
            print_note(SIMULATED_NOTE)
        if not as_json:
            fields = [(name, where[name]) for name in _ENDPOINT_FIELDS]
            print_columns(("endpoint", where["url"]), fields)
        planned = build_plan(
            effective.settings,
            choose_scenarios(effective.settings.scenarios, load_installed()),
            target.library,
            target.endpoint,
        )
        config = _config_rows(planned.cells[0], target.library.catalog, _redactor(effective))
        if not as_json:
            _print_selection(target, planned, config if everything else ())
        finding = None
        if not offline:
            asks = _probe_endpoint(planned.cells[0], target.client, *_timeouts(effective))
            finding = run_until_interrupted(asks)
    if as_json:
        document = _json_document(rows, where, planned, finding)
        print_document(document | {"config": _rows_as_json(config)})
    return _print_finding(finding, _address_with_key(where, effective), as_json=as_json)


def _config_rows(cell: PlannedCell, catalog: ModelCatalog, redactor: Redactor) -> list[Setting]:
    """Return the run settings of a cell, each with its source."""
    strategy: Any = split_strategy(cell.cell.strategy)[0]
    model = cell.model
    known = origins(
        provider=model.provider, model=model.catalog_id, strategy=strategy, catalog=catalog
    )
    usual, values = all_settings(ToolCallingConfig()), all_settings(cell.config)
    sources = {
        name: DEFAULT if values[name] == usual[name] else _FROM_EVALUATION for name in values
    }
    sources |= known
    return [
        (name, redactor.redact_text(_value_text(values[name])), sources[name]) for name in values
    ]


def _value_text(value: Any) -> str:
    """Format a value; lists have spaces, so that they can be wrapped."""
    return ", ".join(value) if value and isinstance(value, list | tuple) else json_line(value)


_ENDPOINT_FIELDS: Final = ("provider", "key", "proxy")


def _setting_rows(effective: EffectiveSettings, *, everything: bool) -> Iterator[Setting]:
    """Yield the settings that were set, each with its source; with `everything`, all settings."""
    cleaned = _redactor(effective)
    for name in FIELDS:
        source = effective.sources[name]
        if everything or source != DEFAULT:
            value = getattr(effective.settings, name)
            yield name, cleaned.redact_text(_setting_text(name, value)), source


def _redactor(effective: EffectiveSettings) -> Redactor:
    """Return a redactor of all keys, and of the secrets in the URL."""
    query = urlsplit(effective.settings.base_url).query
    return Redactor((*effective.secrets, *query_secrets(query)))


def _setting_text(name: str, value: Any) -> str:
    if name == "api_key":
        return _key_text(value)
    text = redact_url(value) if name == "base_url" else value
    return text if isinstance(text, str) and text else json_line(text)


def _key_text(key: Secret | None) -> str:
    """Describe a key by its length, without revealing it."""
    return "not set" if key is None else f"set, {quantity(len(key.reveal()), 'character')}"


def _endpoint_fields(effective: EffectiveSettings, target: Target) -> dict[str, str]:
    withheld = effective.secrets and effective.settings.api_key is None
    simulated = target.endpoint.is_simulated
    url = target.client.url(CHAT_COMPLETIONS_PATH)
    return {
        "url": "built-in simulator" if simulated else redact_url(url),
        "provider": target.endpoint.provider,
        "key": "withheld" if withheld else _key_text(effective.settings.api_key),
        "proxy": "none" if simulated else _proxy_text(url),
    }


def _proxy_text(url: str) -> str:
    """Return the HTTP proxy for an address, without its password."""
    proxy = proxy_for(urlsplit(url))
    return "none" if proxy is None else urlsplit(proxy).netloc.rpartition("@")[2] or "set"


def _selection_text(plan: EvaluationPlan) -> str:
    """Return how many models, cells, and scenarios are selected."""
    models = {each.model.id for each in plan.cells}
    return ", ".join(
        (
            quantity(len(models), "model"),
            quantity(len(plan.cells), "cell"),
            quantity(len(plan.scenarios), "scenario"),
        )
    )


def _print_selection(target: Target, plan: EvaluationPlan, config: Sequence[Setting]) -> None:
    """Print what is selected, what was learned about it, and its run settings."""
    print_columns(("selected", _selection_text(plan)), ())
    if learned := _lesson_rows(target, plan):
        print_columns(("learned for", "adaptation"), learned)
    if config:
        print_text("")
        columns = [(name, source, value) for name, value, source in config]
        print_columns(("run setting", "from", "value"), columns)


def _lesson_rows(target: Target, plan: EvaluationPlan) -> list[tuple[str, str]]:
    """Return how requests to the selected models are adapted, as learned from refusals."""
    store = lesson_store(place=True)
    stored = [] if store is None else store.read(target.client.base_url)
    models = {each.model.sent_id for each in plan.cells}
    return [(each.model, describe_lesson(each.lesson)) for each in stored if each.model in models]


def _timeouts(effective: EffectiveSettings) -> tuple[float, float]:
    """Return the time limits for the first conversation and for the protocol requests.

    They are short, unless the user set a limit per request or the model is a local file.
    """
    settings = effective.settings
    if effective.sources["client_timeout"] == DEFAULT and not settings.gguf:
        return _MAX_WAIT_S, _MAX_WAIT_S
    request_s = connection_limits(settings).total_s
    return request_s * _MAX_TURNS, request_s * len(PROTOCOLS)


async def _probe_endpoint(
    planned: PlannedCell, client: Client, conversation_s: float, protocols_s: float
) -> Finding:
    """Test the endpoint; if it responds and tools are on, test each call protocol, too."""
    finding = await _try_tool_call(planned, client, conversation_s)
    if not finding.answered or planned.tools_disabled:
        return finding
    probes = await probe_protocols(planned, client, protocols_s)
    return msgspec.structs.replace(finding, protocols=probes)


async def _try_tool_call(planned: PlannedCell, client: Client, timeout_s: float) -> Finding:
    """Ask the model to call a tool; only a failure of the endpoint counts as a problem."""
    config = planned.config.replace(
        tool_allowlist=None, max_turns=_MAX_TURNS, run_deadline_s=timeout_s
    )
    if config.tool_use_mode is not ToolUseMode.DISABLED:
        config = config.replace(tool_use_mode=ToolUseMode.RELAXED)
    runner = ToolLoopRunner(
        client=client,
        model=planned.model.sent_id,
        registry=[echo],
        config=config,
        llm_options_defaults=planned.options,
        retry=RetryPolicy(attempts=1),
    )
    began = time.perf_counter()
    try:
        result = await runner.run(PROMPT)
    except RunFailed as failure:
        return _failure_finding(planned.model.id, failure)
    elapsed = f"{time.perf_counter() - began:.1f} s"
    called = (
        "called the tool and answered" if result.run.has_called_tools else "answered without a call"
    )
    return Finding(planned.model.id, f"{planned.model.id} {called} in {elapsed}")


def _failure_finding(model: str, failure: RunFailed) -> Finding:
    if not isinstance(failure, ProviderError):
        late = failure.code is ErrorCode.DEADLINE_EXCEEDED
        summary = "" if late else f"the endpoint responds, but {model} does not finish: {failure}"
        answered = any(isinstance(event, LlmRequestEndEvent) for event in failure.result.trace)
        problem, code = (str(failure), INCOMPLETE) if late else ("", 0)
        return Finding(model, summary, problem, exit_code=code, answered=answered)
    fault = failure.fault
    code = WRONG_USAGE if fault.code in _SETTINGS_AT_FAULT else INCOMPLETE
    return Finding(model, problem=str(fault), fault=fault, exit_code=code, answered=False)


def _print_finding(finding: Finding | None, address: str, *, as_json: bool) -> ExitCode:
    """Print the result of the test."""
    if finding is None:
        print_note("no request was sent")
        return 0
    if not as_json:
        if not finding.problem:
            print_text(f"\nok: {finding.summary}")
        if finding.protocols:
            print_text("")
            rows = [(each.protocol, " ".join(each.said.split())) for each in finding.protocols]
            print_columns(("call protocol", "result"), rows)
    if finding.problem:
        return print_error(f"{finding.model} at {address}: {finding.problem}", finding.exit_code)
    return 0


def _address_with_key(endpoint_fields: dict[str, str], effective: EffectiveSettings) -> str:
    """Return an address and the source of the key for it."""
    key = "no key" if effective.settings.api_key is None else effective.sources["api_key"]
    return f"{endpoint_fields['url']} ({key})"


def _rows_as_json(rows: list[Setting]) -> list[JSON]:
    return [dict(zip(("name", "value", "source"), row, strict=True)) for row in rows]


def _json_document(
    rows: list[Setting],
    endpoint_fields: dict[str, str],
    plan: EvaluationPlan,
    finding: Finding | None,
) -> JSON:
    return {
        "settings": _rows_as_json(rows),
        "endpoint": endpoint_fields | {"simulated": plan.cells[0].model.simulated},
        "selected": {
            "models": list(dict.fromkeys(each.model.id for each in plan.cells)),
            "scenarios": [scenario.id for scenario in plan.scenarios],
        },
        "request": None
        if finding is None
        else {
            "ok": not finding.problem,
            "model": finding.model,
            "said": finding.summary,
            "problem": finding.problem or None,
            "fault": finding.fault,
        },
        "protocols": None
        if finding is None or not finding.protocols
        else [msgspec.structs.asdict(probe) for probe in finding.protocols],
    }
