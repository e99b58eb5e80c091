"""Which engine runs the trials: this process, worker processes of our own, or a Dask cluster.

Dask is loaded only if it is asked for. A key goes to the workers of a cluster only if nobody on
the way can read it, or the user has said that it may (`surecall trust --engine`).
"""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from surecall.cli.consents import trusted_in
from surecall.cli.target import Target, open_target
from surecall.eval.running.harness import Engine
from surecall.eval.running.local_engine import LocalEngine
from surecall.eval.running.trial_run import run_trial
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.parse import DASK, LOCAL
from surecall.runtime.loopback import is_loopback
from surecall.runtime.transport import Client
from surecall.values.errors import ConfigError

INSTALL = "pip install 'surecall[dask]'"


def engine_for(settings: Settings, target: Target) -> Engine:
    """Return the engine that the settings name; refuse one that may not have the key."""
    if settings.engine == LOCAL:
        return LocalEngine(run_trial, lambda model: target.at(model).client)
    _check_key(settings, target)
    # Imported here: Dask is an extra, and takes a while to load.
    from surecall.eval.running.cluster.engine import DaskEngine  # noqa: PLC0415 - see above
    from surecall.eval.running.cluster.opening import (  # noqa: PLC0415 - see above
        existing_cluster,
        own_cluster,
    )

    own = settings.engine == DASK
    cluster = own_cluster if own else partial(existing_cluster, settings.engine)
    return DaskEngine(cluster, run_trial, client_of, target.endpoint.api_key)


def check_engine(settings: Settings) -> None:
    """Refuse an engine that is not installed, or has no use here."""
    if settings.engine == LOCAL:
        return
    if settings.gguf:
        raise ConfigError(
            "a model that is served here (--gguf) has one conversation at a time: leave out "
            f"--engine {settings.engine}"
        )
    if importlib.util.find_spec("distributed") is None:
        raise ConfigError(f"--engine {settings.engine} needs Dask: {INSTALL}")


def _check_key(settings: Settings, target: Target) -> None:
    """Refuse to send a key where others can read it."""
    if settings.engine == DASK or not target.client.secrets:
        return
    if is_readable(settings.engine) and settings.engine not in trusted_in(Path.cwd()):
        raise ConfigError(
            f"{settings.engine} is not encrypted, and the key would be sent to its workers: use "
            f"tls://, or run `surecall trust --engine {settings.engine}` in this directory"
        )


def is_readable(address: str) -> bool:
    """Whether somebody on the way to a cluster could read what is sent there."""
    parts = urlsplit(address)
    return parts.scheme != "tls" and not is_loopback(parts.hostname or "")


@contextmanager
def client_of(settings: Settings) -> Iterator[Client]:
    """Open the client of some settings; called in a worker, where its key has arrived."""
    with open_target(settings) as target:
        yield target.client
