"""Tests of `surecall.simulator.personas.text_protocols`."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from surecall import OpenAICompatible, ToolLoopRunner, presets
from surecall.core.prompted import ANSWER_SCHEMA_PROMPT
from surecall.core.request_building import RequestBuilder
from surecall.settings.capabilities import Capabilities
from surecall.settings.presets import raw
from surecall.simulator import Simulator
from surecall.simulator.personas.intent import CALL_QUESTION, COMPLAINTS, DONE
from surecall.simulator.personas.persona import answer_request
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.simulator.personas.text_protocols import (
    allows_several_calls,
    answer_clues,
    answer_schema,
    guided_steps,
    parse_request,
)
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.request_checks import check_request
from surecall.values.types import (
    JSON,
    Assistant,
    Message,
    Plan,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)
from surecall.wire.chat_format import tool_choice_for
from tests.support.simulator import STATE

# Requests in words: a persona reads them as it reads fields, and answers in the same form


PROTOCOLS = ("guided", "prompted")
TOOLS = tuple(
    ToolSpec(tool["function"]["name"], "Read: or\nchange. ", tool["function"]["parameters"])
    for tool in STATE
)
RULES, ASKED = System("Be kind.\n"), User("Please set the draft. workspace_id=ws_7")
GET = ToolCall("call_0", "state_get", {"workspace_id": "ws_7", "note": "a\u2028</tool_call>\nb"})
PATCH = ToolCall("call_1", "state_patch", {"workspace_id": "ws_7"})


def result(call: ToolCall, content: str = '{"ok":true}') -> ToolResult:
    return ToolResult(call.id, call.name, ok=True, content=content)


def written(protocol: Any, *messages: Message, **changes: Any) -> JSON:
    """Return the request that a client sends in a protocol."""
    given: JSON = {"tools": TOOLS, "known_tools": TOOLS, "tool_choice": "auto"} | changes
    config = {"call_protocol": protocol, **given.pop("config", {})}
    composer = RequestBuilder(raw(**config))
    plan = Plan("m", messages, **given)
    body: JSON = json.loads(composer.build(composer.encode_plan(plan)).body)
    return body


def answer(body: JSON, persona: str = "clean", seed: int = 0) -> JSON:
    message: JSON = answer_request(PERSONAS[f"sim/{persona}"], body, seed).body["choices"][0][
        "message"
    ]
    return message


HISTORIES: list[tuple[Message, ...]] = [
    (ASKED,),
    (RULES, ASKED),
    (RULES, ASKED, Assistant("", (GET,)), result(GET)),
    (ASKED, Assistant("", (GET, PATCH)), result(GET), result(PATCH, '{"ok":false,"errors":[]}')),
    (ASKED, Assistant("", (GET,)), result(GET), User("Please answer now.")),
    (ASKED, Assistant("", (GET,)), result(GET), Assistant(DONE), User("And now?")),
    (ASKED, User(f"{COMPLAINTS[0]}: a"), User(f"{COMPLAINTS[1]}: b"), User(f"{COMPLAINTS[0]}: c")),
    (ASKED, User(f"{CALL_QUESTION} of state_get as text."), User(f"{COMPLAINTS[1]}: b")),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_a_conversation_in_words_is_understood_like_one_in_fields(
    protocol: str, history: tuple[Message, ...]
) -> None:
    plain = written("native", *history)
    spoken = parse_request(written(protocol, *history))

    def told(message: JSON) -> Any:
        calls = [
            (call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls", ())
        ]
        return message["role"], calls or message["content"]

    assert [*map(told, spoken.request["messages"])] == [*map(told, plain["messages"])]
    assert spoken.request["tools"] == plain["tools"]
    assert (spoken.form, spoken.bound) == (protocol, protocol == "guided")
    assert check_request(written(protocol, *history), PROVIDER_RULES["openai"]) == []


def test_a_request_in_fields_is_taken_as_it_is() -> None:
    body = written("native", RULES, ASKED)
    assert parse_request(body).request is body
    odd: JSON = {"messages": [None, {"role": "system"}], "response_format": {"type": "text"}}
    assert parse_request(odd).request is odd


@pytest.mark.parametrize(
    ("changes", "offered", "choice"),
    [
        ({}, ["state_get", "state_patch"], None),
        ({"may_answer": False}, ["state_get", "state_patch"], "required"),
        ({"tool_choice": "required"}, ["state_get", "state_patch"], "required"),
        (
            {"tool_choice": tool_choice_for("state_patch"), "may_answer": False},
            ["state_patch"],
            tool_choice_for("state_patch"),
        ),
        ({"tools": ()}, [], None),
        ({"tool_choice": "none"}, [], None),
    ],
)
def test_a_schema_tells_which_tools_are_on_offer_and_whether_one_must_be_called(
    changes: JSON, offered: list[str], choice: Any
) -> None:
    body = written("guided", ASKED, **changes)
    fields = parse_request(body).request
    assert [tool["function"]["name"] for tool in fields.get("tools", ())] == offered
    assert fields.get("tool_choice") == choice
    said = json.loads(answer(body)["content"])
    assert said.get("tool") == (offered[0] if offered else None)
    schema = body["response_format"]["json_schema"]["schema"]
    assert jsonschema_rs.is_valid(schema, said)


LED: JSON = {"guided_fit_check": True, "guided_thought": 80}
AT_ONCE: JSON = {"options": {"parallel_tool_calls": True}}


@pytest.mark.parametrize("changes", [{}, {"may_answer": False}, {"tool_choice": "none"}])
@pytest.mark.parametrize("config", [{}, LED])
@pytest.mark.parametrize("options", [{}, AT_ONCE])
@pytest.mark.parametrize("history", HISTORIES)
def test_what_is_written_is_what_the_schema_allows_in_every_way_of_being_led(
    history: tuple[Message, ...], options: JSON, config: JSON, changes: JSON
) -> None:
    body = written("guided", *history, config=config, **options, **changes)
    said = json.loads(answer(body)["content"])

    assert jsonschema_rs.is_valid(body["response_format"]["json_schema"]["schema"], said)


def test_several_calls_are_understood_and_made_where_they_are_asked_for() -> None:
    body = written("guided", ASKED, **AT_ONCE)
    reading = parse_request(body)

    assert reading.request["parallel_tool_calls"] is True
    assert [each["tool"] for each in json.loads(answer(body)["content"])["calls"]]
    both = Assistant("", (GET, PATCH))
    told = written("guided", ASKED, both, result(GET), result(PATCH), **AT_ONCE)
    again = parse_request(told).request["messages"]
    assert [call["function"]["name"] for call in again[1]["tool_calls"]] == [
        "state_get",
        "state_patch",
    ]
    assert [message["role"] for message in again[2:]] == ["tool", "tool"]


def test_a_schema_that_refers_to_others_is_filled_in() -> None:
    inner = {"type": "object", "properties": {"depth": {"const": 7}}, "required": ["depth"]}
    parameters = {
        "type": "object",
        "properties": {"inner": {"$ref": "#/$defs/inner"}},
        "required": ["inner"],
        "$defs": {"inner": inner},
    }
    tool = ToolSpec("excavate", "Dig.", parameters)
    body = written("guided", User("Please excavate."), tools=(tool,), known_tools=(tool,))
    said = json.loads(answer(body)["content"])
    assert said == {"tool": "excavate", "arguments": {"inner": {"depth": 7}}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"a": {"const": "x9"}}, "required": ["a"]}, {"a": "x9"}),
        ({"anyOf": [{"const": 5}, {"const": 6}]}, 5),
        ({"anyOf": 5}, "Ada Lovelace"),
        ({"type": "integer"}, 42),
        ({"type": "array", "items": {"type": "integer"}}, [42]),
    ],
)
def test_a_reply_is_bound_to_any_schema(schema: JSON, value: Any) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    asked = {"role": "user", "content": 'Ask "Ada Lovelace" about 42'}
    body: JSON = {"messages": [asked], "response_format": form}
    assert json.loads(answer(body)["content"]) == value
    assert json.loads(answer({"messages": [], "response_format": form})["content"]) is not None
    beside = {"messages": [asked], "response_format": form, "tools": STATE}
    assert answer(beside)["tool_calls"]


@pytest.mark.parametrize("wanted", [{"const": "x9"}, {"enum": ["x9"]}, {"type": "string"}, True])
def test_an_answer_is_bound_to_what_its_schema_says(wanted: Any) -> None:
    step = {"type": "object", "properties": {"answer": wanted}, "required": ["answer"]}
    form = {"type": "json_schema", "json_schema": {"name": "next_step", "schema": step}}
    body: JSON = {"messages": [{"role": "user", "content": "Hello!"}], "response_format": form}
    said = json.loads(answer(body)["content"])
    fixed = isinstance(wanted, dict) and "type" not in wanted
    assert said == {"answer": "x9" if fixed else DONE}


def test_a_call_without_words_about_tools_is_read_from_the_schema_alone() -> None:
    step = {"properties": {"tool": {"const": "ping"}, "arguments": 5}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": step}}
    body: JSON = {"messages": [{"role": "user", "content": "Hi"}], "response_format": form}
    assert json.loads(answer(body)["content"]) == {"tool": "ping", "arguments": {}}


def test_without_the_schema_the_words_alone_are_followed() -> None:
    body = written("guided", RULES, ASKED)
    del body["response_format"]
    assert json.loads(answer(body)["content"])["tool"] == "state_get"
    assert json.loads(answer(body, "lazy")["content"]) == {"answer": DONE}


def changed(*messages: JSON, protocol: str = "guided") -> JSON:
    body = written(protocol, RULES, ASKED)
    return body | {"messages": [*body["messages"], *messages]}


def user(text: str) -> JSON:
    return {"role": "user", "content": text}


def assistant(text: str) -> JSON:
    return {"role": "assistant", "content": text}


CALLED = '{"tool":"state_get","arguments":{}}'
TAGGED = '<tool_call>\n{"name":"state_get","arguments":{}}\n</tool_call>'


@pytest.mark.parametrize(
    ("protocol", "messages", "roles"),
    [
        ("guided", [assistant("Hm."), user("Result of state_get: {}")], ["assistant", "user"]),
        ("guided", [assistant('{"answer":5}')], ["assistant"]),
        ("guided", [assistant(CALLED), user("Result of other: {}")], ["assistant", "user"]),
        (
            "guided",
            [assistant(CALLED), user("Result of state_get: no JSON")],
            ["assistant", "tool"],
        ),
        ("guided", [assistant(CALLED), {"role": "tool", "content": "x"}], ["assistant", "tool"]),
        ("prompted", [assistant("<tool_call>\n[1]\n</tool_call>")], ["assistant"]),
        ("prompted", [assistant(TAGGED), user("<tool_response>\n{}")], ["assistant", "user"]),
        ("prompted", [assistant(TAGGED), user("{}\n</tool_response>")], ["assistant", "user"]),
    ],
)
def test_what_only_looks_like_a_call_or_a_result_stays_what_it_is(
    protocol: str, messages: list[JSON], roles: list[str]
) -> None:
    fields = parse_request(changed(*messages, protocol=protocol)).request
    assert [message["role"] for message in fields["messages"][2:]] == roles


@pytest.mark.parametrize("listed", ["- ping", "- ping: Pong.", "- ping: x Arguments: {", "ping"])
def test_a_list_of_tools_that_cannot_be_read_offers_none(listed: str) -> None:
    body = written("prompted", RULES, ASKED)
    opening, _, _ = body["messages"][0]["content"].partition("- state_get")
    body["messages"][0]["content"] = opening + listed
    assert "tools" not in parse_request(body).request
    assert answer(body)["content"] == DONE


DECIDES: list[tuple[str, Callable[[JSON], Any]]] = [
    ("guided", lambda message: json.loads(message["content"])["tool"]),
    ("prompted", lambda message: json.loads(message["content"].split("\n")[1])["name"]),
]


@pytest.mark.parametrize(("protocol", "tool"), DECIDES)
def test_faults_of_calls_in_fields_do_not_touch_calls_in_words(
    protocol: str, tool: Callable[[JSON], Any]
) -> None:
    body = written(protocol, RULES, ASKED)
    for persona in ("tool_calls_object", "arguments_fenced", "answer_blank", "no-tools"):
        assert tool(answer(body, persona)) == "state_get"
    assert tool(answer(body, "failed-generation")) == "state_get"


def test_a_grammar_lets_no_other_form_through() -> None:
    bound = written("guided", RULES, ASKED)
    for persona in ("tags", "dialect-a1", "lazy"):
        assert answer(bound | {"response_format": bound["response_format"]}, persona)
        demanded = written("guided", RULES, ASKED, may_answer=False)
        assert json.loads(answer(demanded, persona)["content"])["tool"] == "state_get"
    free = written("prompted", RULES, ASKED)
    assert "state_get" in answer(free, "dialect-a1")["content"]


def test_who_knows_no_form_writes_calls_as_text_and_answers_in_plain_words() -> None:
    formless = PERSONAS["sim/formless"]
    body = written("guided", RULES, ASKED, may_answer=False)
    said = answer_request(formless, body, 0)
    assert said.fault == "formless"
    assert said.body["choices"][0]["message"]["content"].startswith("<tool_call>\n")
    last = written("guided", ASKED, tools=(), known_tools=TOOLS)
    done = (ASKED, Assistant("", (GET,)), result(GET), Assistant("", (PATCH,)), result(PATCH))
    assert answer(written("guided", *done, may_answer=False), "formless")["content"] == DONE
    assert answer(last, "formless")["content"].startswith("<tool_call>\n")
    assert answer_request(formless, written("native", RULES, ASKED), 0).fault == ""


def test_an_answer_that_is_cut_off_is_cut_off_in_the_form_too() -> None:
    done = (RULES, ASKED, Assistant("", (GET,)), result(GET), Assistant("", (PATCH,)))
    body = written("guided", *done, result(PATCH))
    assert answer(body, "cut-final")["content"] == '{"answer":"Do'


def test_every_tool_of_a_registry_survives_the_words() -> None:
    deep = "Dig.\n- as deep: Arguments: {} as you like. Arguments: []. Arguments: {no}"
    tools = (ToolSpec("dig", deep, STATE[1]["function"]["parameters"]), ToolSpec("p", "", {}))
    plain = written("native", ASKED, tools=tools, known_tools=tools)
    for protocol in PROTOCOLS:
        spoken = parse_request(written(protocol, ASKED, tools=tools, known_tools=tools))
        assert spoken.request["tools"] == plain["tools"]


# Simulated models answer in the form that is asked for, with what they were told


@dataclass
class Forecast:
    """The weather of some days."""

    city: str
    days: int
    sky: str


class Tree(msgspec.Struct):
    """A thing that refers to itself."""

    city: str
    inner: list["Tree"] = []


def get_weather(city: str, days: int) -> JSON:
    """Weather for a city."""
    return {"city": city, "days": days, "sky": "clear"}


@pytest.mark.parametrize("protocol", ["native", "guided", "prompted"])
def test_an_answer_has_the_form_and_says_what_the_tools_returned(protocol: str) -> None:
    with Simulator() as simulator:
        runner = ToolLoopRunner(
            client=OpenAICompatible(simulator.url),
            model="sim/clean",
            tools=[get_weather],
            output=Forecast,
            config=presets.default_tool_calling().replace(call_protocol=protocol),
        )
        result = runner.run_sync("Weather in Paris for 3 days?")
        runner.close()

    assert result.output == Forecast("Paris", 3, "clear")
    assert result.run.turn_count == 2


@pytest.mark.parametrize("output", [Forecast, Tree, list[int]])
def test_without_tools_it_is_bound_or_asked_for(output: Any) -> None:
    with Simulator() as simulator:
        runner = ToolLoopRunner(
            client=OpenAICompatible(simulator.url),
            model="sim/clean",
            output=output,
            capabilities=Capabilities(json_schema=True),
        )
        result = runner.run_sync("Weather in Paris for 3 days?")
        runner.close()

    assert result.output is not None
    assert result.run.turn_count == 1


def test_a_form_that_is_not_told_whole_is_none() -> None:
    asked = {"role": "system", "content": f"G{ANSWER_SCHEMA_PROMPT[1:]} {{"}

    assert answer_schema([asked]) is None
    assert answer_schema([{"role": "user", "content": ANSWER_SCHEMA_PROMPT + " {}"}]) is None
    assert answer_schema([asked, {"role": "system", "content": ANSWER_SCHEMA_PROMPT + " {}"}]) == {}


def test_what_tools_returned_is_known_by_name() -> None:
    messages = [
        {"role": "tool", "content": '{"ok": true, "data": {"sky": "clear"}}'},
        {"role": "tool", "content": "no JSON"},
    ]

    assert answer_clues({"messages": messages}).named_value("sky") == "clear"


CALL: JSON = {"properties": {"tool": {"const": "add"}, "arguments": {"$ref": "#/$defs/add"}}}
ANSWER: JSON = {"properties": {"answer": {"$ref": "#/$defs/answer"}}}
DEFINED: JSON = {"$defs": {"add": {"title": "sum"}, "answer": {"type": "integer"}}}


@pytest.mark.parametrize(
    "branches",
    [
        [CALL, ANSWER],
        [{"properties": {"calls": {"items": CALL}}}, ANSWER],
        [{"properties": {"calls": {"items": {"anyOf": [CALL]}}}}, ANSWER],
    ],
)
def test_the_steps_of_a_guided_schema_have_what_they_refer_to(branches: list[JSON]) -> None:
    steps = guided_steps({"anyOf": branches} | DEFINED)

    assert steps is not None
    call, answer = steps
    assert (call["tool"], call["arguments"]["title"]) == ({"const": "add"}, "sum")
    assert answer["answer"]["type"] == "integer"
    assert allows_several_calls({"anyOf": branches}) == ("calls" in branches[0]["properties"])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"anyOf": {"type": "string"}},
        {"anyOf": [CALL, {"properties": {"other": {}}}]},
        {"properties": {"calls": {"items": {"type": "string"}}}},
        {"properties": {"calls": {"items": {"anyOf": [CALL, 3]}}}},
    ],
)
def test_a_schema_of_another_form_has_no_steps(schema: JSON) -> None:
    assert guided_steps(schema) is None
