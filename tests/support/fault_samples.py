"""What the fault tests share: tools, clean replies, and a reader of replies."""

import json
from typing import Any, Literal

from hypothesis import strategies as st

from surecall import ToolCallingConfig, ToolRegistry, presets, tool
from surecall.core.inbound import inbound
from surecall.settings.presets import raw
from surecall.simulator.faults import apply_fault
from surecall.testing import calls, calls_many, says
from surecall.values.errors import Fault
from surecall.values.types import JSON, Assistant, Plan, Reply, ToolCall, User
from surecall.wire.messages import render_tool

RAW = raw()
DEFAULT = presets.default_tool_calling()


@tool
def add(a: int, b: int, label: str = "", exact: bool = False) -> int:  # noqa: FBT001, FBT002
    """Add two numbers."""
    return a + b + len(label) + exact


@tool
def note(text: str, tags: list[str] | None = None, ratio: float = 0.5) -> str:
    """Write a note."""
    return f"{text} {tags} {ratio}"


@tool
def save(
    path: str,
    rows: list[int],
    options: dict[str, int],
    force: bool = False,  # noqa: FBT001, FBT002  # a tool has no use for the star
    at: int = 0,
) -> str:
    """Save rows."""
    return f"{path} {rows} {options} {force} {at}"


@tool
def ping() -> str:
    """Ask whether anyone is there."""
    return "pong"


@tool
def compare(
    column: str,
    operator: Literal["<", "<=", ">", ">=", "is not", "it's"],
    case: Literal["lower", "upper"] = "lower",
) -> str:
    """Compare a column."""
    return f"{column} {operator} {case}"


REGISTRY = ToolRegistry([add, note, save, ping, compare])
TOOLS = [render_tool(definition.spec) for definition in REGISTRY.definitions]

# Texts that something between here and there is tempted to change.
TEXTS = st.sampled_from(
    [
        "",
        "x",
        "001",
        "-0",
        "2662",
        "1e3",
        "true",
        "null",
        "[1]",
        "what's the weather",
        'say "hi"',
        "a\nb\tc",
        "make \\\n  all",
        "C:\\new",
        "a &amp;&amp; b",
        "a && b < c",
        '{"name":"app"}',
        "```json\n{}\n```",
        "drink \U0001f378",
        "broken \ufffd half",
        "<tool_call>ping</tool_call>",
        "{'a': 1}",
        "<arg_key>",
    ]
) | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
NUMBERS = st.integers(-(10**6), 10**6)
FRACTIONS = st.sampled_from([0.25, -1.5, 12.75])
ARGUMENTS: dict[str, st.SearchStrategy[JSON]] = {
    "add": st.fixed_dictionaries(
        {"a": NUMBERS, "b": NUMBERS}, optional={"label": TEXTS, "exact": st.booleans()}
    ),
    "note": st.fixed_dictionaries(
        {"text": TEXTS}, optional={"tags": st.lists(TEXTS, max_size=3), "ratio": FRACTIONS}
    ),
    "save": st.fixed_dictionaries(
        {
            "path": TEXTS,
            "rows": st.lists(NUMBERS, max_size=3),
            "options": st.dictionaries(st.sampled_from(["x", "y"]), NUMBERS),
        },
        optional={"force": st.booleans(), "at": NUMBERS},
    ),
    "ping": st.just({}),
    "compare": st.fixed_dictionaries(
        {"column": TEXTS, "operator": st.sampled_from(["<", "<=", ">=", "is not", "it's"])},
        optional={"case": st.sampled_from(["lower", "upper"])},
    ),
}
CALLS = st.sampled_from(sorted(ARGUMENTS)).flatmap(
    lambda name: ARGUMENTS[name].map(lambda arguments: calls(name, **arguments))
)
ANSWERS = st.sampled_from(["Done.", "3", " Yes,\nwell. "]).map(says)


def _beside(reply: JSON, text: str | None) -> JSON:
    choice = reply["choices"][0]
    return reply | {"choices": [choice | {"message": choice["message"] | {"content": text}}]}


CALLING = st.builds(
    _beside,
    st.lists(CALLS, min_size=1, max_size=3).map(lambda several: calls_many(*several)),
    st.sampled_from([None, "", "Let me see."]),
)
REPLIES = CALLING | ANSWERS

_AWKWARD = "make \\\n all,\nit's \ufffd \U0001f378"
# One reply for each thing that some fault needs; every curable fault applies to one of them.
SAMPLES: tuple[JSON, ...] = (
    says("The sum is 3."),
    calls("ping"),
    calls("add", a=1, b=2),
    _beside(
        calls("add", a=-4, b=70, label="it's\n\tso \ufffd \U0001f378", exact=True), "Let me see."
    ),
    calls("note", text='make \\\n "all" \ufffd', tags=["a", "b\n"], ratio=1.5),
    calls("note", text='{"name":"app"}'),
    calls("save", path="C:\\new &amp; \U0001f378", rows=[1, 2], options={"x": 3}, at=4),
    _beside(calls("save", path=_AWKWARD, rows=[], options={}, force=True), "All at once."),
    _beside(calls("add", a=1, b=2, label=_AWKWARD), "All but one."),
    calls_many(
        calls("ping"),
        calls("save", path=_AWKWARD, rows=[1], options={}, force=True),
        calls("note", text="a\nb"),
        calls("add", a=1, b=2),
    ),
    _beside(calls_many(calls("ping"), calls("add", a=1, b=2), calls("ping")), "Three."),
    _beside(
        calls_many(
            calls("ping"),
            calls("save", path="2662", rows=[1], options={}, force=True, at=4),
            calls("compare", column=_AWKWARD, operator=">="),
        ),
        "All sorts.",
    ),
    calls("note", text="2662"),
    calls("compare", column="it's\n\ufffd \U0001f378", operator=">="),
    calls("compare", column="make \\\n7", operator="<", case="upper"),
)


def plan(*earlier: str) -> Plan:
    """Build a request in whose history these call ids are taken."""
    turns = tuple(Assistant("", (ToolCall(call_id, "ping"),)) for call_id in earlier)
    return Plan("m", (User("go"), *turns))


def read(body: Any, config: ToolCallingConfig = DEFAULT, *earlier: str) -> Reply | Fault:
    """Read a body as a run would."""
    return inbound(body, plan(*earlier), config, REGISTRY)


def meaning(reply: Reply | Fault) -> Any:
    """Return what counts: the text, and each call by name, arguments to the letter, and code."""
    if isinstance(reply, Fault):
        return reply.code
    return reply.text, [
        (call.name, json.dumps(call.arguments), call.problem and call.problem.code)
        for call in reply.calls
    ]


def with_fault(fault_id: str, body: JSON, seed: int = 0) -> JSON:
    """Apply a fault to a reply, with the tools of these tests."""
    return apply_fault(fault_id, body, seed, TOOLS)
