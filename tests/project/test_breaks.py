"""What `docs/my-agent-breaks.md` tells is so: the errors, what `explain` prints, and the fixes.

The replies are those of the page. Each is given to the client that the page speaks of (LangChain is
no dependency: there a loop by hand stands in for it), and then to the same client behind a proxy
that is started with the presets which the page names.
"""

import asyncio
import json
import re
import shlex
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import openai
import pytest
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from surecall.cli import cli
from surecall.proxy import Proxy
from surecall.settings.connection import RetryPolicy
from surecall.simulator import Simulator
from surecall.testing import Built, ScriptedProvider, calls, raw, says
from surecall.values.types import JSON
from tests.support.project_files import ROOT, Trial
from tests.support.proxy import USER, WEATHER, call, said

PAGE: Final = (ROOT / "docs" / "my-agent-breaks.md").read_text("utf-8")
BLOCK: Final = re.compile(r"^```(text|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PASTED: Final = re.compile(r"surecall explain .*?<<'EOF'\n(.*?)^EOF$", re.DOTALL | re.MULTILINE)
STARTED: Final = re.compile(r"`(surecall proxy [^`]*)`")
COMMANDS: Final = re.compile(r"^(surecall (?:check|proxy) .*)$", re.MULTILINE)
DONE: Final = "18 degrees."
QUICK: Final = RetryPolicy(first_wait_s=0.01, longest_wait_s=0.01)
UNANSWERED: Final = "A call was never answered"
STREAMED: Final = "A chunk has no choices"
IN_WORDS: Final = "The window is too small"
OF_IDS: Final = "The reason is in the metadata"


class Section(NamedTuple):
    """One symptom: what is seen, what is pasted into a shell, and what that prints."""

    title: str
    software: str
    seen: str
    pasted: str
    printed: str
    fix: str

    @property
    def reply(self) -> Built:
        """The reply that is explained, with the status that it is said to have come with."""
        (body,) = PASTED.findall(self.pasted)
        status = re.search(r"--status (\d+)", self.pasted)
        kind = "text/event-stream" if body.startswith("data:") else "application/json"
        return raw(body.encode(), int(status[1]) if status else 200, kind)

    @property
    def presets(self) -> tuple[str, ...]:
        """The presets that the proxy is to be started with."""
        words = shlex.split(" ".join(STARTED.findall(self.fix)[:1]))
        return tuple(words[at + 1] for at, word in enumerate(words) if word == "--model-preset")


def _section(software: str, text: str) -> Section:
    title, rest = text.split("\n", 1)
    (_, seen), (kind, pasted), (_, printed) = BLOCK.findall(rest)
    assert kind == "sh"
    return Section(title, software, seen, pasted, printed, rest.split("- **With surecall:**")[1])


SECTIONS: Final = {
    section.title: section
    for part in PAGE.split("\n## ")[1:]
    for text in part.split("\n### ")[1:]
    for section in [_section(part.split("\n", 1)[0], text)]
}
REPRODUCED: Final = [
    title
    for title, section in SECTIONS.items()
    if section.software != "LangChain" and title != UNANSWERED
]
REPAIRED: Final = [title for title in SECTIONS if title not in {UNANSWERED, IN_WORDS}]


class Tool:
    """A tool that remembers where it was asked for the weather."""

    def __init__(self) -> None:
        self.cities: list[str] = []

    def get_weather(self, city: str) -> str:
        """Return the weather."""
        self.cities.append(city)
        return f"18 degrees in {city}"


# Two loops that one writes in five minutes, and an agent of pydantic-ai.


def by_hand(url: str, tool: Tool) -> str:
    messages: list[Any] = [USER]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        create: Any = client.chat.completions.create
        for _ in range(4):
            message = create(model="m", messages=messages, tools=[WEATHER]).choices[0].message
            if not message.tool_calls:
                return str(message.content)
            results = []
            for made in message.tool_calls:
                result = tool.get_weather(**json.loads(made.function.arguments))
                results.append({"role": "tool", "tool_call_id": made.id, "content": result})
            messages += [message.model_dump(exclude_none=True), *results]
    raise AssertionError("the model calls the tool again and again")


def streamed(url: str, tool: Tool) -> str:
    arguments = ""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        create: Any = client.chat.completions.create
        for chunk in create(model="m", messages=[USER], tools=[WEATHER], stream=True):
            for part in chunk.choices[0].delta.tool_calls or ():
                arguments += part.function.arguments
    tool.get_weather(**json.loads(arguments))
    return DONE


def with_pydantic_ai(url: str, tool: Tool) -> str:
    async def run() -> str:
        address = f"{url}/v1"
        async with openai.AsyncOpenAI(base_url=address, api_key="none", max_retries=0) as client:
            model = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
            return (await Agent(model, tools=[tool.get_weather]).run("Weather in Paris?")).output

    return asyncio.run(run())


def client_of(section: Section) -> Callable[[str, Tool], str]:
    if section.software == "pydantic-ai":
        return with_pydantic_ai
    return streamed if section.title == STREAMED else by_hand


def outcome(client: Callable[[str, Tool], str], url: str) -> str:
    """Return what a user sees: the answer, or the last lines of a traceback."""
    try:
        return client(url, Tool())
    except Exception as error:  # noqa: BLE001  # whatever it is, it is compared
        return "".join(traceback.format_exception_only(error))


# What the endpoint does: it sends the reply, and from then on it behaves.


def upstream(section: Section) -> Callable[[JSON], Built]:
    reply, sent = section.reply, []

    def once(request: JSON) -> Built:
        sent.append(request)
        if len(sent) == 1:
            return reply
        return says(DONE) if _has_result(request) else calls("get_weather", city="Paris")

    def to_tools(request: JSON) -> Built:
        if "tools" in request:
            return reply
        asked = {"tool": "get_weather", "arguments": {"city": "Paris"}}
        return says(json.dumps({"answer": DONE} if _has_result(request) else asked))

    def to_long_ids(request: JSON) -> Built:
        ids = [made["id"] for item in request["messages"] for made in item.get("tool_calls", ())]
        if [given for given in ids if not re.fullmatch("[a-zA-Z0-9]{9}", given)]:
            return reply
        return says(DONE) if _has_result(request) else calls("get_weather", city="Paris")

    if section.title == OF_IDS:
        return to_long_ids
    return to_tools if "guided_calls" in section.presets else once


def _has_result(request: JSON) -> bool:
    return any("18 degrees in" in str(message.get("content")) for message in request["messages"])


def test_there_are_two_symptoms_or_more_of_each_software() -> None:
    counted = [section.software for section in SECTIONS.values()]

    assert {name: counted.count(name) for name in counted} == {
        "OpenAI's SDK": 5,
        "LangChain": 3,
        "pydantic-ai": 3,
        "Ollama": 4,
        "vLLM": 3,
        "OpenRouter": 3,
    }


def test_the_table_leads_to_every_section_in_order() -> None:
    slugs = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in SECTIONS]
    table = PAGE.split("\n## ")[0]

    assert re.findall(r"\]\(#([^)]*)\) \|$", table, re.MULTILINE) == slugs
    assert set(re.findall(r"\]\(#([^)]*)\)", PAGE)) == set(slugs)
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGE)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


