"""Commands that wait: what keeps each of them waiting, and how to see that it does.

Peers are sockets on loopback: one that accepts and says nothing, one that stops in the middle of
its head, one whose body never ends, and one that does not even accept.
"""

import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from surecall.eval.storage.store import Invocation, open_or_resume
from tests.support.project_files import TESTS
from tests.support.timing import until

SURECALL: Final = str(Path(sys.executable).with_name("surecall"))
HALF_A_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Le"
HEAD: Final = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
# So small that the limit of a response is minutes away, however long the signal takes.
CHUNK: Final = b"1\r\n \r\n"
OWN: Final = ("-m", "own", "--base-url", "http://{peer}")
SIMULATED: Final = ("eval", "-m", "sim/clean", "-n", "2", "--engine")
ASKED: Final = b'{"model":"m","messages":[{"role":"user","content":"?"}],"stream":%s,"tools":%s}'
TOOLS: Final = b'[{"type":"function","function":{"name":"f"}}]'
_SAID: Final = b"Ctrl-C"


class Peer(Protocol):
    """An address that never answers."""

    address: str

    def wait(self) -> None:
        """Wait until something has arrived."""
        ...

    def close(self) -> None:
        """Close every connection."""
        ...


class Silent:
    """Accepts connections, says a part of an answer or nothing, and waits."""

    def __init__(self, reply: bytes = b"", again: bytes = b"") -> None:
        self._reached = threading.Event()
        self._reply, self._again = reply, again
        self._server = socket.create_server(("127.0.0.1", 0))
        self._lines: list[socket.socket] = []
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def wait(self) -> None:
        self._reached.wait()

    def close(self) -> None:
        for line in (self._server, *self._lines):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                line = self._server.accept()[0]
                self._lines.append(line)
                threading.Thread(target=self._talk, args=[line], daemon=True).start()

    def _talk(self, line: socket.socket) -> None:
        with suppress(OSError):
            line.recv(1)
            line.sendall(self._reply)
            self._reached.set()
            while self._again:
                line.sendall(self._again)
            while line.recv(65_536):
                pass


class Dropping:
    """Answers no attempt to connect: its queue of connections is full."""

    def __init__(self) -> None:
        self._server = socket.socket()
        self._server.bind(("127.0.0.1", 0))
        self._server.listen(0)
        self._port = self._server.getsockname()[1]
        self.address = f"127.0.0.1:{self._port}"
        self._waiting = [socket.socket() for _ in range(3)]
        for line in self._waiting:
            line.settimeout(0)
            line.connect_ex(("127.0.0.1", self._port))
        self._before = self._unanswered()

    def wait(self) -> None:
        until(lambda: self._unanswered() > self._before)

    def close(self) -> None:
        for line in (self._server, *self._waiting):
            line.close()

    def _unanswered(self) -> int:
        """Count the connections whose SYN was not answered."""
        wanted = re.compile(rf":{self._port:04X} 02 ")
        return len(wanted.findall(Path("/proc/net/tcp").read_text()))


class Started(NamedTuple):
    """A command that was started as the leader of a process group, as a terminal does."""

    process: "subprocess.Popen[bytes]"
    peer: Peer
    terminal: int
    stack: ExitStack

    def until_said(self, words: bytes) -> str:
        """Wait until the command has printed some words; return everything up to them."""
        assert self.process.stdout is not None
        said = b""
        while words not in said:
            data = os.read(self.process.stdout.fileno(), 65_536)
            assert data, said
            said += data
        return said.decode()

    def connect(self, address: str, data: bytes) -> socket.socket:
        """Send bytes to a server, and keep the connection open."""
        host, _, port = address.rpartition(":")
        line = self.stack.enter_context(closing(socket.create_connection((host, int(port)))))
        line.sendall(data)
        return line


class Waiting(NamedTuple):
    """A command that waits. `ready` returns when it does; `{peer}` is the address of the peer."""

    arguments: tuple[str, ...]
    ready: Callable[[Started], object] = lambda started: started.peer.wait()
    peer: Callable[[], Peer] = Silent
    prepare: Callable[[Path], object] = lambda _: None
    environment: Mapping[str, str] = {}
    on_terminal: bool = False


