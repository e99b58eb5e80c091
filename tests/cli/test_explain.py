"""`surecall explain`: paste what a provider sent, and be told what became of it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from surecall.cli import main
from surecall.cli.explain import explain, render
from surecall.simulator.stream_events import events_of, frames_of
from surecall.testing import calls, calls_many, says
from surecall.values.types import JSON

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
    assert "  its name came as: Get-Weather\n" in render(told)


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
    assert "repaired by: trailing_commas\n  A comma with nothing behind it" in render(told)


@pytest.mark.parametrize(
    ("ids", "shown", "words"),
    [
        ((None,), (None,), "its id is missing: it gets a new one"),
        (("a", "a"), ("-", "a"), "its id came twice: it gets a new one"),
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
    events = b"".join(frames_of(events_of(calls("get_weather", city="Paris"))))
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
    assert "nothing that looks like one" in render(explain(b"Hello."))


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
        (f"{TAGGED}\nThat is what it says.", "last_words", "something follows it"),
        (f"- {TAGGED}", "own_words", "it may be quoted"),
        (f"{TAGGED}</tool_call>", "whole", "a closing mark is left over"),
    ],
)
def test_a_call_that_a_run_would_ask_about_is_told_with_the_rule(
    text: str, rule: str, why: str
) -> None:
    told = explain(text.encode(), [TOOL])

    assert told.claims == ({"name": "get_weather", "rule": rule},)
    assert f"asked about, not run: get_weather (rule {rule}: " in render(told)
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
    assert "  order_id must have been seen: in a result of find\n" in render(told)
    assert "  item_id must have been seen: in the user's words or in a result" in render(told)


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

    assert told.stderr == "reading standard input; Ctrl-D ends it\n"
    assert "text: Hello." in told.stdout
