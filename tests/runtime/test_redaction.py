"""Secrets: known keys, pieces of them, and what looks like a key reach no file."""

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surecall import presets
from surecall.core.outcome import RunResult
from surecall.runtime.recording import JsonlSink, load_trace, save_trace
from surecall.runtime.redaction import REDACTED, Redactor, Secrets
from surecall.runtime.runner import ToolLoopRunner
from surecall.runtime.transport import OpenAICompatible
from surecall.testing import Item, ScriptedModel, calls, says
from surecall.tools.registry import tool
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import PolicyErrorEvent
from surecall.values.trace import Trace
from surecall.values.types import Secret
from tests.support.spec import proves
from tests.support.timing import LINEAR, growth

KEY = "sk-canary/47+11=ab/cdEF"


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


def ran(*script: Item, user_text: str = "hi", observers: Any = ()) -> RunResult:
    model = ScriptedModel(*script)
    runner = ToolLoopRunner(
        client=model, model="m", tools=[echo], config=presets.raw(), observers=observers
    )
    return asyncio.run(runner.run(user_text))


SPELLINGS = {
    "plain": KEY,
    "url": "sk-canary%2F47%2B11%3Dab%2FcdEF",
    "url in lower case": "sk-canary%2f47%2b11%3dab%2fcdEF",
    "hex": KEY.encode().hex(),
    "HEX": KEY.encode().hex().upper(),
    "escaped slash": KEY.replace("/", "\\/"),
    "escaped twice": KEY.replace("/", "\\\\/"),
    "by number": KEY.replace("/", "\\u002F").replace("+", "\\u002B").replace("=", "\\u003D"),
    "basic": base64.b64encode(f"user:{KEY}".encode()).decode(),
    "basic without user": base64.b64encode(f":{KEY}".encode()).decode(),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 for urls": base64.urlsafe_b64encode(f"me:{KEY}\xff".encode("latin-1")).decode(),
    "reversed": KEY[::-1],
    "upper case": KEY.upper(),
    "lower case": KEY.lower(),
    "base64 of base64": base64.b64encode(base64.b64encode(KEY.encode())).decode(),
    "base64 of basic": base64.b64encode(base64.b64encode(f"me:{KEY}".encode()) + b"\n").decode(),
    "base64 of base64 in a text": base64.b64encode(
        b"x" + base64.urlsafe_b64encode(f"a:{KEY}".encode())
    ).decode(),
    "cut off": KEY[:12],
    "its end": "…" + KEY[-10:],
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS.keys())
@proves("G5")
def test_a_key_reaches_no_file_in_any_spelling(tmp_path: Path, spelling: str) -> None:
    text = f"it is {spelling}, isn't it"
    sink = JsonlSink(tmp_path / "a", secrets=[Secret(KEY)])
    result = ran(calls("echo", text=text), says(text), user_text=text, observers=[sink])
    save_trace(result.trace, tmp_path / "b", secrets=[KEY])
    for name in ("a", "b"):
        kept = (tmp_path / name).read_text("utf-8")
        assert spelling[4:12] not in kept
        assert kept.count(REDACTED) >= 4
        assert len(load_trace(tmp_path / name)) == len(result.trace)


@pytest.mark.parametrize(
    "secrets",
    [KEY, Secret(KEY), [KEY], (None, Secret(KEY)), OpenAICompatible("http://h", KEY).api_key],
)
def test_a_key_may_be_given_in_any_form(tmp_path: Path, secrets: Secrets) -> None:
    path = tmp_path / "run.jsonl"
    ran(says(KEY), observers=[JsonlSink(path, secrets)])
    assert KEY not in path.read_text("utf-8")


@pytest.mark.parametrize("secrets", [None, (), "", "short", [None, Secret("x")]])
def test_without_a_key_a_trace_is_written_as_it_is(tmp_path: Path, secrets: Secrets) -> None:
    path = tmp_path / "run.jsonl"
    result = ran(
        says("a short task-list; risk-free; sk-learn-like-a-professional"),
        observers=[JsonlSink(path, secrets)],
    )
    assert load_trace(path) == result.trace


@pytest.mark.parametrize(
    "key", ["12345678", "1234567890.5", "sk-no-key-required", "lm-studio", '"\\":,{']
)
def test_an_odd_key_does_not_damage_the_file(tmp_path: Path, key: str) -> None:
    path = tmp_path / "run.jsonl"
    usage = {"prompt_tokens": 123456789, "cost": 1234567890.5}
    said = says(f"a required {key} field", usage=usage)
    result = ran(said, observers=[JsonlSink(path, key)])
    read = load_trace(path)
    assert (len(read), read.turns[0].usage) == (len(result.trace), result.usage)
    assert '"required"' in path.read_text("utf-8")


KEYLIKE = [
    "Authorization: Bearer abcdefgh1",
    "bearer  eyJhbGciOiJIUzI1NiJ9.e30.x-_~+/=",
    "BEARER: ABCDEFGHabcdefgh",
    "sk-proj-abcdefgh12345678",
    "(sk-or-v1-0123456789abcdef)",
    "key=sk-ant-api03-AbCdEfGhIjKl",
    "Bearer " + "abcdefghij" * 4,
]


