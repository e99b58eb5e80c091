"""Whole conversations with servers that others wrote: ask, call, result, once more, answer."""

import pytest

from surecall import ErrorCode, RunFailed
from tests.support.servers import ANSWER, CITIES, Foreign, LlmockScript, Weather, answered

pytestmark = [pytest.mark.third_party, pytest.mark.processes]
BEIJING = "What's the weather like in Beijing today?"
BOTH_WAYS = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])


def assert_held(server: Foreign, weather: Weather, *, streamed: bool) -> None:
    result = answered(server, weather.get_weather, streamed=streamed)

    assert (result.assistant_text, weather.looked_up) == (ANSWER, list(CITIES))


@BOTH_WAYS
@pytest.mark.parametrize("name", ["fakellm", "ai_mock", "aimock"])
def test_a_conversation_goes_through(
    name: str, request: pytest.FixtureRequest, *, streamed: bool
) -> None:
    assert_held(request.getfixturevalue(name), Weather(), streamed=streamed)


@BOTH_WAYS
def test_a_conversation_by_script_goes_through(llmock: Foreign, *, streamed: bool) -> None:
    script = LlmockScript(llmock.url)

    assert_held(llmock, Weather(script.at), streamed=streamed)
    assert (len(script.requests()), script.findings()) == (3, [])


@BOTH_WAYS
def test_a_conversation_goes_through_litellm(
    litellm: Foreign, llmock: Foreign, *, streamed: bool
) -> None:
    script = LlmockScript(llmock.url)

    assert_held(litellm, Weather(script.at), streamed=streamed)
    assert len(script.requests()) == 3


@BOTH_WAYS
def test_a_conversation_goes_through_litellm_with_a_bent_server_behind_it(
    litellm: Foreign, *, streamed: bool
) -> None:
    assert_held(litellm._replace(model="bent"), Weather(), streamed=streamed)


class Beijing:
    """The tool of a server whose conversations cannot be changed."""

    def __init__(self) -> None:
        self.looked_up: list[tuple[str, str]] = []

    def get_weather(self, location: str, date: str) -> str:
        """Weather for a place."""
        self.looked_up.append((location, date))
        return "clear"


def test_a_server_that_begins_to_answer_before_the_call_was_made_is_sent_its_result(
    mock_openai_api: Foreign,
) -> None:
    tool = Beijing()
    result = answered(mock_openai_api, tool.get_weather, streamed=True, asked=BEIJING)

    assert tool.looked_up == [("Beijing", "today")]
    assert result.assistant_text.startswith("Beijing weather today: sunny")


def test_a_server_that_makes_the_same_call_for_ever_is_left_with_a_name_for_it(
    mock_openai_api: Foreign,
) -> None:
    tool = Beijing()
    with pytest.raises(RunFailed) as failed:
        answered(mock_openai_api, tool.get_weather, streamed=False, asked=BEIJING)

    assert failed.value.code is ErrorCode.LOOP_DETECTED
    assert tool.looked_up == [("Beijing", "today")]
