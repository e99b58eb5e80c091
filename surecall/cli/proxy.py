"""`surecall proxy`: the healing in front of any endpoint, for agents that are already written."""

import asyncio
import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

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
from surecall.eval.settings.keys import Address, Place, key_for, keys_in
from surecall.eval.settings.parse import provider as read_provider
from surecall.proxy import Proxy, Record
from surecall.proxy.healing.settings import GUARDS, MOST_REPAIRS, REPAIRS
from surecall.runtime.loopback import is_loopback
from surecall.settings.connection import checked_url, shown_url
from surecall.simulator.personas.catalogue import DEFAULT_PERSONA
from surecall.simulator.server import Simulator
from surecall.values.errors import ConfigError

_PORT: Final = 8900
_NEITHER: Final = (
    "there is no endpoint behind the proxy: pass --upstream URL, or --sim for the simulator"
)
_TOKEN: Final = "SURECALL_PROXY_TOKEN"  # noqa: S105  # the name of a variable


@click.command()
@click.option("--upstream", metavar="URL", help="The endpoint behind the proxy.")
@click.option("--sim", "simulated", is_flag=True, help="Use the simulator as the upstream: no key.")
@with_address(_PORT)
@click.option(
    "--token",
    envvar=_TOKEN,
    show_envvar=True,
    help="What clients must show as their key; needed with --public.",
)
@click.option(
    "--endpoint",
    "provider",
    metavar="NAME",
    default="",
    help="Provider whose presets to use; see `ls endpoints`. Default: inferred from the URL.",
)
@click.option("--model-preset", "presets", multiple=True, help="A preset for every model; repeat.")
@click.option(
    "--repair",
    type=WholeNumber(0, MOST_REPAIRS),
    default=REPAIRS,
    show_default=True,
    help="How often the model is asked again when nothing of its reply can be used.",
)
@click.option(
    "--guard",
    "guards",
    multiple=True,
    metavar="NAME=N",
    help=f"Limit what follows one message of the user: {', '.join(GUARDS)}; repeat.",
)
@click.option(
    "--stream",
    type=click.Choice(["live", "buffered"]),
    default="live",
    show_default=True,
    help="Send text as it comes, or when it is complete.",
)
@click.option(
    "--trace",
    "trace_dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a trace of each request here: what was said, in full.",
)
@click.option("--explain", is_flag=True, help="Print a line for each request.")
@click.option("-v", "--verbose", is_flag=True, help="With --explain: what came, and what went out.")
def command(
    *,
    upstream: str | None,
    simulated: bool,
    public: bool,
    guards: tuple[str, ...],
    explain: bool,
    verbose: bool,
    **settings: Any,
) -> int:
    """Put the healing in front of an endpoint, for agents that are already written.

    Point an agent at the printed address in place of the endpoint's. The key is the one that the
    agent sends; if SURECALL_API_KEY is set (or OPENROUTER_API_KEY, for OpenRouter alone), that one
    is sent instead.
    """
    if upstream and simulated:
        return complain(_both(upstream), WRONG_USAGE)
    if not upstream and not simulated:
        return complain(_NEITHER, WRONG_USAGE)
    if public and not settings["token"]:
        return complain(f"--public needs a token: --token, or {_TOKEN}", WRONG_USAGE)
    if not public and not is_loopback(settings["host"]):
        return complain(f"{settings['host']} is not loopback; add --public", WRONG_USAGE)
    settings["provider"] = _provider(settings["provider"])
    settings |= {"guards": _guards(guards), "watch": _printer(explain, verbose=verbose)}
    settings["api_key"] = None if simulated else _key(_checked_upstream(upstream or ""))
    with ExitStack() as stack:
        if simulated:
            upstream = stack.enter_context(Simulator(default=DEFAULT_PERSONA)).url
        return _served(Proxy(upstream or "", **settings), settings, simulated=simulated)


def _both(upstream: str) -> str:
    try:
        shown = f" {shown_url(upstream)}"
    except ValueError:
        shown = ""
    return (
        f"--sim and --upstream{shown} exclude each other: with --sim, the simulator is the "
        "upstream. Leave out one of them."
    )


def _checked_upstream(upstream: str) -> str:
    try:
        checked_url(upstream)
    except ConfigError as problem:
        raise ConfigError(str(problem).replace("base_url", "--upstream", 1)) from None
    return upstream


def _served(proxy: Proxy, settings: dict[str, Any], *, simulated: bool) -> int:
    try:
        asyncio.run(_serve(proxy, simulated=simulated))
    except KeyboardInterrupt:
        # Further up click would print an empty line for it.
        return INTERRUPTED
    except OSError as error:
        return complain(cannot_listen(settings["port"], error, settings["host"]), FAILED)
    return 0


def _key(upstream: str) -> Any:
    """Return the key of the environment, if it may go to this address."""
    address = Address(upstream, Place.COMMAND_LINE, "--upstream")
    key, told = key_for(address, keys_in(os.environ, {}), ())
    if told:
        note(told)
    return None if key is None else key.value


def _provider(given: str) -> str:
    try:
        return read_provider(given) if given.strip() else ""
    except ConfigError as problem:
        raise ConfigError(f"--endpoint: {problem}") from None


def _guards(given: Iterable[str]) -> dict[str, int]:
    guards: dict[str, int] = {}
    for item in given:
        name, _, number = item.partition("=")
        if not (number.isascii() and number.isdigit()):
            raise ConfigError(f"--guard {item}: write it as in repeats=3")
        guards[name.strip()] = int(number)
    return guards


async def _serve(proxy: Proxy, *, simulated: bool) -> None:
    runner = await proxy.start()
    try:
        say(f"surecall proxy on {proxy.url}/v1, in front of {proxy.upstream}; Ctrl-C ends it")
        note(f"  last requests: {proxy.page}")
        if simulated:
            note(
                f"  models are simulated: {DEFAULT_PERSONA} answers for any model name; "
                "`surecall sim --list` has others to ask for"
            )
        await asyncio.Event().wait()
    finally:
        await proxy.stop(runner)


def _printer(explain: bool, *, verbose: bool) -> Any:  # noqa: FBT001  # two switches
    """Return what prints a request, if it is to be printed."""
    if not explain and not verbose:
        return None

    def show(record: Record) -> None:
        say("\n    ".join((record.line, *(record.details if verbose else ()))))

    return show
