"""One trial as the original harness files it: what was asked, what came of it, every event.

The conversation is read from the trace. What was recorded is shown as it was recorded; secrets
were taken out before.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from surecall.eval.report.common import Column, Results
from surecall.eval.storage.trial import Trial
from surecall.values.nesting import decode_json
from surecall.values.types import JSON


def trial_document(results: Results, trial: Trial, trace: bytes | None) -> JSON:
    """Return the file of one trial; `trace` holds its events as JSON lines."""
    column = results.columns[trial.key.cell]
    events = [msgspec.json.decode(line) for line in (trace or b"").split(b"\n") if line]
    start: JSON = next((event for event in events if event["type"] == "run_start"), {})
    return {
        **_head(results, column, trial),
        **_setting(column, start),
        "assistant_text": trial.assistant_text,
        "draft": trial.draft,
        **_error(trial, events),
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
        "truth": trial.truth or None,
        "requests_after_no": trial.after_no,
        "prompt_hash": trial.prompt_hash,
        "started_at": trial.started_at,
        "history": list(_history(events)) or None,
        "trace": events or None,
    }


def _head(results: Results, column: Column, trial: Trial) -> JSON:
    return {
        "model": results.labels[column.cell],
        "model_base": column.cell.model,
        "simulated": column.simulated,
        "strategy": column.strategy,
        "fallback_profile": column.fallback,
        "sampling_profile": column.cell.profile,
        "empty_response_retry": {
            "max_retries": results.sheet.settings.get("empty_response_retry_count"),
            "attempts": trial.attempts - 1,
        },
        "content_tag_tool_call_fallback": column.reads_tags,
        "scenario": trial.key.scenario,
        "trial": trial.key.trial,
        "ok": trial.ok,
        "elapsed_ms": trial.elapsed_ms,
    }


def _setting(column: Column, start: JSON) -> JSON:
    """Return what the run went by; a scenario may have changed what the cell says."""
    config: JSON = start.get("config", column.config)
    mode = config.get("tool_use_mode", column.tool_use_mode)
    return {
        "llm_options_defaults": start.get("options", column.options),
        "tool_use_mode": mode,
        "tools_enabled": mode != "disabled",
        "context_tool_calling": config,
    }


def _error(trial: Trial, events: list[JSON]) -> JSON:
    faults = [event["fault"] for event in events if event["type"] == "llm_request_error"]
    raw = faults[-1].get("body") if faults and not trial.ok else None
    found = {
        "error": trial.error or None,
        "error_status": trial.http_status,
        "error_body": _parsed(raw),
        "error_raw_body": raw,
        "error_category": trial.category or None,
    }
    return found | {"error_hint": trial.hint} if trial.hint else found


def _parsed(raw: str | None) -> Any:
    try:
        return None if raw is None else decode_json(raw)
    except ValueError:
        return None


def _history(events: list[JSON]) -> Iterator[JSON]:
    for event in events:
        match event:
            case {"type": "run_start", "messages": messages}:
                for message in messages:
                    yield {"role": message["role"], "content": _content(message)}
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


def _content(message: JSON) -> Any:
    return message.get("text", message.get("content"))
