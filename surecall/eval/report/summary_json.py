"""The summaries and trials of a run as JSON, with the keys of the specification.

Keys that need explanation:

    ok_rate                  end to end, as in the original harness: infrastructure errors fail
    tool_ok_rate, control_ok_rate, no_tools_ok_rate
                             without infrastructure errors (`infra`) and skipped trials;
                             runs = tool_runs + control_runs + no_tools_runs + infra
    ms_p50, ms_p95           over all trials that ran, as in the original harness
    tool_ms_p95              over scored tool runs: the p95 that reports show
    false_finals             premature answers, runs with one, and those of them that passed
    unsupported_claims       answers that claim what no successful call did
    conduct                  behavior metrics; null if side effects were not checked
    commands                 settings of each command; a filter on which they differ is null
    report_path              file of a trial; null unless `surecall report -o DIR` wrote it
    causes                   why runs failed: runs per unmet expectation, and actual values
    verdict                  the sentence that every report shows, and the verdict of each model
                             with its best strategy and profile; null if none was made

Rates of different strategies are never combined.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, get_args

import msgspec

from surecall.eval.analysis.comparisons import Comparison
from surecall.eval.analysis.stats import EMPTY_RATE, Rate, pooled_interval
from surecall.eval.analysis.summary import Figure, Summary, Timing, Totals, count_by
from surecall.eval.report.run_results import (
    COMMAND_SETTINGS,
    LazyRows,
    RunResults,
    Sheet,
    SheetColumn,
    TrialBrief,
)
from surecall.eval.settings.value_parsers import AUTO
from surecall.eval.storage.trial import BehaviorMetrics, Cell, FalseFinals, Key, ScenarioKind, Trial
from surecall.values.nesting import decode_json
from surecall.values.types import JSON
from surecall.values.version import __version__

# Column headings of `behavior_row`.
BEHAVIOR_COLUMNS: Final = (
    "correct",
    "silent failures",
    "false success",
    "wrong effects",
    "repeated effects",
    "runs with either",
    "requests after declining",
    "requests/run",
    "tokens/run",
)


def behavior_row(conduct: BehaviorMetrics) -> tuple[str, ...]:
    """Return behavior metrics as a table row, in the order of `BEHAVIOR_COLUMNS`."""
    return (
        f"{conduct.right}/{conduct.runs}",
        str(conduct.silent_wrong),
        str(conduct.false_success),
        str(conduct.wrong_effects),
        str(conduct.repeated_effects),
        str(conduct.runs_with_such_effects),
        str(conduct.requests_after_no),
        f"{conduct.requests_per_run or 0:.1f}",
        f"{conduct.tokens_per_run or 0:.0f}",
    )


def behavior_json(conduct: BehaviorMetrics) -> JSON | None:
    """Return behavior metrics as JSON; None if side effects were not checked."""
    names = (
        "runs right silent_wrong false_success wrong_effects repeated_effects "
        "runs_with_such_effects requests_after_no requests requests_per_run tokens tokens_per_run"
    )
    return {name: getattr(conduct, name) for name in names.split()} if conduct.runs else None


def trial_json(results: RunResults, trial: Trial, trace: bytes | None) -> JSON:
    """Return the file of one trial, in the format of the original harness.

    `trace` holds the events as JSON lines. The conversation is derived from it.
    """
    column = results.columns[trial.key.cell]
    events = [msgspec.json.decode(line) for line in (trace or b"").split(b"\n") if line]
    start: JSON = next((event for event in events if event["type"] == "run_start"), {})
    return {
        **_cell_fields(results, column, trial),
        **_config_fields(column, start),
        "assistant_text": trial.assistant_text,
        "draft": trial.draft,
        **_error_fields(trial, events),
        "status": trial.status,
        "first_ok": trial.first_ok,
        "turn": trial.turn,
        "call_id": trial.call_id or None,
        "score": msgspec.structs.asdict(trial.score) | {"reasons": trial.score.reasons},
        "models": trial.models,
        "requests": trial.requests,
        "usage": trial.usage,
        "fired": trial.fired,
        "retries": trial.retries,
        "false_finals": trial.false_finals,
        "unsupported_claims": trial.unsupported_claims,
        "truth": trial.truth or None,
        "requests_after_no": trial.after_no,
        "prompt_hash": trial.prompt_hash,
        "started_at": trial.started_at,
        "history": list(_conversation_messages(events)) or None,
        "trace": events or None,
    }


def _cell_fields(results: RunResults, column: SheetColumn, trial: Trial) -> JSON:
    """Return the fields of a trial's file that tell its cell, and its outcome in brief."""
    return {
        **_cell_identity(results, column),
        "simulated": column.simulated,
        "empty_response_retry": {
            "max_retries": results.sheet.settings.get("empty_response_retry_count"),
            "attempts": trial.attempts - 1,
        },
        "scenario": trial.key.scenario,
        "trial": trial.key.trial,
        "ok": trial.ok,
        "elapsed_ms": trial.elapsed_ms,
    }


