"""The command line. Each command is a module that is imported only when it runs.

Errors are one line on standard error. Exit codes: 0 success, 1 failure or failed gate, 2 wrong
usage, 3 incomplete, 4 nothing selected, 130 interrupted (Ctrl-C), 143 terminated (SIGTERM).
"""

import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from surecall.cli.console import FAILED, INTERRUPTED, NOTHING, WRONG_USAGE, ExitCode, print_error
from surecall.cli.interrupts import current_interrupts
from surecall.values.errors import ConfigError
from surecall.values.version import __version__

# Help sentences, so that `--help` imports no command. A test compares them with the commands.
COMMAND_GROUPS: Final = {
    "Run": {
        "eval": "Evaluate models on scenarios and recommend which one to use.",
        "proxy": "Run a proxy that repairs tool calls for existing agents.",
        "local": "Serve a GGUF model on this machine with llama.cpp.",
        "demo": "Compare a plain tool loop with surecall on malformed replies.",
    },
    "Inspect": {
        "check": "Show the effective settings and test the endpoint with one small request.",
        "explain": "Explain how surecall reads a raw response, stream, or text.",
        "report": "Open the report of a run in the browser, or write it.",
        "compare": "Compare two runs and tell real changes from noise.",
        "replay": "Replay recorded trials offline and check that the results are the same.",
        "lessons": "List what endpoints have refused, and how requests are adapted.",
        "ls": "List models, profiles, scenarios, presets, faults, endpoints, or runs.",
    },
    "Develop": {
        "sim": "Run a simulated provider that misbehaves on purpose.",
        "pack": "Convert the cases of a public benchmark to scenario files.",
        "merge": "Merge several runs, such as the shards of one evaluation.",
        "trust": "Allow a directory's settings files to choose where your key is sent.",
        "dev": "Work on surecall itself, in a checkout of the project.",
    },
}
COMMANDS: Final = {
    name: sentence for group in COMMAND_GROUPS.values() for name, sentence in group.items()
}

# Commands of earlier versions, and what replaces them.
_MOVED: Final = {
    "export": "surecall report --format",
    "new-drift": "surecall dev new-drift",
    "view": "surecall report",
}

# Shared by the group and all commands.
_SETTINGS: Final = {"help_option_names": ["-h", "--help"]}


class _LazyGroup(click.Group):
    """A group that imports a command when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return the command names, in display order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name in _MOVED:
            raise click.UsageError(f"`surecall {cmd_name}` is now `{_MOVED[cmd_name]}`", ctx)
        if cmd_name not in COMMANDS:
            if cmd_name.startswith("-"):
                return None  # click reports the unknown option
            raise click.exceptions.NoSuchCommand(cmd_name, possibilities=list(COMMANDS), ctx=ctx)
        command: click.Command = importlib.import_module(f"surecall.cli.{cmd_name}").command
        command.name = cmd_name
        command.context_settings = _SETTINGS
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the groups of commands without importing them, in aligned columns."""
        width = max(map(len, COMMANDS))
        for title, commands in COMMAND_GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), sentence) for name, sentence in commands.items()]
                )


@click.command(
    cls=_LazyGroup,
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings=_SETTINGS,
)
@click.version_option(__version__, "-V", "--version", message="surecall %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Reliable multi-turn tool calling for any OpenAI-compatible endpoint."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> ExitCode:
    """Run the command line and return the exit code."""
    # Without `arguments`, this call owns the process: handle signals until the process ends.
    with current_interrupts().install(stays=arguments is None):
        try:
            code = _run(arguments)
        except RuntimeError as error:
            # Python 3.11 raises this if a signal arrives while it creates a class.
            if not isinstance(error.__cause__, KeyboardInterrupt):
                raise
            code = INTERRUPTED
        return current_interrupts().signals.exit_code if code == INTERRUPTED else code


def _run(arguments: Sequence[str] | None) -> ExitCode:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals without Unicode
    try:
        code = cli.main(args=arguments, prog_name="surecall", standalone_mode=False)
    except click.ClickException as error:
        return print_error(error.format_message(), error.exit_code)
    except ConfigError as error:
        nothing = type(error).__name__ == "NothingSelected"  # by name: the import would be slow
        return print_error(str(error), NOTHING if nothing else WRONG_USAGE)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # Nothing can be printed to the closed pipe, not even when Python exits.
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return FAILED
    return code if isinstance(code, int) else 0