@pytest.mark.processes
@pytest.mark.parametrize("title", SECTIONS)
def test_what_is_pasted_prints_what_is_told(title: str, tmp_path: Path) -> None:
    script = f'surecall() {{ "{sys.executable}" -m surecall "$@"; }}\n{SECTIONS[title].pasted}'
    ran = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path
    )

    assert ran.returncode == 0, ran.stderr
    assert Trial("sh", script, SECTIONS[title].printed).prints(ran.stdout), ran.stdout


@pytest.mark.parametrize("title", REPRODUCED)
def test_the_reply_causes_what_is_seen(title: str) -> None:
    section = SECTIONS[title]
    item = upstream(section) if title == OF_IDS else section.reply
    with ScriptedProvider(item, repeat=True) as provider:
        assert outcome(client_of(section), provider.url).startswith(section.seen.rstrip("\n"))


@pytest.mark.parametrize("title", REPAIRED)
def test_through_the_proxy_the_same_client_gets_it_right(title: str) -> None:
    section, tool = SECTIONS[title], Tool()
    with (
        ScriptedProvider(upstream(section), repeat=True) as provider,
        Proxy(provider.url, retry=QUICK, presets=section.presets) as proxy,
    ):
        assert client_of(section)(proxy.url, tool) == DONE
    assert tool.cities == ["Paris"]


def test_an_answer_in_words_goes_through_the_proxy_as_it_came() -> None:
    section = SECTIONS[IN_WORDS]
    with ScriptedProvider(section.reply) as provider, Proxy(provider.url) as proxy:
        assert by_hand(proxy.url, Tool()) == section.seen.rstrip("\n")


def test_a_history_with_a_call_that_was_never_answered_is_refused_unless_the_proxy_mends_it() -> (
    None
):
    history = [USER, said(call("call_1", city="Paris")), {"role": "user", "content": "Hello?"}]

    def ask(url: str, _: Tool) -> str:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            create: Any = client.chat.completions.create
            return str(create(model="sim/clean", messages=history, tools=[WEATHER]).object)

    with Simulator() as simulator, Proxy(simulator.url) as proxy:
        assert outcome(ask, simulator.url) == SECTIONS[UNANSWERED].seen
        assert outcome(ask, proxy.url) == "chat.completion"


def test_the_errors_are_where_the_page_says() -> None:
    hidden, refused = SECTIONS["An error came with status 200"], SECTIONS[OF_IDS]
    asked: Any = {"model": "m", "messages": [USER]}
    with (
        ScriptedProvider(hidden.reply, refused.reply) as provider,
        openai.OpenAI(base_url=f"{provider.url}/v1", api_key="none", max_retries=0) as client,
    ):
        response = client.chat.completions.create(**asked)
        assert (response.model_extra or {})["error"]["code"] == 429
        with pytest.raises(openai.APIStatusError) as caught:
            client.chat.completions.create(**asked)
    body: Any = caught.value.body
    assert "a length of 9" in body["metadata"]["raw"]


def test_every_command_that_is_told_can_be_given() -> None:
    told = STARTED.findall(PAGE) + COMMANDS.findall(PAGE)
    assert len(told) > len(SECTIONS)
    for line in told:
        words = shlex.split(line.replace("…", "http://localhost:1"), comments=True)
        parent = click.Context(cli)
        command = cli.get_command(parent, words[1])
        assert command is not None
        assert command.make_context(words[1], words[2:], parent=parent).params
