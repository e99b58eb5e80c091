"""The loop as one writes it by hand, over HTTP and the standard library, after the documentation.

It is careful where most are: it asks again when the endpoint is busy or the connection breaks, and
whatever goes wrong with a call (no such tool, no JSON, other arguments) is told to the model.
"""

import gzip
import http.client
import json
import time
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from surecall.simulator.demo.tasks import NeverEnded, Refused, Task, Tools, described
from surecall.values.types import JSON

MOST_TURNS: Final = 8
_PATH: Final = "/v1/chat/completions"
_ATTEMPTS: Final = 3
_WAIT_S: Final = 0.5
_TIMEOUT_S: Final = 60.0
_REFUSED, _BUSY, _BROKEN = 400, 429, 500


def converse(ask: Callable[[list[JSON]], JSON], task: Task, tools: Tools) -> str:
    """Hold a conversation: ask, run the calls, tell their results, until there are none."""
    by_name = {function.__name__: function for function in tools}
    messages: list[JSON] = [
        {"role": "system", "content": task.system},
        {"role": "user", "content": task.prompt},
    ]
    for _ in range(MOST_TURNS):
        message = ask(messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message.get("content") or "")
        for call in message["tool_calls"]:
            content = _result(call["function"], by_name)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    raise NeverEnded(f"no answer after {MOST_TURNS} turns")


def _result(function: JSON, by_name: dict[str, Callable[..., str]]) -> str:
    try:
        return by_name[function["name"]](**json.loads(function["arguments"]))
    except (KeyError, TypeError, ValueError) as error:
        return f"Error: {type(error).__name__}: {error}. Please try again."


def plain_loop(url: str, model: str, task: Task, tools: Tools, *, streamed: bool) -> str:
    """Let a model do a task."""
    request = {"model": model, "tools": described(tools)} | ({"stream": True} if streamed else {})

    def ask(messages: list[JSON]) -> JSON:
        lines = _lines(url, request | {"messages": messages})
        if streamed:
            return put_together(_chunks(lines))
        message: JSON = json.loads(b"".join(lines))["choices"][0]["message"]
        return message

    return converse(ask, task, tools)


def _lines(url: str, request: JSON) -> list[bytes]:
    """Post a request, and again if that may help; return the lines of the answer."""
    for attempt in range(1, _ATTEMPTS + 1):
        is_last = attempt == _ATTEMPTS
        try:
            status, data = _posted(url, request)
        except (OSError, http.client.HTTPException):
            if is_last:
                raise
        else:
            if status < _REFUSED:
                return data.splitlines(keepends=True)
            if is_last or (status < _BROKEN and status != _BUSY):
                raise Refused(status, data.decode("utf-8", "replace"))
        time.sleep(_WAIT_S)
    raise AssertionError  # pragma: no cover  # the last attempt returns or raises


def _posted(url: str, request: JSON) -> tuple[int, bytes]:
    line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT_S)
    try:
        line.request("POST", _PATH, json.dumps(request), {"Content-Type": "application/json"})
        answer = line.getresponse()
        data = answer.read()
    finally:
        line.close()
    is_packed = answer.getheader("Content-Encoding") == "gzip"
    return answer.status, gzip.decompress(data) if is_packed else data


def _chunks(lines: Iterable[bytes]) -> Iterable[JSON]:
    for line in lines:
        data = line.removeprefix(b"data: ").strip()
        if line.startswith(b"data: ") and data != b"[DONE]":
            yield json.loads(data)


def put_together(chunks: Iterable[Any]) -> JSON:
    """Put the deltas of a stream together, as the documentation says."""
    message: JSON = {"role": "assistant", "content": ""}
    calls: dict[int, JSON] = {}
    for chunk in chunks:
        for choice in chunk["choices"][:1]:
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            for part in delta.get("tool_calls") or ():
                _add(calls, part)
    return message | ({"tool_calls": list(calls.values())} if calls else {})


def _add(calls: dict[int, JSON], part: JSON) -> None:
    known = calls.get(part["index"])
    if known is None:
        calls[part["index"]] = {key: part[key] for key in part if key != "index"}
    else:
        known["function"]["arguments"] += part["function"].get("arguments") or ""
