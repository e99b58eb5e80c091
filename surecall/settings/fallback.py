"""Model fallback: which model continues a run, and after which failures.

    failure of the endpoint or key     continue, with a cooldown     `UNAVAILABLE_CODES`
    failure in this conversation only  continue                      `CONVERSATION_CODES`
    invalid request, or moderation     only if you list the code     `OPT_IN_CODES`
    time, limits, contract, policy     never

A request that one endpoint rejects as invalid is invalid elsewhere: continuing would hide the
mistake. Moderated content is not sent to a more permissive model unless you ask for that.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from surecall.settings.capabilities import Capabilities, canonical_provider
from surecall.settings.config import ToolCallingConfig, check_options
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.family import unknown_name_message
from surecall.values.types import JSON

UNAVAILABLE_CODES: Final = frozenset(
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
CONVERSATION_CODES: Final = frozenset(
    {ErrorCode.CONTEXT_TOO_LONG, ErrorCode.MALFORMED_CALL, ErrorCode.REQUEST_TOO_LARGE}
)
DEFAULT_CODES: Final = UNAVAILABLE_CODES | CONVERSATION_CODES
OPT_IN_CODES: Final = frozenset(
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
DEFAULT_REST_S: Final = 30.0
_CODES_BY_NAME: Final = {str(code): code for code in DEFAULT_CODES | OPT_IN_CODES}


class _HasModel(msgspec.Struct, frozen=True):
    """Base of `Fallback` that makes `model` its only positional argument."""

    model: str


class Fallback(_HasModel, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A model of a fallback chain, used when the previous one failed with a code in `on`.

    `client` is a client with its own key, or the URL of an endpoint that needs no key; the default
    is the runner's client. `provider` selects the presets; by default they are inferred from the
    URL. `config` defaults to the config given to the runner, else to the recommended settings of
    the model. `options` override the runner's. After a failure of its endpoint or key the model is
    skipped for as long as the endpoint asks, else for `rest_s` seconds.
    """

    client: Any = None
    provider: str = ""
    config: ToolCallingConfig | Mapping[str, Any] | None = None
    options: JSON = {}
    capabilities: Capabilities | None = None
    on: Iterable[str] = DEFAULT_CODES
    rest_s: float = DEFAULT_REST_S

    @property
    def reasons(self) -> frozenset[ErrorCode]:
        """The codes in `on`."""
        return frozenset(_CODES_BY_NAME[code] for code in self.on)

    def __post_init__(self) -> None:
        """Validate the fields."""
        _check_names(self.model, self.provider)
        check_options(self.options, "Fallback: options")
        _check_rest_seconds(self.rest_s)
        set_field = msgspec.structs.force_setattr
        set_field(self, "provider", canonical_provider(self.provider))
        set_field(self, "on", _parse_codes(self.on))

    def __repr__(self) -> str:
        # Not the client: its URL may contain a secret.
        return f"Fallback({self.model!r})"


def _check_names(model: Any, provider: Any) -> None:
    if model is not None and not isinstance(model, str):
        raise ConfigError(f"model must be a name or a Fallback, not {type(model).__name__}")
    if model is None or not model.strip():
        raise ConfigError("model is blank: name the model to ask")
    if not isinstance(provider, str):
        raise ConfigError('Fallback: provider must be a name such as "mistral"')


def _check_rest_seconds(rest_s: Any) -> None:
    if not isinstance(rest_s, int | float) or not 0 <= rest_s < math.inf:
        raise ConfigError(f"Fallback: rest_s must be a number of seconds, not {rest_s!r}")


def _parse_codes(codes: Any) -> frozenset[ErrorCode]:
    if isinstance(codes, str) or not isinstance(codes, Iterable):
        raise ConfigError(
            f'Fallback: on must be a set of codes, such as {{"RATE_LIMIT"}}, not {codes!r:.80}'
        )
    return frozenset(map(_parse_code, codes))


def _parse_code(code: Any) -> ErrorCode:
    name = str(code)
    if name in _CODES_BY_NAME:
        return _CODES_BY_NAME[name]
    if name in frozenset(ErrorCode):
        raise ConfigError(f"Fallback: on: {name} cannot trigger a fallback")
    raise ConfigError(f"Fallback: on: {unknown_name_message('code', name, _CODES_BY_NAME)}")
