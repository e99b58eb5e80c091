"""A model that goes on where another failed: who it is, and which failures it is there for.

    of the endpoint or the key      go on, and let the model rest    `UNAVAILABLE`
    of this conversation alone      go on                            `UNFIT`
    of the request, or of content   only if the application says so  `ON_REQUEST`
    of the run: time, limits, contract, policy                       never

A request that one endpoint finds wrong is wrong elsewhere, too: going on would hide the mistake.
What moderation refuses is not carried to whoever lets it pass, unless the application wants that.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from surecall.settings.capabilities import Capabilities, canonical_provider
from surecall.settings.config import ToolCallingConfig, check_options
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.family import unknown
from surecall.values.types import JSON

UNAVAILABLE: Final = frozenset(
    {
        ErrorCode.AUTH,
        ErrorCode.CONNECTION_ERROR,
        ErrorCode.DECODE_ERROR,
        ErrorCode.EMPTY_RESPONSE,
        ErrorCode.FORBIDDEN,
        ErrorCode.NOT_FOUND,
        ErrorCode.NO_TOOL_USE_ENDPOINT,
        ErrorCode.PAYMENT_REQUIRED,
        ErrorCode.PROVIDER_ERROR,
        ErrorCode.RATE_LIMIT,
        ErrorCode.TIMEOUT,
        ErrorCode.UPSTREAM_5XX,
    }
)
UNFIT: Final = frozenset(
    {ErrorCode.CONTEXT_TOO_LONG, ErrorCode.MALFORMED_CALL, ErrorCode.REQUEST_TOO_LARGE}
)
GO_ON: Final = UNAVAILABLE | UNFIT
ON_REQUEST: Final = frozenset(
    {
        ErrorCode.BAD_REQUEST,
        ErrorCode.CALL_MISSING,
        ErrorCode.CONFLICT,
        ErrorCode.CONTENT_POLICY,
        ErrorCode.EMPTY_FINAL,
        ErrorCode.NO_TOOL_CALLS,
        ErrorCode.RESPONSE_TOO_LARGE,
        ErrorCode.UNPROCESSABLE,
    }
)
REST_S: Final = 30.0
_REASONS: Final = {str(code): code for code in GO_ON | ON_REQUEST}


class _Named(msgspec.Struct, frozen=True):
    """What has the name of a model."""

    model: str


class Fallback(_Named, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A model of a chain, which is asked when the one before it failed with a code of `on`.

    `client` is where it is asked, with its own key: a client, or an address that needs no key;
    without one it is the runner's. `provider` says whose presets fit, where the address does not
    tell. Without a `config` it gets the runner's, if that was given one, else what is recommended
    for it. `options` go over the runner's. After a failure of the endpoint or the key it rests:
    as long as the endpoint asks for, else for `rest_s` seconds.
    """

    client: Any = None
    provider: str = ""
    config: ToolCallingConfig | Mapping[str, Any] | None = None
    options: JSON = {}
    capabilities: Capabilities | None = None
    on: Iterable[str] = GO_ON
    rest_s: float = REST_S

    @property
    def reasons(self) -> frozenset[ErrorCode]:
        """The codes of `on`."""
        return frozenset(_REASONS[code] for code in self.on)

    def __post_init__(self) -> None:
        """Refuse what cannot work, while the caller still sees where it came from."""
        _check_names(self.model, self.provider)
        check_options(self.options, "Fallback: options")
        _check_rest(self.rest_s)
        settle = msgspec.structs.force_setattr
        settle(self, "provider", canonical_provider(self.provider))
        settle(self, "on", _codes(self.on))

    def __repr__(self) -> str:
        # Not its client: an address may hold a secret.
        return f"Fallback({self.model!r})"


def _check_names(model: Any, provider: Any) -> None:
    if model is not None and not isinstance(model, str):
        raise ConfigError(f"model must be a name or a Fallback, not {type(model).__name__}")
    if model is None or not model.strip():
        raise ConfigError("model is blank: name the model to ask")
    if not isinstance(provider, str):
        raise ConfigError('Fallback: provider must be a name such as "mistral"')


def _check_rest(rest_s: Any) -> None:
    if not isinstance(rest_s, int | float) or not 0 <= rest_s < math.inf:
        raise ConfigError(f"Fallback: rest_s must be a number of seconds, not {rest_s!r}")


def _codes(given: Any) -> frozenset[ErrorCode]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError('Fallback: on must be a set of codes, such as {"RATE_LIMIT"}')
    return frozenset(map(_code, given))


def _code(given: Any) -> ErrorCode:
    name = str(given)
    if name in _REASONS:
        return _REASONS[name]
    if name in frozenset(ErrorCode):
        raise ConfigError(f"Fallback: on: {name} is no reason to ask another model")
    raise ConfigError(f"Fallback: on: {unknown('code', name, _REASONS)}")
