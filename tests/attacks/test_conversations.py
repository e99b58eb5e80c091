"""Attempts to make something happen twice in a conversation, with real processes and real files."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from surecall import AskFirst, Conversation, ConversationBusy, SqliteStore, ToolLoopRunner, tool
from surecall.testing import ScriptedModel, calls, says
from tests.support.conversing import conversation
from tests.support.paths import ROOT

pytestmark = pytest.mark.processes


def started(chats: Path, paid: Path, act: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.conversing", str(chats), str(paid), act],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_a_payment_in_which_the_process_is_killed_is_not_made_again(tmp_path: Path) -> None:
    chats, paid = tmp_path / "chats.db", tmp_path / "paid.txt"
    with started(chats, paid, "die") as process:
        assert process.wait() == -signal.SIGKILL
    chat = conversation(str(chats), str(paid), says("I do not know whether it was paid."))

    with pytest.raises(ConversationBusy, match="under way"):
        chat.say_sync("Did you?")
    chat.take_over()
    assert chat.interrupted
    result = chat.resume_sync()
    assert result.run.results[0].error_codes == ("CALL_OUTCOME_UNKNOWN",)
    assert result.assistant_text == "I do not know whether it was paid."
    assert not chat.interrupted
    assert paid.read_text() == "5\n"


def test_of_two_processes_that_approve_a_payment_one_makes_it(tmp_path: Path) -> None:
    chats, paid = tmp_path / "chats.db", tmp_path / "paid.txt"

    @tool(destructive=True)
    def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError(f"nobody has approved {amount}")

    asking = ToolLoopRunner(
        client=ScriptedModel(calls("pay", amount=5)),
        model="m",
        tools=[pay],
        tool_policy=AskFirst(),
    )
    chat = Conversation(asking, SqliteStore(chats), "customer-7")
    chat.say_sync("Pay 5.")
    assert [call.name for call in chat.waiting] == ["pay"]
    with started(chats, paid, "approve") as one, started(chats, paid, "approve") as two:
        both = (one, two)
        assert [_line(process) for process in both] == ["ready", "ready"]
        for process in both:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = sorted(_line(process) for process in both)

    assert said[1] == "Paid."
    assert said[0] in {"ConfigError", "ConversationBusy"}
    assert paid.read_text() == "5\n"
    assert not chat.waiting
    assert len(chat.history) == 4


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
