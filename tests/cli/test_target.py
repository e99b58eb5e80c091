"""Tests of `surecall.cli.target`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from surecall.cli.target import model_library, open_target, simulated_models
from surecall.eval.settings.endpoint import OPENROUTER_URL, Endpoint
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.trial import Cell
from surecall.settings.catalog import ModelCatalog
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.values.types import Secret
from tests.support.commands import (
    Run,
    is_group_empty,
    one_line,
    recorded_statuses,
    stored,
    until_recorded,
)
from tests.support.timing import PATIENCE_S, until
from tests.support.trials import series

# Where an evaluation is sent, and which models can be chosen there


CATALOG = ModelCatalog.builtin()


def test_the_simulator_offers_its_personas_and_lists_those_named_by_what_they_do() -> None:
    found = simulated_models()

    assert [model.id for model in found] == list(PERSONAS)
    assert all(model.simulated for model in found)
    listed = [model for model in found if model.listed]
    assert listed == [model for model in found if "stable" in model.tags]
    assert {"sim/clean", "sim/stops-early"} < {model.id for model in listed}
    assert not any(model.imitates or "like-" in model.id for model in listed)


@pytest.mark.parametrize(
    ("endpoint", "models"),
    [
        (Endpoint("local", "/v1", "llama_cpp", model="tiny"), ["tiny"]),
        (Endpoint("local", "/v1", "llama_cpp"), []),
        (Endpoint("http://localhost", "/v1", "custom"), []),
        (Endpoint(OPENROUTER_URL, "/v1", "openrouter"), [entry.id for entry in CATALOG.models]),
    ],
)
def test_an_endpoint_offers_the_models_that_it_is_known_to_serve(
    endpoint: Endpoint, models: list[str]
) -> None:
    assert [model.id for model in model_library(endpoint).models] == models


def test_without_a_key_the_target_is_the_simulator_in_this_process() -> None:
    with open_target(Settings()) as target:
        assert target.endpoint.is_simulated
        assert target.client.url("/x").startswith("http://127.0.0.1:")


def test_with_an_address_the_target_is_that_endpoint() -> None:
    settings = Settings(base_url="http://localhost:9/a", api_key=Secret("k"))
    with open_target(settings) as target:
        assert not target.endpoint.is_simulated
        assert target.client.url("/x").startswith("http://localhost:9/a")


# `--engine`: worker processes leave nothing behind, and no key goes where others can read it


SURECALL = Path(sys.executable).with_name("surecall")
# What a new Python imports before it has run a line of ours.
HOSTILE = ("multiprocessing.py", "pickle.py", "signal.py", "struct.py", "sitecustomize.py")
REMOTE = "tcp://10.0.0.1:8786"
MODEL = ("eval", "-m", "my-model", "--base-url", "https://api.test", "-n", "1", "-q")
KEY = "sk-own-0123456789abcdef"
PLAIN = """
import sys
import surecall, surecall.cli, surecall.cli.eval, surecall.cli.target, surecall.eval
print(sorted(name for name in ("cloudpickle", "dask", "distributed") if name in sys.modules))
"""
WITHOUT = """
import sys
sys.modules["distributed"] = None
from surecall.cli import main
sys.exit(main(["eval", "-m", "sim/clean", "-n", "1", "--engine", "dask"]))
"""


def started(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start a command as the leader of its own group, as a terminal does."""
    return subprocess.Popen(
        [str(SURECALL), "eval", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={key: value for key, value in os.environ.items() if "SURECALL" not in key},
    )


@pytest.mark.processes
def test_worker_processes_run_nothing_of_the_working_directory_and_leave_nothing_behind(
    tmp_path: Path,
) -> None:
    for name in HOSTILE:
        (tmp_path / name).write_text("open('PWNED', 'w').close()\n")
    with started(tmp_path, "-m", "sim/clean", "-n", "10", "--engine", "dask") as process:
        out, err = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, "Traceback" in err) == (0, False), err
    assert "sim/clean is handled" in out
    assert recorded_statuses(tmp_path) == {"passed": 60}
    assert not (tmp_path / "PWNED").exists()
    until(lambda: is_group_empty(process.pid))


