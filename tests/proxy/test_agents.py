"""Coding agents, the real programs: each writes a file, whatever is wrong with the model's call.

They are looked for on the PATH, or where SURECALL_TEST_CODEX and SURECALL_TEST_CLAUDE say. Each has
a home and a directory that are thrown away, and reaches no server but the proxy.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import pytest

from surecall.proxy import Proxy, Record
from surecall.simulator.faults import SHAPE_FAULTS, apply_fault
from surecall.testing import Built, Reaction, ScriptedProvider, calls, says, streams
from surecall.values.types import JSON, ToolCall
from surecall.wire.dialects import WRITERS
from tests.support.timing import PATIENCE_S

pytestmark = pytest.mark.processes

Agent: TypeAlias = Callable[[str, Path, Path], str]

NOTE: Final = 'It\'s "quoted" & café\n\tone \\ two\n'
DONE: Final = "The note is written."
PROMPT: Final = "Write the note."
# A call, the same one again if it was refused, and an answer. More requests than this are a loop.
MOST_REQUESTS: Final = 4
# A call as text is no fault of the shape: it is written in the first dialect of the catalogue.
TEXT, TEXT_DIALECT = "call_as_text", "A1"
REFUSED: Final = ("arguments_cut_off", "name_unknown")
FAULTS: Final = (
    *(TEXT, "tool_calls_text", "legacy_function_call", "call_parts", "finish_stop_with_calls"),
    *("id_missing", "name_control_token", "arguments_object", "arguments_fenced", *REFUSED),
)
# What an agent sends to anybody else ends here: nobody listens.
NOWHERE: Final = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
CODEX_SETTINGS: Final = """
model = "{model}"
model_provider = "proxy"
check_for_update_on_startup = false

[model_providers.proxy]
name = "proxy"
base_url = "{url}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false
"""


# The agents


def program(name: str, variable: str) -> str:
    found = os.environ.get(variable) or shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed: put it on the PATH, or name it in {variable}")
    return found


def ran(command: list[str], home: Path, folder: Path, variables: dict[str, str]) -> str:
    """Run an agent to its end in a folder, and return what it prints."""
    ended = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(home)} | NOWHERE | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def codex(url: str, home: Path, folder: Path, model: str = "some-model") -> str:
    command = [program("codex", "SURECALL_TEST_CODEX"), "exec", "--skip-git-repo-check"]
    command += ["--dangerously-bypass-approvals-and-sandbox", PROMPT]
    (home / "config.toml").write_text(CODEX_SETTINGS.format(url=url, model=model), "utf-8")
    return ran(command, home, folder, {"CODEX_HOME": str(home)})


def codex_with_patches(url: str, home: Path, folder: Path) -> str:
    return codex(url, home, folder, "gpt-5.5")


def claude(url: str, home: Path, folder: Path) -> str:
    command = [program("claude", "SURECALL_TEST_CLAUDE"), "-p", PROMPT, "--output-format", "json"]
    variables = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": "none",
        "ANTHROPIC_MODEL": "some-model",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }
    printed = ran([*command, "--allowedTools", "Write"], home, folder, variables)
    return str(msgspec.json.decode(printed)["result"])


# The model


def model(fault: str, clean: JSON, note: Path) -> Reaction:
    """Make one call, with a fault the first time, and answer when the note is there."""

    def react(request: JSON) -> Built:
        if note.exists():
            return streams(says(DONE))
        heard = any(message["role"] == "tool" for message in request["messages"])
        return streams(clean if heard else bent(fault, clean, request["tools"]))

    return react


def bent(fault: str, clean: JSON, tools: list[JSON]) -> JSON:
    if fault != TEXT:
        return apply_fault(fault, clean, tools=tools)
    function = clean["choices"][0]["message"]["tool_calls"][0]["function"]
    call = ToolCall("", function["name"], msgspec.json.decode(function["arguments"]))
    return says(WRITERS[TEXT_DIALECT]((call,), ""))


def by_shell(_: Path) -> JSON:
    return calls("exec_command", cmd=f"cat > note.txt <<'END'\n{NOTE}END\n")


def by_patch(_: Path) -> JSON:
    lines = "".join(f"+{line}\n" for line in NOTE.splitlines())
    patch = f"*** Begin Patch\n*** Add File: note.txt\n{lines}*** End Patch\n"
    return calls("apply_patch", input=patch)


def by_tool(note: Path) -> JSON:
    return calls("Write", file_path=str(note), content=NOTE)


class Desk:
    """Where an agent works, and what can be seen of it afterwards."""

    def __init__(self, place: Path) -> None:
        self.home, self.folder = place / "home", place / "folder"
        self.home.mkdir()
        self.folder.mkdir()
        self.note = self.folder / "note.txt"
        self.answer = ""
        self.records: list[Record] = []
        self.requests: list[JSON] = []

    def give(self, agent: Agent, fault: str, call: Callable[[Path], JSON]) -> None:
        """Let an agent write the note with a model that makes this call."""
        script = [model(fault, call(self.note), self.note)] * MOST_REQUESTS
        with ScriptedProvider(*script) as provider, Proxy(provider.url) as proxy:
            self.answer = agent(proxy.url, self.home, self.folder).strip()
        self.requests = provider.requests
        self.records = list(proxy.records)[::-1]

    def assert_written(self, fault: str) -> None:
        """Hold that the task is done, and that it was the fault that was in the way."""
        assert self.note.read_text("utf-8") == NOTE
        assert self.answer == DONE
        first, last = self.records
        assert (first.outcome, last.outcome) == ("calls", "text")
        assert first.turns == (2 if fault in REFUSED else 1)
        cures = () if fault == TEXT else SHAPE_FAULTS[fault].repairs
        assert {*cures} <= {*first.repairs}


@pytest.fixture(name="desk")
def desk_fixture(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize("fault", FAULTS)
def test_codex_does_its_task_whatever_is_wrong_with_the_call(fault: str, desk: Desk) -> None:
    desk.give(codex, fault, by_shell)

    desk.assert_written(fault)


@pytest.mark.parametrize("fault", FAULTS)
def test_claude_code_does_its_task_whatever_is_wrong_with_the_call(fault: str, desk: Desk) -> None:
    desk.give(claude, fault, by_tool)

    desk.assert_written(fault)


@pytest.mark.parametrize("fault", [TEXT, "arguments_raw_newlines", "arguments_cut_off"])
def test_codex_gets_the_text_of_a_patch_from_a_function_call(fault: str, desk: Desk) -> None:
    desk.give(codex_with_patches, fault, by_patch)

    offered = {tool["function"]["name"] for tool in desk.requests[0]["tools"]}
    if "apply_patch" not in offered:
        pytest.skip("this Codex does not offer apply_patch to the model that the test names")
    desk.assert_written(fault)
