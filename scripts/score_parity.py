"""Scores the parity fixtures of NVIDIA Dynamo, which are not part of this repository.

    python scripts/score_parity.py CHECKOUT                 a table by family
    python scripts/score_parity.py CHECKOUT --show asked    the cases of one outcome
    python scripts/score_parity.py CHECKOUT --presets content_tag_tool_call_fallback

CHECKOUT is a directory with `toolcalling/fixtures/FAMILY/*.yaml`, such as `tests/parity` of Dynamo
until June 2026 or `conformance` of its frontend crates. PyYAML must be installed. A fixture has
cases with a `model_text`, the `tools`, and what each engine `expected`. Each text is parsed as a
whole reply.

like: the calls are those of at least one engine, possibly none. unlike: other calls. asked: the
engines found calls; none runs, and the model is told. silent: the same, and the model is not told.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent))

from surecall import ToolCallingConfig, ToolRegistry, presets
from surecall.values.types import JSON
from tests.support.replies import completion_body, reply_to, runnable

OUTCOMES = ("like", "unlike", "asked", "silent")
_PATTERN = "**/fixtures/*/*.batch*.yaml"


def cases(root: Path) -> Iterator[tuple[str, str, JSON]]:
    """Yield the family, the name, and the content of each case."""
    for path in sorted(root.glob(_PATTERN)):
        fixture = msgspec.yaml.decode(path.read_bytes())
        for name, case in (fixture.get("cases") or {}).items():
            if isinstance(case.get("model_text"), str) and isinstance(case.get("expected"), dict):
                yield str(fixture.get("family", path.parent.name)), str(name), case


def engine_calls(case: JSON) -> list[list[list[Any]]]:
    """Return the names and arguments that each engine found."""
    found = [value["calls"] for value in case["expected"].values() if _has_calls(value)]
    return [[[call["name"], call.get("arguments")] for call in calls] for calls in found]


def _has_calls(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("calls"), list)


def _registry(case: JSON) -> ToolRegistry:
    unique = {tool["name"]: tool for tool in case.get("tools") or ()}
    return ToolRegistry(
        [
            {
                "name": name,
                "description": tool.get("description") or "A tool.",
                "parameters": tool.get("parameters") or {"type": "object"},
            }
            for name, tool in unique.items()
        ]
    )


def score(case: JSON, config: ToolCallingConfig) -> tuple[str, list[list[Any]]]:
    """Return the outcome of a case and the calls that would run."""
    body = completion_body({"content": case["model_text"]})
    reply = reply_to(body, config, _registry(case))
    ran = [[call.name, call.arguments] for call in runnable(reply)]
    engines = engine_calls(case)
    is_asked = bool(reply.claims) or any(call.problem for call in reply.calls)
    if ran in engines:
        return "like", ran
    if ran:
        return "unlike", ran
    return ("asked" if is_asked else "silent"), ran


def main(arguments: list[str]) -> None:
    """Score the cases and print a table, or the cases of one outcome."""
    parser = argparse.ArgumentParser(description="Score parity fixtures.")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--show", choices=OUTCOMES, default="")
    parser.add_argument("--presets", nargs="*", default=["default_tool_calling"])
    options = parser.parse_args(arguments)
    config = presets.resolve(provider="openai")
    for name in options.presets:
        config = presets.PRESET[name](config)
    table: dict[str, Counter[str]] = {}
    for family, name, case in cases(options.checkout):
        outcome, ran = score(case, config)
        table.setdefault(family, Counter())[outcome] += 1
        if outcome == options.show:
            print(f"{family} {name}\n  text    {case['model_text']!r}\n  ran     {ran}")
            print(f"  engines {engine_calls(case)}")
    for family, counts in table.items():
        print(f"{family:20}", *(f"{outcome} {counts[outcome]:4}" for outcome in OUTCOMES))
    total = sum(table.values(), Counter())
    print(f"{'all':20}", *(f"{outcome} {total[outcome]:4}" for outcome in OUTCOMES))


if __name__ == "__main__":
    main(sys.argv[1:])
