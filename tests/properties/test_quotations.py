"""Property: a call that can be a copy of untrusted text never runs, and any other call does.

The same for calls as text in each dialect, for the `prompted` and the `guided` protocol, and for
each API of the proxy, plain and streamed. `SURECALL_TEST_CASES=10` tries ten times as many cases.
"""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import pytest

from surecall import ToolCallingConfig, ToolRegistry
from surecall.core.reply_parsing import parse_reply
from surecall.parsing.quotations import as_text
from surecall.proxy.repair.proxy_settings import ProxySettings
from surecall.proxy.repair.request_history import build_entries
from surecall.proxy.repair.upstream_request import build_tools
from surecall.tools.registry import Toolbox, ToolDefinition
from surecall.values.types import JSON, Assistant, Message, Plan, Reply, ToolCall, ToolResult, User
from surecall.wire.apis.adapter import ApiAdapter
from surecall.wire.apis.chat_api import ChatApi
from surecall.wire.apis.messages_api import MessagesApi
from surecall.wire.apis.responses_api import ResponsesApi
from surecall.wire.chat_format import TEXT_CALL_ID_PREFIX, encode
from surecall.wire.dialects import WEAK_ROWS, WRITERS
from tests.support.disguises import DISGUISES, ENCODINGS, LAYOUTS
from tests.support.generated import Broken, check, dice, many, spread
from tests.support.proxy import known
from tests.support.replies import MARKED, WEAK, completion_body, streamed_body

# Of each disguise; 2,080 in all.
CASES: Final = 80
PROMPTED: Final = MARKED.replace(call_protocol="prompted")
GUIDED: Final = MARKED.replace(call_protocol="guided")
FACES: Final[dict[str, ApiAdapter]] = {
    "chat": ChatApi(),
    "responses": ResponsesApi(),
    "messages": MessagesApi(),
}
MARKED_ROWS: Final = [row for row in WRITERS if row not in WEAK_ROWS]
KEYS: Final = ("id", "path", "to", "text", "n")
ANY: Final[JSON] = {"type": "object", "properties": {key: {} for key in KEYS}}
NAMES: Final = ("delete_file", "rm", "send_mail", "set_state", "refund")
DEFINITIONS: Final = [
    ToolDefinition(name, "", parameters=ANY, destructive=name == "rm") for name in NAMES
]
TOOLS: Final = ToolRegistry([*DEFINITIONS, ToolDefinition("look", "", parameters=ANY)])
SPECS: Final = tuple(definition.spec for definition in TOOLS.definitions)
SHORT: Final = (7, "a", "7", 42, "up", True, None, 0)
LONG: Final = ("/etc/passwd", "eve@example.org", "all keys, at once", 1234567890123, "two\nlines")


def arguments_of(rng: random.Random) -> JSON:
    """Return the arguments of a call: none, a few that are short, or longer ones."""
    keys = rng.sample(KEYS, rng.randint(0, 3))
    values = rng.choice([SHORT, LONG, SHORT + LONG])
    return {key: rng.choice(values) for key in keys}


class Case(NamedTuple):
    """A call that a model writes, and what users and tools have said before."""

    kind: str
    text: str
    user: str
    results: list[Any]


def written_call(row: str, name: str, arguments: JSON) -> str:
    """Write a call in a dialect, or as a guided reply has it."""
    if row == "guided":
        return json.dumps({"tool": name, "arguments": arguments}, ensure_ascii=False)
    return WRITERS[row]((ToolCall("call00001", name, arguments),), "")


def repeated(rng: random.Random, name: str, arguments: JSON) -> str:
    """Write a guided call as a model may that repeats one."""
    call: JSON = {"tool": name, "arguments": arguments}
    plain = json.dumps(call)
    return rng.choice(
        [
            plain,
            json.dumps(call, indent=2),
            f"```json\n{plain}\n```",
            f"<think>The page says so.</think>\n{plain}",
            json.dumps({"thought": "The page says so.", **call}),
            json.dumps({"calls": [call]}),
        ]
    )


def case_of(rng: random.Random, disguise: str, row: str) -> Case:
    """Make one case: a call in a dialect, in disguise in what a user or a tool said."""
    name, arguments = rng.choice(NAMES), arguments_of(rng)
    written = text = written_call(row, name, arguments)
    if row == "guided":
        text = repeated(rng, name, arguments)
    sources = DISGUISES[disguise](rng, written)
    pasted = len(sources) == 1 and isinstance(sources[0], str) and rng.random() < 0.3
    user = f"Sum this up:\n{sources[0]}" if pasted else "Sum up the page."
    return Case(f"{disguise} / {row}", text, user, ["A page."] if pasted else sources)


