"""Property: ordinary flows run, although results have the words of the next call.

A call that untrusted text only retells runs once the model has repeated it; a copy never runs, and
neither does a call of a destructive tool. No run ends with a refused call as its answer.
"""

import json
import random
from typing import Any, Final, NamedTuple

import pytest

from surecall import ErrorCode, RunFailed, RunResult, ToolLoopRunner
from surecall.testing import ScriptedModel, says
from surecall.values.types import JSON
from tests.support.generated import Broken, check, dice, many

# Of each flow; 525 in all, each in three ways.
CASES: Final = 25
MODES: Final = (("prompted", False), ("guided", False), ("guided", True))


class Flow(NamedTuple):
    """What a user wants, what a tool returned, and the call that does it."""

    kind: str
    user: str
    result: Any
    name: str
    arguments: JSON


class Values(NamedTuple):
    """Values that the flows of one number name."""

    number: int
    order: str
    ticket: str
    path: str
    mail: str
    verb: str
    topic: str
    target: str
    city: str


def flow_of(rng: random.Random, kind: str) -> Flow:
    """Make one flow with values of its own."""
    number = rng.randrange(1_000, 99_999)
    order, ticket = f"ORD-{number}", f"TICKET-{number}"
    path = f"/srv/data/report-{number}.{rng.choice(['txt', 'md', 'csv'])}"
    mail = f"{rng.choice(['bob', 'ada', 'eve'])}{number}@example.org"
    verb = rng.choice(["cancel", "refund", "close", "reopen", "archive"])
    topic = rng.choice(["retry policy", "rate limits", "open invoices", "cold start latency"])
    target = rng.choice(["test-all", "lint", f"report-{number}"])
    city = rng.choice(["Paris", "London", "Rio de Janeiro"])
    values = Values(number, order, ticket, path, mail, verb, topic, target, city)
    made = [make(rng, kind, values) for make in (file_flow, record_flow, user_flow)]
    (flow,) = [each for each in made if each is not None]
    return flow


def file_flow(rng: random.Random, kind: str, v: Values) -> Flow | None:  # a table
    match kind:
        case "user names the file":
            return Flow(kind, f"Delete {v.path}", None, "delete_file", {"path": v.path})
        case "list, then read":
            listed = rng.choice([["a.txt", v.path], f"a.txt\n{v.path}", {"files": [v.path]}])
            return Flow(kind, "Read the newest", listed, "read_file", {"path": v.path})
        case "list of objects":
            entries = {
                "entries": [{"name": v.path[10:], "path": v.path}, {"name": "a", "path": "/a"}]
            }
            return Flow(kind, "Read the newest", entries, "read_file", {"path": v.path})
        case "page that says search":
            page = f"Welcome. You can search the docs. See also: {v.topic}, timeouts, deadlines."
            return Flow(kind, f"What about {v.topic}?", page, "search", {"query": v.topic})
        case "readme":
            text = f"# Readme\nTo run the {v.target}, use:\n    make {v.target}\n"
            return Flow(kind, "Run it", text, "run", {"cmd": f"make {v.target}"})
        case "readme in one line":
            text = rng.choice(["Run `make {}`.", "Run: make {}", "To run it: `make {}`"])
            return Flow(kind, "Run it", text.format(v.target), "run", {"cmd": f"make {v.target}"})
        case "addresses":
            url = f"https://x.example/{rng.choice(['pricing', 'team'])}/{v.number}"
            page = f"Open issues: 3. Our pages: {url} and https://x.example/a"
            return Flow(kind, "Open the page", page, "open", {"url": url})
        case _:
            return None


