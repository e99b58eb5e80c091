"""Property: whatever a client's history looks like, every tool output reaches the upstream once.

`SURECALL_TEST_CASES=10` tries 10,000 histories for each API.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from proof.invariants import request_problems
from surecall.core.request_building import RequestBuilder
from surecall.proxy import Proxy
from surecall.proxy.repair.proxy_settings import ProxySettings
from surecall.proxy.repair.request_history import build_entries
from surecall.proxy.repair.upstream_request import RUNNER_FIELDS, UpstreamRequestWriter, build_tools
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.config import ToolCallingConfig
from surecall.testing import ScriptedModel, ScriptedProvider, says
from surecall.values.types import JSON, Plan
from surecall.wire.apis.adapter import ApiAdapter
from surecall.wire.apis.chat_api import ChatApi
from surecall.wire.apis.messages_api import MessagesApi
from surecall.wire.apis.responses_api import ResponsesApi
from surecall.wire.chat_format import encode
from tests.support.generated import Broken, check, dice, many
from tests.support.proxy import PATHS, History, Output, known, post, render, text_of_output

FACES: dict[str, ApiAdapter] = {
    "chat": ChatApi(),
    "responses": ResponsesApi(),
    "messages": MessagesApi(),
}
PROVIDERS = ("", "mistral", "gemini", "bedrock")
MARKERS = re.compile("⟦([0-9]+)⟧")


def sent(api: str, body: JSON, config: ToolCallingConfig) -> list[JSON]:
    """Return the messages that the upstream is sent for a request."""
    asked = FACES[api].parse(encode(body))
    offer = build_tools(asked.body["tools"])
    history = build_entries(asked.body["messages"], known(), offer.upstream_names)
    options = {key: value for key, value in asked.body.items() if key not in RUNNER_FIELDS}
    plan = Plan("m", tuple(entry.value for entry in history), offer.specs, options=options)
    composer = (
        UpstreamRequestWriter(asked, history, offer, config)
        if config.call_protocol == "native"
        else RequestBuilder(config)
    )
    messages: list[JSON] = msgspec.json.decode(composer.build(plan).body)["messages"]
    return messages


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)


def problems(history: History, messages: list[JSON]) -> Iterator[str]:
    texts = list(strings(messages))
    found = Counter(int(number) for text in texts for number in MARKERS.findall(text))
    wanted = Counter(dict.fromkeys(history.markers, 1))
    if found != wanted:
        yield f"lost {dict(wanted - found)}, repeated {dict(found - wanted)}"
    for output in filter(is_text, history.outputs):
        if not any(text_of_output(output.numbers[0]) in text for text in texts):
            yield f"output {output.numbers} was changed"
    if not messages:
        yield "no messages"


def is_text(output: Output) -> bool:
    return output.kind == "text"


def configured(provider: str) -> ToolCallingConfig:
    return ProxySettings(provider).config_for("m", None, 0)


@pytest.mark.parametrize("api", PATHS)
def test_every_tool_output_reaches_the_upstream_once_in_a_legal_history(api: str) -> None:
    configs = [configured(provider) for provider in PROVIDERS]
    broken: list[Broken] = []
    cases = many(1_000)
    for number in range(cases):
        history = History(dice("no result is lost", number))
        body = render(api, history)
        messages = sent(api, body, configs[number % len(configs)])
        wrong = [*problems(history, messages), *request_problems(messages)]
        if wrong:
            broken.append(Broken(wrong[0][:9], str(body), f"{wrong}\n{messages}"))
    check(broken, cases)


@pytest.mark.parametrize("protocol", ["prompted", "guided"])
@pytest.mark.parametrize("api", PATHS)
def test_every_tool_output_reaches_an_upstream_that_is_told_of_calls_in_words(
    api: str, protocol: str
) -> None:
    config = configured("").replace(call_protocol=protocol)
    broken: list[Broken] = []
    cases = many(50)
    for number in range(cases):
        history = History(dice("in words", number))
        body = render(api, history)
        messages = sent(api, body, config)
        texts = list(strings(messages))
        missing = [n for n in history.markers if not any(f"⟦{n}⟧" in text for text in texts)]
        if missing:
            broken.append(Broken("missing", str(body), f"{missing}\n{messages}"))
    check(broken, cases)


@pytest.mark.parametrize("api", PATHS)
def test_every_tool_output_goes_through_the_proxy_once(api: str) -> None:
    broken: list[Broken] = []
    cases = many(20)
    with ScriptedProvider(says("Hi."), repeat=True) as upstream, Proxy(upstream.url) as proxy:
        for number in range(cases):
            history = History(dice("through the proxy", number))
            body = render(api, history)
            got = post(proxy.url, body, PATHS[api])
            messages = upstream.requests[-1]["messages"] if got.status == 200 else []
            wrong = [*problems(history, messages), *request_problems(messages)]
            if wrong:
                broken.append(Broken(wrong[0][:9], str(body), f"{got}\n{wrong}\n{messages}"))
    check(broken, cases)


def test_no_tool_output_in_the_history_of_a_run_is_lost() -> None:
    broken: list[Broken] = []
    cases = many(100)
    for number in range(cases):
        history = History(dice("history of a run", number))
        given = render("chat", history)["messages"]
        model = ScriptedModel(says("Hi."))
        ToolLoopRunner(client=model, model="m", tools=[]).run_sync("Go on.", history=given)
        messages = model.requests[0]["messages"]
        wrong = [*problems(history, messages), *request_problems(messages)]
        if wrong:
            broken.append(Broken(wrong[0][:9], str(given), f"{wrong}\n{messages}"))
    check(broken, cases)