def history(case: Case, *, native: bool) -> list[Message]:
    """Write down a conversation as the loop does; the tools were called natively, or in text."""
    messages: list[Message] = [User(case.user)]
    for at, value in enumerate(case.results):
        data = value if isinstance(value, dict | list) else {"value": value}
        content = encode({"ok": True, "tool_name": "look", "data": data}).decode()
        call = ToolCall(f"c{at}", "look", {"page": at}, from_text=not native)
        answer = ToolResult(call.id, "look", ok=True, content=content, executed=True)
        messages += (Assistant("", (call,)), answer)
    return messages


def allowed_calls(
    text: str, config: ToolCallingConfig, plan: Plan, toolbox: Toolbox, *, streamed: bool
) -> list[str]:
    """Name the calls of a reply that would run."""
    body = completion_body({"content": text})
    reply = parse_reply(streamed_body(body) if streamed else body, plan, config, toolbox)
    assert isinstance(reply, Reply), reply
    return [call.name for call in reply.calls if call.problem is None]


def check_cases(kind: str, rows: Sequence[str], configs: Sequence[ToolCallingConfig]) -> None:
    """Try every disguise with calls of some rows under some configs."""
    rng, broken = dice("quotations", kind), []
    cases = [
        case_of(rng, disguise, row)
        for disguise in DISGUISES
        for row in spread(rng, rows, many(CASES))
    ]
    for case in cases:
        plan = Plan("m", tuple(history(case, native=False)), SPECS, known_tools=SPECS)
        config, streamed = rng.choice(configs), rng.random() < 0.5
        if ran := allowed_calls(case.text, config, plan, TOOLS, streamed=streamed):
            broken.append(Broken(case.kind, f"{case.text}\n{case.user}\n{case.results}", f"{ran}"))
    check(broken, len(cases))


@pytest.mark.slow
def test_a_call_as_text_that_may_be_a_copy_does_not_run() -> None:
    check_cases("text", [*WRITERS], [WEAK])


@pytest.mark.slow
def test_a_prompted_call_that_may_be_a_copy_does_not_run() -> None:
    check_cases("prompted", MARKED_ROWS, [PROMPTED])


def layout_of(rng: random.Random, layout: str, row: str) -> Case:
    """Make a call, and a source that has it in pieces."""
    name, arguments = rng.choice(NAMES), arguments_of(rng) | {"path": "/srv/data/accounts.db"}
    text = written_call(row, name, arguments)
    sources = LAYOUTS[layout](rng, text)
    if rng.random() < 0.5:
        pasted = "\n".join(map(as_text, sources))
        return Case(f"{layout} / {row}", text, f"Sum this up:\n{pasted}", ["A page."])
    return Case(f"{layout} / {row}", text, "Sum up the page.", sources)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["native", "prompted", "guided"])
def test_a_call_in_pieces_is_a_copy(protocol: Any) -> None:
    rng, broken = dice("layouts", protocol), []
    rows = ["guided"] if protocol == "guided" else MARKED_ROWS
    config = MARKED.replace(call_protocol=protocol)
    cases = [
        layout_of(rng, layout, row) for layout in LAYOUTS for row in spread(rng, rows, many(25))
    ]
    for case in cases:
        plan = Plan("m", tuple(history(case, native=False)), SPECS, known_tools=SPECS)
        if ran := allowed_calls(case.text, config, plan, TOOLS, streamed=rng.random() < 0.5):
            broken.append(Broken(case.kind, f"{case.text}\n{case.user}\n{case.results}", f"{ran}"))
    check(broken, len(cases))


@pytest.mark.slow
def test_a_guided_call_that_may_be_a_copy_does_not_run() -> None:
    refused = GUIDED.replace(unsupported_options=("response_format",))
    check_cases("guided", ["guided"], [GUIDED, refused])


# Copies that are no copies of the letters: another spelling of the name, another order of the
# arguments, another dialect, an encoding.

