"""Endpoints that are held against each other: how each is named, and which key goes where.

    --reference moonshot --against cheaphost=moonshotai/Kimi-K2,http://127.0.0.1:8000

An endpoint is an address, `sim`, or a name: then NAME_BASE_URL is its address and NAME_API_KEY its
key, in the environment or in `.env`. After `=` may stand what the model is called there. A key goes
only to the address of its own name, and never to one that `.env` gives to a key of the
environment; an address on the command line has no key, unless it is OpenRouter's.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from surecall.eval.settings.endpoint import OPENROUTER_URL, is_openrouter
from surecall.eval.settings.fields import ROUTER
from surecall.eval.settings.keys import Key, Place
from surecall.eval.settings.parse import SIMULATOR, address
from surecall.settings.connection import origin_of, shown_url
from surecall.values.errors import ConfigError
from surecall.values.family import canonical
from surecall.values.types import Secret

_URL, _KEY = "_BASE_URL", "_API_KEY"


class NamedEndpoint(msgspec.Struct, frozen=True):
    """An endpoint that was named. `model` is blank unless it was said.

    The `key` of its name goes there, unless a `warning` says why it does not.
    """

    name: str
    url: str
    model: str = ""
    key: Secret | None = None
    warning: str = ""

    @property
    def api_key(self) -> Secret | None:
        """The key that is sent."""
        return None if self.warning else self.key


class Variables(msgspec.Struct, frozen=True):
    """The variables of the environment, and those in `.env`, which never override them."""

    environ: Mapping[str, str]
    dotenv: Mapping[str, str]

    def find(self, name: str) -> tuple[str, Place]:
        """Return a variable and where it was found; a blank one is none."""
        for place, where in ((Place.ENVIRONMENT, self.environ), (Place.DOTENV, self.dotenv)):
            if found := where.get(name, "").strip():
                return found, place
        return "", Place.NOWHERE


def endpoints_in(reference: str, against: str, variables: Variables) -> tuple[NamedEndpoint, ...]:
    """Find the endpoints that are meant, the reference first."""
    others = [text.strip() for text in against.split(",") if text.strip()]
    if not others:
        raise ConfigError("--reference is held against other endpoints: name them with --against")
    return tuple(endpoint_named(text, variables) for text in (reference, *others))


def endpoint_named(text: str, variables: Variables) -> NamedEndpoint:
    """Find the endpoint that a word means: its address, its key, and the model there."""
    where, equals, model = _parts(text.strip())
    if equals and not model:
        raise ConfigError("an endpoint is followed by = and the id of the model there")
    if canonical(where) in {SIMULATOR, "simulator"}:
        return NamedEndpoint(SIMULATOR, SIMULATOR, model)
    if "://" in where:
        url = address(where)
        found = _key(ROUTER.rstrip("_"), variables) if is_openrouter(url) else None
        return NamedEndpoint(_short(url), url, model, found.value if found else None)
    return _by_name(where, model, variables)


def _parts(text: str) -> tuple[str, str, str]:
    """Take the model off an endpoint; an address may have a query, which has such signs, too."""
    return (text, "", "") if "?" in text else text.partition("=")


def _by_name(name: str, model: str, variables: Variables) -> NamedEndpoint:
    prefix = name.upper().replace("-", "_")
    if not name or not prefix.replace("_", "").isalnum() or not prefix.isascii():
        raise ConfigError(
            "an endpoint is an address, sim, or a name of letters, digits, - and _, as in "
            "--reference moonshot"
        )
    url, place = variables.find(prefix + _URL)
    if not url and f"{prefix}_" == ROUTER:
        url = OPENROUTER_URL
    if not url:
        raise ConfigError(
            f"{name}: where is it? Set {prefix}{_URL}, and {prefix}{_KEY} if it needs a key, or "
            "give its address instead"
        )
    try:
        url = address(url)
    except ConfigError as problem:
        raise ConfigError(f"{prefix}{_URL}: {problem}") from None
    found = _key(prefix, variables)
    if found is None:
        return NamedEndpoint(name, url, model)
    return NamedEndpoint(name, url, model, found.value, _withheld(found, url, place, prefix))


def _key(prefix: str, variables: Variables) -> Key | None:
    value, place = variables.find(prefix + _KEY)
    return Key(prefix + _KEY, Secret(value), place) if value else None


def _withheld(found: Key, url: str, place: Place, prefix: str) -> str:
    """Say why a key does not go to the address of its name; blank if it does."""
    if url == SIMULATOR:
        return f"{found.source} is not sent to the simulator"
    if place is Place.DOTENV and found.place is not place:
        return (
            f"{prefix}{_URL} in .env names {origin_of(url)}, and {found.source} of the environment "
            "is not sent there; put both into .env, or both into the environment"
        )
    return ""


def _short(url: str) -> str:
    """Name an endpoint by its address, without what may hold a secret."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path.rstrip('/')}"


def shown(endpoint: NamedEndpoint) -> str:
    """Write an endpoint as it may be kept: without a key, and what an address may hold of one."""
    return endpoint.url if endpoint.url == SIMULATOR else shown_url(endpoint.url)
