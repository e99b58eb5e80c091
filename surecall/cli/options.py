"""Options that commands share, and the limits on what settings files may choose.

Consents record which addresses the settings files of a directory may send a key to. They are in
`~/.config/surecall/trust.json` (or below XDG_CONFIG_HOME). A consent is for one directory, by its
real path, and one origin: scheme, host, and port. The file counts only if the user owns it and no
one else can write to it.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from surecall.cli.console import F, print_note
from surecall.eval.scenarios.plugins import is_scenario_file, path_in_token
from surecall.eval.settings.endpoint_keys import SettingLocation
from surecall.eval.settings.fields import FIELDS, SettingField, Settings
from surecall.eval.settings.resolution import DEFAULT, EffectiveSettings, resolve_settings
from surecall.eval.settings.value_parsers import DASK, LOCAL, parse_dotenv
from surecall.eval.storage.run_directories import translate_os_errors, write_file
from surecall.values.errors import ConfigError

# Settings files of the working directory may be third-party. They cannot choose which Python code
# runs or where files are written; the command line can.

_SCENARIOS, _OUTPUT, _ENGINE = "scenarios", "output_dir", "engine"


def restrict_file_settings(effective: EffectiveSettings, here: Path) -> EffectiveSettings:
    """Drop scenario files that may not be loaded; raise for output outside the directory."""
    _check_output(effective, here)
    _check_engine(effective)
    place = effective.location(_SCENARIOS)
    if place in {SettingLocation.COMMAND_LINE, SettingLocation.NOWHERE}:
        return effective
    tokens = [token.strip() for token in effective.settings.scenarios.split(",")]
    unloaded = tuple(
        token
        for token in tokens
        if is_scenario_file(token) and not _is_data_file(token, here, place)
    )
    if not unloaded:
        return effective
    return _drop_scenarios(
        effective, [token for token in tokens if token not in unloaded], unloaded
    )


def _is_data_file(token: str, here: Path, location: SettingLocation) -> bool:
    """Whether a token names recorded requests, below the directory if its files name them."""
    path = here / path_in_token(token)
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    return not location.is_in_directory or path.resolve().is_relative_to(here.resolve())


def _drop_scenarios(
    effective: EffectiveSettings, kept_tokens: list[str], dropped_files: tuple[str, ...]
) -> EffectiveSettings:
    """Return the settings without some scenario files, and with a warning about them."""
    source, files = effective.sources[_SCENARIOS], ",".join(dropped_files)
    warning = (
        f"{files}, named in {source}, was not loaded: scenario files must be named on the command "
        f"line. Pass {FIELDS[_SCENARIOS].flags[-1]} {files}"
    )
    scenarios = ",".join(kept_tokens) or Settings().scenarios
    return msgspec.structs.replace(
        effective,
        settings=msgspec.structs.replace(effective.settings, scenarios=scenarios),
        sources=effective.sources | ({} if kept_tokens else {_SCENARIOS: DEFAULT}),
        warnings=(*effective.warnings, warning),
        skipped_files=dropped_files,
    )


def _check_output(effective: EffectiveSettings, here: Path) -> None:
    """Raise if a settings file names an output folder outside the directory."""
    if effective.location(_OUTPUT) in {SettingLocation.COMMAND_LINE, SettingLocation.ENVIRONMENT}:
        return
    source, given = effective.sources[_OUTPUT], effective.settings.output_dir
    named = given if source == DEFAULT else source
    path = Path(os.path.normpath(here / given))
    if not path.is_relative_to(here):
        raise ConfigError(f"{named}: must be a folder in this directory; {_OUTPUT_HINT}")
    if (here / given).resolve() != here.resolve() / path.relative_to(here):
        raise ConfigError(f"{named}: is a symbolic link or below one; {_OUTPUT_HINT}")


def _check_engine(effective: EffectiveSettings) -> None:
    """Raise if a settings file names a cluster, which would receive code and keys."""
    engine = effective.settings.engine
    if effective.location(_ENGINE).is_in_directory and engine not in {LOCAL, DASK}:
        raise ConfigError(
            f"{effective.sources[_ENGINE]} names a cluster, but only the command line and the "
            f"environment may: pass {FIELDS[_ENGINE].flags[-1]} {engine}"
        )


_OUTPUT_HINT: Final = f"to write elsewhere, pass {FIELDS[_OUTPUT].flags[-1]}"


class Consent(msgspec.Struct, frozen=True, order=True):
    """An origin that the settings files of a directory may send a key to."""

    directory: str
    origin: str


_DECODER: Final = msgspec.json.Decoder(list[Consent])


def consent_file() -> Path:
    """Return the path of the user's consents."""
    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    # A relative path would be in the working directory, whose files must not count.
    base = given if given.is_absolute() else _home() / ".config"
    return base / "surecall" / "trust.json"