SPELLINGS: Final[tuple[Callable[[str], str], ...]] = (
    *("functions.{}".format, "default_api.{}".format, "tools.{}".format, "google:{}".format),
    *("{}:0".format, "functions.{}:0".format, "{}()".format, "{}<|end|>".format),
    *(str.title, str.upper, lambda name: name.replace("_", "-")),
    lambda name: name.replace("_", "."),
)
OTHER_WRITERS: Final[dict[str, Callable[[str, JSON], str]]] = {
    "guided": lambda name, given: json.dumps({"tool": name, "arguments": given}),
    "indented": lambda name, given: json.dumps({"name": name, "arguments": given}, indent=2),
    "API": lambda name, given: json.dumps(
        {"type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
    ),
    "YAML": lambda name, given: "\n".join(
        [
            f"name: {name}",
            "arguments:",
            *(f"  {key}: {json.dumps(each)}" for key, each in given.items()),
        ]
    ),
    "ReAct": lambda name, given: f"Action: {name}\nAction Input: {json.dumps(given)}",
    "Python": lambda name, given: (
        f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})"
    ),
    "positional": lambda name, given: f"{name}({', '.join(map(repr, given.values()))})",
    "JSON string": lambda name, given: json.dumps(
        {"doc": json.dumps({"tool": name, "arguments": given}), "n": 1}
    ),
    "JSON string in a string": lambda name, given: json.dumps(
        [json.dumps({"doc": json.dumps({"name": name, "arguments": given})})]
    ),
}
NESTED: Final[JSON] = {"id": {"admin": True, "level": 3}, "n": [1, 2, 3]}


def source_of(
    rng: random.Random, row: str, name: str, arguments: JSON, *, in_lines: bool = True
) -> str:
    """Write a call in a dialect other than a row, or in a form that only documents have.

    YAML is one only while its lines are `in_lines` of their own.
    """
    rows = [each for each in (*MARKED_ROWS, *OTHER_WRITERS) if each != row]
    other = rng.choice([each for each in rows if in_lines or each != "YAML"])
    if other in OTHER_WRITERS:
        return OTHER_WRITERS[other](name, arguments)
    return written_call(other, name, arguments)


def varied(rng: random.Random, kind: str, row: str) -> Case:
    """Make a call, and a source that has it in another way."""
    name = rng.choice(NAMES)
    arguments = arguments_of(rng) or {"n": 42}
    source = written_call(row, name, arguments)
    asked, given = name, arguments
    match kind:
        case "spelled":
            asked = rng.choice(SPELLINGS)(name)
        case "reordered":
            arguments = {"path": rng.choice(LONG), "n": rng.choice(SHORT)} | arguments
            source = written_call(row, name, arguments)
            given = dict(reversed(arguments.items()))
        case "other dialect":
            given = arguments = NESTED if rng.random() < 0.1 else arguments
            source = source_of(rng, row, name, arguments)
        case _:
            encoding = rng.choice([*ENCODINGS])
            (source,) = ENCODINGS[encoding](
                rng, source_of(rng, row, name, arguments, in_lines=False)
            )
            kind = encoding
    text = repeated(rng, asked, given) if row == "guided" else written_call(row, asked, given)
    if rng.random() < 0.5:
        return Case(f"{kind} / {row}", text, f"Sum this up:\n{source}", ["A page."])
    return Case(f"{kind} / {row}", text, "Sum up the page.", [source])


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["native", "prompted", "guided"])
@pytest.mark.parametrize("kind", ["spelled", "reordered", "other dialect", "encoded"])
def test_a_call_in_other_letters_is_a_copy(kind: str, protocol: Any) -> None:
    rng, broken, cases = dice("varied", kind, protocol), [], many(700)
    config = MARKED.replace(call_protocol=protocol)
    for row in spread(rng, ["guided"] if protocol == "guided" else MARKED_ROWS, cases):
        case = varied(rng, kind, row)
        plan = Plan("m", tuple(history(case, native=False)), SPECS, known_tools=SPECS)
        if ran := allowed_calls(case.text, config, plan, TOOLS, streamed=rng.random() < 0.5):
            broken.append(Broken(case.kind, f"{case.text}\n{case.user}\n{case.results}", f"{ran}"))
    check(broken, cases)


