"""Ctrl-C and SIGTERM: every command that waits ends, with the right code, and leaves nothing."""

import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from surecall.cli.interrupts import Interrupts, SignalCounts
from tests.support.commands import is_group_empty
from tests.support.generated import Broken, check, dice, many
from tests.support.timing import until
from tests.support.waiting_commands import COMMANDS, press_ctrl_c, waiting

# Five times what is promised: a busy machine stays below, and a command that hangs does not.
HANGS_S = 10.0


def unfinished(folder: Path) -> Iterator[Path]:
    """Find files that were being written."""
    for path in folder.rglob("*"):
        if path.suffix in {".tmp", ".part"} or path.name.endswith("~"):
            yield path


@pytest.mark.processes
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_waits_ends_on_sigterm(name: str, tmp_path: Path) -> None:
    with waiting(COMMANDS[name], tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANGS_S) == 143
        until(lambda: is_group_empty(process.pid))
        assert process.stdout is not None
        assert b"Traceback" not in process.stdout.read()
    assert not list(unfinished(tmp_path))


@pytest.mark.processes
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_waits_ends_on_two_ctrl_c(name: str, tmp_path: Path) -> None:
    with waiting(COMMANDS[name], tmp_path) as process:
        press_ctrl_c(process.pid)
        press_ctrl_c(process.pid)
        # The second one may come when Python has already given back its handlers.
        assert process.wait(HANGS_S) in {130, -signal.SIGINT}
        until(lambda: is_group_empty(process.pid))
        assert process.stdout is not None
        assert b"Traceback" not in process.stdout.read()
    assert not list(unfinished(tmp_path))


class Recorded(Interrupts):
    """Records how its process would be killed, and what its listener and main thread see."""

    def __init__(self, *, is_blocked: bool) -> None:
        super().__init__()
        self.kills: list[str] = []
        self.heard: list[SignalCounts] = []
        self.raised = 0
        self._is_blocked = is_blocked

    def send(self, number: signal.Signals, *, is_handled_first: bool) -> None:
        """Deliver a signal to the thread and, unless it is blocked, to the main thread."""
        if not is_handled_first:
            self._count_signal(number)
        if not self._is_blocked:
            try:
                self._handle(number, None)
            except KeyboardInterrupt:
                self.raised += 1
        if is_handled_first:
            self._count_signal(number)

    def _kill(self) -> None:
        self.kills.append("now")

    def _kill_after_grace(self) -> None:
        self.kills.append("later")

    def _wake(self, number: int) -> None:
        pass


def faults(ours: Recorded, sent: list[str]) -> Iterator[str]:
    """Return what is wrong after some signals."""
    interrupted, terminated = sent.count("SIGINT"), "SIGTERM" in sent
    if ours.kills.count("later") != int(terminated or interrupted > 1):
        yield "grace period"
    if ("now" in ours.kills) is not (interrupted > 2):
        yield "third Ctrl-C"
    if ours.signals != SignalCounts(interrupted, terminated):
        yield "received"
    if "listen" in sent and ours.heard[-1] != ours.signals:
        yield "listener"


def play(draw: random.Random) -> Iterator[Broken]:
    """Send signals to a command that is blocked or not, and listens from some time on or never."""
    is_blocked = draw.random() < 0.3
    ours = Recorded(is_blocked=is_blocked)
    sent: list[str] = []
    with ExitStack() as stack:
        for _ in range(draw.randint(1, 5)):
            if draw.random() < 0.3:
                stack.enter_context(ours.redirect_to(ours.heard.append))
                sent.append("listen")
            number = draw.choice((signal.SIGINT, signal.SIGTERM))
            sent.append(number.name)
            ours.send(number, is_handled_first=draw.random() < 0.5)
            yield from (Broken(fault, str(sent), str(ours.kills)) for fault in faults(ours, sent))
    # A command without a listener is interrupted by its first signal, and by no other.
    if ours.raised != (not is_blocked and sent[0] != "listen"):
        yield Broken("KeyboardInterrupt", str(sent), str(ours.raised))


def test_any_sequence_of_signals_ends_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("_thread.start_new_thread", lambda work, arguments: work(*arguments))
    draw, cases = dice("signals"), many(2_000)

    check((broken for _ in range(cases) for broken in play(draw)), cases)
