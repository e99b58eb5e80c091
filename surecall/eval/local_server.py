"""Serves a GGUF file with llama.cpp in a child process that ends with this one.

    with LocalServer(Path("model.gguf")) as server:
        client = OpenAICompatible(server.url)

    parent ── starts ──► child: python -m surecall.eval.local_server <job as JSON>
      ▲                    │ loads the file, then writes its address to standard output
      └── GET /health ─────┘ serves until its standard input ends, together with the parent

Native code runs only in the child, so a crash there cannot end this process. The child's log is
read while it is written; only the last lines are kept.
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

from surecall.eval.settings.fields import HEADER_BYTES, ServingOptions, gguf_model_id, gguf_problem
from surecall.values.errors import ConfigError, SurecallError

ENGINE_MODULE: Final = "xllamacpp"
NOT_INSTALLED: Final = f"--gguf needs {ENGINE_MODULE}: pip install 'surecall[local]'"
_LOG_WAIT_S: Final = 5.0
_OK: Final = 200
_STDIN, _STDOUT, _STDERR = 0, 1, 2
# By default OpenMP's threads wait in a busy loop, which on a small machine slows down the thread
# that they wait for.
_OPENMP_ENVIRONMENT: Final = {"OMP_WAIT_POLICY": "PASSIVE"}


class LocalServerError(SurecallError):
    """The local server did not start, or has ended. The message is one line."""


class ServerJob(msgspec.Struct, frozen=True):
    """The child's argument: the file to serve, and how."""

    gguf: str
    model: str
    serving: ServingOptions


class ServerReady(msgspec.Struct, frozen=True):
    """The child's reply: its address and build, or the `problem` that kept it from serving."""

    url: str = ""
    build: str = ""
    problem: str = ""


class LocalServer:
    """Context manager that serves a GGUF file.

    `url` and `build` are set inside the block; `model` is the id of the file's model. Every line of
    the server's log goes to `log`. `on_start` is called after all checks, before the file is
    loaded, which may take minutes. `child` overrides the server command, without its last argument,
    the `ServerJob` as JSON.
    """

    def __init__(
        self,
        gguf: Path,
        serving: ServingOptions | None = None,
        *,
        child: Sequence[str] = (),
        log: Callable[[str], None] | None = None,
        on_start: Callable[[], None] | None = None,
    ) -> None:
        self.model = gguf_model_id(gguf.name)
        self.url = ""
        self.build = ""
        self._gguf = gguf
        self._serving = serving or ServingOptions()
        self._child = tuple(child)
        self._log = log
        self._on_start = on_start
        self._lines: deque[str] = deque(maxlen=40)
        self._stdout_lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
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
            self._wait_until_ready(time.monotonic() + self._serving.starts_within_s)
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def exit_message(self, timeout_s: float = 0.0) -> str:
        """Return how and why the server ended, with its log's error; blank while it runs."""
        try:
            code = self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return ""
        self._log_ended.wait(_LOG_WAIT_S)
        # Until the server is ready, its last log line is about the start; later, about a request.
        words = first_error_line(self._lines) or ("" if self.url else self._last_log_line)
        return f"the local server has ended ({_exit_text(code)}){f': {words}' if words else ''}"

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait until the server ends, and return its exit code."""
        if self._process is None:
            raise LocalServerError("the local server is not started: enter its `with` block first")
        return self._process.wait(timeout_s)

    @property
    def _last_log_line(self) -> str:
        return self._lines[-1] if self._lines else ""

    def _start(self, stack: ExitStack) -> subprocess.Popen[bytes]:
        """Start the child with the job; it ends with the stack."""
        job = ServerJob(str(self._gguf), self.model, self._serving)
        command = self._child or (sys.executable, "-P", "-m", __name__)
        process = stack.enter_context(
            # A new session: Ctrl-C at the terminal must reach only this process.
            subprocess.Popen(  # noqa: S603 - this interpreter, or the caller's command
                [*command, msgspec.json.encode(job).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_child_environment(),
                start_new_session=True,
            )
        )
        # On exit, in reverse order: kill the process, drain its output, close the streams.
        for stream, take in (
            (process.stdout, self._stdout_lines.put),
            (process.stderr, self._record_log_line),
        ):
            reader = threading.Thread(target=_forward_lines, args=(stream, take), daemon=True)
            reader.start()
            stack.callback(reader.join)
        stack.callback(process.wait)
        stack.callback(process.kill)
        return process

    def _record_log_line(self, line: bytes) -> None:
        """Keep a line of the server's log, and pass it on; a blank one ends the log."""
        if not line:
            self._log_ended.set()
        text = line.decode("utf-8", "replace").rstrip()
        if text:
            self._lines.append(" ".join(text.split())[:300])
            if self._log is not None:
                self._log(text)

    def _wait_until_ready(self, deadline: float) -> None:
        """Wait until the child reports its address and is healthy there."""
        limit_s = self._serving.starts_within_s
        late = LocalServerError(f"the local server was not ready within {limit_s:g} s")
        try:
            ready = self._parse_ready(self._stdout_lines.get(timeout=limit_s))
        except queue.Empty:
            raise late from None
        while not _is_healthy(ready.url):
            if self.exit_message():
                raise self._start_error()
            if time.monotonic() > deadline:
                raise late
            time.sleep(0.05)
        self.url, self.build = ready.url, ready.build

    def _parse_ready(self, line: bytes) -> ServerReady:
        """Parse the child's first line of output; raise if it reports a problem."""
        if not line:
            raise self._start_error()
        try:
            ready = msgspec.json.decode(line, type=ServerReady)
        except msgspec.DecodeError:
            raise LocalServerError("the local server did not report its address") from None
        if ready.problem:
            raise self._start_error(ready.problem)
        return ready

    def _start_error(self, problem: str = "") -> LocalServerError:
        """Return the error of a failed start, preferably from the log, which has more detail."""
        ended = self.exit_message(_LOG_WAIT_S) or "the local server closed its output"
        cause = first_error_line(self._lines) or problem if problem else ended
        return LocalServerError(f"{self._gguf} cannot be served: {cause}")


