"""Whatever `surecall explain` is given, it ends as documented, in few words and without a crash."""

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.cli import main
from surecall.cli.explain import LISTED, SHOWN, explain, render
from surecall.values.errors import ConfigError
from surecall.values.types import JSON

TAGGED = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'
EVENT = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'
# Whatever is explained, people are shown no more characters than this.
MOST_SHOWN = 50_000
# One that no terminal shows is written so.
ESCAPE = re.compile(r"\\U\w{8}|\\u\w{4}|\\x\w{2}")


def wire(call: JSON, number: int = 1) -> bytes:
    """Return a reply with one raw call, so many times."""
    many = [call | {"id": f"c{at}"} for at in range(number)]
    return json.dumps({"choices": [{"message": {"tool_calls": many}}]}).encode()


def raw_call(name: str, arguments: object) -> JSON:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def nested(levels: int) -> JSON:
    value: JSON = {}
    for _ in range(levels):
        value = {"a": value}
    return value


BLURRED = json.dumps({"name": "f" * 900, "arguments": {}, "more": "x" * 900})
HOSTILE = {
    "a stream of too many events": EVENT * 200_000,
    "a stream of too many bytes": b'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n'
    % (b"x" * 5_000_000),
    "a stream that is long": EVENT * 50_000,
    "a text of 10 MB": b"so " * 3_400_000,
    "a text of 2 MB in one line": b"so " * 700_000,
    "a text of a million lines": b"\n." * 1_000_000,
    "random bytes": random.Random(1).randbytes(1_000_000),  # noqa: S311 - nothing is kept secret
    "NUL bytes": bytes(5_000),
    "UTF-16": "Hello.".encode("utf-16"),
    "UTF-32": "Hello.".encode("utf-32"),
    "a reply that is nested deeply": wire(raw_call("f", nested(150))),
    "arguments that are nested deeply": wire(raw_call("f", json.dumps(nested(150)))),
    "brackets without end": b"[" * 150_000,
    "braces without end": b"{" * 1_000_000,
    "1,000 calls": wire(raw_call("f", '{"a": 1,}'), 1_000),
    "30,000 calls": wire(raw_call("f", "{}"), 30_000),
    "40,000 calls": wire(raw_call("f", "{}"), 40_000),
    "values without end": b'{"choices": [' + b"0," * 300_000 + b"0]}",
    "a name of 1 MB": wire(raw_call("f" * 1_000_000, "{}")),
    "arguments of 150 kB": wire(raw_call("f", json.dumps({"a": "x" * 150_000}))),
    "arguments that cannot be read": wire(raw_call("f", "?" * 150_000)),
    "an error of 1 MB": json.dumps({"error": {"message": "no " * 300_000}}).encode(),
    "a finish reason of 1 MB": json.dumps(
        {"choices": [{"message": {"content": ""}, "finish_reason": "x" * 1_000_000}]}
    ).encode(),
    "calls in text": TAGGED.encode() * 900,
    "too many calls in text": TAGGED.encode() * 5_000,
    "quoted calls": f"- {TAGGED}\n".encode() * 900,
    "broken calls": b"<tool_call>{broken}</tool_call>\n" * 5_000,
    "opening marks": b"<tool_call>" * 20_000,
    "comments of a stream that never begins": b": " * 5_000 + b"x",
    "bare objects": f"{BLURRED}\n".encode() * 500,
    "what no terminal shows": wire(
        raw_call("\U000e0041" * 600, json.dumps({"\U000e0041" * 600: "\u202e" * 600})), 100
    ),
    "nothing": b"",
}


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["for people", "for programs"])
@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_is_explained_it_ends_as_documented_and_people_are_shown_little(
    name: str, flags: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "reply"
    path.write_bytes(HOSTILE[name])
    code = main(["explain", str(path), *flags])
    out, said = capsys.readouterr()

    assert (code, bool(out), said.count("\n")) in {(0, True, 0), (1, True, 0), (2, False, 1)}
    if flags and out:
        assert len(out) <= MOST_SHOWN + 12 * len(HOSTILE[name])
        json.loads(out)
    else:
        assert len(ESCAPE.sub("?", out + said)) <= MOST_SHOWN


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode), st.integers(1, 500))
def test_any_bytes_however_often_are_explained_in_few_words(piece: bytes, times: int) -> None:
    try:
        shown = render(explain(piece * times))
    except ConfigError as error:
        shown = str(error)

    assert len(shown) <= MOST_SHOWN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a stream of too many events", "RESPONSE_TOO_LARGE: The streamed answer has more than"),
        ("a text of 10 MB", "RESPONSE_TOO_LARGE: The answer has more than 4194304 bytes."),
        ("values without end", "RESPONSE_TOO_LARGE: The answer has more than 200000 values."),
        ("30,000 calls", "RESPONSE_TOO_LARGE: The answer has more than 1000 calls."),
        ("40,000 calls", "RESPONSE_TOO_LARGE: The answer has more than 200000 values."),
        ("a reply that is nested deeply", "nested too deeply: more than 128 levels."),
    ],
)
def test_a_reply_that_no_run_would_read_is_a_fault(name: str, sentence: str) -> None:
    assert sentence in explain(HOSTILE[name]).fault


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE"),
        ("UTF-32", "convert it: iconv -f UTF-32 -t UTF-8 FILE"),
        ("random bytes", "this is no text"),
        ("NUL bytes", "this is no text"),
    ],
)
def test_what_is_no_text_in_utf_8_is_refused(name: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        explain(HOSTILE[name])


def test_a_text_of_another_age_is_still_a_text() -> None:
    assert explain("Über Köln scheint die Sonne.".encode("latin-1")).kind == "text"
    assert explain(b"\xef\xbb\xbf" + EVENT).kind == "stream"


@pytest.mark.slow
def test_what_is_cut_says_by_how_much() -> None:
    long = render(explain(b"x" * (SHOWN + 1)))
    many = render(explain(HOSTILE["1,000 calls"]))

    assert f"text: {'x' * SHOWN} … and 1 more character\n" in long
    assert many.count("call: f ") == LISTED
    assert f"\n… and {1_000 - LISTED} more calls\n" in many
    assert many.count("repaired by: trailing_commas") == 1
