"""A local model: a GGUF file, served by llama.cpp in a child process that ends with this one.

    with LocalServer(Path("model.gguf")) as server:
        client = OpenAICompatible(server.url)

    parent ── starts ──► child: python -m surecall.runtime.local_server <job as JSON>
      ▲                    │ loads the file, then says on standard output where it listens
      └── asks /health ────┘ serves until its standard input ends, which is when the parent does

Native code runs in the child only, so whatever becomes of it, this process goes on and says so.
The child's log is read as it comes; only its last lines are kept.
"""

import http.client
import importlib
import importlib.util
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, Self
from urllib.parse import urlsplit

import msgspec

from surecall.runtime.gguf import HEADER_BYTES, Serving, model_id, problem_with
from surecall.values.errors import ConfigError, SurecallError

ENGINE: Final = "xllamacpp"
NOT_INSTALLED: Final = f"to serve a file, {ENGINE} must be installed: pip install 'surecall[local]'"
_KEPT_LINES: Final = 40
_LONGEST_LINE: Final = 300
_FAILING: Final = ("error", "fail")
_POLL_S: Final = 0.05
_ASK_S: Final = 5.0
_LAST_WORDS_S: Final = 5.0
_OK: Final = 200
_SECRETS: Final = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_STDIN, _STDOUT, _STDERR = 0, 1, 2
# OpenMP's threads wait for work in a busy loop unless they are told not to; on a small machine
# they would take the processor from the thread that they wait for.
_ENVIRONMENT: Final = {"OMP_WAIT_POLICY": "PASSIVE"}


class LocalServerError(SurecallError):
    """The local server does not start, or has ended. Its message is one line."""


class Job(msgspec.Struct, frozen=True):
    """What the child is to do."""

    gguf: str
    model: str
    serving: Serving


class Ready(msgspec.Struct, frozen=True):
    """What the child says when it serves; or, with `problem`, why it does not."""

    url: str = ""
    build: str = ""
    problem: str = ""


class LocalServer:
    """A GGUF file, served for as long as the block lasts.

    `url` and `build` are known inside the block; `model` is the id of the file's model. Every line
    of the server's log goes to `log`. `on_start` is called when nothing is known to be wrong and
    the file is about to be loaded, which may take minutes. `child` is the command that becomes the
    server, without its last argument, the job.
    """

    def __init__(
        self,
        gguf: Path,
        serving: Serving | None = None,
        *,
        child: Sequence[str] = (),
        log: Callable[[str], None] | None = None,
        on_start: Callable[[], None] | None = None,
    ) -> None:
        self.model = model_id(gguf.name)
        self.url = ""
        self.build = ""
        self._gguf = gguf
        self._serving = serving or Serving()
        self._child = tuple(child)
        self._log = log
        self._on_start = on_start
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._said: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._log_ended = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        check_file(self._gguf)
        if not self._child:
            check_installed()
        if self._serving.port:
            _check_port(self._serving.host, self._serving.port)
        if self._on_start is not None:
            self._on_start()
        with ExitStack() as stack:
            self._process = self._start(stack)
            self._await(time.monotonic() + self._serving.starts_within_s)
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def ended(self, within_s: float = 0.0) -> str:
        """Say that the server has ended, how, and what its log says of it; blank while it runs."""
        try:
            code = self.wait(within_s)
        except subprocess.TimeoutExpired:
            return ""
        self._log_ended.wait(_LAST_WORDS_S)
        # Before it served anything, its last line is about that; later, about the last request.
        words = telling(self._lines) or ("" if self.url else self._last_line)
        return f"the local server has ended ({_cause(code)}){f': {words}' if words else ''}"

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait until the server ends by itself; return its exit code."""
        if self._process is None:
            raise LocalServerError("the local server was never started")
        return self._process.wait(timeout_s)

    @property
    def _last_line(self) -> str:
        return self._lines[-1] if self._lines else ""

    def _start(self, stack: ExitStack) -> subprocess.Popen[bytes]:
        job = Job(str(self._gguf), self.model, self._serving)
        command = self._child or (sys.executable, "-P", "-m", __name__)
        process = stack.enter_context(
            # A session of its own: an interrupt at the terminal is for us alone to obey.
            subprocess.Popen(  # noqa: S603 - our own interpreter, or what the caller chose
                [*command, msgspec.json.encode(job).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(),
                start_new_session=True,
            )
        )
        # Undone from the last to the first: killed, heard to the end, then closed.
        for stream, take in ((process.stdout, self._said.put), (process.stderr, self._note)):
            reader = threading.Thread(target=_read, args=(stream, take), daemon=True)
            reader.start()
            stack.callback(reader.join)
        stack.callback(process.wait)
        stack.callback(process.kill)
        return process

    def _note(self, line: bytes) -> None:
        if not line:
            self._log_ended.set()
        text = line.decode("utf-8", "replace").rstrip()
        if text:
            self._lines.append(" ".join(text.split())[:_LONGEST_LINE])
            if self._log is not None:
                self._log(text)

    def _await(self, deadline: float) -> None:
        """Wait until the child says where it listens, and is healthy there."""
        limit_s = self._serving.starts_within_s
        late = LocalServerError(f"the local server was not ready within {limit_s:g} s")
        try:
            ready = self._understood(self._said.get(timeout=limit_s))
        except queue.Empty:
            raise late from None
        while not _is_healthy(ready.url):
            if self.ended():
                raise self._failure()
            if time.monotonic() > deadline:
                raise late
            time.sleep(_POLL_S)
        self.url, self.build = ready.url, ready.build

    def _understood(self, said: bytes) -> Ready:
        if not said:
            raise self._failure()
        try:
            ready = msgspec.json.decode(said, type=Ready)
        except msgspec.DecodeError:
            raise LocalServerError("the local server did not say where it listens") from None
        if ready.problem:
            raise self._failure(ready.problem)
        return ready

    def _failure(self, problem: str = "") -> LocalServerError:
        """Say why the server did not start; its log knows it better than its exception."""
        ended = self.ended(_LAST_WORDS_S) or "the local server fell silent"
        cause = telling(self._lines) or problem if problem else ended
        return LocalServerError(f"{self._gguf} cannot be served: {cause}")


def check_file(path: Path) -> None:
    """Refuse what cannot be a model, before anything is started."""
    if problem := _problem_of(path):
        raise ConfigError(f"{path} {problem}")


def _problem_of(path: Path) -> str:
    try:
        str(path).encode()  # the job is written in UTF-8
        if path.is_dir():
            return "is a directory; name the GGUF file in it"
        if path.exists() and not path.is_file():
            return "is not a file"
        with path.open("rb") as file:
            return problem_with(file.read(HEADER_BYTES), os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except ValueError:
        return "is not the name of any file"


def check_installed() -> None:
    """Refuse to start without the package that brings the server."""
    if importlib.util.find_spec(ENGINE) is None:
        raise ConfigError(NOT_INSTALLED)


def telling(lines: Iterable[str]) -> str:
    """Return the first line that speaks of a failure, for it names the cause; blank without one."""
    failing = (line for line in lines if any(word in line.lower() for word in _FAILING))
    return next(failing, "")


def _check_port(host: str, port: int) -> None:
    """Raise the system's error when the port is taken.

    The server itself would not notice another of its kind: both share a port on purpose.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    socket.create_server((host, port), family=family).close()


