"""A local server: what cannot be served, how it starts, and that it ends, whoever dies first."""

import http.client
import json
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from surecall.eval import local_server as localserver
from surecall.eval.local_server import (
    LocalServer,
    LocalServerError,
    ServerJob,
    check_file,
    engine_build,
    first_error_line,
    server_params,
    server_url,
)
from surecall.eval.settings.fields import ServingOptions
from surecall.values.errors import ConfigError
from tests.support.servers import ENGINE, child_command, closes, is_open, write_model
from tests.support.timing import PATIENCE_S, until

PATIENT = ServingOptions(starts_within_s=PATIENCE_S)
PARENT = """
import signal, sys
from pathlib import Path
from surecall.eval.local_server import LocalServer
with LocalServer(Path(sys.argv[1])):
    signal.pause()
"""


@pytest.fixture(name="gguf")
def gguf_fixture(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny.gguf")


def failure(gguf: Path, behaviour: str, serving: ServingOptions = PATIENT) -> str:
    with (
        pytest.raises(LocalServerError) as problem,
        LocalServer(gguf, serving, child=child_command(behaviour)),
    ):
        pass
    assert "\n" not in str(problem.value)
    return str(problem.value)


@pytest.mark.processes
def test_it_serves_inside_the_block_and_is_gone_after_it(gguf: Path) -> None:
    with LocalServer(gguf, child=child_command("healthy")) as server:
        place = urlsplit(server.url).netloc
        assert (server.model, server.build, server.exit_message()) == ("tiny", "stand-in 1", "")
        line = http.client.HTTPConnection(place, timeout=PATIENCE_S)
        line.request("POST", "/v1/chat/completions", "{}")
        answer = json.loads(line.getresponse().read())
        line.close()
        assert answer["choices"][0]["message"]["content"] == "Done."
    assert not is_open(place)
    assert "signal 9" in server.exit_message()


@pytest.mark.processes
def test_each_line_of_the_log_is_handed_over_where_that_is_wished(gguf: Path) -> None:
    lines: list[str] = []
    with LocalServer(gguf, child=child_command("healthy"), log=lines.append):
        pass
    assert lines[0] == "load: the file is being read"
    assert all(lines)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("fails", "has ended (exit code 3): load: error loading model: \x1b[1mtensor 3"),
        ("stops", "has ended (exit code 4): load: the file is being read"),
        ("refuses", "tiny.gguf cannot be served: there is a reason"),
        ("babbles", "did not report its address"),
    ],
)
def test_a_server_that_does_not_start_is_told_in_one_line_with_the_cause(
    gguf: Path, behaviour: str, said: str
) -> None:
    assert said in failure(gguf, behaviour)


@pytest.mark.processes
@pytest.mark.parametrize("behaviour", ["silent", "sick"])
def test_nobody_waits_for_ever_for_a_server(gguf: Path, behaviour: str) -> None:
    hurried = ServingOptions(starts_within_s=0.5)
    assert "was not ready within 0.5 s" in failure(gguf, behaviour, hurried)


@pytest.mark.processes
def test_a_server_that_can_no_longer_speak_is_given_up(
    gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(localserver, "_LOG_WAIT_S", 0.1)
    assert failure(gguf, "closes").endswith("the local server closed its output")


@pytest.mark.processes
def test_a_server_that_dies_before_it_is_healthy_is_noticed(
    gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: str) -> bool:
        server._process.kill()  # type: ignore[union-attr]  # it has started
        return bool(server._process.wait() is None)  # type: ignore[union-attr]  # as above

    server = LocalServer(gguf, PATIENT, child=child_command("healthy"))
    monkeypatch.setattr(localserver, "_is_healthy", killed)
    with pytest.raises(LocalServerError, match="signal 9"), server:
        pass


def test_it_can_be_waited_for_only_when_it_was_started(gguf: Path) -> None:
    with pytest.raises(LocalServerError, match="not started"):
        LocalServer(gguf).exit_message()


def test_what_is_no_file_is_refused_before_anything_starts(tmp_path: Path) -> None:
    torn = tmp_path / "torn.gguf"
    torn.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 300, 20))
    text = tmp_path / "text.gguf"
    text.write_text("version https://example.test/pointer")
    for path, complaint in {
        tmp_path / "none.gguf": "none.gguf does not exist",
        tmp_path: "is a directory; name the GGUF file in it",
        Path("/dev/null"): "/dev/null is not a file",
        text: "text.gguf is not a GGUF file",
        torn: "torn.gguf is truncated: 24 bytes cannot hold its 300 tensors",
        Path("a\0b"): "is not a valid file name",
        Path("\udcff"): "is not a valid file name",
        text / "inside": "cannot be read: Not a directory",
    }.items():
        with pytest.raises(ConfigError) as problem, LocalServer(path, child=("false",)):
            pass
        assert complaint in str(problem.value)


