"""`surecall proxy`: run the repairing proxy in front of an endpoint."""

import gc
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click

from surecall.cli.console import (
    WRONG_USAGE,
    ExitCode,
    WholeNumber,
    address_options,
    print_error,
    print_note,
    print_text,
)
from surecall.cli.interrupts import serve_until_interrupted
from surecall.eval.settings.endpoint_keys import (
    EndpointAddress,
    SettingLocation,
    find_keys,
    select_key,
)
from surecall.eval.settings.value_parsers import parse_provider as read_provider
from surecall.proxy import Proxy, Record
from surecall.proxy.repair.proxy_settings import DEFAULT_REPAIRS, GUARDS, MAX_REPAIRS
from surecall.settings.connection import (
    AUTO_API,
    UPSTREAM_APIS,
    is_loopback,
    parse_base_url,
    redact_url,
)
from surecall.simulator.personas.persona_catalog import DEFAULT_PERSONA
from surecall.simulator.server import Simulator
from surecall.values.errors import ConfigError

_NO_UPSTREAM: Final = "no upstream: pass --upstream URL, or --sim to use the simulator"
_TOKEN_VARIABLE: Final = "SURECALL_PROXY_TOKEN"  # noqa: S105  # the name of a variable
_SWITCH_INTERVAL_S: Final = 0.0005


@click.command()
@click.option("--upstream", metavar="URL", help="Endpoint to forward requests to.")
@click.option(
    "--sim", "simulated", is_flag=True, help="Forward to the built-in simulator; needs no key."
)
@click.option(
    "--upstream-api",
    "api",
    type=click.Choice(UPSTREAM_APIS),
    default=AUTO_API,
    show_default=True,
    help="API of the upstream; the agent may use another one.",
)
@address_options(8900)
@click.option(
    "--token",
    envvar=_TOKEN_VARIABLE,
    show_envvar=True,
    help="Key that clients must send; required with --public.",
)
@click.option(
    "--endpoint",
    "provider",
    metavar="NAME",
    default="",
    help="Provider whose presets to use; see `ls endpoints`. Default: inferred from the URL.",
)
@click.option(
    "--model-preset", "presets", multiple=True, help="Preset for every model; repeatable."
)
@click.option(
    "--repair",
    type=WholeNumber(0, MAX_REPAIRS),
    default=DEFAULT_REPAIRS,
    show_default=True,
    help="How often to re-prompt the model if its reply is unusable.",
)
@click.option(
    "--guard",
    "guards",
    multiple=True,
    metavar="NAME=N",
    help=f"Limit {', '.join(GUARDS)} after each user message; repeatable.",
)
@click.option(
    "--max-tools",
    type=WholeNumber(1),
    help="Maximum number of tools in a request; the model searches the others. "
    "Default: the endpoint's limit.",
)
@click.option(
    "--stream",
    type=click.Choice(["live", "buffered"]),
    default="live",
    show_default=True,
    help="Send text as it arrives, or when the reply is complete.",
)
@click.option(
    "--trace",
    "trace_dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for traces with the full content of each request.",
)
@click.option("--explain", is_flag=True, help="Print a line for each request.")
@click.option("-v", "--verbose", is_flag=True, help="Also print the received and the sent message.")
def command(
    *,
    upstream: str | None,
    simulated: bool,
    public: bool,
    guards: tuple[str, ...],
    explain: bool,
    verbose: bool,
    **settings: Any,
) -> ExitCode:
    """Run a proxy that repairs tool calls for existing agents.

    Set the agent's base URL to the printed address. The proxy forwards the agent's key, unless
    SURECALL_API_KEY is set (or OPENROUTER_API_KEY, for OpenRouter only), which replaces it.
    """
    if error := _usage_error(upstream, settings, simulated=simulated, public=public):
        return print_error(error, WRONG_USAGE)
    settings["provider"] = _parse_provider(settings["provider"])
    settings |= {
        "guards": _parse_guards(guards),
        "watch": _record_printer(explain, verbose=verbose),
    }
    settings["api_key"] = (
        None if simulated else _find_environment_key(_require_valid_url(upstream or ""))
    )
    with ExitStack() as stack:
        if simulated:
            upstream = stack.enter_context(Simulator(default=DEFAULT_PERSONA)).url
        proxy = Proxy(upstream or "", **settings)
        prefer_latency()
        port, host = settings["port"], settings["host"]
        return serve_until_interrupted(
            proxy, lambda: _announce(proxy, simulated=simulated), port, host
        )


def _usage_error(
    upstream: str | None, settings: Mapping[str, Any], *, simulated: bool, public: bool
) -> str:
    """Return why the options cannot be combined; blank if they can."""
    if upstream and simulated:
        return _conflict_message(upstream)
    if not upstream and not simulated:
        return _NO_UPSTREAM
    if public and not settings["token"]:
        return f"--public needs a token: pass --token or set {_TOKEN_VARIABLE}"
    if not public and not is_loopback(settings["host"]):
        return f"{settings['host']} is not loopback: add --public to let the network use the proxy"
    return ""


def _conflict_message(upstream: str) -> str:
    try:
        shown = f" {redact_url(upstream)}"
    except ValueError:
        shown = ""
    return f"--sim and --upstream{shown} cannot be combined: leave out one of them"


def _require_valid_url(upstream: str) -> str:
    try:
        parse_base_url(upstream)
    except ConfigError as problem:
        raise ConfigError(str(problem).replace("base_url", "--upstream", 1)) from None
    return upstream


def prefer_latency() -> None:
    """Tune the process so that no client's work delays other clients for long."""
    # Threads yield to the event loop after this interval instead of 5 ms.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    # Loaded modules stay in memory; exclude them from garbage collection pauses.
    gc.collect()
    gc.freeze()


def _find_environment_key(upstream: str) -> Any:
    """Return the key from the environment, if it may be sent to this address."""
    address = EndpointAddress(upstream, SettingLocation.COMMAND_LINE, "--upstream")
    key, warning = select_key(address, find_keys(os.environ, {}), ())
    if warning:
        print_note(warning)
    return None if key is None else key.value


def _parse_provider(name: str) -> str:
    try:
        return read_provider(name) if name.strip() else ""
    except ConfigError as problem:
        raise ConfigError(f"--endpoint: {problem}") from None


def _parse_guards(items: Iterable[str]) -> dict[str, int]:
    """Parse guards of the form NAME=N."""
    guards: dict[str, int] = {}
    for item in items:
        name, _, number = item.partition("=")
        if not (number.isascii() and number.isdigit()):
            raise ConfigError(f"--guard {item}: must be NAME=N, such as repeats=3")
        guards[name.strip()] = int(number)
    return guards


async def _announce(proxy: Proxy, *, simulated: bool) -> None:
    print_text(f"surecall proxy on {proxy.url}/v1, upstream {proxy.upstream}; press Ctrl-C to stop")
    print_note(f"  recent requests: {proxy.page}")
    if simulated:
        print_note(
            f"  models are simulated: {DEFAULT_PERSONA} answers for any model name; "
            "`surecall sim --list` shows others"
        )


def _record_printer(explain: bool, *, verbose: bool) -> Any:  # noqa: FBT001  # two switches
    """Return a function that prints request records; None if nothing is to be printed."""
    if not explain and not verbose:
        return None

    def show(record: Record) -> None:
        print_text("\n    ".join((record.line, *(record.details if verbose else ()))))

    return show