def check_file(path: Path) -> None:
    """Raise `ConfigError` for a file that cannot be a model, before anything is started."""
    if problem := _file_problem(path):
        raise ConfigError(f"{path} {problem}")


def _file_problem(path: Path) -> str:
    """Return why a file cannot be a model; blank if it can."""
    try:
        str(path).encode()  # the job is written in UTF-8
        if path.is_dir():
            return "is a directory; name the GGUF file in it"
        if path.exists() and not path.is_file():
            return "is not a file"
        with path.open("rb") as file:
            return gguf_problem(file.read(HEADER_BYTES), os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except ValueError:
        return "is not a valid file name"


def check_installed() -> None:
    """Raise `ConfigError` if the package with the server is not installed."""
    if importlib.util.find_spec(ENGINE_MODULE) is None:
        raise ConfigError(NOT_INSTALLED)


def first_error_line(lines: Iterable[str]) -> str:
    """Return the first line about an error, which names the cause; blank if there is none."""
    failing = (line for line in lines if any(word in line.lower() for word in ("error", "fail")))
    return next(failing, "")


def _check_port(host: str, port: int) -> None:
    """Raise `OSError` if the port is in use.

    The server would not notice another llama.cpp server, because both allow sharing a port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    socket.create_server((host, port), family=family).close()


def _child_environment() -> dict[str, str]:
    """Return the child's environment: this package on its path, and no keys."""
    here = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH", "")
    paths = os.pathsep.join(filter(None, (here, known)))
    secret = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
    public = {name: value for name, value in os.environ.items() if not name.endswith(secret)}
    return _OPENMP_ENVIRONMENT | public | {"PYTHONPATH": paths}


def _forward_lines(stream: IO[bytes], on_line: Callable[[bytes], None]) -> None:
    """Pass on each line, then a blank one at the end."""
    for line in stream:
        on_line(line)
    on_line(b"")


def _is_healthy(url: str) -> bool:
    # Not with urllib, which would use a proxy from the environment.
    line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=5.0)
    try:
        line.request("GET", "/health")
        return line.getresponse().status == _OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        line.close()


def _exit_text(code: int) -> str:
    """Describe an exit code, or the signal that ended the process."""
    if code >= 0:
        return f"exit code {code}"
    advice = "; the system may be out of memory" if -code == signal.SIGKILL else ""
    return f"signal {-code}, {signal.strsignal(-code)}{advice}"


def server_params(engine: Any, job: ServerJob) -> Any:
    """Return the server parameters for the installed version of the engine."""
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
    # Download nothing, and do not expose other requests' prompts over HTTP.
    params.offline = True
    params.endpoint_slots = False
    return params


def engine_build(engine: Any) -> str:
    """Return the version of the engine and, if known, of its llama.cpp."""
    facts = getattr(engine, "BUILD_INFO", {})
    number, commit = facts.get("build_number"), facts.get("commit")
    inner = f" (llama.cpp b{number}-{commit})" if number else ""
    return f"{ENGINE_MODULE} {engine.__version__}{inner}"


def server_url(host: str, listening: str) -> str:
    """Return the URL of a server from its listening address; IPv6 hosts get brackets."""
    port = listening.rpartition(":")[2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def main(arguments: Sequence[str]) -> int:  # pragma: no cover  # in the child
    """Run the child: serve until the parent is gone."""
    job = msgspec.json.decode(arguments[0], type=ServerJob)
    # Native code may print to standard output, so the reply goes to a duplicate of it.
    answers = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    _exit_with_parent()
    try:
        engine = importlib.import_module(ENGINE_MODULE)
        server = engine.Server(server_params(engine, job))
    except Exception as error:  # noqa: BLE001 - raised by native code, and reported by the parent
        _write_ready(answers, ServerReady(problem=str(error)))
        return 1
    url = server_url(job.serving.host, server.listening_address)
    _write_ready(answers, ServerReady(url, engine_build(engine)))
    threading.Event().wait()
    return 0


def _write_ready(fd: int, ready: ServerReady) -> None:  # pragma: no cover  # in the child
    os.write(fd, msgspec.json.encode(ready) + b"\n")


def _exit_with_parent() -> None:  # pragma: no cover  # in the child
    """Exit when standard input ends: the parent holds its other end and never writes."""
    threading.Thread(target=_exit_at_end_of_input, daemon=True).start()
    if sys.platform == "linux":
        # Loading a model blocks all other Python threads, but a signal still ends the process.
        import fcntl  # noqa: PLC0415 - not on every platform

        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(_STDIN, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(_STDIN, fcntl.F_GETFL)
        fcntl.fcntl(_STDIN, fcntl.F_SETFL, flags | os.O_ASYNC)
        if select.select([_STDIN], [], [], 0)[0]:  # the input ended before the signal was set
            os._exit(1)


def _exit_at_end_of_input() -> None:  # pragma: no cover  # in the child
    while os.read(_STDIN, 1):
        pass
    os._exit(1)


if __name__ == "__main__":  # pragma: no cover  # in the child
    sys.exit(main(sys.argv[1:]))
