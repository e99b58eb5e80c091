"""Measures the search for tools on the Berkeley leaderboard's cases, with all their tools together.

    pip download --no-deps bfcl-eval
    python -m bench.tool_search bfcl_eval-*.whl

A registry has one tool per name, so the pool has the first definition of each name of the data
set. A case comes out right if every tool that it wants is among the first ten for the words of its
user. The second table has all definitions in the pool, those of one name with numbers: a case then
wants its own definition, although several may do the same. Intervals are 95 % (Wilson). The tokens
are those of the definitions in one request, estimated, against sending all of the first pool.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Final, NamedTuple

from surecall.eval.analysis.stats import wilson_interval
from surecall.eval.scenarios.bfcl import SET_NAMES, MappingCounts, find_data, read_set
from surecall.settings.capabilities import estimate_tokens
from surecall.tools.ranking import ToolIndex
from surecall.values.types import JSON, ToolSpec
from surecall.wire.chat_format import encode, render_tool
from surecall.wire.content_parts import text_of

ASKED: Final = ("multiple", "parallel_multiple", "live_multiple", "live_parallel_multiple")
MOST: Final = 10


class Case(NamedTuple):
    """What a user asks for, the exposed tools, and the names of the tools that it takes."""

    group: str
    words: str
    tools: list[JSON]
    wanted: frozenset[str]


def read_cases(wheel: Path) -> list[Case]:
    """Read every case; those of other sets only add their tools to the pool."""
    folder = find_data(wheel)
    return [
        Case(name, _user_words(line), [tool["function"] for tool in line["tools"]], _wanted(line))
        for name in SET_NAMES
        for line in read_set(folder, name, MappingCounts(), None)
    ]


def _user_words(line: JSON) -> str:
    texts = (text_of(each["content"]) for each in line["messages"] if each["role"] == "user")
    return "\n".join(texts)


def _wanted(line: JSON) -> frozenset[str]:
    return frozenset(call["name"] for call in line["expect"].get("calls", ()))


def spec_of(tool: JSON, name: str = "") -> ToolSpec:
    """Return a tool of the data set, under another name if there is one."""
    return ToolSpec(name or tool["name"], tool.get("description", ""), tool["parameters"])


def recall(index: ToolIndex, asked: Sequence[tuple[str, str, frozenset[str]]], title: str) -> None:
    """Print how often all wanted tools are among the first ones, by set and together."""
    print(f"\n{title}: {len(index.by_name)} tools\n")
    print(f"| set | n | all wanted tools in the first {MOST} | 95 % | in the first 5 | first |")
    print("|---|---|---|---|---|---|")
    rows = [
        (
            group,
            [len(wanted - set(index.rank(words, most))) == 0 for most in (MOST, 5, len(wanted))],
        )
        for group, words, wanted in asked
    ]
    for group in (*ASKED, "together"):
        hits = [hit for each, hit in rows if group in {each, "together"}]
        found = sum(hit[0] for hit in hits)
        low, high = wilson_interval(found, len(hits))
        others = " | ".join(f"{100 * mean(hit[at] for hit in hits):.1f} %" for at in (1, 2))
        print(
            f"| {group} | {len(hits)} | {found} ({100 * found / len(hits):.1f} %) "
            f"| {100 * low:.1f} to {100 * high:.1f} % | {others} |"
        )


def print_tokens(index: ToolIndex, cases: Sequence[Case]) -> None:
    """Print the tokens of the tools in a first request, against sending all."""
    size = {name: _tokens(spec) for name, spec in index.by_name.items()}
    search, total = _tokens(index.search_spec), sum(size.values())
    sent = [search + sum(size[name] for name in index.rank(case.words, MOST)) for case in cases]
    print(
        f"\nTokens of all tools: {total:,}. With the search, over n = {len(sent)} requests: "
        f"mean {mean(sent):,.0f}, most {max(sent):,}; "
        f"saved {100 * (1 - mean(sent) / total):.1f} %, "
        f"at least {100 * (1 - max(sent) / total):.1f} %."
    )


def _tokens(spec: ToolSpec) -> int:
    return estimate_tokens(encode(render_tool(spec)).decode())


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    cases = read_cases(parser.parse_args().wheel)
    asked = [case for case in cases if case.group in ASKED]
    by_name: dict[str, ToolSpec] = {}
    numbered: dict[bytes, str] = {}
    variants: dict[str, ToolSpec] = {}
    for tool in (tool for case in cases for tool in case.tools):
        by_name.setdefault(tool["name"], spec_of(tool))
        if (key := encode(tool)) not in numbered:
            same = sum(name.partition("__v")[0] == tool["name"] for name in variants)
            numbered[key] = name = f"{tool['name']}__v{same + 1}" if same else tool["name"]
            variants[name] = spec_of(tool, name)
    index = ToolIndex(tuple(by_name.values()))
    recall(index, [(case.group, case.words, case.wanted) for case in asked], "One tool per name")
    own = [
        frozenset(numbered[encode(tool)] for tool in case.tools if tool["name"] in case.wanted)
        for case in asked
    ]
    exact = [(case.group, case.words, names) for case, names in zip(asked, own, strict=True)]
    recall(ToolIndex(tuple(variants.values())), exact, "All definitions")
    print_tokens(index, asked)


if __name__ == "__main__":
    main()
