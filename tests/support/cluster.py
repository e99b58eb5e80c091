"""Trials that are made up in worker processes: these have to be found there by their names."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from surecall.eval.running.trial_run import Case
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.trial import Key, Trial
from surecall.runtime.transport import Client
from surecall.values.errors import ConfigError
from surecall.values.trace import Trace
from surecall.values.types import Answer
from tests.support.eval_fakes import NoClient, a_trial
from tests.support.patience import until_soon

DEADLY = 7


@contextmanager
def no_client(_: Settings) -> Iterator[Client]:
    yield NoClient()


@contextmanager
def refusing_client(_: Settings) -> Iterator[Client]:
    yield NoClient(Answer(429, {"retry-after": "0.05"}, b""))


@contextmanager
def refusing_router(_: Settings) -> Iterator[Client]:
    headers = {"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "0"}
    body = {"error": {"code": 429, "metadata": {"headers": headers}}}
    yield NoClient(Answer(429, {"date": "now"}, msgspec.json.encode(body)))


@contextmanager
def no_door(_: Settings) -> Iterator[Client]:
    raise ConfigError("there is no way in")
    yield NoClient()


async def quick(key: Key, case: Case, client: Client) -> tuple[Trial, Trace]:
    assert (case.scenario.id, case.setup.model) == (key.scenario, key.cell.model)
    await client.send(b"")
    if key.trial % 3 == 0:
        return a_trial(key, "failed", "X", cost=0.25), Trace(())
    return a_trial(key, cost=0.25), Trace(())


async def passing(key: Key, case: Case, client: Client) -> tuple[Trial, Trace]:
    del case, client
    await asyncio.sleep(0)
    return a_trial(key), Trace(())


async def deadly(key: Key, case: Case, client: Client) -> tuple[Trial, Trace]:
    """End the whole process in one of the trials of each cell and scenario."""
    if key.trial == DEADLY and key.scenario == "happy_path" and "grok" in key.cell.model:
        os.kill(os.getpid(), signal.SIGKILL)
    return await passing(key, case, client)


async def mistaken(key: Key, case: Case, client: Client) -> tuple[Trial, Trace]:
    del client
    raise ConfigError(f"no such thing in {key.scenario}, {case.scenario.id}")


class Gated:
    """Trials that begin, say so in a folder, and end when a file appears there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def begun(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("begun *"))

    def open(self) -> None:
        (self.folder / "open").touch()

    async def __call__(self, key: Key, case: Case, client: Client) -> tuple[Trial, Trace]:
        name = f"begun {key.cell.model} {key.scenario} {key.trial}".replace("/", "_")
        (self.folder / name).touch()
        await until_soon((self.folder / "open").exists)
        return await passing(key, case, client)
