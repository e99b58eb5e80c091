"""`surecall trust`: the user's consent that a directory's own files say where a key goes."""

import sys
from pathlib import Path
from typing import Final

import click

from surecall.cli.common import FAILED, NOTHING, WRONG_USAGE, complain, note, say
from surecall.cli.consents import Consent, consent_file, consents, keep, real
from surecall.cli.listing import say_columns
from surecall.cli.options import from_files
from surecall.eval.settings.endpoint import is_openrouter
from surecall.eval.settings.fields import OWN
from surecall.eval.settings.parse import SIMULATOR
from surecall.settings.connection import origin_of
from surecall.values.errors import ConfigError

_KEY: Final = f"{OWN}API_KEY"


@click.command()
@click.argument("directory", metavar="[DIRECTORY]", default=".", type=click.Path(path_type=Path))
@click.option("--list", "listing", is_flag=True, help="List what is trusted, and change nothing.")
@click.option("--remove", is_flag=True, help="Take back what was allowed for the directory.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(*, directory: Path, listing: bool, remove: bool, yes: bool) -> int:
    """Allow the settings files of a directory to say where your key is sent.

    A key of the environment goes to no address that a file of the working directory names, unless
    you allow it here. Shows the address first, and asks. The consent holds for this directory and
    this address (scheme, host and port), and is kept in your own configuration.
    """
    if listing:
        return _list()
    if remove:
        return _remove(real(directory))
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
    if wanted in consents():
        say(f"already trusted in {wanted.directory}: {wanted.origin}")
        return 0
    say(f"{source} names {wanted.origin}")
    say(f"Your key ({_KEY}) will be sent there by commands in {wanted.directory}.")
    if wanted.origin.startswith("http://"):
        say("The address is not encrypted: whoever is on the way can read the key.")
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
