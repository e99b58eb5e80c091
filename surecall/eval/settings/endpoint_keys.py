"""Finds the endpoints of an evaluation, and decides which API key each of them may receive.

    URL from                  key of the environment      key in .env
    ------------------------  --------------------------  --------------------------
    command line, environment sent                        sent
    .env                      after `surecall trust`      sent: it is the same file
    surecall.toml, pyproject  after `surecall trust`      after `surecall trust`
    nowhere: OpenRouter       sent                        sent

OPENROUTER_API_KEY is sent to OpenRouter and, by this table, to the URL in OPENROUTER_BASE_URL. No
other setting sends it anywhere. Files of the working directory may be untrusted, so they alone
never decide where a key is sent: `.env` is not shared, but the settings files next to it are, and
may change with every update of the directory.

Compared endpoints are named on the command line:

    --reference moonshot --against cheaphost=moonshotai/Kimi-K2,http://127.0.0.1:8000

An endpoint is a URL, `sim`, or a name: then NAME_BASE_URL is its URL and NAME_API_KEY its key, from
the environment or `.env`. `=` may be followed by the model's id there. A key is sent only to the
URL of its own name, and a key from the environment never to a URL from `.env`. A URL on the command
line gets no key, unless it is OpenRouter's.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from urllib.parse import urlsplit

import msgspec

from surecall.eval.settings.endpoint import OPENROUTER_URL, is_openrouter
from surecall.eval.settings.fields import FIELDS, OWN_PREFIX, ROUTER_PREFIX
from surecall.eval.settings.value_parsers import SIMULATOR, parse_address
from surecall.settings.connection import redact_url, url_origin
from surecall.values.errors import ConfigError
from surecall.values.family import canonical_name
from surecall.values.types import Secret


class SettingLocation(StrEnum):
    """Where a setting comes from."""

    COMMAND_LINE = "command line"
    ENVIRONMENT = "environment"
    DOTENV = ".env"
    FILE = "settings file"
    NOWHERE = "nowhere"

    @property
    def is_in_directory(self) -> bool:
        """Whether it is a file of the working directory, which may be untrusted."""
        return self in {SettingLocation.DOTENV, SettingLocation.FILE}


class ApiKey(msgspec.Struct, frozen=True):
    """An API key, and the variable `name` that it comes from."""

    name: str
    value: Secret
    location: SettingLocation

    @property
    def is_openrouter_key(self) -> bool:
        """Whether it is OPENROUTER_API_KEY."""
        return self.name.startswith(ROUTER_PREFIX)

    @property
    def source(self) -> str:
        """The variable that holds the key, as messages name it."""
        return f"{self.name} in .env" if self.location is SettingLocation.DOTENV else self.name


class EndpointAddress(msgspec.Struct, frozen=True):
    """The URL of an endpoint, or a word such as `sim`; blank if none is set."""

    url: str = ""
    location: SettingLocation = SettingLocation.NOWHERE
    source: str = ""

    @property
    def is_openrouter_setting(self) -> bool:
        """Whether it comes from OPENROUTER_BASE_URL, which belongs to OPENROUTER_API_KEY."""
        return self.source.startswith(ROUTER_PREFIX)


def find_keys(environ: Mapping[str, str], dotenv: Mapping[str, str]) -> tuple[ApiKey, ...]:
    """Return all API keys that are set, by precedence."""
    places = ((SettingLocation.ENVIRONMENT, environ), (SettingLocation.DOTENV, dotenv))
    return tuple(
        ApiKey(name, Secret(where[name].strip()), place)
        for name in FIELDS["api_key"].variables
        for place, where in places
        if where.get(name, "").strip()
    )


def select_key(
    address: EndpointAddress, keys: Iterable[ApiKey], trusted_origins: Collection[str]
) -> tuple[ApiKey | None, str]:
    """Return the key to send to an address, if any, or the reason why a key is withheld.

    `trusted_origins` are the origins that the user allows the files of this directory to name.
    """
    withheld: list[ApiKey] = []
    for key in keys:
        if _may_send(key, address, trusted_origins):
            return key, ""
        withheld.append(key)
    return None, _withheld_message(withheld[0], address) if withheld else ""


def _may_send(key: ApiKey, address: EndpointAddress, trusted_origins: Collection[str]) -> bool:
    """Whether a key may be sent to an address, by the table of this module."""
    if address.url in {"", SIMULATOR} or is_openrouter(address.url):
        return True
    if key.is_openrouter_key and not address.is_openrouter_setting:
        return False
    if not address.location.is_in_directory or key.location is address.location:
        return True
    return url_origin(address.url) in trusted_origins


def _withheld_message(key: ApiKey, address: EndpointAddress) -> str:
    """Return why a key is not sent to an address, and how to change that."""
    if key.is_openrouter_key and not address.is_openrouter_setting:
        return (
            f"{key.source} is not sent to the URL in {address.source}, only to OpenRouter; "
            f"if it needs a key, set {OWN_PREFIX}API_KEY"
        )
    otherwise = (
        f"set {ROUTER_PREFIX}BASE_URL in the environment"
        if key.is_openrouter_key
        else "pass --base-url"
    )
    return (
        f"{key.source} is not sent to {url_origin(address.url)}, the URL in {address.source}; "
        f"to send it, run `surecall trust` in this directory, or {otherwise}"
    )


_URL_SUFFIX, _KEY_SUFFIX = "_BASE_URL", "_API_KEY"


class NamedEndpoint(msgspec.Struct, frozen=True):
    """An endpoint named on the command line, with the model's id there if one was given.

    Its `key` is sent unless there is a `warning`, the reason why it is withheld.
    """

    name: str
    url: str
    model: str = ""
    key: Secret | None = None
    warning: str = ""

    @property
    def api_key(self) -> Secret | None:
        """The key to send."""
        return None if self.warning else self.key


class EnvironmentVariables(msgspec.Struct, frozen=True):
    """The variables of the environment and of `.env`; the environment takes precedence."""

    environ: Mapping[str, str]
    dotenv: Mapping[str, str]

    def find(self, name: str) -> tuple[str, SettingLocation]:
        """Return a variable and its location; a blank variable counts as unset."""
        for place, where in (
            (SettingLocation.ENVIRONMENT, self.environ),
            (SettingLocation.DOTENV, self.dotenv),
        ):
            if found := where.get(name, "").strip():
                return found, place
        return "", SettingLocation.NOWHERE


def find_endpoints(
    reference: str, against: str, variables: EnvironmentVariables
) -> tuple[NamedEndpoint, ...]:
    """Return the endpoints of a comparison, the reference first."""
    others = [text.strip() for text in against.split(",") if text.strip()]
    if not others:
        raise ConfigError("--reference needs endpoints to compare with: pass them with --against")
    return tuple(find_endpoint(text, variables) for text in (reference, *others))


def find_endpoint(text: str, variables: EnvironmentVariables) -> NamedEndpoint:
    """Return the endpoint for a URL, `sim`, or a name, with its key and the model there."""
    where, equals, model = _split_model(text.strip())
    if equals and not model:
        raise ConfigError("the model id after = is missing: pass ENDPOINT=MODEL")
    if canonical_name(where) in {SIMULATOR, "simulator"}:
        return NamedEndpoint(SIMULATOR, SIMULATOR, model)
    if "://" in where:
        url = parse_address(where)
        found = _find_key(ROUTER_PREFIX.rstrip("_"), variables) if is_openrouter(url) else None
        return NamedEndpoint(_address_label(url), url, model, found.value if found else None)
    return _endpoint_by_name(where, model, variables)


def _split_model(text: str) -> tuple[str, str, str]:
    """Split endpoint and model at `=`; a URL with a query is not split."""
    return (text, "", "") if "?" in text else text.partition("=")


def _endpoint_by_name(name: str, model: str, variables: EnvironmentVariables) -> NamedEndpoint:
    prefix = name.upper().replace("-", "_")
    if not name or not prefix.replace("_", "").isalnum() or not prefix.isascii():
        raise ConfigError(
            "an endpoint is a URL, sim, or a name of letters, digits, - and _, as in "
            "--reference moonshot"
        )
    url, place = variables.find(prefix + _URL_SUFFIX)
    if not url and f"{prefix}_" == ROUTER_PREFIX:
        url = OPENROUTER_URL
    if not url:
        raise ConfigError(
            f"{name} has no URL: set {prefix}{_URL_SUFFIX}, and {prefix}{_KEY_SUFFIX} if "
            "it needs a key, or "
            "pass its URL instead"
        )
    try:
        url = parse_address(url)
    except ConfigError as problem:
        raise ConfigError(f"{prefix}{_URL_SUFFIX}: {problem}") from None
    found = _find_key(prefix, variables)
    if found is None:
        return NamedEndpoint(name, url, model)
    return NamedEndpoint(name, url, model, found.value, _key_warning(found, url, place, prefix))


def _find_key(prefix: str, variables: EnvironmentVariables) -> ApiKey | None:
    """Return the key in the variable PREFIX_API_KEY, if any."""
    value, place = variables.find(prefix + _KEY_SUFFIX)
    return ApiKey(prefix + _KEY_SUFFIX, Secret(value), place) if value else None


def _key_warning(key: ApiKey, url: str, location: SettingLocation, prefix: str) -> str:
    """Return why a key is not sent to the URL of its name; blank if it is."""
    if url == SIMULATOR:
        return f"{key.source} is not sent to the simulator"
    if location is SettingLocation.DOTENV and key.location is not location:
        return (
            f"{key.source} of the environment is not sent to {url_origin(url)}, the URL in "
            f"{prefix}{_URL_SUFFIX} in .env; put both into .env, or both into the environment"
        )
    return ""


def _address_label(url: str) -> str:
    """Return an endpoint's name from its URL, without parts that may hold a secret."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path.rstrip('/')}"


def redact_endpoint(endpoint: NamedEndpoint) -> str:
    """Return an endpoint's URL without secrets, for storing."""
    return endpoint.url if endpoint.url == SIMULATOR else redact_url(endpoint.url)
