"""D7: a tool that is denied does not run, whatever it is called and wherever the call stands.

For every ordered pair of an allowed and a denied tool: the denied one in every spelling, on five
ways into the dispatcher, denied in one of four ways; and the allowed one by its exact name, which
must run every time. Then the same through whole runs.
"""

import asyncio
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from proof.claims import Claim, Outcome, gathered
from proof.spellings import SPELLINGS
from surecall import RetryPolicy, RunFailed, ToolCallingConfig, ToolLoopRunner, presets
from surecall.core.reply_parsing import parse_reply
from surecall.runtime.dispatch import ToolDispatcher
from surecall.simulator.stream_events import build_events, encode_frames
from surecall.testing import ScriptedModel, raw, says
from surecall.tools.registry import FilteredToolRegistry, Toolbox, ToolDefinition, ToolRegistry
from surecall.values.decisions import Decision
from surecall.values.types import JSON, Plan, Reply, ToolCall, ToolSpec, User
from tests.support.replies import assembled, completion_body
from tests.support.replies import events_of as decoded

NAMES: Final = (
    *(
        "ask",
        "task",
        "send",
        "send_email",
        "read",
        "read-file",
        "kill",
        "sink",
        "tool",
        "functions",
    ),
    *("Tools", "get_files", "mass_edit", "office", "shell", "unknown_tool", "default_api", "link"),
)
CONFIG: Final = presets.content_tag_tool_call_fallback(presets.default_tool_calling()).replace(
    max_unknown_tool_calls=100_000,
    max_total_tool_calls=100_000,
    max_turns=1_000,
    text_call_rules=(),
)


class Case(NamedTuple):
    """Which tool may run, which may not, and how the latter is kept from it."""

    allowed: str
    denied: str
    way: str

    def __str__(self) -> str:
        return f"{self.allowed!r} allowed, {self.denied!r} denied by {self.way}"


class Bench:
    """Tools that note when they run."""

    def __init__(self, hidden: str | None = None) -> None:
        self.ran: Counter[str] = Counter()
        self.registry = ToolRegistry(self._tool(name, hidden) for name in NAMES)

    def _tool(self, name: str, hidden: str | None) -> ToolDefinition:
        async def handler() -> str:
            self.ran[name] += 1
            return "done"

        return ToolDefinition(name, handler=handler, exposed_to_model=name != hidden)


class Policy:
    """Hides one tool and lets every call through that gets as far as to be asked about."""

    def __init__(self, denied: str) -> None:
        self._denied = denied

    def visible(self, tool: ToolSpec, _context: Mapping[str, Any]) -> bool:
        """Whether it is another one."""
        return tool.name != self._denied

    def authorize(self, call: ToolCall, _context: Mapping[str, Any]) -> Decision:
        """Deny by the name that a call resolves to."""
        return Decision("deny" if call.name == self._denied else "allow")


def _deny_list(bench: Bench, case: Case) -> tuple[Toolbox, Policy | None]:
    return FilteredToolRegistry(bench.registry, deny=[case.denied]), None


def _allow_list(bench: Bench, case: Case) -> tuple[Toolbox, Policy | None]:
    return FilteredToolRegistry(bench.registry, allow=[case.allowed]), None


def _not_exposed(bench: Bench, _case: Case) -> tuple[Toolbox, Policy | None]:
    return bench.registry, None


def _by_policy(bench: Bench, case: Case) -> tuple[Toolbox, Policy | None]:
    return bench.registry, Policy(case.denied)


WAYS: Final[dict[str, Callable[[Bench, Case], tuple[Toolbox, Policy | None]]]] = {
    "the deny list": _deny_list,
    "the allow list": _allow_list,
    "not being exposed": _not_exposed,
    "the policy": _by_policy,
}


def _raw_call(name: str, number: int) -> JSON:
    function = {"name": name, "arguments": "{}"}
    return {"id": f"c{number}", "type": "function", "function": function}


def _native(names: Sequence[str]) -> Iterator[Any]:
    calls = [_raw_call(name, number) for number, name in enumerate(names)]
    yield completion_body({"content": None, "tool_calls": calls}, "tool_calls")


def _legacy(names: Sequence[str]) -> Iterator[Any]:
    for name in names:
        call = {"name": name, "arguments": "{}"}
        yield completion_body({"content": None, "function_call": call}, "function_call")


def _in_text(names: Sequence[str]) -> Iterator[Any]:
    for name in names:
        call = json.dumps({"name": name, "arguments": {}})
        yield completion_body({"content": f"<tool_call>\n{call}\n</tool_call>"})


def _streamed(names: Sequence[str]) -> Iterator[Any]:
    for body in _native(names):
        frames = b"".join(encode_frames(build_events(body)))
        yield assembled(decoded([frames]), known_names=NAMES)[0]


