"""A process that takes part in a conversation which is kept in a file.

    python -m tests.support.conversing chats.db paid.txt die        pays, and is killed (-9) in it
    python -m tests.support.conversing chats.db paid.txt approve    approves what waits, when told

Each payment is a line in the second file. What came of it is printed.
"""

import os
import signal
import sys
from pathlib import Path

from surecall import Conversation, Decision, SqliteStore, SurecallError, ToolLoopRunner, tool
from surecall.testing import ScriptedModel, calls, says


def conversation(chats: str, paid: str, *script: object, is_last: bool = False) -> Conversation:
    """Open the conversation, with a tool that pays; if it `is_last`, nothing comes after it."""

    @tool(destructive=True)
    def pay(amount: int) -> str:
        """Pay."""
        with Path(paid).open("a") as file:
            file.write(f"{amount}\n")
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return "paid"

    model = ScriptedModel(*script)  # type: ignore[arg-type]  # answers, as it takes them
    runner = ToolLoopRunner(client=model, model="m", tools=[pay], config={})
    return Conversation(runner, SqliteStore(chats), "customer-7", lease_s=3600)


def main(chats: str, paid: str, act: str) -> None:
    """Take part."""
    if act == "die":
        script = calls("pay", amount=5), says("Never said.")
        conversation(chats, paid, *script, is_last=True).say_sync("Pay 5.")
    chat = conversation(chats, paid, says("Paid."))
    decisions = {call.id: Decision.approve() for call in chat.waiting}
    _tell("ready")
    sys.stdin.readline()
    try:
        _tell(chat.resume_sync(decisions).assistant_text)
    except SurecallError as error:
        _tell(type(error).__name__)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
