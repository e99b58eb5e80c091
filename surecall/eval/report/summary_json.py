"""The three summaries, key for key as the original harness writes them, and the `--json` document.

There are two rates. `ok_rate` counts every trial that ran, also those that the
infrastructure spoiled: the original's number, end to end. `tool_ok_rate`, `control_ok_rate` and
`no_tools_ok_rate` (scenarios without tools, other than the control) leave those out, because they
say nothing about the model; `infra` says how many there were. So
`runs == tool_runs + control_runs + no_tools_runs + infra`, and what cannot apply (`skipped`) is in
none of them. `ms_p50` and `ms_p95` are the original's, of every trial that ran; `tool_ms_p95`, of
the runs that make the tool rate, is the p95 that all reports show. `false_finals` counts early
answers, the runs they came in, and how many of those passed in the end. `conduct` is what runs did
and said, null where their side effects were not judged. Rates of several strategies are never one.
`commands` says what each command of the run asked for; a filter on which they differ is null.
`report_path` is a trial's own file, null where none was written: `surecall export` writes them.
`causes` say why runs failed, by expectation: how many runs missed it, and what came instead.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, get_args

import msgspec

from surecall.eval.analysis.paired import Comparison
from surecall.eval.analysis.stats import Rate, Stopping, interval, percentile
from surecall.eval.analysis.summary import Summary, Totals, summarise
from surecall.eval.report.common import ASKED, Column, Entry, Results, Sheet
from surecall.eval.report.conduct import conduct_json, conduct_of
from surecall.eval.report.pretty import Rows
from surecall.eval.settings.parse import AUTO
from surecall.eval.storage.trial import Cell, FalseFinals, Key, Kind, Score, Trial
from surecall.values.types import JSON
from surecall.values.version import __version__

SCHEMA_VERSION: Final = 1
TRIALS_FOLDER: Final = "trials"
_SAMPLES: Final = 3
# Keys of summary.json that are settings, and what we call them.
_SETTINGS: Final = {
    "base_url": "base_url",
    "api_prefix": "api_prefix",
    "client_timeout": "client_timeout",
    "client_open_timeout": "open_timeout",
    "client_read_timeout": "read_timeout",
    "fix_empty_final": "fix_empty_final",
    "tool_use_mode": "tool_use_mode",
    "tool_failure_policy": "tool_failure_policy",
    "tool_calling_fallback_retry_count": "tool_calling_fallback_retry_count",
    "tool_allowlist": "tool_allowlist",
    "request_overrides": "request_overrides",
    "sampling_profile_filter": "sampling_profile_filter",
    "sampling_profile_enforce_applicability": "sampling_profile_enforce_applicability",
    "llm_options_defaults_overrides": "llm_options_defaults",
    "model_filter": "model_filter",
    "strategy_filter": "strategy_filter",
    "strategy_matrix": "strategy_matrix",
    "content_tag_tool_call_fallback_global_override": "enable_content_tag_tool_call_fallback",
    "fallback_matrix": "fallback_matrix",
    "jobs": "jobs",
    "trials_per_model": "trials",
    "seed": "seed",
}


def summary(results: Results, *, ts: str, output_dir: str, filed: bool = False) -> JSON:
    """Return summary.json: the settings, then every cell with every trial.

    `filed` says that each trial has a file of its own beside it.
    """
    columns = results.columns.values()
    reading = [column.cell.model for column in columns if column.reads_tags]
    return {
        "schema_version": SCHEMA_VERSION,
        "ts": ts,
        "simulated": results.simulated,
        "http_adapter": "aiohttp",
        "commands": list(results.sheet.commands),
        **{key: _setting(results.sheet, name) for key, name in _SETTINGS.items()},
        "sampling_profiles": _distinct(column.cell.profile for column in columns),
        "selected_models": _distinct(column.cell.model for column in columns),
        "strategies": _distinct(column.strategy for column in columns),
        "best_effort_content_tag_tool_call_fallback_models": _distinct(reading),
        "fallback_profiles": _distinct(column.fallback for column in columns),
        "scenarios": list(results.scenarios),
        "served_by": results.sheet.settings.get("served_by"),
        "system_fingerprints": builds_in(results),
        "false_finals": _false_finals(results.all),
        "causes": _causes(figures(results)),
        "output_dir": output_dir,
        "models": [
            cell_summary(results, cell) | _details(results, cell, filed=filed)
            for cell in results.entries
        ],
    }


def _setting(sheet: Sheet, name: str) -> Any:
    """Return a setting of the run; None where its commands asked for different things.

    Trials are topped up, so of them the largest number counts.
    """
    if name not in ASKED:
        return sheet.settings.get(name)
    first, *others = (command.get(name) for command in sheet.commands)
    if all(value == first for value in others):
        return first
    if name != "trials":
        return None
    numbers = [value for value in (first, *others) if isinstance(value, int)]
    return max(numbers) if len(numbers) == len(sheet.commands) else AUTO


def builds_in(results: Results) -> list[str]:
    """List the builds of servers that replies name, in the order of the trials."""
    return _distinct(build for entry in results.all for build in entry.builds)


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def cell_summary(results: Results, cell: Cell) -> JSON:
    """Return the figures of one cell."""
    entries, column = results.entries[cell], results.columns[cell]
    ran = [entry for entry in entries if entry.status != "skipped"]
    judged = _heard(ran)
    tools = [entry for entry in judged if entry.kind == "tool"]
    control = [entry for entry in judged if entry.kind == "control"]
    return {
        **_who(results, column),
        "simulated": column.simulated,
        **_rate("", ran),
        **_times("", ran),
        "infra": len(ran) - len(judged),
        "skipped": len(entries) - len(ran),
        "first_ok": sum(entry.first_ok for entry in ran),
        "false_finals": _false_finals(ran),
        "conduct": conduct_json(conduct_of(ran)),
        **_rate("tool_", tools),
        **_times("tool_", tools),
        "tool_ok_interval": _interval(tools, results.sheet.stopping),
        **_rate("control_", control),
        **_times("control_", control),
        **_rate("no_tools_", [entry for entry in judged if entry.kind == "no_tools"]),
        "scenarios": list(results.scenarios),
    }


def _who(results: Results, column: Column) -> JSON:
    """Say which cell this is, in the words of the original."""
    return {
        "model": results.labels[column.cell],
        "model_base": column.cell.model,
        "strategy": column.strategy,
        "fallback_profile": column.fallback,
        "sampling_profile": column.cell.profile,
        "content_tag_tool_call_fallback": column.reads_tags,
    }


def _heard(entries: Iterable[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.status != "infra"]


def _rate(prefix: str, entries: Sequence[Entry]) -> JSON:
    rate = Rate(sum(entry.ok for entry in entries), len(entries))
    return {f"{prefix}runs": rate.n, f"{prefix}ok": rate.k, f"{prefix}ok_rate": rate.rate}


def _false_finals(entries: Iterable[Entry]) -> JSON:
    counts = (FalseFinals.of(entry.false_finals, passed=entry.ok) for entry in entries)
    return msgspec.structs.asdict(sum(counts, FalseFinals()))


def _times(prefix: str, entries: Iterable[Entry]) -> JSON:
    times = [entry.elapsed_ms for entry in entries]
    return {f"{prefix}ms_p50": percentile(times, 50), f"{prefix}ms_p95": percentile(times, 95)}


def rates_by_scenario(entries: Iterable[Entry]) -> dict[str, Rate]:
    """Count successes for each scenario."""
    rates: dict[str, Rate] = {}
    for entry in entries:
        rates[entry.key.scenario] = rates.get(entry.key.scenario, Rate(0, 0)) + Rate(entry.ok, 1)
    return rates


def _interval(entries: Sequence[Entry], stopping: Stopping) -> list[float] | None:
    rates = rates_by_scenario(entries).values()
    return list(interval(rates, sequential=stopping.sequential)) if entries else None


def _details(results: Results, cell: Cell, *, filed: bool) -> JSON:
    ran = [entry for entry in results.entries[cell] if entry.status != "skipped"]
    made = partial(run_result, results, filed=filed)
    failed = (entry for entry in ran if not entry.ok)
    return {
        "run_results": Rows(ran, made),
        "failure_samples": [made(entry) for entry in islice(failed, _SAMPLES)],
    }


def run_result(results: Results, entry: Entry, *, filed: bool = False) -> JSON:
    """Return one trial as the summaries list it."""
    return {
        **_who(results, results.columns[entry.key.cell]),
        "empty_response_retry_attempts": entry.attempts - 1,
        "scenario": entry.key.scenario,
        "trial": entry.key.trial,
        "ok": entry.ok,
        "status": entry.status,
        "elapsed_ms": entry.elapsed_ms,
        "false_finals": entry.false_finals,
        "error": entry.error or None,
        "error_hint": entry.hint or None,
        "error_status": entry.http_status,
        "error_category": entry.category or None,
        "report_path": f"{TRIALS_FOLDER}/{results.file_name(entry.key)}" if filed else None,
    }


def summary_by_scenario(results: Results) -> JSON:
    """Return summary_by_scenario.json."""
    return _by_scenario(results, results.all)


def summary_by_scenario_and_strategy(results: Results) -> JSON:
    """Return summary_by_scenario_and_strategy.json."""
    found: dict[str, list[Entry]] = {}
    for cell, entries in results.entries.items():
        found.setdefault(results.columns[cell].strategy, []).extend(entries)
    return {strategy: _by_scenario(results, entries) for strategy, entries in found.items()}


def _by_scenario(results: Results, entries: Sequence[Entry]) -> JSON:
    ran = [entry for entry in entries if entry.status != "skipped"]
    rates = rates_by_scenario(ran)
    errors: dict[str, Counter[str]] = {name: Counter() for name in rates}
    for entry in ran:
        if not entry.ok:
            errors[entry.key.scenario][entry.category] += 1
    return {
        name: {
            "runs": rates[name].n,
            "ok": rates[name].k,
            "errors": dict(sorted(errors[name].items())),
            "false_finals": _false_finals(entry for entry in ran if entry.key.scenario == name),
            **_conduct_in(entry for entry in ran if entry.key.scenario == name),
        }
        for name in results.scenarios
        if name in rates
    }


def _conduct_in(entries: Iterable[Entry]) -> JSON:
    found = conduct_json(conduct_of(entries))
    return {} if found is None else {"conduct": found}


def under(results: Results, strategy: str) -> Results:
    """Return the results of one strategy alone, by the label of its cells."""
    kept = {cell: found for cell, found in results.entries.items() if cell.strategy == strategy}
    return msgspec.structs.replace(results, entries=kept)


def totals(results: Results) -> JSON:
    """Return the sums over all cells."""
    cells = [cell_summary(results, cell) for cell in results.entries]
    rates = (f"{kind}_{count}" for kind in get_args(Kind) for count in ("runs", "ok"))
    names = ("runs", "ok", "infra", "skipped", *rates)
    counts = {name: sum(cell[name] for cell in cells) for name in names}
    return counts | {"false_finals": _false_finals(results.all)}


def figures(results: Results) -> Summary:
    """Return what follows from how each trial ended: rates, chances in a row, causes, comparisons.

    Usage, requests and parts of scores are not known here, so figures made from them are blank.
    """
    ends = (
        Trial(
            key=entry.key,
            status=entry.status,
            category=entry.category,
            error=entry.error,
            score=Score(misses=entry.misses),
            false_finals=entry.false_finals,
            turn=entry.turn,
            call_id=entry.call_id,
            elapsed_ms=entry.elapsed_ms,
            tools=entry.kind != "no_tools",
        )
        for entry in results.all
    )
    stopping = results.sheet.stopping
    return summarise(ends, cells=results.entries, scenarios=results.scenarios, stopping=stopping)


def _causes(found: Summary) -> list[JSON]:
    """Return why runs failed, and which runs: the first of them."""
    return [
        msgspec.structs.asdict(cause) | {"runs": [_named(key) for key in cause.runs]}
        for cause in found.totals.causes
    ]


def _named(key: Key) -> JSON:
    cell = msgspec.structs.asdict(key.cell)
    return {**cell, "scenario": key.scenario, "trial": key.trial}


def _compared(pair: Comparison) -> JSON:
    first, second = pair.rates
    return {
        **msgspec.structs.asdict(pair),
        "pairs": pair.pairs,
        "first_rate": {"k": first.k, "n": first.n, "interval": list(first.interval)},
        "second_rate": {"k": second.k, "n": second.n, "interval": list(second.interval)},
        "verdict": pair.verdict(),
    }


def _of_strategy(results: Results, strategy: str, found: Totals) -> JSON:
    own = under(results, strategy)
    return {
        **totals(own),
        "tool": msgspec.structs.asdict(found.tool),
        "end_to_end": msgspec.structs.asdict(found.end_to_end),
        "pass_hat": list(found.pass_hat),
        "conduct": conduct_json(conduct_of(own.all)),
    }


def document(
    results: Results, *, run: Mapping[str, Any], recommendations: Sequence[Any] = ()
) -> JSON:
    """Return the whole result as one document for programs; `run` says where it comes from."""
    found = figures(results)
    each = {name: _of_strategy(results, name, one) for name, one in found.strategies.items()}
    only = next(iter(each.values())) if len(each) == 1 else {}
    more = {name: only.get(name) for name in ("end_to_end", "pass_hat")}
    return {
        "schema_version": SCHEMA_VERSION,
        "surecall": __version__,
        "run": dict(run),
        "simulated": results.simulated,
        "served_by": results.sheet.settings.get("served_by"),
        "system_fingerprints": builds_in(results),
        "totals": totals(results) | more,
        "by_scenario": summary_by_scenario(results),
        "by_strategy": summary_by_scenario_and_strategy(results),
        "strategies": each,
        "causes": _causes(found),
        "cells": [cell_summary(results, cell) for cell in results.entries],
        "comparisons": {
            "rows": [_compared(pair) for pair in found.comparisons.rows],
            "overall": [_compared(pair) for pair in found.comparisons.overall],
        },
        "recommendations": list(recommendations),
    }
