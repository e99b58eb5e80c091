"""Whatever a request holds, the simulator answers in OpenAI's form, and never with an accident."""

import contextlib
import http.client
import json
import math
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surecall.simulator import Simulator
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.testing import ScriptedProvider, says
from tests.support.timing import PATIENCE_S

CALL = {"id": "c1", "type": "function", "function": {"name": "state_get", "arguments": "{}"}}
TOOL = {
    "type": "function",
    "function": {"name": "state_get", "parameters": {"type": "object", "properties": {}}},
}
SCHEMA = {"name": "reply", "schema": {"type": "object", "properties": {"tool": {"enum": ["a"]}}}}
SOUND: dict[str, Any] = {
    "model": "sim/clean",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Set foo to bar."}]},
        {"role": "assistant", "content": "", "tool_calls": [CALL], "reasoning_content": "Hm."},
        {"role": "tool", "tool_call_id": "c1", "content": '{"ok":true,"data":{"draft":{}}}'},
        {"role": "user", "content": "And now?"},
    ],
    "tools": [TOOL],
    "tool_choice": {"type": "function", "function": {"name": "state_get"}},
    "response_format": {"type": "json_schema", "json_schema": SCHEMA},
    "stream": True,
    "stream_options": {"include_usage": True},
    "parallel_tool_calls": False,
    "max_tokens": 5,
    "seed": 1,
}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", " ", "{", "{}", "[1]", "user", "tool", "function", "object", "😀", "c1"])
    | st.sampled_from([10**40, 1e308]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "name", "type", "text", ""]), inner)
    ),
    max_leaves=6,
)
# These are silent, never end, or have more headers than the client below takes, on purpose.
WAITING = {
    fault.id
    for fault in TRANSPORT_FAULTS.values()
    if fault.ending or fault.pause_s or fault.header_bytes
}
ANSWERING = sorted(
    name
    for name, persona in PERSONAS.items()
    if not WAITING & {fault for fault, *_ in persona.faults}
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from places(item, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    head, *rest = path
    copy = value.copy()
    copy[head] = replaced(value[head], tuple(rest), new)
    return copy


PLACES = list(places(SOUND))


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    with Simulator(default="sim/clean") as opened:
        yield opened


def posted(url: str, data: bytes) -> tuple[int, bytes]:
    where = urlsplit(url)
    line = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE_S)
    with contextlib.closing(line):
        line.request("POST", "/v1/chat/completions", data)
        answer = line.getresponse()
        return answer.status, answer.read()


@given(
    st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=2),
    st.sampled_from(ANSWERING),
)
@settings(max_examples=400)
def test_any_value_anywhere_is_answered_or_refused(
    simulator: Simulator, changes: list[tuple[tuple[Any, ...], Any]], persona: str
) -> None:
    body: Any = SOUND | {"model": persona}
    for path, value in changes:
        with contextlib.suppress(LookupError, TypeError, AttributeError):
            body = replaced(body, path, value)
    status, answer = posted(simulator.url, json.dumps(body).encode())

    assert status < 500 or persona_fails(persona)
    if status == 400:
        # Gemini puts its errors into a list.
        assert isinstance(json.loads(answer), dict | list)


def persona_fails(persona: str) -> bool:
    """Whether a persona answers with a status of the server's fault on purpose."""
    faults = [TRANSPORT_FAULTS.get(fault) for fault, *_ in PERSONAS[persona].faults]
    return any(fault is not None and fault.status for fault in faults)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b"\xff",
        b'{"a": NaN}',
        b"[" * 100_000,
        json.dumps({"messages": [{"role": {}}]}).encode(),
        json.dumps({"messages": [{"role": ["user"], "content": {}}]}).encode(),
        json.dumps({"messages": [{"role": math.inf}]}).encode(),
    ],
)
def test_what_is_no_request_gets_a_400_in_the_form_of_the_api(
    simulator: Simulator, data: bytes
) -> None:
    status, answer = posted(simulator.url, data)

    assert status == 400
    assert json.loads(answer)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_scripted_provider_refuses_what_is_no_request(data: bytes) -> None:
    with ScriptedProvider(says("ok")) as provider:
        status, answer = posted(provider.url, data)

    assert (status, provider.requests) == (400, [])
    assert json.loads(answer)["error"]["type"] == "invalid_request_error"