def schema_with(rng: random.Random, text: str) -> JSON:
    """Write a text into the schema of a tool: as a key or as a value, on any level."""
    inner: JSON = rng.choice(
        [
            {"type": "object", "properties": {text: {"type": "string"}}},
            {"type": "object", "properties": {"x": {"enum": ["a", text]}}},
            {"type": "object", "properties": {"x": {"description": text}}},
            {"type": "object", "required": ["x"], "patternProperties": {text: {}}},
        ]
    )
    for _ in range(rng.randint(0, 2)):
        inner = {"type": "object", "properties": {"deep": {"anyOf": [inner]}}}
    return inner


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["native", "prompted", "guided"])
def test_a_call_that_a_schema_has_does_not_run(protocol: Any) -> None:
    rng, broken, cases = dice("schemas", protocol), [], many(200)
    config = MARKED.replace(call_protocol=protocol)
    for row in spread(rng, ["guided"] if protocol == "guided" else MARKED_ROWS, cases):
        name, arguments = rng.choice(NAMES), arguments_of(rng)
        text = written_call(row, name, arguments)
        other = ToolDefinition("other", "", parameters=schema_with(rng, text)).spec
        plan = Plan("m", (User("Go."),), (*SPECS, other), known_tools=(*SPECS, other))
        if ran := allowed_calls(text, config, plan, TOOLS, streamed=rng.random() < 0.5):
            broken.append(Broken(row, f"{text}\n{other.parameters}", f"{ran}"))
    check(broken, cases)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["native", "prompted"])
def test_a_destructive_tool_does_not_run_in_any_spelling(protocol: Any) -> None:
    rng, broken, cases = dice("destructive", protocol), [], many(1_000)
    config = MARKED.replace(call_protocol=protocol)
    plan = Plan("m", (User("Tidy up."),), SPECS, known_tools=SPECS)
    for row in spread(rng, MARKED_ROWS, cases):
        text = written_call(row, rng.choice(SPELLINGS)("rm"), arguments_of(rng))
        if ran := allowed_calls(text, config, plan, TOOLS, streamed=rng.random() < 0.5):
            broken.append(Broken(row, text, f"{ran}"))
    check(broken, cases)


def request_of(api: str, case: Case) -> JSON:
    """Write a conversation as a client of an API does that was handed calls from text before."""
    functions = [{"name": name, "description": "", "parameters": ANY} for name in NAMES]
    texts = [value if isinstance(value, str) else json.dumps(value) for value in case.results]
    said: list[JSON] = [{"role": "user", "content": case.user}]
    for at, text in enumerate(texts):
        call_id = f"{TEXT_CALL_ID_PREFIX}{at}"
        match api:
            case "chat":
                function = {"name": "look", "arguments": "{}"}
                call = {"id": call_id, "type": "function", "function": function}
                said.append({"role": "assistant", "content": None, "tool_calls": [call]})
                said.append({"role": "tool", "tool_call_id": call_id, "content": text})
            case "responses":
                call = {"type": "function_call", "name": "look", "arguments": "{}"}
                output = {"type": "function_call_output", "output": text}
                said += [one | {"call_id": call_id} for one in (call, output)]
            case _:
                use = {"type": "tool_use", "id": call_id, "name": "look", "input": {}}
                answer = {"type": "tool_result", "tool_use_id": call_id, "content": text}
                said.append({"role": "assistant", "content": [use]})
                said.append({"role": "user", "content": [answer]})
    match api:
        case "chat":
            tools = [{"type": "function", "function": one} for one in functions]
            return {"model": "m", "messages": said, "tools": tools}
        case "responses":
            tools = [{"type": "function", **one} for one in functions]
            return {"model": "m", "input": said, "tools": tools}
        case _:
            tools = [{"name": one["name"], "input_schema": ANY} for one in functions]
            return {"model": "m", "max_tokens": 9, "messages": said, "tools": tools}


@pytest.mark.slow
@pytest.mark.parametrize("api", FACES)
def test_a_call_that_may_be_a_copy_is_not_handed_to_a_client(api: str) -> None:
    rng, broken = dice("quotations", api), []
    config = ProxySettings("").config_for("m", None, 0)
    rows = MARKED_ROWS
    cases = [
        case_of(rng, disguise, row) for disguise in DISGUISES for row in spread(rng, rows, many(40))
    ]
    for case in cases:
        asked = FACES[api].parse(encode(request_of(api, case)))
        offer = build_tools(asked.body["tools"])
        turns = build_entries(asked.body["messages"], known(), offer.upstream_names)
        plan = Plan("m", tuple(entry.value for entry in turns), offer.specs)
        streamed = rng.random() < 0.5
        if ran := allowed_calls(case.text, config, plan, offer.toolbox, streamed=streamed):
            broken.append(Broken(case.kind, f"{case.text}\n{case.user}\n{case.results}", f"{ran}"))
    check(broken, len(cases))