def _config_fields(column: SheetColumn, start: JSON) -> JSON:
    """Return the effective configuration; a scenario may override that of the cell."""
    config: JSON = start.get("config", column.config)
    mode = config.get("tool_use_mode", column.tool_use_mode)
    return {
        "llm_options_defaults": start.get("options", column.options),
        "tool_use_mode": mode,
        "tools_enabled": mode != "disabled",
        "context_tool_calling": config,
    }


def _error_fields(trial: Trial, events: list[JSON]) -> JSON:
    """Return the fields about the error of a trial, with the endpoint's last error body."""
    faults = [event["fault"] for event in events if event["type"] == "llm_request_error"]
    raw = faults[-1].get("body") if faults and not trial.ok else None
    found = {
        "error": trial.error or None,
        "error_status": trial.http_status,
        "error_body": _json_or_none(raw),
        "error_raw_body": raw,
        "error_category": trial.category or None,
    }
    return found | {"error_hint": trial.hint} if trial.hint else found


def _json_or_none(raw: str | None) -> Any:
    try:
        return None if raw is None else decode_json(raw)
    except ValueError:
        return None


def _conversation_messages(events: list[JSON]) -> Iterator[JSON]:
    """Yield the messages of a run from its events."""
    for event in events:
        match event:
            case {"type": "run_start", "messages": messages}:
                for message in messages:
                    content = message.get("text", message.get("content"))
                    yield {"role": message["role"], "content": content}
            case {"type": "llm_request_end", "reply": reply}:
                calls = reply.get("calls", [])
                metadata = {"metadata": {"tool_calls": calls}} if calls else {}
                yield {"role": "assistant", "content": reply.get("text", ""), **metadata}
            case {"type": "tool_call_end", "result": result}:
                answers = {"metadata": {"tool_call_id": result["call_id"]}}
                yield {
                    "role": "tool",
                    "content": result["content"],
                    "name": result["name"],
                } | answers
            case _:
                pass


SCHEMA_VERSION: Final = 1
TRIALS_FOLDER: Final = "trials"
# Keys of summary.json that are settings, with our name where it differs.
_SETTINGS: Final = """
base_url api_prefix client_timeout client_open_timeout=open_timeout
client_read_timeout=read_timeout fix_empty_final tool_use_mode tool_failure_policy
tool_calling_fallback_retry_count tool_allowlist request_overrides sampling_profile_filter
sampling_profile_enforce_applicability llm_options_defaults_overrides=llm_options_defaults
model_filter strategy_filter strategy_matrix
content_tag_tool_call_fallback_global_override=enable_content_tag_tool_call_fallback
fallback_matrix jobs trials_per_model=trials seed
"""


def summary_document(
    results: RunResults,
    *,
    ts: str,
    output_dir: str,
    has_trial_files: bool = False,
    verdict: JSON | None = None,
) -> JSON:
    """Return summary.json: the verdict and the settings, then every cell with every trial.

    `has_trial_files` means that each trial has its own file.
    """
    columns = results.columns.values()
    settings = (name.partition("=") for name in _SETTINGS.split())
    tag_models = [column.cell.model for column in columns if column.parses_tags]
    return {
        "schema_version": SCHEMA_VERSION,
        "ts": ts,
        "simulated": results.is_simulated,
        "verdict": verdict,
        "http_adapter": "aiohttp",
        "commands": list(results.sheet.commands),
        **{key: _run_setting(results.sheet, name or key) for key, _, name in settings},
        "sampling_profiles": _distinct(column.cell.profile for column in columns),
        "selected_models": _distinct(column.cell.model for column in columns),
        "strategies": _distinct(column.strategy for column in columns),
        "best_effort_content_tag_tool_call_fallback_models": _distinct(tag_models),
        "fallback_profiles": _distinct(column.fallback for column in columns),
        "scenarios": list(results.scenarios),
        "served_by": results.sheet.settings.get("served_by"),
        "system_fingerprints": served_builds(results),
        "false_finals": msgspec.structs.asdict(results.summary.totals.false_finals),
        "causes": _causes_json(results.summary),
        "output_dir": output_dir,
        "models": [
            cell_json(results, cell) | _trial_lists(results, cell, has_trial_files=has_trial_files)
            for cell in results.entries
        ],
    }


