"""Renders Python code that builds a recommended configuration, for users to copy."""

import json
from collections.abc import Sequence
from typing import Final

from surecall.eval.analysis.comparisons import EXTENDED_STRATEGIES
from surecall.eval.running.cells import chain_model_ids, split_strategy
from surecall.settings.catalog import ModelCatalog
from surecall.settings.presets import CONTRACT_STRATEGIES, STRATEGY_PRESETS, Strategy
from surecall.values.types import JSON

DEFAULT_STRATEGY: Final[Strategy] = "production"
# Code that applies the chosen fallback to a config.
_FALLBACK_LINES: Final = {
    "fallback_on": ("config = presets.content_tag_tool_call_fallback(config)",),
    "fallback_off": ("config = presets.without_text_calls(config)",),
}
# Contracts are specific to a scenario or task, so the snippet contains a placeholder.
_CONTRACT_LINES: Final = (
    "# Calls that your task requires. Replace the name with your own tools.",
    'config = config.replace(contract=Contract(all_of=["your_tool"]))',
)


def added_presets(strategy_label: str, model: str, catalog: ModelCatalog) -> tuple[str, ...]:
    """Return the presets that a strategy adds to those of the provider."""
    strategy, _ = split_strategy(strategy_label)
    knows_model = strategy in (DEFAULT_STRATEGY, *EXTENDED_STRATEGIES)
    own = (preset for name, preset in STRATEGY_PRESETS.items() if name == strategy)
    return (*(catalog.workarounds_for(model) if knows_model else ()), *own)


def render_snippet(
    model: str, strategy_label: str, provider: str, options: JSON, workarounds: Sequence[str]
) -> str:
    """Return Python code for the configuration of a cell.

    `strategy_label` is the strategy, with its fallback if any.
    """
    comment = f"  # with {', '.join(workarounds)}" if workarounds else ""
    contracted = split_strategy(strategy_label)[0] in CONTRACT_STRATEGIES
    links = chain_model_ids(model)
    names = [*(["Contract"] if contracted else ()), *(["Fallback"] if links else ()), "presets"]
    lines = [f"from surecall import {', '.join(names)}", ""]
    if links:
        lines.append("model = []")
        for link in links:
            lines += _config_lines(link, strategy_label, provider, "")
            lines.append(f"model.append(Fallback({_python_string(link)}, config=config))")
    else:
        lines += _config_lines(model, strategy_label, provider, comment)
    if options:
        inside = ", ".join(f"{_python_string(key)}: {value!r}" for key, value in options.items())
        lines.append(f"llm_options_defaults = {{{inside}}}")
    return "\n".join(lines) + "\n"


def _config_lines(model: str, strategy_label: str, provider: str, comment: str) -> list[str]:
    strategy, fallback = split_strategy(strategy_label)
    named = {"provider": provider, "model": model}
    if strategy != DEFAULT_STRATEGY:
        named["strategy"] = strategy
    arguments = ", ".join(f"{name}={_python_string(value)}" for name, value in named.items())
    return [
        f"config = presets.resolve({arguments}){comment}",
        *_FALLBACK_LINES.get(fallback, ()),
        *(_CONTRACT_LINES if strategy in CONTRACT_STRATEGIES else ()),
    ]


def _python_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