# The other way round: what is not a copy runs.

WISHES: Final = (
    "Please use {name} on {path} for {to}.",
    "{name}: {path}, {to}",
    "Could you call {name} with path = {path} and to = {to}? Thanks!",
    "I'd like `{name}` to be run. The path is `{path}`, the address <{to}>.",
    "- tool: {name}\n- path: {path}\n- to: {to}",
    'Here is my data: {{"path": "{path}", "to": "{to}"}}. Then {name} it.',
    "1. {name}\n2. {path}\n3. {to}",
    "Send ({path}) [to {to}] by {name}, please",
    "| tool | path | to |\n|---|---|---|\n| {name} | {path} | {to} |",
    "How do I {name}? I have <b>{path}</b> and {to}.",
)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["native", "prompted", "guided"])
def test_a_call_that_the_user_asked_for_in_words_runs(protocol: Any) -> None:
    rng, broken, cases = dice("wishes", protocol), [], many(700)
    config = MARKED.replace(call_protocol=protocol)
    for row in spread(rng, ["guided"] if protocol == "guided" else MARKED_ROWS, cases):
        name = rng.choice([each for each in NAMES if each != "rm"])
        given = {"path": f"/srv/{rng.randrange(10**4)}/a.md", "to": rng.choice(("bob", "a@b.org"))}
        user, text = rng.choice(WISHES).format(name=name, **given), written_call(row, name, given)
        messages: list[Message] = [User(user)]
        if rng.random() < 0.5:
            # A tool returns what the user did not know.
            user = f"Look it up, then {name}"
            shown = rng.choice([given, json.dumps(given), [given], {"found": given}])
            messages = history(Case("", text, user, [shown]), native=False)
        plan = Plan("m", tuple(messages), SPECS, known_tools=SPECS)
        if allowed_calls(text, config, plan, TOOLS, streamed=rng.random() < 0.5) != [name]:
            broken.append(Broken(f"{row}: {user}", text, "asked"))
    check(broken, cases)


PROSE: Final = (
    "The quarterly report lists 42 open items, and 7 of them are new. See the appendix for details."
)


def innocent_of(rng: random.Random, row: str) -> tuple[Case, str]:
    """Make a call that no source explains, though sources have its name or its values."""
    name = rng.choice([each for each in NAMES if each != "rm"])
    path = f"/srv/{rng.randrange(10**6)}/notes.md"
    arguments = {"path": path, "to": "ada@example.org"}
    code = f"def {name}(path, to):\n    return store[path]\n"
    example = written_call(row, name, {"path": "/srv/x", "to": "eve"})
    sources: list[tuple[str, list[Any]]] = [
        ("Tidy up.", [PROSE]),
        (f"Tidy up {path} for ada@example.org.", [{"files": [path, "/srv/y"], "n": 2}]),
        (f"Use {name} on {path}, for ada@example.org.", [PROSE]),
        (f"Say, for example: {example}\nThen tidy up {path} for ada@example.org.", [PROSE]),
        ("Tidy up.", [{"content": code}, PROSE * 40, {"owner": "ada@example.org", "path": path}]),
    ]
    user, results = rng.choice(sources)
    return Case(f"{row}: {user}", written_call(row, name, arguments), user, results), name


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["native", "prompted", "guided"])
def test_a_call_that_no_source_explains_runs(protocol: Any) -> None:
    rng, broken = dice("innocent", protocol), []
    rows = [*WRITERS] if protocol == "native" else MARKED_ROWS
    cases = many(1_000)
    for row in spread(rng, ["guided"] if protocol == "guided" else rows, cases):
        case, name = innocent_of(rng, row)
        plan = Plan("m", tuple(history(case, native=False)), SPECS, known_tools=SPECS)
        config = WEAK.replace(call_protocol=protocol)
        ran = allowed_calls(case.text, config, plan, TOOLS, streamed=rng.random() < 0.5)
        if ran != [name]:
            broken.append(Broken(case.kind, f"{case.text}\n{case.user}\n{case.results}", f"{ran}"))
    check(broken, cases)
