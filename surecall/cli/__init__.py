"""The command line. Heavy parts are imported by the command that needs them.

Errors are one line on standard error. Exit codes: 0 fine, 1 it did not work, 2 wrong usage, 130
interrupted.
"""

import asyncio
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from surecall.errors import ConfigError
from surecall.events import safe_text
from surecall.version import __version__

if TYPE_CHECKING:
    from surecall.simulator.server import Seen, Simulator

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
_PORT = 8089
_MAX_PORT = 65_535
_MAX_SEED = 2**63 - 1


class _Whole(click.IntRange):
    """A whole number within bounds, called by its plain name in messages."""

    name = "whole number"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    try:
        code = cli.main(args=arguments, prog_name="surecall", standalone_mode=False)
    except click.ClickException as error:
        return _complain(error.format_message(), error.exit_code)
    except ConfigError as error:
        return _complain(str(error), WRONG_USAGE)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; nothing more can be said, not even at exit.
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return FAILED
    return code if isinstance(code, int) else 0


def _complain(message: str, code: int) -> int:
    click.echo(f"surecall: {safe_text(' '.join(message.split()))}", err=True)
    return code


@click.group(invoke_without_command=True, no_args_is_help=False)
@click.version_option(__version__, message="surecall %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Reliable multi-turn tool calling over any OpenAI-compatible endpoint."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cli.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=_Whole(0, _MAX_PORT),
    default=_PORT,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--seed",
    type=_Whole(0, _MAX_SEED),
    default=0,
    show_default=True,
    help="The same seed and the same requests give the same replies.",
)
@click.option("--persona-default", metavar="NAME", help="Persona for models with other names.")
@click.option("--anywhere", is_flag=True, help="Allow an address that other machines can reach.")
@click.option("--list", "listing", is_flag=True, help="List the personas and their faults.")
def sim(
    *,
    host: str,
    port: int,
    seed: int,
    persona_default: str | None,
    anywhere: bool,
    listing: bool,
) -> int:
    """Serve a provider that misbehaves on purpose, to test an agent against.

    The model of a request names the persona that answers: sim/clean, or one with a fault.
    """
    if listing:
        return _list_personas()
    from surecall.simulator.server import Simulator  # noqa: PLC0415  # `--help` stays fast

    simulator = Simulator(
        seed=seed,
        default=persona_default,
        host=host,
        port=port,
        anywhere=anywhere,
        report=_report,
    )
    try:
        asyncio.run(_serve(simulator))
    except KeyboardInterrupt:
        # Further up click would print an empty line for it.
        return INTERRUPTED
    except OSError as error:
        return _complain(_cannot_listen(host, port, error), FAILED)
    return 0


@cli.command()
@click.argument("file", type=click.File("rb"))
@click.option("--tools", type=click.File("rb"), help="JSON list of the tools that were offered.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(*, file: BinaryIO, tools: BinaryIO | None, as_json: bool) -> int:
    """Explain a raw response, or a text, in FILE (or - for standard input).

    Tells which calls are in it, what was healed, and why something is not taken for a call.
    """
    import msgspec  # noqa: PLC0415  # `--help` stays fast

    from surecall.explain import explain as explained  # noqa: PLC0415  # `--help` stays fast
    from surecall.explain import render  # noqa: PLC0415  # `--help` stays fast

    explanation = explained(file.read(), _tools_in(tools))
    if as_json:
        click.echo(msgspec.json.encode(explanation).decode())
    else:
        click.echo("\n".join(map(safe_text, render(explanation).split("\n"))))
    return 0


def _tools_in(file: BinaryIO | None) -> list[Any]:
    from surecall.wire import decode  # noqa: PLC0415  # `--help` stays fast

    if file is None:
        return []
    try:
        tools = decode(file.read())
    except ValueError:
        raise ConfigError("--tools is not JSON") from None
    if not isinstance(tools, list):
        raise ConfigError("--tools must be a JSON list of tool definitions")
    return tools


def _list_personas() -> int:
    from surecall.simulator.personas import PERSONAS  # noqa: PLC0415  # `--help` stays fast

    width = max(map(len, PERSONAS))
    for persona in PERSONAS.values():
        source = f" [{', '.join(persona.sources)}]" if persona.sources else ""
        line = f"{persona.id:<{width}}  {persona.outcome:<8}  {persona.summary}{source}"
        click.echo(safe_text(line))
    return 0


async def _serve(simulator: "Simulator") -> None:
    from surecall.simulator.personas import PERSONAS  # noqa: PLC0415  # `--help` stays fast

    runner = await simulator.start()
    try:
        personas = f"{len(PERSONAS)} personas, seed {simulator.seed}"
        click.echo(f"surecall simulator on {simulator.url}/v1 ({personas}); Ctrl-C ends it")
        await asyncio.Event().wait()
    finally:
        await simulator.stop(runner)


def _report(seen: "Seen") -> None:
    """Tell at once what was wrong in a request. Its words come from outside."""
    click.echo(safe_text(f"violation: {seen.persona} {seen.where}: {seen.message}"), err=True)


def _cannot_listen(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken; choose another one with --port"
    return f"cannot listen on {host}, port {port}: {error.strerror or error}"
