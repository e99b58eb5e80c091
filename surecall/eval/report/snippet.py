"""The Python that builds the configuration that advice is about, for people to copy."""

import json
from collections.abc import Sequence
from typing import Final

from surecall.eval.analysis.paired import BEYOND
from surecall.eval.running.cells import split_strategy
from surecall.eval.running.chains import links_in
from surecall.settings.catalog import ModelCatalog
from surecall.settings.presets import CONTRACTED, FURTHER, Strategy
from surecall.values.types import JSON

DEFAULT: Final[Strategy] = "production"
# What a fallback that was chosen makes of a config.
_FALLBACK_LINES: Final = {
    "fallback_on": ("config = presets.content_tag_tool_call_fallback(config)",),
    "fallback_off": ("config = presets.without_text_calls(config)",),
}
# Each scenario has a contract of its own, and so has each task.
_CONTRACT_LINES: Final = (
    "# The calls without which your task is not done; put the names of your own tools here.",
    'config = config.replace(contract=Contract(all_of=["your_tool"]))',
)


def presets_beside(label: str, model: str, catalog: ModelCatalog) -> tuple[str, ...]:
    """Name the presets that a strategy adds to those of the provider: the model's, its own."""
    strategy, _ = split_strategy(label)
    knows_model = strategy in (DEFAULT, *BEYOND)
    own = (preset for name, preset in FURTHER.items() if name == strategy)
    return (*(catalog.workarounds_for(model) if knows_model else ()), *own)


def snippet(
    model: str, label: str, provider: str, options: JSON, workarounds: Sequence[str]
) -> str:
    """Write the configuration of a cell. Its `label` is the strategy, with its fallback if any."""
    comment = f"  # with {', '.join(workarounds)}" if workarounds else ""
    contracted = split_strategy(label)[0] in CONTRACTED
    links = links_in(model)
    names = [*(["Contract"] if contracted else ()), *(["Fallback"] if links else ()), "presets"]
    lines = [f"from surecall import {', '.join(names)}", ""]
    if links:
        lines.append("model = []")
        for link in links:
            lines += _config_lines(link, label, provider, "")
            lines.append(f"model.append(Fallback({_quoted(link)}, config=config))")
    else:
        lines += _config_lines(model, label, provider, comment)
    if options:
        inside = ", ".join(f"{_quoted(key)}: {value!r}" for key, value in options.items())
        lines.append(f"llm_options_defaults = {{{inside}}}")
    return "\n".join(lines) + "\n"


def _config_lines(model: str, label: str, provider: str, comment: str) -> list[str]:
    strategy, fallback = split_strategy(label)
    named = {"provider": provider, "model": model}
    if strategy != DEFAULT:
        named["strategy"] = strategy
    arguments = ", ".join(f"{name}={_quoted(value)}" for name, value in named.items())
    return [
        f"config = presets.resolve({arguments}){comment}",
        *_FALLBACK_LINES.get(fallback, ()),
        *(_CONTRACT_LINES if strategy in CONTRACTED else ()),
    ]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