@contextmanager
def waiting(case: Waiting, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a command, and wait until it waits; afterwards nothing of it is left."""
    case.prepare(folder)
    settings = {key: value for key, value in os.environ.items() if "SURECALL" not in key}
    environment = {**settings, "XDG_CONFIG_HOME": str(folder / "config"), **case.environment}
    with ExitStack() as stack:
        peer = stack.enter_context(closing(case.peer()))
        ours, theirs = pty.openpty() if case.on_terminal else os.pipe()[::-1]
        stack.callback(os.close, ours)
        process = subprocess.Popen(
            [SURECALL, *(each.format(peer=peer.address) for each in case.arguments)],
            cwd=folder,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
        os.close(theirs)
        stack.enter_context(process)
        stack.callback(kill_group, process.pid)
        case.ready(Started(process, peer, ours, stack))
        yield process


def press_ctrl_c(leader: int) -> None:
    """Interrupt a process group, as a terminal does, and wait until the leader has received it.

    Two interrupts that are pending at once are one.
    """
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGINT)
        until(lambda: not _is_pending(leader, signal.SIGINT))


def _is_pending(process: int, number: int) -> bool:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False  # it has ended
    masks = re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)", status, re.MULTILINE)
    is_zombie = "\nState:\tZ" in status
    return not is_zombie and any(int(mask, 16) & (1 << (number - 1)) for mask in masks)


def kill_group(leader: int) -> None:
    """Kill every process of a group, if there are any."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _request(address: str, path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _address_in(text: str) -> str:
    return str(re.findall(r"http://([\d.]+:\d+)", text)[0])


def _busy(body: bytes) -> Callable[[Started], object]:
    """Wait until a proxy serves, and let it pass a request to its peer."""

    def ready(started: Started) -> None:
        address = _address_in(started.until_said(_SAID))
        started.connect(address, _request(address, "/v1/chat/completions", body))
        started.peer.wait()

    return ready


def _half_asked(started: Started) -> None:
    """Wait until a command serves, and send it half a request."""
    address = _address_in(started.until_said(_SAID))
    started.connect(address, _request(address, "/v1/chat/completions", b"{}" * 99)[:-50])


def _watched(started: Started) -> None:
    """Wait until a report is served, and keep a connection to it open."""
    said = started.until_said(_SAID)
    address = _address_in(said)
    path = said.partition(address)[2].split()[0] or "/"
    line = started.connect(address, f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
    assert line.recv(1)


def _fed(started: Started) -> None:
    """Write more than a pipe holds: that returns only when the command reads."""
    rest = b"x" * 300_000
    while rest:
        rest = rest[os.write(started.terminal, rest) :]


def _has_workers(started: Started) -> None:
    """Wait for the workers of a cluster, and stop them: a stopped process ignores SIGTERM."""
    started.until_said(_SAID)
    until(lambda: _workers(started.process.pid))
    for worker in _workers(started.process.pid):
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGSTOP)


def _workers(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task")
    children = [each for task in tasks.glob("*/children") for each in task.read_text().split()]
    return [int(each) for each in children if _is_worker(each)]


def _is_worker(process: str) -> bool:
    with suppress(OSError):
        return b"spawn_main" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


def _store_run(folder: Path) -> None:
    with open_or_resume(folder / ".surecall", {"base_url": "sim", "seed": 0}, Invocation()):
        pass


def _name_address(folder: Path) -> None:
    (folder / "surecall.toml").write_text('base_url = "https://api.test/v1"\n')


def _make_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe.json")


def _is_loading(started: Started) -> None:
    until(lambda: list(Path(f"/proc/{started.process.pid}/cwd").glob("*.port")))


def _model(name: str) -> Callable[[Path], object]:
    data = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + bytes(1000)
    return lambda folder: (folder / name).write_bytes(data)


_ENGINE: Final = {"PYTHONPATH": str(TESTS / "support" / "engine")}
_LIVE: Final = ("report", "--live", "--no-open")
_PROXY: Final = ("proxy", "--port", "0", "--upstream", "http://{peer}")
COMMANDS: Final[Mapping[str, Waiting]] = {
    "check, silent": Waiting(("check", *OWN)),
    "check, half a head": Waiting(("check", *OWN), peer=lambda: Silent(HALF_A_HEAD)),
    "check, endless body": Waiting(("check", *OWN), peer=lambda: Silent(HEAD, CHUNK)),
    "check, drops packets": Waiting(("check", *OWN), peer=Dropping),
    "demo": Waiting(("demo", "--all"), lambda started: started.until_said(b"\n")),
    "eval, silent": Waiting(("eval", *OWN)),
    "eval, silent, no price": Waiting(("eval", *OWN, "-q")),
    "eval, half a head": Waiting(("eval", *OWN, "-q"), peer=lambda: Silent(HALF_A_HEAD)),
    "eval, endless body": Waiting(("eval", *OWN, "-q"), peer=lambda: Silent(HEAD, CHUNK)),
    "eval, drops packets": Waiting(("eval", *OWN, "-q"), peer=Dropping),
    "eval, silent scheduler": Waiting((*SIMULATED, "tcp://{peer}")),
    "eval, half a scheduler": Waiting(
        (*SIMULATED, "tcp://{peer}"), peer=lambda: Silent(b"\x10\x00\x00\x00")
    ),
    "eval, dropping scheduler": Waiting((*SIMULATED, "tcp://{peer}"), peer=Dropping),
    "eval, stopped workers": Waiting((*SIMULATED, "dask"), _has_workers),
    "eval, silent, workers": Waiting(("eval", *OWN, "-q", "--engine", "dask")),
    "explain, standard input": Waiting(("explain", "-"), _fed),
    "local": Waiting(
        ("local", "tiny.gguf", "--port", "0"),
        lambda started: started.until_said(_SAID),
        prepare=_model("tiny.gguf"),
        environment=_ENGINE,
    ),
    "local, loading": Waiting(
        ("local", "slow.gguf", "--port", "0"),
        _is_loading,
        prepare=_model("slow.gguf"),
        environment=_ENGINE,
    ),
    "dev new-drift, standard input": Waiting(
        ("dev", "new-drift", "-", "--source", "wild-x", "--into", "."), _fed
    ),
    "proxy": Waiting(_PROXY, lambda started: started.until_said(_SAID)),
    "proxy, half a request": Waiting(_PROXY, _half_asked),
    "proxy, silent upstream": Waiting(_PROXY, _busy(ASKED % (b"false", TOOLS))),
    "proxy, silent stream": Waiting(_PROXY, _busy(ASKED % (b"true", TOOLS))),
    "proxy, passing": Waiting(_PROXY, _busy(ASKED % (b"true", b"[]"))),
    "proxy, endless upstream": Waiting(
        _PROXY, _busy(ASKED % (b"true", b"[]")), peer=lambda: Silent(HEAD, CHUNK)
    ),
    "sim": Waiting(("sim", "--port", "0"), lambda started: started.until_said(_SAID)),
    "sim, half a request": Waiting(("sim", "--port", "0"), _half_asked),
    "trust, prompt": Waiting(
        ("trust",),
        lambda started: started.until_said(b"Trust this address?"),
        prepare=_name_address,
        on_terminal=True,
    ),
    "view, live": Waiting(_LIVE, _watched, prepare=_store_run),
}
