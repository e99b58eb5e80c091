"""Whose key may go to whose address.

    address from              key of the environment      key in .env
    ------------------------  --------------------------  --------------------------
    command line, environment sent                        sent
    .env                      after `surecall trust`      sent: it is the same file
    surecall.toml, pyproject  after `surecall trust`      after `surecall trust`
    nowhere: OpenRouter       sent                        sent

OPENROUTER_API_KEY goes to OpenRouter and, by this table, to the address in OPENROUTER_BASE_URL: who
sets both means both. No other setting sends it anywhere. A file of the working directory may have
been written by anyone, so it alone never decides where a key goes; `.env` is not a file that is
shared, but the settings beside it are, and may change with every update of the directory.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from surecall.eval.settings.endpoint import is_openrouter
from surecall.eval.settings.fields import FIELDS, OWN, ROUTER
from surecall.eval.settings.parse import SIMULATOR
from surecall.settings.connection import origin_of
from surecall.values.types import Secret


class Place(StrEnum):
    """Where a setting was found."""

    COMMAND_LINE = "command line"
    ENVIRONMENT = "environment"
    DOTENV = ".env"
    FILE = "settings file"
    NOWHERE = "nowhere"

    @property
    def in_directory(self) -> bool:
        """Whether it is a file of the working directory, which anyone may have written."""
        return self in {Place.DOTENV, Place.FILE}


class Key(msgspec.Struct, frozen=True):
    """A key as it was found, in the variable `name`."""

    name: str
    value: Secret
    place: Place

    @property
    def is_router(self) -> bool:
        """Whether it is the key of OpenRouter, or of what stands in its place."""
        return self.name.startswith(ROUTER)

    @property
    def source(self) -> str:
        """How messages call it."""
        return f"{self.name} in .env" if self.place is Place.DOTENV else self.name


class Address(msgspec.Struct, frozen=True):
    """An address, or a word in place of one; blank means that none was given."""

    url: str = ""
    place: Place = Place.NOWHERE
    source: str = ""

    @property
    def is_for_router_key(self) -> bool:
        """Whether OPENROUTER_BASE_URL names it, which belongs to OPENROUTER_API_KEY."""
        return self.source.startswith(ROUTER)


_NAMES: Final = FIELDS["api_key"].variables


def keys_in(environ: Mapping[str, str], dotenv: Mapping[str, str]) -> tuple[Key, ...]:
    """Return every key there is, the stronger first; a blank one is none."""
    places = ((Place.ENVIRONMENT, environ), (Place.DOTENV, dotenv))
    return tuple(
        Key(name, Secret(where[name].strip()), place)
        for name in _NAMES
        for place, where in places
        if where.get(name, "").strip()
    )


def key_for(
    address: Address, keys: Iterable[Key], trusted: Collection[str]
) -> tuple[Key | None, str]:
    """Return the key to send, if any may go there, and what to tell about one that may not.

    `trusted` are the origins that the user has allowed the files of this directory to name.
    """
    withheld: list[Key] = []
    for key in keys:
        if _may_go(key, address, trusted):
            return key, ""
        withheld.append(key)
    return None, _told(withheld[0], address) if withheld else ""


def _may_go(key: Key, address: Address, trusted: Collection[str]) -> bool:
    if address.url in {"", SIMULATOR} or is_openrouter(address.url):
        return True
    if key.is_router and not address.is_for_router_key:
        return False
    if not address.place.in_directory or key.place is address.place:
        return True
    return origin_of(address.url) in trusted


def _told(key: Key, address: Address) -> str:
    if key.is_router and not address.is_for_router_key:
        return (
            f"{key.source} is not sent to another address ({address.source}); "
            f"if a key is needed there, set {OWN}API_KEY"
        )
    otherwise = f"set {ROUTER}BASE_URL in the environment" if key.is_router else "pass --base-url"
    return (
        f"{address.source} names {origin_of(address.url)}, and {key.source} is not sent there; "
        f"if it should be, run `surecall trust` in this directory, or {otherwise}"
    )
