"""`surecall local`: the model in a GGUF file, on a port of this machine."""

from pathlib import Path
from typing import Any

import click

from surecall.cli.common import (
    FAILED,
    INTERRUPTED,
    WRONG_USAGE,
    WholeNumber,
    cannot_listen,
    complain,
    note,
    say,
    with_address,
)
from surecall.runtime.local_server import LocalServer, LocalServerError, Serving
from surecall.simulator.server import is_loopback

_PORT = 8080
_MOST_THREADS = 1024
_LEAST_CONTEXT, _MOST_CONTEXT = 256, 2**22
_LONGEST_START_S = 86_400
_DEFAULT = Serving()


@click.command()
@click.argument("gguf", metavar="MODEL.gguf", type=click.Path(path_type=Path))
@with_address(_PORT)
@click.option(
    "--threads",
    type=WholeNumber(1, _MOST_THREADS),
    default=_DEFAULT.threads,
    show_default=True,
    help="Threads to compute with; more than there are cores is slower.",
)
@click.option(
    "--context",
    type=WholeNumber(_LEAST_CONTEXT, _MOST_CONTEXT),
    default=_DEFAULT.context,
    show_default=True,
    help="Tokens that a conversation may have.",
)
@click.option(
    "--start-timeout",
    "starts_within_s",
    type=WholeNumber(1, _LONGEST_START_S),
    default=int(_DEFAULT.starts_within_s),
    show_default=True,
    help="Seconds that loading the file may take.",
)
@click.option("--anywhere", is_flag=True, help="Allow an address that other machines can reach.")
@click.option("--verbose", is_flag=True, help="Show the server's log.")
def command(*, gguf: Path, anywhere: bool, verbose: bool, **serving: Any) -> int:
    """Serve the model in a GGUF file on this machine, with llama.cpp.

    One conversation at a time, with the file's own chat template. Needs the extra `local`: pip
    install 'surecall[local]'. An evaluation needs no server of its own: see surecall eval --gguf.
    """
    how = Serving(**serving)
    if not anywhere and not is_loopback(how.host):
        return complain(
            f"{how.host} is not loopback; add --anywhere if the network may use the model",
            WRONG_USAGE,
        )
    try:
        with LocalServer(gguf, how, log=note if verbose else None) as server:
            say(_announced(server))
            server.wait()
            return complain(server.ended(), FAILED)
    except KeyboardInterrupt:
        # Further up click would print an empty line for it.
        return INTERRUPTED
    except LocalServerError as error:
        return complain(str(error), FAILED)
    except BrokenPipeError:
        raise  # nobody reads what we say
    except OSError as error:
        return complain(cannot_listen(how.port, error, how.host), FAILED)


def _announced(server: LocalServer) -> str:
    there = f"--base-url {server.url} --endpoint llama_cpp -m {server.model}"
    return "\n".join(
        (
            f"{server.model} on {server.url}/v1 ({server.build}); Ctrl-C ends it",
            f"  surecall check {there}",
            f"  surecall eval --jobs 1 --client-timeout 600 {there}",
        )
    )
