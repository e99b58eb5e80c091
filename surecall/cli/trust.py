"""`surecall trust`: the user's consent that a directory's own files say where a key goes."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from surecall.cli.common import FAILED, NOTHING, WRONG_USAGE, complain, note, say
from surecall.cli.consents import Consent, consent_file, consents, keep, real
from surecall.cli.engine import is_readable
from surecall.cli.listing import say_columns
from surecall.cli.options import from_files
from surecall.eval.settings import parse as read
from surecall.eval.settings.endpoint import is_openrouter
from surecall.eval.settings.fields import FIELDS, ROUTER
from surecall.eval.settings.parse import SIMULATOR
from surecall.settings.connection import origin_of
from surecall.values.errors import ConfigError

_READABLE: Final = "The address is not encrypted: whoever is on the way can read the key."


@click.command()
@click.argument("directory", metavar="[DIRECTORY]", default=".", type=click.Path(path_type=Path))
@click.option("--list", "listing", is_flag=True, help="List what is trusted, and change nothing.")
@click.option("--engine", metavar="ADDRESS", help="Allow a cluster that is not encrypted.")
@click.option("--remove", is_flag=True, help="Take back what was allowed for the directory.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(*, directory: Path, listing: bool, engine: str | None, remove: bool, yes: bool) -> int:
    """Allow the settings files of a directory to say where your key is sent.

    A key of the environment goes to no address that a file of the working directory names, unless
    you allow it here. Shows the address first, and asks. The consent holds for this directory and
    this address (scheme, host and port), and is kept in your own configuration.

    With --engine, allow evaluations in the directory to send your key to the workers of a cluster
    whose address is tcp://, which others may read on the way.
    """
    if listing:
        return _list()
    if remove:
        return _remove(real(directory))
    if engine is not None:
        return _allow_engine(directory, engine, asks=not yes)
    return _allow(directory, asks=not yes)


def _list() -> int:
    found = consents()
    if not found:
        note(f"nothing is trusted ({consent_file()})")
        return 0
    say_columns(("directory", "address"), [(each.directory, each.origin) for each in found])
    return 0


def _remove(directory: str) -> int:
    found = consents()
    kept = [each for each in found if each.directory != directory]
    if len(kept) == len(found):
        return complain(f"nothing was trusted in {directory}", NOTHING)
    keep(kept)
    for each in found:
        if each.directory == directory:
            say(f"no longer trusted in {directory}: {each.origin}")
    return 0


def _allow(directory: Path, *, asks: bool) -> int:
    effective = from_files(directory)
    base_url, source = effective.settings.base_url, effective.sources["base_url"]
    if base_url in {"", SIMULATOR}:
        return complain(f"no settings file in {real(directory)} names an address", NOTHING)
    if is_openrouter(base_url):
        return complain(f"{source} names OpenRouter, which needs no consent", NOTHING)
    wanted = Consent(real(directory), _plain_origin(base_url, source))
    told = [
        f"{source} names {wanted.origin}",
        f"Your key ({_keys(source)}) will be sent there by commands in {wanted.directory}.",
        *([_READABLE] if wanted.origin.startswith("http://") else []),
    ]
    return _kept(wanted, told, asks=asks)


def _keys(source: str) -> str:
    """Name the keys that go to the address of a setting, the stronger first."""
    own, router = FIELDS["api_key"].own_variable, FIELDS["api_key"].router_variable
    return f"{own}, or else {router}" if source.startswith(ROUTER) else own


def _allow_engine(directory: Path, address: str, *, asks: bool) -> int:
    cluster = read.engine(address)
    if cluster in {read.LOCAL, read.DASK} or not is_readable(cluster):
        return complain(f"{cluster} needs no consent", NOTHING)
    wanted = Consent(real(directory), cluster)
    sent = f"Your key will be sent to the workers of {cluster} by commands in {wanted.directory}."
    return _kept(wanted, [sent, _READABLE], asks=asks)


def _kept(wanted: Consent, told: Iterable[str], *, asks: bool) -> int:
    """Keep a consent, after its consequences were told and, if wanted, agreed to."""
    if wanted in consents():
        say(f"already trusted in {wanted.directory}: {wanted.origin}")
        return 0
    for line in told:
        say(line)
    if asks and not sys.stdin.isatty():
        return complain("nobody can be asked here; --yes agrees without a question", WRONG_USAGE)
    if asks and not click.confirm("Trust it?"):
        return complain("nothing was trusted", FAILED)
    say(f"kept in {keep((*consents(), wanted))}; surecall trust --remove takes it back")
    return 0


def _plain_origin(base_url: str, source: str) -> str:
    """Return the origin; refuse a name that can look like another one."""
    origin = origin_of(base_url)
    if not origin.isascii():
        raise ConfigError(f"{source}: write the host in its ASCII form (xn--…) to trust it")
    return origin
