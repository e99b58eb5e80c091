"""Refusals as providers phrase them: each teaches its adaptation, and others teach nothing.

A case of `corpus/refusals.jsonl` is one refusal: `body` and `status` as they came, and the
`request` that it refuses. With `refuses`, an upstream refuses exactly these features, and `lessons`
are the first that it teaches. Without them, the refusal is about something else.

A request is a chat request without what all have in common. In it, USER, SYSTEM, CALLED, RESULT,
CALL, IMAGE, and TOOL stand for messages, calls, parts, and tools; `schema` is the schema of the
tool, `tool` and `tool_outer` are fields beside it, and a number of `tools` means so many.
"""

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import pytest

from surecall.core.lessons import apply_lessons, lesson_from
from surecall.core.refusals import request_lessons
from surecall.parsing.coercion import rewrite_schema
from surecall.proxy import Proxy
from surecall.runtime.retrying_requests import decode_body
from surecall.simulator.refused_features import REFUSED_FEATURES
from surecall.values.errors import Fault
from surecall.values.types import JSON, HttpResponse, Plan, ToolSpec
from surecall.wire.request_adaptations import adapt_body, adapt_request, is_adaptable
from tests.support.project_files import CORPUS
from tests.support.servers import Knock, Reply, done, listening
from tests.support.timing import steps