def _run_setting(sheet: Sheet, name: str) -> Any:
    """Return a setting of the run; None if its commands differ in it.

    For trials, which can be added later, the largest number counts.
    """
    if name not in COMMAND_SETTINGS:
        return sheet.settings.get(name)
    first, *others = (command.get(name) for command in sheet.commands)
    if all(value == first for value in others):
        return first
    if name != "trials":
        return None
    numbers = [value for value in (first, *others) if isinstance(value, int)]
    return max(numbers) if len(numbers) == len(sheet.commands) else AUTO


def served_builds(results: RunResults) -> list[str]:
    """Return the distinct server builds that replies name, in trial order."""
    return _distinct(build for entry in results.all_entries for build in entry.builds)


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def cell_json(results: RunResults, cell: Cell) -> JSON:
    """Return the figures of one cell."""
    column, found = results.columns[cell], results.totals_by_cell[cell]
    looks = results.sheet.stopping.sequential
    tool, latency = found.tool, found.latency
    # In report order, because rounding depends on the order.
    bounds = pooled_interval((each.rate.as_rate for each in found.tool_scenarios), sequential=looks)
    return {
        **_cell_identity(results, column),
        "simulated": column.simulated,
        **_rate_fields("", Rate(found.passed_count, found.run_count)),
        **_timing_fields("", latency.runs),
        "infra": found.infra,
        "skipped": found.skipped,
        "first_ok": found.first_ok,
        "false_finals": msgspec.structs.asdict(found.false_finals),
        "conduct": behavior_json(found.conduct),
        **_rate_fields("tool_", tool),
        **_timing_fields("tool_", latency.tool),
        "tool_ok_interval": list(bounds) if tool.n else None,
        **_rate_fields("control_", found.control),
        **_timing_fields("control_", latency.control),
        **_rate_fields("no_tools_", found.no_tools),
        "scenarios": list(results.scenarios),
    }


def _cell_identity(results: RunResults, column: SheetColumn) -> JSON:
    """Return the fields that identify a cell, with the keys of the original harness."""
    return {
        "model": results.labels[column.cell],
        "model_base": column.cell.model,
        "strategy": column.strategy,
        "fallback_profile": column.fallback,
        "sampling_profile": column.cell.profile,
        "content_tag_tool_call_fallback": column.parses_tags,
    }


def _rate_fields(prefix: str, rate: Rate | Figure) -> JSON:
    return {f"{prefix}runs": rate.n, f"{prefix}ok": rate.k, f"{prefix}ok_rate": rate.rate}


def _timing_fields(prefix: str, timing: Timing) -> JSON:
    return {f"{prefix}ms_p50": timing.p50, f"{prefix}ms_p95": timing.p95}


def _trial_lists(results: RunResults, cell: Cell, *, has_trial_files: bool) -> JSON:
    """Return the rows of a cell's trials, and of its first three failures."""
    ran = [entry for entry in results.entries[cell] if entry.status != "skipped"]
    made = partial(trial_row, results, has_trial_files=has_trial_files)
    failed = (entry for entry in ran if not entry.ok)
    return {
        "run_results": LazyRows(ran, made),
        "failure_samples": [made(entry) for entry in islice(failed, 3)],
    }


def trial_row(results: RunResults, entry: TrialBrief, *, has_trial_files: bool = False) -> JSON:
    """Return one trial as the summaries list it."""
    return {
        **_cell_identity(results, results.columns[entry.key.cell]),
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
        "report_path": f"{TRIALS_FOLDER}/{results.file_name(entry.key)}"
        if has_trial_files
        else None,
    }


def summary_by_scenario(results: RunResults) -> JSON:
    """Return summary_by_scenario.json."""
    return counts_by_scenario(results, results.summary.totals)


