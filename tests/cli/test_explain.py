"""Tests of `surecall.cli.explain`."""

import json
import os
import pty
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.cli import main
from surecall.cli.explain import (
    MAX_LISTED,
    MAX_SHOWN_CHARS,
    explain,
    fault_advice,
    render,
    step_meaning,
)
from surecall.parsing.arguments import REPAIRS
from surecall.simulator.stream_events import build_events, encode_frames
from surecall.testing import calls, calls_many, says
from surecall.values.errors import ConfigError, ErrorCode, Fault
from surecall.values.types import JSON

# `surecall explain`: paste what a provider sent, and be told what became of it


TOOL = {"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}}
TAGGED = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'


def test_a_text_is_read_in_its_dialect() -> None:
    told = explain(f"Sure.\n{TAGGED}".encode())

    assert told.kind == "text"
    assert told.calls == ({"name": "get_weather", "arguments": {"city": "Paris"}},)
    assert told.text.strip() == "Sure."


def test_a_response_is_read_as_a_run_would_read_it() -> None:
    body = calls("Get-Weather", city="Paris")
    body["choices"][0]["message"]["tool_calls"] = body["choices"][0]["message"]["tool_calls"][0]
    told = explain(json.dumps(body).encode(), [TOOL])

    assert told.kind == "response"
    assert told.calls == (
        {"name": "get_weather", "arguments": {"city": "Paris"}, "asked": "Get-Weather"},
    )
    assert "assistant_tool_calls_object_to_array" in told.steps
    assert "  original name: Get-Weather\n" in render(told)


def test_what_would_not_run_says_why() -> None:
    told = explain(json.dumps(calls("get_weather", city=5.5)).encode(), [TOOL])

    assert "ARGUMENT_ERROR" in told.calls[0]["problem"]
    assert "would not run" in render(told)


def test_what_was_repaired_is_named_and_told_in_a_sentence() -> None:
    body = calls("get_weather")
    function = body["choices"][0]["message"]["tool_calls"][0]["function"]
    function["arguments"] = '{"city": "Paris",}'
    told = explain(json.dumps(body).encode())

    assert told.calls[0]["repairs"] == ["trailing_commas"]
    assert "repaired by: trailing_commas\n  A comma before a closing bracket" in render(told)


@pytest.mark.parametrize(
    ("ids", "shown", "words"),
    [
        ((None,), (None,), "the id is missing: surecall assigns a new one"),
        (("a", "a"), ("-", "a"), "the id is a duplicate: surecall assigns a new one"),
        (("a", "b"), ("-", "-"), ""),
    ],
)
def test_an_id_that_is_missing_or_comes_twice_is_told(
    ids: tuple[str | None, ...], shown: tuple[str | None, ...], words: str
) -> None:
    body = calls_many(*[calls("get_weather", city="Paris") for _ in ids])
    for raw, call_id in zip(body["choices"][0]["message"]["tool_calls"], ids, strict=True):
        raw["id"] = call_id
    told = explain(json.dumps(body).encode())

    assert tuple(call.get("id", "-") for call in told.calls) == shown
    assert words in render(told)


def test_a_stream_is_put_together_and_read() -> None:
    events = b"".join(encode_frames(build_events(calls("get_weather", city="Paris"))))
    told = explain(b": OPENROUTER PROCESSING\n\nevent: x\n" + events)

    assert told.kind == "stream"
    assert told.calls == ({"name": "get_weather", "arguments": {"city": "Paris"}},)


def test_an_error_in_a_stream_is_a_fault() -> None:
    told = explain(b'data: {"error": {"code": 429, "message": "slow down"}}\n\n')

    assert (told.kind, told.fault.split(":")[0]) == ("stream", "RATE_LIMIT (HTTP 429)")


def test_a_text_that_begins_like_an_event_is_a_text() -> None:
    assert explain(b"data: what we know about Paris").kind == "text"


def test_an_error_in_a_list_is_a_fault() -> None:
    assert explain(b'[{"error": {"code": 429, "message": "slow down"}}]').fault != ""


def test_an_error_is_judged_by_the_status_that_it_came_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "reply.json"
    error = {"message": "gemma:2b does not support tools", "type": "api_error"}
    path.write_text(json.dumps({"error": error}))

    assert main(["explain", str(path)]) == 0
    assert "fault: UPSTREAM_5XX (HTTP 500)" in capsys.readouterr().out
    assert main(["explain", str(path), "--status", "400"]) == 0
    assert "fault: NO_TOOL_USE_ENDPOINT (HTTP 400)" in capsys.readouterr().out


def test_a_call_that_is_announced_and_missing_is_told_so() -> None:
    body = says("")
    body["choices"][0]["finish_reason"] = "tool_calls"

    assert explain(json.dumps(body).encode()).fault.startswith("the reply announces a call")


def test_an_error_body_is_a_fault() -> None:
    told = explain(b'{"error": {"code": 429, "message": "slow down"}}')

    assert told.fault.startswith("RATE_LIMIT (HTTP 429): slow down")
    assert "fault: RATE_LIMIT" in render(told)


def test_what_looks_like_a_call_and_is_none_gets_a_reason() -> None:
    told = explain(b"<tool_call>{broken}</tool_call>")

    assert told.calls == ()
    assert told.passed_over[0]["reason"]
    assert "not a call, at" in render(told)


@pytest.mark.parametrize("body", [says(""), {"choices": [{"message": 5}]}])
def test_an_empty_reply_is_called_empty(body: object) -> None:
    assert explain(json.dumps(body).encode()).fault == "the reply is empty"


def test_plain_words_are_plain_words() -> None:
    assert "nothing that looks like a call" in render(explain(b"Hello."))


def test_the_command_reads_a_file_and_prints_for_people_or_machines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, tools = tmp_path / "reply.txt", tmp_path / "tools.json"
    path.write_text(TAGGED + "\x1b[2J")
    tools.write_text(json.dumps([TOOL]))

    assert main(["explain", str(path)]) == 0
    assert 'call: get_weather {"city":"Paris"}' in capsys.readouterr().out
    assert main(["explain", str(path), "--tools", str(tools), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["calls"][0]["name"] == "get_weather"


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_what_is_printed_cannot_turn_a_line_around_or_talk_to_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    path = tmp_path / "reply.txt"
    path.write_text("\u202egnp.exe\x1b[2J\u2029\U000e0041", "utf-8")
    assert main(["explain", str(path), *flags]) == 0
    printed = capsys.readouterr().out

    assert [char for char in printed if not char.isprintable() and char != "\n"] == []
    if flags:
        assert json.loads(printed)["text"] == "\u202egnp.exe\x1b[2J\u2029\U000e0041"


@pytest.mark.parametrize("text", ["{", "{}"])
def test_tools_that_are_none_are_refused_in_one_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tools.json"
    path.write_text(text)

    assert main(["explain", str(path), "--tools", str(path)]) == 2
    assert capsys.readouterr().err.startswith("surecall: --tools")


def test_a_file_that_is_not_there_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "no/such/file"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("tools", [[TOOL], []])
def test_a_reply_of_the_guided_protocol_is_read_as_such(tools: list[JSON]) -> None:
    call = json.dumps({"tool": "get_weather", "arguments": {"city": "Paris"}})
    told = explain(call.encode(), tools)

    assert told.calls == ({"name": "get_weather", "arguments": {"city": "Paris"}},)
    assert told.steps == ("guided_reply",)
    answer = explain(json.dumps(says(json.dumps({"answer": "Sunny."}))).encode(), tools)
    assert (answer.text, answer.calls, answer.steps) == ("Sunny.", (), ("guided_reply",))


@pytest.mark.parametrize(
    "text",
    ['{"answer": "Sunny.", "more": 1}', '{"answer": 5}', '"Sunny."', '{"tool": "x"}', "{"],
)
def test_what_only_resembles_a_guided_reply_is_not_taken_for_one(text: str) -> None:
    assert "guided_reply" not in explain(text.encode(), [TOOL]).steps


@pytest.mark.parametrize(
    ("text", "rule", "why"),
    [
        (f"{TAGGED}\nThat is what it says.", "last_words", "more text follows it"),
        (f"- {TAGGED}", "own_words", "it may be quoted"),
        (f"{TAGGED}</tool_call>", "whole", "an extra closing mark follows"),
    ],
)
def test_a_call_that_a_run_would_ask_about_is_told_with_the_rule(
    text: str, rule: str, why: str
) -> None:
    told = explain(text.encode(), [TOOL])

    assert told.claims == ({"name": "get_weather", "rule": rule},)
    assert f"ambiguous, not run: get_weather (rule {rule}: " in render(told)
    assert why in render(told)


@pytest.mark.parametrize(
    "text",
    [
        '[TOOL_CALLS]get_weather{"city":"P',
        '<tool_call>{"name":"get_weather","arguments":{"city":"P',
    ],
)
@pytest.mark.parametrize("tools", [[TOOL], []])
def test_a_call_that_was_cut_off_is_told_so_with_tools_or_without(
    text: str, tools: list[JSON]
) -> None:
    assert "would not run: ARGUMENTS_JSON_PARSE_ERROR" in render(explain(text.encode(), tools))


def test_a_grounded_argument_says_where_it_must_have_been_seen() -> None:
    text = {"type": "string"}
    find = {"name": "find", "parameters": {"properties": {}}}
    refund = {
        "name": "refund",
        "parameters": {"properties": {"order_id": text, "item_id": text, "note": text}},
        "grounded": {"order_id": ["find"], "item_id": []},
    }
    body = json.dumps(calls("refund", order_id="O-1", item_id="i-1", note="x")).encode()
    told = explain(body, [find, refund])

    assert told.calls[0]["grounded"] == {"order_id": ["find"], "item_id": []}
    assert "  order_id must occur in a result of find\n" in render(told)
    assert "  item_id must occur in a user message or a result" in render(told)


def test_a_guided_reply_with_a_thought_or_a_way_out_is_known_as_such() -> None:
    thought = {"thought": "It is needed.", "tool": "get_weather", "arguments": {"city": "Paris"}}
    told = explain(json.dumps(thought).encode(), [TOOL])
    assert told.calls == ({"name": "get_weather", "arguments": {"city": "Paris"}},)
    assert explain(b'{"cannot": "The line is down."}').text == "The line is down."


@pytest.mark.parametrize("status", ["99", "600", "9999"])
def test_what_is_no_http_status_is_refused(
    status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "reply.txt"
    path.write_text("Hello.")

    assert main(["explain", str(path), "--status", status]) == 2
    assert "100<=x<=599" in capsys.readouterr().err


@pytest.mark.processes
def test_on_a_terminal_it_says_that_it_waits() -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"Hello.\n\x04")
    told = subprocess.run(
        [sys.executable, "-m", "surecall", "explain", "-"],
        stdin=theirs,
        capture_output=True,
        text=True,
        check=False,
    )
    os.close(ours)
    os.close(theirs)

    assert told.stderr == "reading standard input; press Ctrl-D to end it\n"
    assert "text: Hello." in told.stdout


# Whatever `surecall explain` is given, it ends as documented, in few words and without a crash


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
        ("a stream of too many events", "RESPONSE_TOO_LARGE: The streamed response has more than"),
        ("a text of 10 MB", "RESPONSE_TOO_LARGE: The response has more than 4194304 bytes."),
        ("values without end", "RESPONSE_TOO_LARGE: The response has more than 200000 values."),
        ("30,000 calls", "RESPONSE_TOO_LARGE: The answer has more than 1000 calls."),
        ("40,000 calls", "RESPONSE_TOO_LARGE: The response has more than 200000 values."),
        ("a reply that is nested deeply", "JSON with more than 128 levels."),
    ],
)
def test_a_reply_that_no_run_would_read_is_a_fault(name: str, sentence: str) -> None:
    assert sentence in explain(HOSTILE[name]).fault


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE"),
        ("UTF-32", "convert it: iconv -f UTF-32 -t UTF-8 FILE"),
        ("random bytes", "the input is not text"),
        ("NUL bytes", "the input is not text"),
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
    long = render(explain(b"x" * (MAX_SHOWN_CHARS + 1)))
    many = render(explain(HOSTILE["1,000 calls"]))

    assert f"text: {'x' * MAX_SHOWN_CHARS} … and 1 more character\n" in long
    assert many.count("call: f ") == MAX_LISTED
    assert f"\n… and {1_000 - MAX_LISTED} more calls\n" in many
    assert many.count("repaired by: trailing_commas") == 1


# Advice: each kind of reply has its own sentences, and they say what a run does


NAKED = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
GOOD = calls("get_weather", city="Paris")


def advice(body: JSON, *tools: JSON) -> str:
    return " ".join(explain(json.dumps(body).encode(), tools).advice)


def bent(**function: object) -> JSON:
    body = calls("get_weather", city="Paris")
    body["choices"][0]["message"]["tool_calls"][0]["function"] |= function
    return body


def cut() -> JSON:
    body = calls("get_weather", city="Paris")
    body["choices"][0]["finish_reason"] = "length"
    return body


@pytest.mark.parametrize(
    ("body", "tools", "told"),
    [
        pytest.param(GOOD, (TOOL,), "The reply is valid.", id="right"),
        pytest.param(bent(arguments={"city": "Paris"}), (), "fails on this one", id="bent"),
        pytest.param(bent(name="Get-Weather"), (TOOL,), "fails on this one", id="renamed"),
        pytest.param(bent(name="weather"), (TOOL,), "the list of tools", id="unknown"),
        pytest.param(bent(arguments="{"), (), "sends the reason back", id="unreadable"),
        pytest.param(cut(), (), "raise `max_tokens`", id="cut off"),
        pytest.param(says(TAGGED), (TOOL,), "tool parser", id="as text"),
        pytest.param(says(f"{TAGGED} it says."), (TOOL,), "whether it means", id="in doubt"),
        pytest.param(says("<|use|>get_weather{}"), (TOOL,), "whether it means", id="strange"),
        pytest.param(says(NAKED), (TOOL,), "By default, surecall asks", id="bare"),
        pytest.param(says(f"```\n{NAKED}\n```"), (TOOL,), "By default, surecall asks", id="fence"),
        pytest.param(says(f"Look: {NAKED} so."), (TOOL,), "as the final answer", id="prose"),
        pytest.param(says(NAKED), (), "add --tools", id="bare, tools unknown"),
        pytest.param(says("It is sunny."), (), "replied with text", id="words"),
        pytest.param(says(""), (), "re-prompts the model once", id="empty"),
    ],
)
def test_each_kind_of_reply_has_its_own_sentences(
    body: JSON, tools: tuple[JSON, ...], told: str
) -> None:
    assert told in advice(body, *tools)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Fault(ErrorCode.RATE_LIMIT, "slow down", retryable=True), "retries"),
        (Fault(ErrorCode.AUTH, "no"), "will not help"),
        (Fault(ErrorCode.NO_TOOL_USE_ENDPOINT, "no"), "guided_calls"),
        (Fault(ErrorCode.BAD_REQUEST, "no"), "rejects the request"),
    ],
)
def test_a_fault_says_whether_asking_again_helps(fault: Fault, told: str) -> None:
    assert told in " ".join(fault_advice(fault))


def test_every_repair_has_its_sentence_and_a_step_without_one_has_none() -> None:
    assert [name for name in REPAIRS if not step_meaning(name)] == []
    assert step_meaning("response_body_unwrapped")[0].startswith("Unwrap a completion from")
    assert "as text" in step_meaning("text_call_C1")[0]
    assert step_meaning("guided_reply") == ()