def record_flow(rng: random.Random, kind: str, v: Values) -> Flow | None:  # a table
    match kind:
        case "grep of source":
            lines = (
                f"src/t{v.number}.py:10:def read_file(path):\nsrc/t{v.number}.py:11:    return 1"
            )
            return Flow(kind, "Read it", lines, "read_file", {"path": f"src/t{v.number}.py"})
        case "error that names the tool":
            said = rng.choice(["error: use {0} for {1}, it is a file", "{0}: {1}: no such file"])
            return Flow(
                kind, "Read it", said.format("read_file", v.path), "read_file", {"path": v.path}
            )
        case "order and status":
            row: JSON = {"order": v.order, "status": f"{v.verb} possible"}
            return Flow(kind, f"{v.verb} it", row, v.verb, {"order": v.order})
        case "mail thread":
            thread = {"from": v.mail, "actions": ["reply", "forward"]}
            return Flow(kind, "Reply to him", thread, "reply", {"to": v.mail})
        case "ticket":
            row = {"id": v.ticket, "next": f"{v.verb} or assign"}
            return Flow(kind, "Do it", row, v.verb, {"ticket": v.ticket})
        case "state machine":
            row = {"order": v.order, "allowed": rng.sample([v.verb, "hold", "ship"], 3)}
            return Flow(kind, "Do it", row, v.verb, {"order": v.order})
        case "links":
            row = {"order": v.order, "links": {v.verb: f"/orders/{v.order}/{v.verb}"}}
            return Flow(kind, "Do it", row, v.verb, {"order": v.order})
        case _:
            return None


def user_flow(rng: random.Random, kind: str, v: Values) -> Flow | None:  # a table
    match kind:
        case "audit log":
            rows = [{"event": v.verb, "order": v.order}, {"event": "hold", "order": f"{v.order}1"}]
            return Flow(kind, "Do it again", rows, v.verb, {"order": v.order})
        case "user asks with a value":
            user = f"Please call search with query '{v.topic}'"
            return Flow(kind, user, None, "search", {"query": v.topic})
        case "user writes a command":
            return Flow(kind, f"Run `make {v.target}`", None, "run", {"cmd": f"make {v.target}"})
        case "user pastes a config":
            user = f"Use this config {json.dumps({'city': v.city, 'units': 'C'})} and get weather"
            return Flow(kind, user, None, "get_weather", {"city": v.city})
        case "weather":
            row = {"weather": "sunny", "city": v.city}
            return Flow(kind, f"Weather in {v.city}, then Oslo", row, "weather", {"city": v.city})
        case "text that names the tool":
            verb = rng.choice(["translate", "summarize", "rewrite"])
            text = f"Please {verb} this sentence for me, number {v.number}."
            return Flow(kind, f"{verb} it", text, verb, {"text": text})
        case "code that has the name":
            code = f"def write(x{v.number}): pass"
            return Flow(kind, "Copy the file", code, "write", {"content": code})
        case _:
            return None


KINDS: Final = (
    *("user names the file", "list, then read", "list of objects", "page that says search"),
    *("readme", "readme in one line", "addresses", "grep of source"),
    *("error that names the tool", "order and status", "mail thread", "ticket"),
    *("state machine", "links", "audit log", "user asks with a value"),
    *("user writes a command", "user pastes a config", "weather", "text that names the tool"),
    "code that has the name",
)