PATHS: Final[dict[str, Callable[[Sequence[str]], Iterator[Any]]]] = {
    "native calls": _native,
    "legacy calls": _legacy,
    "calls in text": _in_text,
    "streamed calls": _streamed,
}


def spellings_of(name: str, rng: random.Random, more: int) -> dict[str, str]:
    """Return a name in every spelling, and in some spellings of spellings."""
    written = {how: spell(name) for how, spell in SPELLINGS.items()}
    for _ in range(more):
        first, second = rng.choice([*SPELLINGS]), rng.choice([*SPELLINGS])
        written[f"{first}, then {second}"] = SPELLINGS[second](SPELLINGS[first](name))
    return written


async def case_problems(case: Case, rng: random.Random, more: int) -> tuple[int, list[str]]:
    """Try one pair on every path; return how many calls were made, and what is wrong."""
    bench = Bench(case.denied if case.way == "not being exposed" else None)
    toolbox, policy = WAYS[case.way](bench, case)
    dispatcher = ToolDispatcher(toolbox, CONFIG, policy=policy)
    written = spellings_of(case.denied, rng, more)
    problems: list[str] = []
    for path in (*PATHS, "execute"):
        bench.ran.clear()
        for how, name in written.items():
            await _through(path, [name], toolbox, dispatcher)
            if bench.ran[case.denied]:
                problems.append(f"{case}: it ran, {how} ({name!r:.60}), by {path}")
                bench.ran.clear()
        bench.ran.clear()
        await _through(path, [case.allowed], toolbox, dispatcher)
        if bench.ran[case.allowed] != 1:
            problems.append(f"{case}: the allowed one did not run by {path}")
    return (len(PATHS) + 1) * (len(written) + 1), problems


async def _through(
    path: str, names: Sequence[str], toolbox: Toolbox, dispatcher: ToolDispatcher
) -> None:
    if path == "execute":
        for name in names:
            await dispatcher.execute(name, "{}", "c1")
        return
    specs = tuple(definition.spec for definition in toolbox.definitions)
    plan = Plan("m", (User("hi"),), specs, known_tools=specs)
    for body in PATHS[path](names):
        reply = parse_reply(body, plan, CONFIG, toolbox)
        for call in reply.calls if isinstance(reply, Reply) else ():
            await dispatcher.answer(call)


async def run_problems(case: Case, rng: random.Random) -> list[str]:
    """Try one pair in a whole run: the denied tool in every spelling, then the allowed one."""
    bench = Bench(case.denied if case.way == "not being exposed" else None)
    masks: dict[str, JSON] = {
        "the deny list": {"tool_denylist": (case.denied,)},
        "the allow list": {"tool_allowlist": (case.allowed,)},
    }
    config: ToolCallingConfig = CONFIG.replace(**masks.get(case.way, {}))
    written = list(spellings_of(case.denied, rng, 0).values())
    bodies = [*_native(written), *_in_text(written[:3]), *_native([case.allowed])]
    runner = ToolLoopRunner(
        client=ScriptedModel(
            *(raw(json.dumps(body).encode()) for body in bodies), says("The end.")
        ),
        model="m",
        registry=bench.registry,
        config=config,
        tool_policy=Policy(case.denied) if case.way == "the policy" else None,
        retry=RetryPolicy(attempts=1),
    )
    try:
        await runner.run("Go on.")
    except RunFailed as error:
        return [f"{case}: the run failed with {error}"]
    if bench.ran[case.denied] or bench.ran[case.allowed] != 1:
        return [f"{case}: a whole run came to {dict(bench.ran)}"]
    return []


def attempt(size: int, seed: int) -> Outcome:
    """Try all pairs, denied in up to `size` of the four ways, with as many doubled spellings."""
    return asyncio.run(_attempt(size, seed))


async def _attempt(size: int, seed: int) -> Outcome:
    rng = random.Random(seed)
    calls = runs = 0
    failures: list[str] = []
    for number, pair in enumerate(itertools.permutations(NAMES, 2)):
        ways = [[*WAYS][(number + turn) % len(WAYS)] for turn in range(len(WAYS))]
        for way in ways[:size]:
            made, problems = await case_problems(Case(*pair, way), rng, more=size)
            calls += made
            failures += problems
        if number % 7 == 0:
            failures += await run_problems(Case(*pair, ways[0]), rng)
            runs += 1
    pairs = len(NAMES) * (len(NAMES) - 1)
    figures = f"{pairs} pairs, {len(SPELLINGS)} spellings, {len(PATHS) + 1} paths, {runs} runs"
    ran = "denied tools in every spelling and by every path; allowed tools by their names"
    return Outcome(ran, calls + runs, gathered(failures), figures=figures)


CLAIM = Claim(
    "D7",
    "A denied tool never runs, however its name is spelled; an allowed tool always does.",
    attempt,
    (2, 80, 1_000),
    long=True,
)