def summary_by_scenario_and_strategy(results: RunResults) -> JSON:
    """Return summary_by_scenario_and_strategy.json, which combines a strategy's fallbacks."""
    found: dict[str, list[Totals]] = {}
    for cell, figures in results.totals_by_cell.items():
        found.setdefault(results.columns[cell].strategy, []).append(figures)
    return {strategy: counts_by_scenario(results, *parts) for strategy, parts in found.items()}


def counts_by_scenario(results: RunResults, *parts: Totals) -> JSON:
    """Return the combined counts of each scenario."""
    found: JSON = {}
    for name in results.scenarios:
        rows = [one for each in parts for one in each.scenarios if one.scenario == name]
        ran = sum((one.end_to_end for one in rows), EMPTY_RATE)
        if not ran.n:
            continue
        failures = (one for each in parts for one in each.failures if one.scenario == name)
        false_finals = sum((one.false_finals for one in rows), FalseFinals())
        conduct = behavior_json(sum((one.conduct for one in rows), BehaviorMetrics()))
        found[name] = {
            "runs": ran.n,
            "ok": ran.k,
            "errors": dict(sorted(count_by(failures, "category").items())),
            "false_finals": msgspec.structs.asdict(false_finals),
            **({} if conduct is None else {"conduct": conduct}),
        }
    return found


def totals_json(totals: Totals) -> JSON:
    """Return the total counts as JSON."""
    rates = [_rate_fields(f"{kind}_", getattr(totals, kind)) for kind in get_args(ScenarioKind)]
    return {
        "runs": totals.run_count,
        "ok": totals.passed_count,
        "infra": totals.infra,
        "skipped": totals.skipped,
        **{name: n for rate in rates for name, n in rate.items() if not name.endswith("_rate")},
        "false_finals": msgspec.structs.asdict(totals.false_finals),
        "unsupported_claims": totals.unsupported_claims,
    }


def _causes_json(summary: Summary) -> list[JSON]:
    """Return the causes of failed runs, each with the keys of the first runs."""
    return [
        msgspec.structs.asdict(cause) | {"runs": [key_json(key) for key in cause.runs]}
        for cause in summary.totals.causes
    ]


def key_json(key: Key) -> JSON:
    """Return a key as a flat JSON object."""
    cell = msgspec.structs.asdict(key.cell)
    return {**cell, "scenario": key.scenario, "trial": key.trial}


def comparison_json(pair: Comparison) -> JSON:
    """Return a comparison as JSON, with its rates and verdict."""
    first, second = pair.rates
    return {
        **msgspec.structs.asdict(pair),
        "pairs": pair.pairs,
        "first_rate": {"k": first.k, "n": first.n, "interval": list(first.interval)},
        "second_rate": {"k": second.k, "n": second.n, "interval": list(second.interval)},
        "verdict": pair.verdict(),
    }


def _strategy_json(totals: Totals) -> JSON:
    return {
        **totals_json(totals),
        "tool": msgspec.structs.asdict(totals.tool),
        "end_to_end": msgspec.structs.asdict(totals.end_to_end),
        "pass_hat": list(totals.pass_hat),
        "conduct": behavior_json(totals.conduct),
    }


def results_document(
    results: RunResults,
    *,
    run: Mapping[str, Any],
    recommendations: Sequence[Any] = (),
    verdict: JSON | None = None,
) -> JSON:
    """Return the `--json` document with all results; `run` describes their origin."""
    found = results.summary
    each = {name: _strategy_json(one) for name, one in found.strategies.items()}
    only = next(iter(each.values())) if len(each) == 1 else {}
    more = {name: only.get(name) for name in ("end_to_end", "pass_hat")}
    return {
        "schema_version": SCHEMA_VERSION,
        "surecall": __version__,
        "run": dict(run),
        "verdict": verdict,
        "simulated": results.is_simulated,
        "served_by": results.sheet.settings.get("served_by"),
        "system_fingerprints": served_builds(results),
        "totals": totals_json(found.totals) | more,
        "by_scenario": summary_by_scenario(results),
        "by_strategy": summary_by_scenario_and_strategy(results),
        "strategies": each,
        "causes": _causes_json(found),
        "cells": [cell_json(results, cell) for cell in results.entries],
        "comparisons": {
            "rows": [comparison_json(pair) for pair in found.comparisons.rows],
            "overall": [comparison_json(pair) for pair in found.comparisons.overall],
        },
        "recommendations": list(recommendations),
    }