CALL: JSON = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": '{"a": "x"}'}}
NAMED: dict[str, Any] = {
    "USER": {"role": "user", "content": "Go."},
    "SYSTEM": {"role": "system", "content": "Be kind."},
    "CALL": CALL,
    "CALLED": {"role": "assistant", "content": None, "tool_calls": [CALL]},
    "RESULT": {"role": "tool", "tool_call_id": "c1", "content": '{"ok": true}'},
    "IMAGE": {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
}
PLAIN: JSON = {"type": "object", "properties": {"a": {"type": "string"}}}


def read_cases() -> list[JSON]:
    lines = (CORPUS / "refusals.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


CASES = read_cases()
POSITIVE = [case for case in CASES if "refuses" in case]
NEGATIVE = [case for case in CASES if "refuses" not in case]
# Uses as much as possible, so that a refusal that is misread finds something to change.
RICH: JSON = {
    "messages": [
        "SYSTEM",
        NAMED["USER"] | {"name": "ann"},
        "CALLED",
        NAMED["RESULT"] | {"content": '{"$ref": "#/x"}'},
        {"role": "user", "content": [{"type": "text", "text": "On."}, "IMAGE"]},
    ],
    "schema": {
        "type": "object",
        "properties": {
            "a": {"type": "string", "format": "date", "pattern": "^x", "default": "x"},
            "b": {"type": ["string", "null"], "minLength": 1},
            "c": {"$ref": "#/$defs/P"},
        },
        "$defs": {"P": {"type": "string"}},
        "additionalProperties": False,
    },
    "tool": {"strict": True},
    "temperature": 0.2,
    "top_p": 0.9,
    "max_tokens": 4096,
    "stop": ["END"],
    "seed": 7,
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "reasoning_effort": "high",
    "metadata": {"a": "b"},
    "user": "u",
}


def expand(value: Any) -> Any:
    match value:
        case str():
            return NAMED.get(value, value)
        case list():
            return [expand(item) for item in value]
        case dict():
            return {key: expand(item) if key != "id" else item for key, item in value.items()}
        case _:
            return value


def make_tool(name: str, given: JSON) -> JSON:
    schema = given.get("schema", PLAIN)
    function: JSON = {"name": name} | given.get("tool", {})
    if schema is not None:
        function["parameters"] = schema
    return {"type": "function", "function": function, **given.get("tool_outer", {})}


def make_tools(given: JSON) -> list[JSON]:
    match given.get("tools", 1):
        case int(count):
            return [make_tool(f"t{n}" if n else "t", given) for n in range(count)]
        case None:
            return []
        case listed:
            return [make_tool("t", given) for _ in listed]


def make_request(case: JSON) -> JSON:
    given = case.get("request", RICH)
    shorthands = {"schema", "tool", "tool_outer", "tools"}
    rest = {key: value for key, value in given.items() if key not in shorthands}
    body: JSON = {"model": case["id"], "messages": ["USER"], "tools": make_tools(given)} | rest
    if given.get("tools", 1) is None:
        del body["tools"]
    return body | {"messages": expand(body["messages"])}


# What an upstream may refuse, by the kind in `refuses`; the rest of the entry is the argument.


def schemas(body: JSON) -> Iterator[JSON]:
    for tool in body.get("tools") or ():
        found: list[JSON] = []
        parameters = tool["function"].get("parameters")
        if isinstance(parameters, dict):
            rewrite_schema(parameters, lambda each, found=found: found.append(each) or each)  # type: ignore[misc]
        yield from found


def kinds_of(schema: JSON) -> list[Any]:
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [kind]


def has_option(body: JSON, argument: str) -> bool:
    name, _, value = argument.partition("=")
    return name in body and (not value or body[name] == json.loads(value))


def lacks_option(body: JSON, argument: str) -> bool:
    return not has_option(body, argument)


def is_over(body: JSON, argument: str) -> bool:
    name, _, limit = argument.partition(":")
    return bool(body.get(name, 0) > int(limit))


def has_more_tools(body: JSON, argument: str) -> bool:
    return len(body.get("tools") or ()) > int(argument)


def has_keyword(body: JSON, argument: str) -> bool:
    return any(argument in schema for schema in schemas(body))


def has_tool_field(body: JSON, argument: str) -> bool:
    return any(argument in tool or argument in tool["function"] for tool in body["tools"])


def has_field(body: JSON, argument: str) -> bool:
    return any(argument in message for message in body["messages"])


def has_feature(body: JSON, argument: str) -> bool:
    return REFUSED_FEATURES[argument].is_used(body)


def has_long_id(body: JSON, argument: str) -> bool:
    ids = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
    return any(len(given) > int(argument) for given in ids)


def is_deeper(body: JSON, argument: str) -> bool:
    def depth(schema: Any) -> int:
        below = schema.get("properties", {}).values() if isinstance(schema, dict) else ()
        return 1 + max(map(depth, below), default=0)

    return any(depth(tool["function"]["parameters"]) > int(argument) for tool in body["tools"])


def is_choice_forced(body: JSON, _: str) -> bool:
    return body.get("tool_choice") not in ("auto", "none", None)


def has_blank_content(body: JSON, _: str) -> bool:
    contents = [
        message.get("content") for message in body["messages"] if not message.get("tool_calls")
    ]
    return any(isinstance(content, str) and not content.strip() for content in contents)


def has_null_content(body: JSON, _: str) -> bool:
    return any(message.get("content", "") is None for message in body["messages"])


def lacks_content(body: JSON, _: str) -> bool:
    return any("content" not in message for message in body["messages"])


def has_unnamed_result(body: JSON, _: str) -> bool:
    return any(each["role"] == "tool" and "name" not in each for each in body["messages"])


def is_root_untyped(body: JSON, _: str) -> bool:
    roots = [tool["function"]["parameters"] for tool in body["tools"]]
    return any(root.get("type") != "object" for root in roots)


def lacks_parameters(body: JSON, _: str) -> bool:
    return any("parameters" not in tool["function"] for tool in body["tools"])


def has_null_keyword(body: JSON, _: str) -> bool:
    return any(
        schema.get("properties", {}) in (None, []) or schema.get("required", []) is None
        for schema in schemas(body)
    )


def has_bare_array(body: JSON, _: str) -> bool:
    return any("array" in kinds_of(each) and "items" not in each for each in schemas(body))


def has_bare_object(body: JSON, _: str) -> bool:
    return any("object" in kinds_of(each) and "properties" not in each for each in schemas(body))


def requires_undefined(body: JSON, _: str) -> bool:
    return any(
        not set(each.get("required") or ()) <= (each.get("properties") or {}).keys()
        for each in schemas(body)
    )


def has_misplaced_keyword(body: JSON, _: str) -> bool:
    return any(
        each.keys() & {"properties", "required"} and "object" not in kinds_of(each)
        for each in schemas(body)
    )


def has_untyped_enum(body: JSON, _: str) -> bool:
    return any("enum" in each and each.get("type") != "string" for each in schemas(body))


def has_empty_enum(body: JSON, _: str) -> bool:
    return any(each.get("enum") == [] for each in schemas(body))


def always(_: JSON, __: str) -> bool:
    return True


REFUSES: dict[str, Callable[[JSON, str], bool]] = {
    "option": has_option,
    "unless": lacks_option,
    "over": is_over,
    "tools": has_more_tools,
    "keyword": has_keyword,
    "tool": has_tool_field,
    "field": has_field,
    "depth": is_deeper,
    "feature": has_feature,
    "id": has_long_id,
    "forced-choice": is_choice_forced,
    "blank-content": has_blank_content,
    "null-content": has_null_content,
    "absent-content": lacks_content,
    "unnamed-result": has_unnamed_result,
    "untyped-root": is_root_untyped,
    "no-parameters": lacks_parameters,
    "null-keyword": has_null_keyword,
    "array-without-items": has_bare_array,
    "object-without-properties": has_bare_object,
    "undefined-required": requires_undefined,
    "misplaced-keyword": has_misplaced_keyword,
    "untyped-enum": has_untyped_enum,
    "enum-of-numbers": has_untyped_enum,
    "empty-enum": has_empty_enum,
    "api": always,
}


def is_refused(case: JSON, body: JSON) -> bool:
    parts = [entry.partition(":") for entry in case["refuses"]]
    return any(REFUSES[kind](body, argument) for kind, _, argument in parts)


# The two places that learn: a plan first, then the request that it became.


def fault_of(case: JSON) -> Fault:
    body = case["body"]
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    fault = decode_body(HttpResponse(case["status"], {}, data))
    assert isinstance(fault, Fault)
    return fault


def plan_of(body: JSON) -> Plan:
    specs = tuple(ToolSpec(tool["function"]["name"], "", {}) for tool in body.get("tools") or ())
    options = {key: body[key] for key in body.keys() - {"messages", "tools", "tool_choice"}}
    options = {key: options[key] for key in options if key not in {"model", "response_format"}}
    choice = body.get("tool_choice")
    return Plan(body["model"], (), specs, choice, body.get("response_format"), options)


def learn(case: JSON, body: JSON) -> tuple[str, ...]:
    about_plan = lesson_from(fault_of(case), plan_of(body))
    if about_plan is not None:
        return (about_plan,)
    return request_lessons(fault_of(case), body, (), apis=True)


def adapt(body: JSON, lessons: tuple[str, ...]) -> JSON:
    plan = apply_lessons(plan_of(body), lessons)
    options = body.keys() - {"model", "messages", "tools", "tool_choice", "response_format"}
    kept = {key: body[key] for key in body if key not in options - plan.options.keys()}
    if "tool_choice" in kept:
        kept["tool_choice"] = plan.tool_choice
    return adapt_request(kept, [each for each in lessons if ":" in each])


def by_id(cases: list[JSON]) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in cases]


@pytest.mark.parametrize("case", by_id(POSITIVE))
def test_a_refusal_teaches_its_adaptation_first(case: JSON) -> None:
    body = make_request(case)

    assert is_refused(case, body)
    assert list(learn(case, body)) == case["lessons"]


@pytest.mark.parametrize("case", by_id(NEGATIVE))
def test_a_refusal_about_something_else_teaches_nothing(case: JSON) -> None:
    assert learn(case, make_request(case)) == ()


# Requests and refusals of any form.


JUNK: list[Any] = [None, 5, True, "", "x", [], {}, [5], [{}], {"a": 1}, -1.5, "9" * 5000]


def damage(value: Any, rng: random.Random) -> Any:
    """Return a value with parts that are left out or replaced."""
    if rng.random() < 0.06:
        return rng.choice(JUNK)
    match value:
        case dict():
            return {key: damage(each, rng) for key, each in value.items() if rng.random() > 0.04}
        case list():
            return [damage(each, rng) for each in value]
        case _:
            return value


@pytest.mark.parametrize("seed", range(4))
def test_no_request_and_no_refusal_makes_learning_fail(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311  # repeatable, not secret
    bodies = [make_request(case) for case in CASES]
    faults = [fault_of(case) for case in CASES]
    known = [lesson for case in POSITIVE for lesson in case["lessons"]]
    for _ in range(1_000):
        body = damage(rng.choice(bodies), rng)
        data = json.dumps(body).encode()
        found = request_lessons(rng.choice(faults), body, (), apis=True)
        adapted = adapt_body(data, (*found, *rng.sample(known, 4)))

        assert adapted == data or is_adaptable(body)


def test_what_a_refusal_does_not_name_stays_in_the_calls() -> None:
    request = {"messages": [NAMED["USER"] | {"id": "m1"}, NAMED["CALLED"], NAMED["RESULT"]]}

    adapted = adapt_request(request, ("without:id", "without:type", "without:name"))

    assert adapted["messages"] == [NAMED["USER"], NAMED["CALLED"], NAMED["RESULT"]]


HUGE = [
    "[" * 100_000,
    json.dumps({"error": {"message": "temperature is not supported " * 50_000}}),
    json.dumps({"error": {"message": "{" * 5000 + "'seed': unsupported" + "}" * 5000}}),
    "max_tokens must be at most " + "9" * 10_000,
    json.dumps({"error": {"message": "a stop seed n user " * 1000 + "invalid"}}),
]


@pytest.mark.parametrize("body", HUGE, ids=range(len(HUGE)))
def test_a_huge_refusal_is_read_in_a_bounded_number_of_steps(body: str) -> None:
    request = make_request(NEGATIVE[0])

    assert steps(lambda: learn({"status": 400, "body": body}, request)) < 1_000_000


# The whole way: a client, the proxy, and an upstream that refuses.


async def post(url: str, body: JSON) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/chat/completions", json=body) as response,
    ):
        await response.read()
        return response.status


def exchange(body: JSON, reply: Callable[[Knock], Reply]) -> tuple[list[int], int]:
    """Return the statuses of two equal requests, and how many requests the upstream received."""

    async def work(url: str) -> list[int]:
        async with Proxy(url) as proxy:
            return [await post(proxy.url, body) for _ in range(2)]

    with listening(reply) as upstream:
        return asyncio.run(work(upstream.url)), len(upstream.heard)


# The chat API refuses what another one accepts, and thinking in replies that are not streamed.
SATISFIED = [case for case in POSITIVE if case["class"] != "other API"]
STREAMED = [case for case in SATISFIED if "set:enable_thinking:false" not in case["lessons"]]


@pytest.mark.parametrize(
    ("case", "options"),
    [
        *(pytest.param(case, {}, id=case["id"]) for case in SATISFIED),
        *(pytest.param(case, {"stream": True}, id=f"{case['id']}-stream") for case in STREAMED),
    ],
)
def test_the_proxy_satisfies_the_upstream_with_one_extra_request(case: JSON, options: JSON) -> None:
    def reply(knock: Knock) -> Reply:
        return (case["status"], case["body"]) if is_refused(case, knock.body) else done(knock)

    statuses, count = exchange(make_request(case) | options, reply)

    assert statuses == [200, 200]
    assert count <= 3


# Rates and servers that fail are retried after a wait.
AT_ONCE = by_id([case for case in NEGATIVE if case["status"] < 500 and case["class"] != "rate"])


@pytest.mark.parametrize("case", AT_ONCE)
def test_the_proxy_returns_a_refusal_about_something_else_at_once(case: JSON) -> None:
    statuses, count = exchange(make_request(case), lambda _: (case["status"], case["body"]))

    assert statuses == [case["status"], case["status"]]
    assert count == 2


CUSTOM = {"id": "c1", "type": "custom", "custom": {"name": "t", "input": "x"}}
IRREGULAR: list[Any] = [[CUSTOM], [5], True, [{"id": 5, "function": "x"}]]


@pytest.mark.parametrize("calls", IRREGULAR, ids=["custom", "number", "boolean", "fields"])
def test_a_refused_history_that_is_passed_on_returns_the_refusal(calls: Any) -> None:
    turn = {"role": "assistant", "content": None, "reasoning": "r", "tool_calls": calls}
    words = "max_tokens: at most 10. System message must be at the beginning. `x`: unknown field"
    body = {"model": "m", "messages": [NAMED["USER"], turn, NAMED["SYSTEM"]], "max_tokens": 20}

    statuses, count = exchange(body | {"x": 1}, lambda _: (400, {"error": {"message": words}}))

    assert statuses == [400, 400]
    assert count <= 8


def test_a_refusal_about_something_else_does_not_forget_lessons() -> None:
    filtered = {"error": {"message": "Flagged.", "code": "content_filter"}}
    refused = {"error": {"message": "Unsupported parameter: 'seed'"}}
    replies: list[Reply] = [(400, refused), done(Knock("", {}, {})), (400, filtered)]

    def reply(knock: Knock) -> Reply:
        return replies.pop(0) if replies else done(knock)

    async def work(url: str) -> list[int]:
        async with Proxy(url) as proxy:
            return [await post(proxy.url, {"seed": 7} | plain) for _ in range(3)]

    plain = {"model": "m", "messages": [NAMED["USER"]], "tools": make_tools({})}
    with listening(reply) as upstream:
        assert asyncio.run(work(upstream.url)) == [200, 400, 200]

    assert ["seed" in knock.body for knock in upstream.heard] == [True, False, False, False]


def test_a_refusal_that_quotes_the_whole_request_teaches_nothing() -> None:
    body = make_request(NEGATIVE[0])
    quoted = {"error": {"message": f"Unsupported request: {json.dumps(body)}"}}

    assert learn({"status": 400, "body": quoted}, body) == ()


@pytest.mark.parametrize("name", ["set_api_key", "rate_limit", "guardrail", "content_filter"])
def test_a_tool_may_be_called_like_another_reason(name: str) -> None:
    words = (
        f"Invalid schema for function '{name}': In context=(), object schema missing properties."
    )
    body = make_request({"id": "m", "request": {"schema": {"type": "object"}}})

    found = learn({"status": 400, "body": {"error": {"message": words}}}, body)
    assert found == ("schema:complete",)


REFUSED_IN_TURN = ["temperature", "seed", "top_p", "stop", "user", "metadata"]


@pytest.mark.parametrize("kind", ["always", "in turn", "back and forth"])
def test_an_upstream_that_refuses_whatever_it_gets_is_asked_four_times_at_most(kind: str) -> None:
    turns = itertools.count()

    def reply(knock: Knock) -> Reply:
        sent = [name for name in REFUSED_IN_TURN if name in knock.body]
        name = {
            "always": "temperature",
            "in turn": sent[0] if sent else "model",
            "back and forth": REFUSED_IN_TURN[next(turns) % 2],
        }[kind]
        return 400, {"error": {"message": f"Unsupported parameter: '{name}'"}}

    statuses, count = exchange(make_request(NEGATIVE[0]), reply)

    assert statuses == [400, 400]
    assert count <= 2 * 4
