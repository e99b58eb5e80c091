"""The official SDKs accept every answer of the proxy: clean, healed, repaired or failed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import anthropic
import openai
import pytest

from surecall.proxy import Proxy
from surecall.settings.connection import RetryPolicy
from surecall.testing import Item, ScriptedProvider, calls, cuts, failure, says, streams
from surecall.values.types import JSON
from tests.support.proxy import USER, WEATHER

TEXT_CALL: Final = says(
    'Let me look.\n<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
)
GOOD: Final = calls("get_weather", city="Oslo")
THOUGHT: JSON = {
    "choices": [
        {
            "index": 0,
            "message": GOOD["choices"][0]["message"] | {"reasoning_content": "Hm."},
            "finish_reason": "tool_calls",
        }
    ]
}
CALLS: Final[dict[str, tuple[JSON, ...]]] = {
    "clean": (GOOD,),
    "healed": (TEXT_CALL,),
    "repaired": (calls("get_weather", town="Oslo"), GOOD),
    "empty first": (says(""), GOOD),
    "thoughtful": (GOOD | THOUGHT,),
}
FAILURES: Final[dict[str, Item]] = {
    "refused": failure(400, {"error": {"message": "No."}}),
    "unusable": calls("nope"),
    "cut off": cuts(b'{"choices": [', 5),
}
PARAMETERS: Final = WEATHER["function"]["parameters"]


@contextmanager
def served(*script: Item, stream: bool, repeat: bool = False) -> Iterator[str]:
    given = [streams(item) if stream and isinstance(item, dict) else item for item in script]
    quick = RetryPolicy(first_wait_s=0.01, longest_wait_s=0.01)
    provider = ScriptedProvider(*given, repeat=repeat)
    with provider as upstream, Proxy(upstream.url, retry=quick) as proxy:
        yield proxy.url


def chat(url: str, *, stream: bool) -> list[tuple[str, str]]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        asked: Any = {"model": "m", "messages": [USER], "tools": [WEATHER]}
        if not stream:
            message = client.chat.completions.create(**asked).choices[0].message
        else:
            with client.chat.completions.stream(**asked) as events:
                for _ in events:
                    pass
                message = events.get_final_completion().choices[0].message
    made: Any = message.tool_calls or ()
    return [(call.function.name, call.function.arguments) for call in made]


class ResponseFailed(Exception):
    """A stream ended with the event of a failed response, which the SDK does not raise."""


def responses(url: str, *, stream: bool) -> list[tuple[str, str]]:
    tool = {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": False}
    asked: Any = {"model": "m", "input": "Weather in Oslo?", "tools": [tool]}
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        if not stream:
            response = client.responses.create(**asked)
        else:
            with client.responses.stream(**asked) as events:
                kinds = [event.type for event in events]
                if kinds[-1] == "response.failed":
                    raise ResponseFailed
                response = events.get_final_response()
            assert kinds[0] == "response.created"
            assert kinds[-1] == "response.completed"
    return [(item.name, item.arguments) for item in response.output if item.type == "function_call"]


def messages(url: str, *, stream: bool) -> list[tuple[str, str]]:
    tool = {"name": "get_weather", "input_schema": PARAMETERS}
    asked: Any = {"model": "m", "max_tokens": 99, "messages": [USER], "tools": [tool]}
    with anthropic.Anthropic(base_url=url, api_key="x", max_retries=0) as client:
        if not stream:
            message = client.messages.create(**asked)
        else:
            with client.messages.stream(**asked) as events:
                for _ in events:
                    pass
                message = events.get_final_message()
    assert message.stop_reason == "tool_use"
    used = [block for block in message.content if block.type == "tool_use"]
    return [(block.name, '{"city":"' + str(block.input["city"]) + '"}') for block in used]


FACES: Final = {"chat": chat, "responses": responses, "messages": messages}


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("case", CALLS)
def test_calls_arrive_as_they_are_meant(case: str, face: str, stream: bool) -> None:  # noqa: FBT001
    with served(*CALLS[case], stream=stream) as url:
        ((name, arguments),) = FACES[face](url, stream=stream)
    assert (name, arguments.replace(" ", "")) == ("get_weather", '{"city":"Oslo"}')


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_an_error_of_the_sdk(case: str, face: str, stream: bool) -> None:  # noqa: FBT001
    told = (openai.APIError, anthropic.APIError, ResponseFailed)
    with served(FAILURES[case], stream=stream, repeat=True) as url, pytest.raises(told):
        FACES[face](url, stream=stream)