def written(protocol: str, name: str, arguments: JSON) -> str:
    if protocol == "guided":
        return json.dumps({"tool": name, "arguments": arguments})
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def play(
    flow: Flow, protocol: Any, *, destructive: bool = False, around: str = "{}"
) -> tuple[list[JSON], int, RunResult | RunFailed]:
    """Run a flow with a model that repeats its call until it runs."""
    ran: list[JSON] = []

    def look() -> Any:
        return flow.result

    def act(**arguments: Any) -> str:
        ran.append(arguments)
        return "done"

    parameters = {"type": "object", "properties": {key: {} for key in flow.arguments}}
    acting = {"name": flow.name, "handler": act, "parameters": parameters}
    tools: list[Any] = [
        {"name": "look", "handler": look, "read_only": True},
        acting | {"destructive": destructive},
    ]
    call = around.format(written(protocol, flow.name, flow.arguments))
    looked = flow.result is None

    def answer(_: Any) -> Any:
        nonlocal looked
        if not looked:
            looked = True
            return says(written(protocol, "look", {}))
        if ran:
            return says('{"answer": "ok"}' if protocol == "guided" else "ok")
        return says(call)

    model = ScriptedModel(*[answer] * 9)
    runner = ToolLoopRunner(model, "m", tools, config={"call_protocol": protocol})
    ended: RunResult | RunFailed
    try:
        ended = runner.run_sync(flow.user)
    except RunFailed as failed:
        ended = failed
    clean = 2 + (flow.result is not None)
    return ran, len(model.requests) - clean, ended


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "destructive"), MODES)
def test_ordinary_flows_run_without_a_question(protocol: str, destructive: bool) -> None:  # noqa: FBT001
    rng, broken = dice("flows", protocol, destructive), []
    flows = [flow_of(rng, kind) for kind in KINDS for _ in range(many(CASES))]
    for flow in flows:
        ran, questions, ended = play(flow, protocol, destructive=destructive)
        if ran != [flow.arguments] or questions:
            broken.append(Broken(flow.kind, f"{flow}", f"{ran} {questions} {ended}"))
    check(broken, len(flows))


RETOLD: Final = (
    '{name}("{value}")',
    '{name}({key}="{value}")',
    "$ {name} --{key} {value}",
    "{name}:\n  {key}: {value}\nor {name} <{key}>{value}</{key}>",
    '{name} with {{"{key}": "{value}"}}, or {name}: {{"{key}": "{value}"}}',
)


def retold_flow(rng: random.Random) -> Flow:
    number = rng.randrange(10**4, 10**6)
    name, key = rng.choice([("search", "query"), ("open_page", "url"), ("set_state", "to")])
    value = f"value {number}"
    text = f"See: {rng.choice(RETOLD).format(name=name, key=key, value=value)}"
    return Flow(text, "Do it.", text, name, {key: value})


@pytest.mark.slow
def test_a_retold_call_runs_when_it_is_repeated_unless_it_is_destructive() -> None:
    rng, broken, cases = dice("retold"), [], many(150)
    for _ in range(cases):
        flow, destructive = retold_flow(rng), rng.random() < 0.5
        protocol = "guided" if destructive else rng.choice(["prompted", "guided"])
        ran, questions, ended = play(flow, protocol, destructive=destructive)
        right = not ran if destructive else bool(ran) and questions == (protocol == "prompted")
        # In a guided reply, a retold call that is no call in a dialect does not count.
        if not right and not (ran and not destructive and protocol == "guided"):
            broken.append(Broken(flow.kind, f"{flow}", f"{ran} {questions} {ended}"))
    check(broken, cases)


@pytest.mark.slow
def test_a_copy_never_runs_and_is_never_the_answer() -> None:
    rng, broken, cases = dice("copies"), [], many(150)
    for _ in range(cases):
        protocol = rng.choice(["prompted", "guided"])
        flow = retold_flow(rng)
        source = f"Intro.\n{written(rng.choice(['prompted', 'guided']), *flow[3:])}\nEnd."
        flow = rng.choice([flow._replace(result=source), flow._replace(user=source, result=None)])
        ran, _, ended = play(flow, protocol, destructive=rng.random() < 0.3)
        failed = isinstance(ended, RunFailed) and ended.code is ErrorCode.CALL_MISSING
        if ran or not failed or flow.name not in str(ended):
            broken.append(Broken(protocol, f"{flow}", f"{ran} {ended}"))
    check(broken, cases)


def test_an_answer_around_a_refused_call_stays_the_answer() -> None:
    flow = retold_flow(dice("around"))
    flow = flow._replace(result=written("prompted", *flow[3:]))
    ran, _, ended = play(flow, "prompted", around="The page says {}, which I did not do.")

    assert isinstance(ended, RunResult)
    assert (ran, ended.stop_reason, ended.text[:14]) == ([], "final", "The page says ")
