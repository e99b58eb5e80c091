"""`surecall trust`: consent to a directory's settings files choosing where a key is sent."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from surecall.cli.console import (
    FAILED,
    NOTHING,
    WRONG_USAGE,
    ExitCode,
    print_columns,
    print_error,
    print_note,
    print_text,
)
from surecall.cli.options import (
    Consent,
    consent_file,
    load_consents,
    load_file_settings,
    real_path,
    save_consents,
)
from surecall.cli.target import is_unencrypted
from surecall.eval.settings import value_parsers as read
from surecall.eval.settings.endpoint import is_openrouter
from surecall.eval.settings.fields import FIELDS, ROUTER_PREFIX
from surecall.eval.settings.value_parsers import SIMULATOR
from surecall.settings.connection import url_origin
from surecall.values.errors import ConfigError

_NOT_ENCRYPTED: Final = "The connection is not encrypted: others on the network can read the key."


@click.command()
@click.argument("directory", metavar="[DIRECTORY]", default=".", type=click.Path(path_type=Path))
@click.option("--list", "listing", is_flag=True, help="List trusted directories and exit.")
@click.option("--engine", metavar="ADDRESS", help="Allow an unencrypted Dask cluster.")
@click.option("--remove", is_flag=True, help="Revoke all consents for the directory.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def command(
    *, directory: Path, listing: bool, engine: str | None, remove: bool, yes: bool
) -> ExitCode:
    """Allow a directory's settings files to choose where your key is sent.

    By default, keys from the environment are never sent to an address from a settings file in the
    working directory. This command shows the address and asks for confirmation. The consent is for
    this directory and address (scheme, host, and port) and is stored in your user configuration.

    With --engine, evaluations in the directory may send your key to the workers of a cluster with
    an unencrypted tcp:// address.
    """
    if listing:
        return _list_consents()
    if remove:
        return _remove_consents(real_path(directory))
    if engine is not None:
        return _allow_engine(directory, engine, asks=not yes)
    return _allow_address(directory, asks=not yes)


def _list_consents() -> ExitCode:
    found = load_consents()
    if not found:
        print_note(f"nothing is trusted ({consent_file()})")
        return 0
    print_columns(("directory", "address"), [(each.directory, each.origin) for each in found])
    return 0


def _remove_consents(directory: str) -> ExitCode:
    found = load_consents()
    kept = [each for each in found if each.directory != directory]
    if len(kept) == len(found):
        return print_error(f"{directory} has no consents to remove", NOTHING)
    save_consents(kept)
    for each in found:
        if each.directory == directory:
            print_text(f"no longer trusted in {directory}: {each.origin}")
    return 0


def _allow_address(directory: Path, *, asks: bool) -> ExitCode:
    effective = load_file_settings(directory)
    base_url, source = effective.settings.base_url, effective.sources["base_url"]
    if base_url in {"", SIMULATOR}:
        return print_error(f"no settings file in {real_path(directory)} names an address", NOTHING)
    if is_openrouter(base_url):
        return print_error(f"{source} names OpenRouter, which needs no consent", NOTHING)
    wanted = Consent(real_path(directory), _plain_origin(base_url, source))
    lines = [
        f"{source} names {wanted.origin}.",
        f"Commands in {wanted.directory} will send your key ({_key_names(source)}) there.",
        *([_NOT_ENCRYPTED] if wanted.origin.startswith("http://") else []),
    ]
    return _confirm_and_save(wanted, lines, asks=asks)


def _key_names(source: str) -> str:
    """Return the variables with the key for an address, in order of precedence."""
    own, router = FIELDS["api_key"].own_variable, FIELDS["api_key"].router_variable
    return f"{own} or {router}" if source.startswith(ROUTER_PREFIX) else own


def _allow_engine(directory: Path, address: str, *, asks: bool) -> ExitCode:
    cluster = read.parse_engine(address)
    if cluster in {read.LOCAL, read.DASK} or not is_unencrypted(cluster):
        return print_error(f"{cluster} needs no consent", NOTHING)
    wanted = Consent(real_path(directory), cluster)
    warning = f"Commands in {wanted.directory} will send your key to the workers of {cluster}."
    return _confirm_and_save(wanted, [warning, _NOT_ENCRYPTED], asks=asks)


def _confirm_and_save(consent: Consent, consequences: Iterable[str], *, asks: bool) -> ExitCode:
    """Print the consequences of a consent, ask for confirmation, and store it."""
    if consent in load_consents():
        print_text(f"already trusted in {consent.directory}: {consent.origin}")
        return 0
    for line in consequences:
        print_text(line)
    if asks and not sys.stdin.isatty():
        return print_error(
            "cannot ask for confirmation without a terminal: pass --yes", WRONG_USAGE
        )
    if asks and not click.confirm("Trust this address?"):
        return print_error("not confirmed: no consent was stored", FAILED)
    print_text(
        f"consent saved to {save_consents((*load_consents(), consent))}; `surecall trust "
        "--remove` revokes it"
    )
    return 0


def _plain_origin(base_url: str, source: str) -> str:
    """Return the origin; raise for a host name that could be mistaken for another."""
    origin = url_origin(base_url)
    if not origin.isascii():
        raise ConfigError(f"{source}: write the host {origin} in its ASCII form (xn--…)")
    return origin
