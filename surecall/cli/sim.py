"""`surecall sim`: the provider that misbehaves on purpose, on a port of this machine."""

import asyncio

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
from surecall.cli.listing import say_columns
from surecall.runtime.loopback import is_loopback
from surecall.simulator.personas.catalogue import DEFAULT_PERSONA, PERSONAS
from surecall.simulator.server import Seen, Simulator

_PORT = 8089
_MAX_SEED = 2**63 - 1


@click.command()
@with_address(_PORT)
@click.option(
    "--seed",
    type=WholeNumber(0, _MAX_SEED),
    default=0,
    show_default=True,
    help="The same seed and the same requests give the same replies.",
)
@click.option(
    "--persona-default",
    metavar="NAME",
    default=DEFAULT_PERSONA,
    show_default=True,
    help="Persona for models whose names do not begin with sim/.",
)
@click.option("--list", "listing", is_flag=True, help="List the personas and their faults.")
def command(
    *,
    host: str,
    port: int,
    seed: int,
    persona_default: str,
    public: bool,
    listing: bool,
) -> int:
    """Serve a provider that misbehaves on purpose, to test an agent against.

    The model of a request names the persona that answers: sim/clean, or one with a fault. Any
    other name, such as gpt-4o, gets the default persona.
    """
    if listing:
        return _list_personas()
    if not public and not is_loopback(host):
        return complain(
            f"{host} is not loopback; add --public if the network may use the simulator",
            WRONG_USAGE,
        )
    simulator = Simulator(
        seed=seed,
        default=persona_default,
        host=host,
        port=port,
        anywhere=public,
        report=_report,
    )
    try:
        asyncio.run(_serve(simulator))
    except KeyboardInterrupt:
        # Further up click would print an empty line for it.
        return INTERRUPTED
    except OSError as error:
        return complain(cannot_listen(port, error, host), FAILED)
    return 0


def _list_personas() -> int:
    say_columns(
        ("persona", "outcome", "summary", "sources"),
        [
            (each.id, each.outcome, each.summary, ", ".join(each.sources))
            for each in PERSONAS.values()
        ],
    )
    return 0


async def _serve(simulator: Simulator) -> None:
    runner = await simulator.start()
    try:
        personas = f"{len(PERSONAS)} personas, seed {simulator.seed}"
        others = f"; {simulator.default} answers for any model name" if simulator.default else ""
        say(f"surecall simulator on {simulator.url}/v1 ({personas}){others}; Ctrl-C ends it")
        await asyncio.Event().wait()
    finally:
        await simulator.stop(runner)


def _report(seen: Seen) -> None:
    """Print immediately what was wrong in a request. Its text comes from outside."""
    note(f"violation: {seen.persona} {seen.where}: {seen.message}")
