"""Settings on the command line: each field of an evaluation's settings is an option.

The table of fields says how each is called, read and explained; here it becomes an option.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from surecall.cli.common import note
from surecall.cli.confines import confined
from surecall.cli.consents import trusted_in
from surecall.eval.settings.fields import FIELDS, Field
from surecall.eval.settings.load import Effective, load
from surecall.eval.settings.parse import parse_dotenv
from surecall.values.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])
_FILES = ("surecall.toml", "pyproject.toml", ".env")
# Lists with commas: who gives such an option twice means both.
_JOINED = ("FILTER", "NAMES", "RUN")
_TITLES = {
    "select": "What to run (a comma, or the option once more, joins filters)",
    "run": "How to run it",
    "endpoint": "Where",
    "request": "What is asked",
    "tools": "Tools",
    "gate": "What counts",
    "output": "Output",
}


class GroupedCommand(click.Command):
    """A command whose help shows its options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each group; options of the command itself come last."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in _TITLES.values()}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            field = FIELDS.get(parameter.name or "")
            title = "This command" if field is None else _TITLES[field.group]
            if record is not None:
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def with_settings(*names: str) -> Callable[[F], F]:
    """Give a command the options of all settings, or of some."""

    def decorate(function: F) -> F:
        chosen = [FIELDS[name] for name in names] if names else list(FIELDS.values())
        for field in reversed([field for field in chosen if field.flags]):
            function = _option(field)(function)
        return function

    return decorate


def _option(field: Field) -> Callable[[F], F]:
    shown = "" if field.default in (None, "", (), {}, False) else f"  [{_plain(field.default)}]"
    if not field.is_switch:
        flags = (*field.flags, field.name)
        several = field.metavar in _JOINED
        return click.option(
            *flags,
            metavar=field.metavar,
            help=field.help + shown,
            multiple=several,
            callback=joined if several else None,
        )
    flag = field.flags[-1]
    pair = f"{flag}/--no-{flag.removeprefix('--')}"
    return click.option(pair, field.name, default=None, help=field.help)


def joined(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> str | None:
    """Join what an option was given, each time that it was."""
    return ",".join(given) if given else None


def _plain(value: Any) -> str:
    return "on" if value is True else f"{value:g}" if isinstance(value, float) else str(value)


def settled(flags: dict[str, Any], folder: Path | None = None, *, sends: bool = False) -> Effective:
    """Combine the settings from flags, environment and files of the working directory.

    Only a command that `sends` something, or may, says that a key is withheld.
    """
    here = folder or Path.cwd()
    found = load(flags, os.environ, *_texts(here), trusted_in(here))
    effective = confined(found, here)
    told(effective.warnings)
    if sends and effective.withheld:
        told([effective.withheld])
    return effective


def from_files(here: Path) -> Effective:
    """Return what the files of a directory alone say."""
    return load({}, {}, *_texts(here))


def dotenv_in(here: Path) -> dict[str, str]:
    """Return the variables in the `.env` of a directory."""
    return parse_dotenv(_texts(here)[2])


def _texts(here: Path) -> tuple[str | None, str | None, str]:
    own, project, dotenv = map(_text, (here / name for name in _FILES))
    return own, project, dotenv or ""


def told(warnings: Iterable[str]) -> None:
    """Tell the user what was not understood."""
    for warning in warnings:
        note(f"warning: {warning}")


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{path.name} cannot be read: {error}") from None