def test_a_file_that_may_not_be_read_is_refused(
    gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever may read everything cannot be shown a file that is closed to him.
    def closed(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", closed)
    with pytest.raises(ConfigError, match=r"tiny\.gguf cannot be read: Permission denied"):
        check_file(gguf)


def test_without_the_package_the_way_to_get_it_is_told(
    gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(localserver, "ENGINE_MODULE", "no_such_engine")
    with pytest.raises(ConfigError, match=r"pip install 'surecall\[local\]'"), LocalServer(gguf):
        pass


def test_a_port_that_is_taken_is_the_systems_error_even_if_the_holder_would_share(
    gguf: Path,
) -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken = ServingOptions(port=holder.getsockname()[1])
        with (
            pytest.raises(OSError, match="in use"),
            LocalServer(gguf, taken, child=child_command("healthy")),
        ):
            pass


def test_a_server_that_nobody_can_reach_is_not_healthy() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert not localserver._is_healthy(address)


def test_the_first_line_about_a_failure_is_the_one_that_tells() -> None:
    log = ["begin", "E load: Failed to read", "error: giving up", "end"]
    assert first_error_line(log) == "E load: Failed to read"
    assert first_error_line(["begin", "end"]) == ""


def test_the_parameters_are_spelt_as_the_installed_version_has_them() -> None:
    job = ServerJob("a.gguf", "a", ServingOptions(host="::1", port=7, threads=3, context=512))

    def params(**own: Any) -> Any:
        def make() -> SimpleNamespace:
            parts = {name: SimpleNamespace() for name in ("model", "cpuparams", "cpuparams_batch")}
            return SimpleNamespace(**parts, **own)

        return server_params(SimpleNamespace(CommonParams=make), job)

    old, new = params(model_alias="", hostname=""), params(model_alias=set(), hostnames=[])
    assert (old.hostname, old.model_alias) == ("::1", "a")
    assert (new.hostnames, new.model_alias) == (["::1"], {"a"})
    for each in (old, new):
        assert (each.model.path, each.port, each.n_ctx, each.n_parallel) == ("a.gguf", 7, 512, 1)
        assert (each.cpuparams.n_threads, each.cpuparams_batch.n_threads) == (3, 3)
        assert (each.use_jinja, each.offline, each.endpoint_slots) == (True, True, False)


def test_the_address_can_be_used_as_it_is_told() -> None:
    assert server_url("127.0.0.1", "http://127.0.0.1:8080") == "http://127.0.0.1:8080"
    assert server_url("::1", "http://::1:8080") == "http://[::1]:8080"


def test_the_build_is_named_as_far_as_it_is_known() -> None:
    told = SimpleNamespace(__version__="1.2", BUILD_INFO={"build_number": 5, "commit": "cafe"})
    untold = SimpleNamespace(__version__="1.2", BUILD_INFO={"build_number": 0, "commit": "unknown"})
    assert engine_build(told) == "xllamacpp 1.2 (llama.cpp b5-cafe)"
    assert (
        engine_build(untold) == engine_build(SimpleNamespace(__version__="1.2")) == "xllamacpp 1.2"
    )


@pytest.fixture(name="engine")
def engine_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-in for the engine in its place, for this process and its children."""
    monkeypatch.syspath_prepend(ENGINE)
    monkeypatch.setenv("PYTHONPATH", ENGINE)


@pytest.mark.processes
@pytest.mark.usefixtures("engine")
def test_the_real_child_serves_with_the_engine_it_finds_and_knows_no_keys(
    gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURECALL_API_KEY", "sk-made-up")
    lines: list[str] = []
    with LocalServer(gguf, PATIENT, log=lines.append) as server:
        assert server.build == "xllamacpp 9.9 (llama.cpp b77-abc)"
    assert lines == ["this line must not reach the parent's ear"]
    assert "SURECALL_API_KEY" not in localserver._child_environment()
    assert localserver._child_environment()["OMP_WAIT_POLICY"] == "PASSIVE"


@pytest.mark.processes
@pytest.mark.usefixtures("engine")
def test_the_real_child_tells_why_the_engine_does_not_take_a_file(tmp_path: Path) -> None:
    with (
        pytest.raises(LocalServerError, match="Failed to init"),
        LocalServer(write_model(tmp_path / "broken.gguf"), PATIENT),
    ):
        pass


@contextmanager
def parent_of(gguf: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start a process that starts a server; yield it, and where its child listens."""
    port = gguf.with_suffix(".port")
    with subprocess.Popen([sys.executable, "-c", PARENT, str(gguf)]) as parent:
        try:
            until(lambda: port.exists() and port.read_text())
            yield parent, f"127.0.0.1:{port.read_text()}"
        finally:
            parent.kill()


@pytest.mark.processes
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", ["tiny.gguf", "slow.gguf"])
def test_no_server_outlives_a_parent_that_is_killed_not_even_while_it_loads(
    tmp_path: Path, name: str
) -> None:
    with parent_of(write_model(tmp_path / name)) as (parent, address):
        assert is_open(address)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert closes(address)