@pytest.mark.processes
def test_ctrl_c_reaches_every_process_finishes_what_is_under_way_and_any_engine_continues(
    tmp_path: Path,
) -> None:
    command = ("-m", "sim/clean", "-n", "1000", "-j", "4")
    with started(tmp_path, *command, "--engine", "dask") as process:
        until_recorded(tmp_path, 10)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)

    kept = recorded_statuses(tmp_path)
    assert (process.returncode, "Traceback" in err) == (130, False), err
    assert err.splitlines()[-1].startswith(f"interrupted: {kept['passed']} of 6000 done")
    assert set(kept) == {"passed"}
    until(lambda: is_group_empty(process.pid))
    few = ("-m", "sim/clean", "-n", "2", "-q")
    with started(tmp_path, *few) as again:
        again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0
    assert len(list(tmp_path.glob(".surecall/runs/*-*"))) == 1


@pytest.mark.processes
def test_a_plain_import_loads_no_dask() -> None:
    found = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, check=True)

    assert found.stdout == b"[]\n"


@pytest.mark.processes
def test_without_the_extra_it_is_said_what_to_install(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=tmp_path, capture_output=True, check=False
    )

    assert found.returncode == 2
    assert b"--engine dask needs Dask: pip install 'surecall[dask]'" in found.stderr


def test_a_key_goes_to_no_cluster_that_others_can_listen_to_unless_the_user_says_so(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURECALL_API_KEY", KEY)
    code, _, err = run(*MODEL, "--engine", REMOTE)

    assert code == 2
    assert f"{REMOTE} is not encrypted, and your key would be sent to its workers" in err
    code, out, _ = run("trust", "--engine", REMOTE, "--yes")
    assert code == 0
    assert f"will send your key to the workers of {REMOTE}" in out
    assert REMOTE in run("trust", "--list")[1]
    assert run("trust", "--engine", REMOTE)[1].startswith("already trusted")


@pytest.mark.parametrize("address", ["tls://10.0.0.1:8786", "tcp://127.0.0.1:8786", "dask"])
def test_a_cluster_that_nobody_can_listen_to_needs_no_consent(run: Run, address: str) -> None:
    code, _, err = run("trust", "--engine", address, "--yes")

    assert (code, err) == (4, f"surecall: {address} needs no consent\n")


def test_a_file_of_the_directory_names_no_cluster(run: Run, tmp_path: Path) -> None:
    (tmp_path / "surecall.toml").write_text(f'engine = "{REMOTE}"\n')
    code, _, err = run("eval", "-m", "sim/clean", "-n", "1")

    assert code == 2
    assert "surecall.toml: engine names a cluster" in err
    (tmp_path / "surecall.toml").write_text('engine = "local"\n')
    assert run("eval", "-m", "sim/clean", "-n", "1", "-q")[0] == 0


@pytest.mark.parametrize("engine", ["ray", "http://host:1", "tcp://host", "tls://u@host:1"])
def test_an_engine_that_is_none_is_refused(run: Run, engine: str) -> None:
    code, _, err = run("eval", "-m", "sim/clean", "--engine", engine)

    assert code == 2
    assert "must be local, dask, or an address like tls://host:8786" in err


def test_a_model_that_is_served_here_has_one_conversation_at_a_time(run: Run) -> None:
    code, _, err = run("eval", "--gguf", "nothing.gguf", "--engine", "dask")

    assert code == 2
    assert "a --gguf model serves one conversation at a time: leave out --engine dask" in err


# What a stored run says about itself


def test_settings_that_cannot_be_read_are_one_line(run: Run) -> None:
    stored(series("."), settings={"bar": "high"})
    code, _, err = run("report", "--format", "json")

    assert code == 2
    assert "the settings of the run are invalid" in one_line(err)


def test_a_run_at_a_real_endpoint_is_reported_without_its_key(run: Run) -> None:
    settings = {"base_url": "https://openrouter.ai/api"}
    stored(series("...", cell=Cell("openai/gpt-5.2:nitro")), settings=settings, simulated=False)
    code, out, _ = run("report", "--format", "json")

    (advice,) = json.loads(out)["recommendations"]
    assert (code, advice["verdict"]) == (0, "Yes")
    assert 'provider="openrouter"' in advice["snippet"]