@pytest.mark.parametrize("text", KEYLIKE)
@proves("G5")
def test_what_looks_like_a_key_is_not_written_either(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.jsonl"
    ran(calls("echo", text=text), says(text), observers=[JsonlSink(path)])
    kept = path.read_text("utf-8")
    assert text[-9:-1] not in kept
    assert kept.count(REDACTED) >= 3


@pytest.mark.parametrize(
    "text",
    [
        "Bearer authentication is required; a Bearer token",
        "Bearer",
        "Bearer: ",
        "bearers0123456789",
        "a task-0123456789-0123456789 at hand",
        "sk-short1",
        "sk-learn-pipelines",
        "risk-sk-0123456789abcdef",
    ],
)
def test_words_are_not_taken_for_keys(text: str) -> None:
    assert Redactor().redact_text(text) == text


def test_several_stretches_are_marked_one_by_one() -> None:
    redactor = Redactor("abcd1234efgh5678")
    text = "<abcd1234efgh567> and <d1234efgh5678> and <abcd> Bearer sk-proj-0123456789abc"
    assert (
        redactor.redact_text(text) == f"<{REDACTED}> and <{REDACTED}> and <abcd> Bearer {REDACTED}"
    )
    assert redactor.redact_text("abcd1234 d1234efg") == f"{REDACTED} {REDACTED}"


RANDOM_KEY = st.text(
    st.sampled_from("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"), min_size=20
)


@given(key=RANDOM_KEY, at=st.integers(0, 12), before=st.text("xyz _-/1", max_size=9))
def test_any_eight_characters_of_a_key_are_found_by_a_quick_look_and_taken_out(
    key: str, at: int, before: str
) -> None:
    redactor = Redactor(key)
    piece = key[at : at + 8]
    text = f"{before}{piece}{before}"
    if any(char.isdigit() for char in piece):  # else it may be a word
        assert redactor.may_match(text.encode())
        assert piece not in redactor.redact_text(text)


@given(
    key=RANDOM_KEY,
    words=st.lists(st.sampled_from(["the", "key", "was", "not", "sent", "there", "today"])),
)
def test_ordinary_words_stay(key: str, words: list[str]) -> None:
    text = " ".join(words)

    assert Redactor(key).redact_text(text) == text


BEGUN = ("cut", "its", "basic", "base64 for urls")  # where the key does not begin the spelling
WHOLE = {name: text for name, text in SPELLINGS.items() if not name.startswith(BEGUN)}


@pytest.mark.parametrize("spelling", WHOLE.values(), ids=WHOLE.keys())
def test_a_spelling_that_was_cut_is_taken_out_as_well(spelling: str) -> None:
    redactor = Redactor(KEY)
    for end in range(20, len(spelling)):
        text = f"it was refused: {spelling[:end]}"
        assert redactor.may_match(text.encode())
        assert spelling[8:20] not in redactor.redact_text(text)


@pytest.mark.parametrize("bent", [str.upper, str.lower, lambda key: key[::-1]])
def test_an_answer_does_not_repeat_a_key_in_another_case_or_reversed(
    bent: Callable[[str], str],
) -> None:
    redactor = Redactor(KEY, aggressive=False)

    assert redactor.may_match(bent(KEY).encode())
    assert redactor.redact_text(f"<{bent(KEY)}>") == f"<{REDACTED}>"


def test_a_fault_is_redacted_in_all_its_words() -> None:
    fault = Fault(ErrorCode.AUTH, KEY, 401, KEY, KEY, body=KEY)
    redacted = Redactor(KEY).redact_fault(fault)
    assert redacted == Fault(ErrorCode.AUTH, REDACTED, 401, REDACTED, REDACTED, body=REDACTED)
    plain = Fault(ErrorCode.AUTH, "no", 401)
    assert Redactor(KEY).redact_fault(plain) == plain


PRINTABLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=40)
ANYTHING = st.text(st.characters(exclude_categories=()), max_size=20)


@given(key=PRINTABLE, before=ANYTHING, after=ANYTHING)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@proves("G5")
def test_no_key_reaches_a_file_whatever_stands_around_it(
    tmp_path: Path, key: str, before: str, after: str
) -> None:
    text = before + key + after
    nested = json.dumps({"arguments": json.dumps({key: text})})
    body = {key: [text, nested], "numbers": [1, 2.5, None, True]}
    event = PolicyErrorEvent(run_id="r", turn=0, at=0.0, stage=nested, message=text, context=body)  # type: ignore[arg-type]  # any JSON at all
    path = tmp_path / "run.jsonl"
    save_trace(Trace((event,)), path, key)
    plain = msgspec.json.decode(path.read_bytes())
    assert plain["type"] == "policy_error" or key in "policy_error"
    if key not in REDACTED:
        assert key not in repr_of(plain)


def repr_of(value: Any) -> str:
    """Join all texts of a value, and those in the JSON in them."""
    match value:
        case str():
            try:
                inner = json.loads(value)
            except ValueError:
                return value
            return value + repr_of(inner) if isinstance(inner, dict) else value
        case dict():
            return "\0".join(repr_of(item) for pair in value.items() for item in pair)
        case list():
            return "\0".join(map(repr_of, value))
        case _:
            return ""


@pytest.mark.parametrize(
    "hostile", ["sk-", "Bearer ", "sk-a", "47+11=ab/cdEF", "1" * 8, "Bearer\t\t"]
)
def test_redaction_takes_steps_in_proportion_to_the_text(hostile: str) -> None:
    redactor = Redactor(KEY + "1" * 20)

    assert (
        growth(lambda size: redactor.redact_text(hostile * (size // len(hostile))), 20_000) < LINEAR
    )
