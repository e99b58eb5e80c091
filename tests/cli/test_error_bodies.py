"""What `surecall explain` says of a body that holds no reply, and with which exit code."""

import gzip
import json
from pathlib import Path

import pytest

from surecall.cli import main
from surecall.cli.explain import explain
from surecall.simulator.stream_events import build_events, encode_frames
from surecall.testing import calls, says

PAGE = (
    b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
)
BODY = json.dumps(calls("get_weather", city="Paris") | {"object": "chat.completion"}).encode()
STREAM = b"".join(encode_frames(build_events(calls("get_weather", city="Paris"))))
GROQ = b'{"error": {"message": "x", "failed_generation": "<function=f{}</function>"}}'


def code_of(data: bytes, folder: Path, *flags: str) -> int:
    path = folder / "reply"
    path.write_bytes(data)
    return main(["explain", str(path), *flags])


@pytest.mark.parametrize(
    ("data", "status", "fault"),
    [
        (PAGE, 502, "UPSTREAM_5XX (HTTP 502): The endpoint returned an HTML error page, not a mod"),
        (PAGE, None, "UPSTREAM_5XX (HTTP 502): The endpoint returned an HTML error page, not a mo"),
        (PAGE, 404, "NOT_FOUND (HTTP 404): The endpoint returned an HTML error page"),
        (b"<!DOCTYPE HTML>\n<p>Log in", None, "DECODE_ERROR: The endpoint returned an HTML page"),
        (b"<!-- x --> <body>no</body>", 200, "DECODE_ERROR: The endpoint returned an HTML page"),
        (b"\xef\xbb\xbf<html>", 503, "UPSTREAM_5XX (HTTP 503): The endpoint returned an HTML"),
        (b'<?xml version="1.0"?><Error/>', None, "DECODE_ERROR: The endpoint returned an XML doc"),
        (b"Bad Gateway", None, "UPSTREAM_5XX (HTTP 502): The endpoint returned an error in plain"),
        (b"HTTP/1.1 404 Not Found", None, "NOT_FOUND (HTTP 404): The endpoint returned an error"),
        (b"429 Too Many Requests.", None, "RATE_LIMIT (HTTP 429): The endpoint returned an error"),
        (b"upstream connect error or disconnect/reset before headers.", None, "DECODE_ERROR: The"),
        (b"error code: 1015", None, "DECODE_ERROR: The endpoint returned an error in plain text"),
        (b"Sorry, we are down.", 503, "UPSTREAM_5XX (HTTP 503): The endpoint returned an error"),
        (
            b"<tool_call>{}</tool_call>",
            500,
            "UPSTREAM_5XX (HTTP 500): The endpoint returned an err",
        ),
        (b"", None, "EMPTY_RESPONSE: The response is empty"),
        (b" \r\n", 200, "EMPTY_RESPONSE: The response is empty"),
        (b"", 502, "UPSTREAM_5XX (HTTP 502): The endpoint returned an empty body."),
        (b'{"choices": [{,}]}', None, "DECODE_ERROR: The response is not valid JSON: Expecting"),
        (
            b": PROCESSING\n\n: PROCESSING\n\n",
            None,
            "CONNECTION_ERROR: The stream broke off before",
        ),
        (b'{"object": "response", "output": []}', None, "DECODE_ERROR: the response is not a chat"),
    ],
)
def test_what_is_no_reply_is_called_what_it_is_and_ends_with_exit_code_one(
    data: bytes,
    status: int | None,
    fault: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = () if status is None else ("--status", str(status))

    assert explain(data, status=status).fault.startswith(fault)
    assert code_of(data, tmp_path, *flags) == 1
    printed = capsys.readouterr().out
    assert "in words" not in printed
    assert "no calls" not in printed


@pytest.mark.parametrize("data", [BODY, json.dumps(says("Hello.")).encode()])
def test_a_response_that_is_cut_anywhere_is_called_cut_off(data: bytes) -> None:
    for end in range(1, len(data)):
        told = explain(data[:end])
        assert told.fault.startswith("DECODE_ERROR: The response is truncated: its JSON is"), end
        assert told.unreadable


def test_a_stream_that_is_cut_inside_an_event_is_called_cut_off() -> None:
    events = STREAM.split(b"\n\n")
    for end in range(len(b"data: {") + 1, len(events[0])):
        told = explain(events[0][:end])
        assert told.fault.startswith("DECODE_ERROR: The response is truncated: its last event"), end
        assert told.unreadable


def test_a_stream_without_its_terminal_event_has_broken_off(tmp_path: Path) -> None:
    events = STREAM.split(b"\n\n")
    started = b"\n\n".join(events[:2]) + b"\n\n"

    assert explain(started).fault.startswith("CONNECTION_ERROR: The stream broke off")
    assert code_of(started, tmp_path) == 1


@pytest.mark.parametrize(
    ("data", "flags"),
    [
        (BODY, ()),
        (BODY, ("--status", "200")),
        (STREAM, ()),
        (b"Hello.", ("--status", "201")),
        (b"Not found", ()),
        (b"Error code: 1015 means that you are rate limited.", ()),
        (b"[1] See the first page.", ()),
        (b'{"message": "Hello."}', ()),
        (b'{"message": "Hello.", "code": 7}', ()),
        (b'{"detail": "Sunny.", "city": "Paris"}', ()),
        (b"<p>An <b>answer</b></p>", ()),
        (GROQ, ("--status", "400")),
    ],
)
def test_what_may_be_a_reply_is_read_as_one(
    data: bytes, flags: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(data, tmp_path, *flags) == 0
    assert "fault: " not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("data", "status", "fault"),
    [
        (b'{"error": {"message": "no such model"}}', 200, "PROVIDER_ERROR: no such model"),
        (b'{"detail": "Not Found"}', None, "PROVIDER_ERROR: Not Found"),
        (b'{"detail": "Not Found"}', 404, "NOT_FOUND (HTTP 404): Not Found"),
        (b'{"message": "Service Unavailable"}', None, "PROVIDER_ERROR: Service Unavailable"),
        (b'{"message": "no", "statusCode": 401}', 401, "AUTH (HTTP 401): no"),
        (b'{"message": "no", "status": 429}', None, "RATE_LIMIT (HTTP 429): no"),
        (b'{"errors": [{"message": "bad"}]}', None, "PROVIDER_ERROR: bad"),
        (b'{"anything": 1}', 502, "UPSTREAM_5XX (HTTP 502): HTTP 502"),
        (b'event: error\ndata: {"error": {"code": 502}}\n\n', None, "UPSTREAM_5XX (HTTP 502)"),
        (b"event: error\ndata: it broke\n\n", None, "PROVIDER_ERROR: it broke"),
        (STREAM.split(b"\n\n")[0] + b'\n\ndata: {"error": {"code": 429}}\n\n', None, "RATE_LIMIT"),
    ],
)
def test_an_error_in_the_form_of_an_api_is_read_and_judged(
    data: bytes, status: int | None, fault: str, tmp_path: Path
) -> None:
    flags = () if status is None else ("--status", str(status))

    assert explain(data, status=status).fault.startswith(fault)
    assert code_of(data, tmp_path, *flags) == 0


@pytest.mark.parametrize(
    "text", ['{"name": "get_weather", "arguments": {"city": "P', '{"tool": "get_wea', "[{"]
)
def test_a_text_of_json_that_ends_in_the_middle_is_called_cut_off(text: str) -> None:
    assert "The response is truncated: its JSON is incomplete" in explain(text.encode()).fault


def test_programs_are_told_that_there_is_no_reply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(PAGE, tmp_path, "--json") == 1
    assert json.loads(capsys.readouterr().out)["unreadable"] is True
    assert code_of(BODY, tmp_path, "--json") == 0
    assert "unreadable" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(BODY), "the input is compressed (gzip); decompress it: gunzip -c FILE"),
        (b"\x28\xb5\x2f\xfd\x00", "the input is compressed (zstd); decompress it: zstd -dc FILE"),
        (bytes(range(256)), "the input is not text"),
    ],
)
def test_bytes_that_are_no_text_are_refused_in_one_line(
    data: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(data, tmp_path) == 2
    assert capsys.readouterr().err.startswith(f"surecall: {said}")
