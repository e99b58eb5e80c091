"""The command line. Each command is a module, imported only when it is called.

Errors are one line on standard error. Exit codes: 0 success, 1 failure or a failed gate, 2
wrong usage, 3 incomplete, 4 nothing selected, 130 interrupted.
"""

import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from surecall.cli.common import FAILED, INTERRUPTED, NOTHING, WRONG_USAGE, complain
from surecall.values.errors import ConfigError
from surecall.values.version import __version__

# Name and first sentence, so that `--help` need not import them; a test compares.
COMMANDS: Final = {
    "check": "Show the settings in effect, and try the endpoint with one small request.",
    "compare": "Compare two runs on the conversations that both have, and tell change from noise.",
    "demo": "Show what bent replies do to a plain loop, and to surecall; no key, no network.",
    "eval": "Measure models: run scenarios many times, and say which model to use and why.",
    "explain": "Explain a raw response, a stream or a text in FILE (or - for standard input).",
    "export": "Write the reports of RUN again, all of them or one format, from what is stored.",
    "local": "Serve the model in a GGUF file on this machine, with llama.cpp.",
    "ls": "List models, profiles, scenarios, presets, faults, endpoints or runs.",
    "merge": "Put the trials of several runs together, such as the shards of one evaluation.",
    "new-drift": "Turn a bent reply in REPLY.json (or - for standard input) into a corpus file.",
    "pack": "Turn the cases of a public benchmark into scenario files.",
    "proxy": "Put the healing in front of an endpoint, for agents that are already written.",
    "replay": "Replay a recorded trial, offline, and say whether the result is the same.",
    "report": "Write the report of a run again, from its results.",
    "sim": "Serve a provider that misbehaves on purpose, to test an agent against.",
    "trust": "Allow the settings files of a directory to say where your key is sent.",
    "view": "Open the report of a run in the browser.",
}


# Of the whole command line, and of every command.
_SETTINGS: Final = {"help_option_names": ["-h", "--help"]}


class _Lazy(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return the names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            if cmd_name.startswith("-"):
                return None  # click complains about the option
            raise click.exceptions.NoSuchCommand(cmd_name, possibilities=list(COMMANDS), ctx=ctx)
        module = importlib.import_module(f"surecall.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        command.name = cmd_name
        command.context_settings = _SETTINGS
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=_Lazy,
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings=_SETTINGS,
)
@click.version_option(__version__, "-V", "--version", message="surecall %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Reliable multi-turn tool calling over any OpenAI-compatible endpoint."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an old terminal lacks many characters
    try:
        code = cli.main(args=arguments, prog_name="surecall", standalone_mode=False)
    except click.ClickException as error:
        return complain(error.format_message(), error.exit_code)
    except ConfigError as error:
        nothing = type(error).__name__ == "NothingSelected"  # not imported: `--help` stays fast
        return complain(str(error), NOTHING if nothing else WRONG_USAGE)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; nothing more can be printed, not even at exit.
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return FAILED
    return code if isinstance(code, int) else 0