def _environment() -> dict[str, str]:
    """Return the child's environment: it finds this package, and is given no keys."""
    here = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH", "")
    paths = os.pathsep.join(filter(None, (here, known)))
    kept = {name: value for name, value in os.environ.items() if not name.endswith(_SECRETS)}
    return _ENVIRONMENT | kept | {"PYTHONPATH": paths}


def _read(stream: IO[bytes], take: Callable[[bytes], None]) -> None:
    """Hand over each line, and nothing at the end."""
    for line in stream:
        take(line)
    take(b"")


def _is_healthy(url: str) -> bool:
    # Not through urllib, which would ask a proxy of the environment.
    line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_ASK_S)
    try:
        line.request("GET", "/health")
        return line.getresponse().status == _OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        line.close()


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    advice = "; is there memory enough?" if -code == signal.SIGKILL else ""
    return f"signal {-code}, {signal.strsignal(-code)}{advice}"


def params_for(engine: Any, job: Job) -> Any:
    """Return the parameters of the server, in the spelling of the installed version."""
    params = engine.CommonParams()
    params.model.path = job.gguf
    # Newer versions take several hosts and several names for a model.
    if hasattr(params, "hostnames"):
        params.hostnames = [job.serving.host]
    else:
        params.hostname = job.serving.host
    params.model_alias = job.model if isinstance(params.model_alias, str) else {job.model}
    params.port = job.serving.port
    params.n_ctx = job.serving.context
    params.n_parallel = 1
    params.use_jinja = True
    params.cpuparams.n_threads = job.serving.threads
    params.cpuparams_batch.n_threads = job.serving.threads
    # Nothing is fetched, and no web page may read the prompts of others.
    params.offline = True
    params.endpoint_slots = False
    return params


def build_of(engine: Any) -> str:
    """Name the version of the engine, and the llama.cpp in it as far as that is known."""
    facts = getattr(engine, "BUILD_INFO", {})
    number, commit = facts.get("build_number"), facts.get("commit")
    inner = f" (llama.cpp b{number}-{commit})" if number else ""
    return f"{ENGINE} {engine.__version__}{inner}"


def address_of(host: str, listening: str) -> str:
    """Return the address of a server that says where it listens; IPv6 needs brackets there."""
    port = listening.rpartition(":")[2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def main(arguments: Sequence[str]) -> int:  # pragma: no cover  # in the child
    """Be the child: serve until the parent is gone."""
    job = msgspec.json.decode(arguments[0], type=Job)
    # Native code may print what it likes; the parent hears only what is meant for it.
    answers = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    _end_with_parent()
    try:
        engine = importlib.import_module(ENGINE)
        server = engine.Server(params_for(engine, job))
    except Exception as error:  # noqa: BLE001 - it comes from native code, and the parent tells it
        _say(answers, Ready(problem=str(error)))
        return 1
    url = address_of(job.serving.host, server.listening_address)
    _say(answers, Ready(url, build_of(engine)))
    threading.Event().wait()
    return 0


def _say(answers: int, ready: Ready) -> None:  # pragma: no cover  # in the child
    os.write(answers, msgspec.json.encode(ready) + b"\n")


def _end_with_parent() -> None:  # pragma: no cover  # in the child
    """End when standard input does: the parent holds its other end, and never writes."""
    threading.Thread(target=_end_at_eof, daemon=True).start()
    if sys.platform == "linux":
        # Loading a model keeps every other thread of the interpreter waiting, but not the kernel:
        # its signal ends the process.
        import fcntl  # noqa: PLC0415 - not everywhere

        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(_STDIN, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(_STDIN, fcntl.F_GETFL)
        fcntl.fcntl(_STDIN, fcntl.F_SETFL, flags | os.O_ASYNC)
        if select.select([_STDIN], [], [], 0)[0]:  # it came too late
            os._exit(1)


def _end_at_eof() -> None:  # pragma: no cover  # in the child
    while os.read(_STDIN, 1):
        pass
    os._exit(1)


if __name__ == "__main__":  # pragma: no cover  # in the child
    sys.exit(main(sys.argv[1:]))
