"""What a user's scenario file may not do: end the program, take the control's id, be unreadable."""

import importlib.metadata
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from surecall import ConfigError
from surecall.eval import scenario
from surecall.eval.scenarios.builtin import SCENARIOS
from surecall.eval.scenarios.plugins import installed, load
from surecall.eval.scenarios.scenario import Scenario
from surecall.values.types import JSON

ASKED: JSON = {"messages": [{"role": "user", "content": "Count to 3."}]}
LINE = json.dumps(ASKED).encode()


def refused(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(ConfigError) as error:
        load(str(path))
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(str(path))


def control() -> Scenario:
    return next(one for one in SCENARIOS if one.is_control)


def offer(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    def loaded() -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    entry = SimpleNamespace(name="mine", load=loaded)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [entry])


def test_a_file_that_ends_the_program_is_told_with_its_place(tmp_path: Path) -> None:
    told = refused(tmp_path / "exits.py", b"import sys\n\nsys.exit(0)\n")
    assert told == ":3: SystemExit: 0"


def test_the_line_is_told_for_a_relative_path_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(Path("exits.py"), b"\n1 / 0\n") == ":2: ZeroDivisionError: division by zero"


def test_a_package_that_ends_the_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, SystemExit(0))
    with pytest.raises(ConfigError, match=r"entry point 'mine' .* SystemExit: 0"):
        installed()


def test_nobody_else_may_take_the_id_of_the_control(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def chat_only(_run: Any) -> None: ...

    with pytest.raises(ConfigError, match="'chat_only': the control"):
        scenario()(chat_only)
    line = json.dumps(ASKED | {"id": "chat_only"}).encode()
    assert refused(tmp_path / "log.jsonl", line).startswith(":1: a scenario cannot be called")
    # One that was not made by the decorator is found as well.
    text = b"from surecall.eval.scenarios.builtin import SCENARIOS\nmine = SCENARIOS[-1]\n"
    assert SCENARIOS[-1] == control()
    assert refused(tmp_path / "mine.py", text).startswith(": a scenario cannot be called")
    offer(monkeypatch, control())
    with pytest.raises(ConfigError, match=r"entry point 'mine' .* cannot be called 'chat_only'"):
        installed()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param(b'{"messages": "\xff"}', "'utf-8' codec can't decode", id="not-utf-8"),
        pytest.param(b'{"messages": ' + b"[" * 100_000, "nested too deeply", id="deep"),
        pytest.param(b'{"id": "twice", ' + LINE[1:], "two scenarios are called", id="same-id"),
    ],
)
def test_a_line_that_cannot_be_read_is_told_with_its_number(
    tmp_path: Path, line: bytes, told: str
) -> None:
    first = b'{"id": "twice", ' + LINE[1:]
    assert refused(tmp_path / "log.jsonl", first + b"\n\n" + line).startswith(f":3: {told}")


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    text = "one\u2028two\u2029three\x85four"
    line = json.dumps({"messages": [{"role": "user", "content": text}]}, ensure_ascii=False)
    path = tmp_path / "log.jsonl"
    path.write_bytes(f"{line}\r\n{line}\n".encode())
    assert [one.id for one in load(str(path))] == ["log_001", "log_002"]
