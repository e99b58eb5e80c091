"""How providers wrap a refusal: the same sentence comes in many bodies."""

from collections.abc import Callable
from typing import Final, TypeAlias

from surecall.simulator.violations import ProviderRules, Violation
from surecall.values.types import JSON

Refused: TypeAlias = tuple[int, JSON | list[JSON]]

_KIND = "invalid_request_error"
_REQUEST_ID = "060ddc5b11062bd3139dfc01ab8b68bd"
_ORDER_RULES: Final = frozenset({"user_after_tool", "unanswered", "answered_twice", "orphan"})
_ZAI_CODES: Final = {"content_blank": "1213"} | dict.fromkeys(
    ("user_missing", "content_empty", "orphan", "unanswered", "id_twice", "field_unknown"), "1214"
)


def refusal(rules: ProviderRules, violation: Violation) -> Refused:
    """Return the status and the body with which a provider refuses a request."""
    return _FORMS[rules.error_form](violation)


def _openai(violation: Violation) -> Refused:
    error = {"message": violation.message, "type": _KIND, "param": violation.where, "code": None}
    return 400, {"error": error}


def _mistral(violation: Violation) -> Refused:
    flat = {"object": "error", "message": violation.message}
    if violation.rule == "field_unknown":
        return 422, flat | {"type": _KIND}
    if violation.rule in _ORDER_RULES:
        kind = {"type": "invalid_request_message_order", "param": None, "code": "3230"}
    else:
        kind = {"type": "invalid_request", "param": None, "code": "1000"}
    return 400, flat | kind


def _gemini(violation: Violation) -> Refused:
    error = {"code": 400, "message": violation.message, "status": "INVALID_ARGUMENT"}
    return 400, [{"error": error}]


def _cerebras(violation: Violation) -> Refused:
    place = "validation_error" if violation.rule == "field_unknown" else violation.where
    flat = {"message": violation.message, "type": _KIND, "param": place}
    return 400, flat | {"code": "wrong_api_format"}


def _xai(violation: Violation) -> Refused:
    return 400, {"code": "Client specified an invalid argument", "error": violation.message}


def _moonshot(violation: Violation) -> Refused:
    return 400, {"error": {"message": violation.message, "type": _KIND}}


def _zai(violation: Violation) -> Refused:
    code = _ZAI_CODES.get(violation.rule, "1210")
    return 400, {"error": {"code": code, "message": violation.message}}


def _minimax(violation: Violation) -> Refused:
    error = {"type": "bad_request_error", "message": f"{violation.message} (2013)"}
    wrapped = error | {"http_code": "400"}
    return 400, {"type": "error", "error": wrapped, "request_id": _REQUEST_ID}


def _dashscope(violation: Violation) -> Refused:
    text = f"<400> InternalError.Algo.InvalidParameter: {violation.message}"
    error = {"message": text, "type": _KIND, "param": None, "code": "invalid_parameter_error"}
    return 400, {"error": error, "request_id": _REQUEST_ID}


_FORMS: Final[dict[str, Callable[[Violation], Refused]]] = {
    "openai": _openai,
    "mistral": _mistral,
    "gemini": _gemini,
    "cerebras": _cerebras,
    "xai": _xai,
    "moonshot": _moonshot,
    "zai": _zai,
    "minimax": _minimax,
    "dashscope": _dashscope,
}