def _home() -> Path:
    """Return the home directory; without one, as in some containers, a path that cannot exist."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)


def load_consents() -> tuple[Consent, ...]:
    """Return the stored consents; none if the file cannot be opened."""
    path = consent_file()
    try:
        data = _read_private_file(path)
    except OSError as error:
        if error.errno != errno.ELOOP:
            return ()
        raise ConfigError(f"{path} is a symbolic link, which is not allowed; remove it") from None
    try:
        return tuple(_DECODER.decode(data))
    except ValueError as error:
        raise ConfigError(f"{path} is invalid ({error}); remove it") from None


def save_consents(consents: Iterable[Consent]) -> Path:
    """Write all consents to a file that only the user can read; return its path."""
    path = consent_file()
    with translate_os_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, msgspec.json.format(msgspec.json.encode(sorted(set(consents)))) + b"\n")
    return path


def trusted_origins(directory: Path) -> frozenset[str]:
    """Return the origins that the settings files of a directory may send a key to."""
    here = real_path(directory)
    return frozenset(each.origin for each in load_consents() if each.directory == here)


def real_path(directory: Path) -> str:
    """Return the path of a directory with links resolved."""
    return str(directory.resolve())


def _read_private_file(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or status.st_uid != _current_user_id(
            status
        ):
            raise ConfigError(
                f"{path} belongs to or is writable by another user: run chown and chmod 600 on it"
            )
        return file.read(2**20)


def _current_user_id(status: os.stat_result) -> int:
    """Return the current user id; on systems without user ids, the owner of the file."""
    return os.geteuid() if hasattr(os, "geteuid") else status.st_uid


# Each field of the evaluation settings is an option; `FIELDS` has its name, parser, and help.

_SETTINGS_FILES = ("surecall.toml", "pyproject.toml", ".env")
# Comma-separated lists: repeated options are joined.
_LIST_METAVARS = ("FILTER", "NAMES", "RUN")
_GROUP_TITLES = {
    "select": "Selection (join filters with commas, or repeat the option)",
    "run": "Execution",
    "endpoint": "Endpoint",
    "request": "Requests",
    "tools": "Tools",
    "gate": "Gates",
    "output": "Output",
}


_SHOWS_ALL: Final = "surecall.help_all"
_HELP_OPTIONS: Final = frozenset({"--help", "--help-all"})


class GroupedCommand(click.Command):
    """A command whose help groups its options.

    With `common`, `--help` shows only the options of these names, and `--help-all` shows all.
    """

    def __init__(self, *given: Any, common: Iterable[str] = (), **named: Any) -> None:
        super().__init__(*given, **named)
        self.common = frozenset(common)
        if self.common:
            self.params.append(_help_all_option())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section per group; the command's own options come last."""
        if self.common and not ctx.meta.get(_SHOWS_ALL):
            self._format_common_options(ctx, formatter)
            return
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in _GROUP_TITLES.values()}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            field = FIELDS.get(parameter.name or "")
            title = "Command options" if field is None else _GROUP_TITLES[field.group]
            if record is not None:
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def _format_common_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = (
            each
            for each in self.get_params(ctx)
            if each.name in self.common or _HELP_OPTIONS & {*each.opts}
        )
        records = (each.get_help_record(ctx) for each in shown)
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record is not None])


def _help_all_option() -> click.Option:
    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_full_help,
        help="Show all options and exit.",
    )


def _print_full_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  # click's signature
    if value:
        click.echo(full_help(ctx))
        ctx.exit()


def full_help(ctx: click.Context) -> str:
    """Return the help of a command with all options."""
    ctx.meta[_SHOWS_ALL] = True  # shared with the parent's context
    try:
        return ctx.get_help()
    finally:
        del ctx.meta[_SHOWS_ALL]


def settings_options(*names: str) -> Callable[[F], F]:
    """Add the options of the named settings to a command; without names, of all settings."""

    def decorate(function: F) -> F:
        chosen = [FIELDS[name] for name in names] if names else list(FIELDS.values())
        for field in reversed([field for field in chosen if field.flags]):
            function = setting_option(field)(function)
        return function

    return decorate


def setting_option(field: SettingField, *, shows_default: bool = True) -> Callable[[F], F]:
    """Return the option for a setting."""
    blank = not shows_default or field.default in (None, "", (), {}, False)
    shown = "" if blank else f"  [{_default_text(field.default)}]"
    if not field.is_switch:
        flags = (*field.flags, field.name)
        several = field.metavar in _LIST_METAVARS
        return click.option(
            *flags,
            metavar=field.metavar,
            help=field.help + shown,
            multiple=several,
            callback=_join_values if several else None,
        )
    flag = field.flags[-1]
    pair = f"{flag}/--no-{flag.removeprefix('--')}"
    return click.option(pair, field.name, default=None, help=field.help)


def _join_values(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Join the values of a repeated option with commas."""
    return ",".join(values) if values else None


def _default_text(value: Any) -> str:
    return "on" if value is True else f"{value:g}" if isinstance(value, float) else str(value)


def load_settings(
    flags: dict[str, Any], folder: Path | None = None, *, sends: bool = False
) -> EffectiveSettings:
    """Combine the settings from flags, the environment, and files of the working directory.

    With `sends`, for commands that may send requests, warn about a withheld key.
    """
    here = folder or Path.cwd()
    found = resolve_settings(flags, os.environ, *_read_settings_files(here), trusted_origins(here))
    effective = restrict_file_settings(found, here)
    print_warnings(effective.warnings)
    if sends and effective.key_warning:
        print_warnings([effective.key_warning])
    return effective


def load_file_settings(here: Path) -> EffectiveSettings:
    """Return the settings from the files of a directory alone."""
    return resolve_settings({}, {}, *_read_settings_files(here))


def read_dotenv(here: Path) -> dict[str, str]:
    """Return the variables in the `.env` file of a directory."""
    return parse_dotenv(_read_settings_files(here)[2])


def _read_settings_files(here: Path) -> tuple[str | None, str | None, str]:
    """Return the text of surecall.toml, of pyproject.toml, and of .env."""
    own, project, dotenv = map(_read_text_if_exists, (here / name for name in _SETTINGS_FILES))
    return own, project, dotenv or ""


def print_warnings(warnings: Iterable[str]) -> None:
    """Print warnings on standard error."""
    for warning in warnings:
        print_note(f"warning: {warning}")


def _read_text_if_exists(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{path.name} cannot be read: {error}") from None
