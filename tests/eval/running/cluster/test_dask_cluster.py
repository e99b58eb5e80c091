"""A cluster of our own is for nobody else; workers of another version are refused."""

import asyncio
import os
import signal
import socket
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from surecall.eval.running.cluster import dask_cluster
from surecall.eval.running.cluster.dask_cluster import (
    connect_cluster,
    start_cluster,
    version_mismatch,
)
from surecall.eval.running.cluster.dask_engine import DaskEngine
from surecall.eval.running.harness import StopRequest, evaluate
from surecall.eval.running.ledger import EvaluationReport
from surecall.values.errors import ConfigError
from tests.support.evaluations import Memory, no_client, planned, quick
from tests.support.timing import PATIENCE_S
from tests.support.waiting_commands import Silent

OURS = {"surecall": "1.2.0", "python": "3.12.3.final.0"}


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (OURS, ""),
        (OURS | {"python": "3.12.9.final.0"}, ""),
        (OURS | {"python": "3.13.0.final.0"}, "Python 3.13, but this process has 3.12"),
        (OURS | {"surecall": "1.1.0"}, "surecall 1.1.0, but this process has 1.2.0"),
        (OURS | {"surecall": None}, "no surecall: install surecall[dask]==1.2.0 there"),
        ({}, "no surecall: install surecall[dask]==1.2.0 there"),
    ],
)
def test_a_worker_must_have_the_same_surecall_and_python(
    theirs: dict[str, str | None], said: str
) -> None:
    assert version_mismatch(OURS, theirs) == said


@pytest.mark.processes
def test_workers_of_another_version_are_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dask_cluster, "__version__", "99.0")
    engine = DaskEngine(partial(start_cluster, 1), quick, no_client)

    async def work() -> EvaluationReport:
        return await evaluate(planned(), Memory(), engine, lambda _: None, StopRequest())

    with pytest.raises(
        ConfigError, match=r"the worker tls://.* has surecall .* but this process has 99.0"
    ):
        asyncio.run(work())


@pytest.mark.processes
def test_a_cluster_of_our_own_speaks_only_to_those_who_have_its_certificate() -> None:
    before = dict(os.environ)

    async def work() -> tuple[str, str]:
        async with start_cluster(1) as client:
            address = client.scheduler.address
            assert os.environ["PYTHONSAFEPATH"] == "1"
            try:
                async with connect_cluster(address):
                    return address, "let in"
            except ConfigError as error:
                return address, str(error)

    address, said = asyncio.run(work())

    assert address.startswith("tls://127.0.0.1:")
    assert said.startswith(f"no Dask scheduler answers at {address}")
    assert os.environ.get("PYTHONSAFEPATH") == before.get("PYTHONSAFEPATH")


@pytest.mark.processes
def test_a_cluster_of_our_own_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def work() -> None:
        async with start_cluster(1):
            pass

    asyncio.run(work())

    assert not list(tmp_path.iterdir())


@pytest.mark.processes
def test_an_interrupt_reaches_no_worker_process_while_it_starts() -> None:
    async def work() -> set[int]:
        async with start_cluster(1) as client:
            (blocked,) = (await client.run(signal.pthread_sigmask, signal.SIG_BLOCK, [])).values()
            assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
            return set(blocked)

    assert signal.SIGINT in asyncio.run(work())


def test_an_address_where_nobody_answers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "_CONNECT_S", 0.01)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{held.getsockname()[1]}"

        async def work() -> None:
            async with connect_cluster(address):
                pass

        with pytest.raises(ConfigError, match=f"no Dask scheduler answers at {address}"):
            asyncio.run(work())


@pytest.mark.parametrize(("data", "patience_s"), [(b"", 0.01), (b"\x01" * 1024, PATIENCE_S)])
def test_an_address_where_no_scheduler_speaks_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, data: bytes, patience_s: float
) -> None:
    monkeypatch.setattr(dask_cluster, "_CONNECT_S", patience_s)
    peer = Silent(data)
    address = f"tcp://{peer.address}"

    async def work() -> None:
        async with connect_cluster(address):
            pass

    with closing(peer), pytest.raises(ConfigError, match="Check the address in --engine") as told:
        asyncio.run(work())
    assert str(told.value).startswith(f"no Dask scheduler answers at {address}")
