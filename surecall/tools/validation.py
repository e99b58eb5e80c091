"""Compiles schemas and validates values, with error messages for the model.

Calling a `Validation` with a value returns one line per error. `Validation.rejections` returns the
rejecting keywords by path.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from surecall.parsing.argument_candidates import Rejections, ValuePath
from surecall.parsing.budget import WorkBudget, node_count
from surecall.tools.validation_cost import (
    MAX_PATTERN_STATES,
    MAX_SCHEMA_NODES,
    UNITS_PER_STEP,
    VISITS_PER_UNIT,
    CostEstimator,
    SchemaWeight,
    TooCostly,
    ValidationCost,
    schema_weight,
)
from surecall.values.errors import ConfigError
from surecall.values.json_equality import equality_key
from surecall.values.types import FIRST_INEXACT_FLOAT, JSON

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_MAX_MESSAGES = 8
_MAX_MESSAGE_CHARS = 200
_MAX_ALTERNATIVE_CHARS = 80
# The validator first builds all errors, each with a copy of the offending value, and blocks all
# other threads meanwhile. Beyond this limit only the first error is reported, or none.
_MAX_EXPLAIN_UNITS: Final = 10_000
_MAX_FIRST_ERROR_UNITS: Final = 40_000
# A check cannot be interrupted either.
_MAX_CHECK_UNITS: Final = 200_000
_NOT_EXPLAINED: Final = (
    "the value does not match the schema, and is too large or too deep to say why"
)
_INEXACT_NUMBER: Final = (
    "a number is too large for a decimal point or an exponent; write all digits of an integer"
)
_TOO_COSTLY: Final = (
    "there is too much to check against the schema of the tool; send fewer or smaller values, "
    "or fewer calls at once"
)


class Validation(msgspec.Struct, frozen=True):
    """Validates values against one schema, and never raises.

    The work is taken from a budget first. A value that costs more than the rest is rejected.
    """

    errors_in: "Callable[[JSON, WorkBudget], list[ValidationError]]"
    weight: int = 0
    size: int = 0  # the cost of compiling the schema, in nodes and pattern states

    def __call__(self, value: JSON, budget: WorkBudget | None = None) -> tuple[str, ...]:
        """Return the errors of a value, one line each."""
        try:
            return _error_lines(self.errors_in(value, budget or WorkBudget()))
        except TooCostly:
            return (problem_line([], _TOO_COSTLY),)
        except _Unexplained:
            return (problem_line([], _NOT_EXPLAINED),)
        except _Inexact:
            return (problem_line([], _INEXACT_NUMBER),)
        except Exception as problem:  # noqa: BLE001  lone surrogates, unknown types, deep nesting
            return (problem_line([], f"the value cannot be checked ({problem})"),)

    def rejections(self, value: JSON, budget: WorkBudget | None = None) -> Rejections:
        """Return the keywords that reject the value at each path; empty if the value is valid."""
        try:
            return _rejections_by_path(self.errors_in(value, budget or WorkBudget()))
        except Exception:  # noqa: BLE001  a value that cannot be checked is invalid
            return {(): frozenset({"unchecked"})}


def compile_schema(schema: JSON) -> Validation:
    """Compile a schema; raise `ConfigError` if it is invalid or too large."""
    # Imported late: loading the extension takes about 20 ms.
    import jsonschema_rs  # noqa: PLC0415

    weight = schema_weight(schema)
    _check_weight(weight)
    try:
        validator = jsonschema_rs.validator_for(
            dict(schema),
            offline=True,
            keywords=CUSTOM_KEYWORDS,
            # The linear-time engine, which rejects look-around and back-references.
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except Exception as problem:
        raise ConfigError(f"invalid schema: {_invalid_schema_message(problem)}") from problem
    costs = _CostGuard(schema, weight)
    takes_integers = "integer" in str(schema)

    def errors_in(value: JSON, budget: WorkBudget) -> "list[ValidationError]":
        costs.spend_check(value, budget)
        if validator.is_valid(value):
            if takes_integers and _has_inexact_float(value):
                _check_types(validator.iter_errors(_with_fractions(value)))
            return []
        if costs.spend_explanation(value, budget):
            return list(validator.iter_errors(value))
        try:
            validator.validate(value)
        except jsonschema_rs.ValidationError as first:
            return [first]
        raise _Unexplained  # pragma: no cover  # `is_valid` and `validate` agree

    return Validation(errors_in, weight.visits, weight.nodes + weight.states)


def _check_weight(weight: SchemaWeight) -> None:
    """Raise `ConfigError` if the schema is too large to compile quickly."""
    if weight.states > MAX_PATTERN_STATES:
        raise ConfigError(
            f"invalid schema: its patterns have {weight.states} states with repetitions expanded; "
            f"the limit is {MAX_PATTERN_STATES}; use `maxLength` instead of large repetitions"
        )
    if weight.nodes > MAX_SCHEMA_NODES:
        raise ConfigError("invalid schema: its strings or integers are too long")


class _Unexplained(Exception):
    """A value does not match the schema, and explaining why would take too long."""


class _Inexact(Exception):
    """A float stands for an integer, and is too large to be exact."""


def _has_inexact_float(value: Any) -> bool:
    """Whether a value holds a float that may stand for several integers."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, float):
            if abs(item) >= FIRST_INEXACT_FLOAT:
                return True
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return False


def _with_fractions(value: Any) -> Any:
    """Return a copy with a fraction added to each inexact float, so that it is not an integer."""
    if isinstance(value, dict):
        return {key: _with_fractions(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_fractions(item) for item in value]
    is_inexact = isinstance(value, float) and abs(value) >= FIRST_INEXACT_FLOAT
    return Decimal(f"{int(value)}.5") if is_inexact else value


def _check_types(errors: "Iterable[ValidationError]") -> None:
    """Raise `_Inexact` if a value with fractions added has type errors."""
    keywords = _rejections_by_path(list(errors)).values()
    if any("type" in each for each in keywords):
        raise _Inexact


class _CostGuard:
    """Takes the cost of validating values from a budget before the work is done."""

    def __init__(self, schema: JSON, weight: SchemaWeight) -> None:
        self._weight = weight
        self._estimator = CostEstimator(schema)

    def spend_check(self, value: JSON, budget: WorkBudget) -> None:
        """Spend the cost of checking a value; raise `TooCostly` if it is too high."""
        most = min(budget.remaining, _MAX_CHECK_UNITS)
        most_nodes = most * VISITS_PER_UNIT // self._weight.visits
        nodes = node_count(value, most_nodes) if self._weight.is_plain else most_nodes + 1
        visits = nodes * self._weight.visits
        if nodes > most_nodes:
            visits = self._estimate(value, budget).visits
        units = 1 + visits // VISITS_PER_UNIT
        if units > _MAX_CHECK_UNITS or not budget.spend(units):
            raise TooCostly

    def spend_explanation(self, value: JSON, budget: WorkBudget) -> bool:
        """Spend the cost of listing all errors; if too high, of the first one, and return False."""
        try:
            cost = self._estimate(value, budget)
        except TooCostly as problem:
            raise _Unexplained from problem
        can_list = cost.explain <= _MAX_EXPLAIN_UNITS
        units = cost.explain if can_list else cost.first
        # The validator starts over to find the errors.
        if units > _MAX_FIRST_ERROR_UNITS or not budget.spend(
            units + cost.visits // VISITS_PER_UNIT
        ):
            raise _Unexplained
        return can_list

    def _estimate(self, value: JSON, budget: WorkBudget) -> ValidationCost:
        """Estimate the cost of a value; the estimate itself is taken from the budget as well."""
        most = budget.remaining // UNITS_PER_STEP
        try:
            cost, steps = self._estimator.estimate(value, most)
        except TooCostly:
            budget.exhaust()
            raise
        budget.spend(steps * UNITS_PER_STEP)
        return cost


def _rejections_by_path(errors: "Sequence[ValidationError]") -> dict[ValuePath, frozenset[str]]:
    """Return the rejecting keywords of all errors by path."""
    found: dict[ValuePath, frozenset[str]] = {}
    for error in errors:
        for place, keywords in _error_rejections(error).items():
            found[place] = found.get(place, frozenset()) | keywords
    return found


def _error_rejections(error: "ValidationError") -> dict[ValuePath, frozenset[str]]:
    """Return the rejections of one error; in a union, the paths that every alternative rejects.

    Alternatives of another type, such as null for an object, are ignored.
    """
    here: ValuePath = tuple(error.instance_path)
    branches = getattr(error.kind, "context", ())
    refused = [_rejections_by_path(branch) for branch in branches]
    meant = [found for found in refused if "type" not in found.get(here, ())] or refused
    shared = set(meant[0]).intersection(*meant) if meant else set()
    if not shared:
        return {here: frozenset({error.kind.name})}
    return {place: frozenset().union(*(found[place] for found in meant)) for place in shared}


def _error_lines(errors: "list[ValidationError]") -> tuple[str, ...]:
    """Describe the first errors, one line each, and how many more there are."""
    lines = [problem_line(one.instance_path, _error_text(one)) for one in errors[:_MAX_MESSAGES]]
    rest = len(errors) - len(lines)
    return (*lines, f"and {rest} more") if rest else tuple(lines)


def _error_text(error: "ValidationError") -> str:
    """Describe an error; for a union, describe the error of each alternative."""
    branches = getattr(error.kind, "context", ())
    if not branches or not all(branches):
        return error_message(error)
    reasons = [clip_middle(error_message(branch[0]), _MAX_ALTERNATIVE_CHARS) for branch in branches]
    return ", or ".join(dict.fromkeys(reasons))


def _invalid_schema_message(problem: Exception) -> str:
    path = getattr(problem, "instance_path", [])
    text = getattr(problem, "message", str(problem))
    advice = "; look-around and back-references are refused" if text.endswith('"regex"') else ""
    return problem_line(path, text) + advice


def problem_line(path: Sequence[str | int], text: str) -> str:
    """Return the error message for the value at one path."""
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return clip_middle(f"{place.removeprefix('.') or '(root)'}: {text}")


def clip_middle(text: str, limit: int = _MAX_MESSAGE_CHARS) -> str:
    """Return a text as one encodable line, with the middle cut out if it is too long."""
    one = " ".join(text.encode("utf-8", "backslashreplace").decode().splitlines())
    half = (limit - 3) // 2
    return one if len(one) <= limit else f"{one[:half]} … {one[-half:]}"


# `enum`, `const`, and `uniqueItems` in Python, replacing the validator's own implementations.
#
# The validator compares pairs of items, or a value with each option, whenever hashes collide or
# number types differ. That takes quadratic time with exact decimal arithmetic and blocks all other
# threads. These implementations take linear time.

_MAX_SHOWN: Final = 2


class _KeywordRejection(ValueError):
    """A keyword rejects a value; the message does not contain the value."""


class _Enum:
    """The value is one of the options."""

    def __init__(self, _schema: JSON, options: Any, _path: list[str | int]) -> None:
        self._options = frozenset(map(equality_key, options))
        shown = [_compact_json(option) for option in options[:_MAX_SHOWN]]
        more = len(options) - len(shown)
        if more == 1:
            shown.append(_compact_json(options[-1]))
        elif more:
            shown.append(f"{more} other candidates")
        last = f" or {shown.pop()}" if len(shown) > 1 else ""
        self._reason = f"is not one of {', '.join(shown)}{last}"

    def validate(self, instance: Any) -> None:
        if equality_key(instance) not in self._options:
            raise _KeywordRejection(self._reason)


class _Const:
    """The value is the constant."""

    def __init__(self, _schema: JSON, constant: Any, _path: list[str | int]) -> None:
        self._constant = equality_key(constant)
        self._reason = f"{_compact_json(constant)} was expected"

    def validate(self, instance: Any) -> None:
        if equality_key(instance) != self._constant:
            raise _KeywordRejection(self._reason)


class _UniqueItems:
    """No two items of an array are equal."""

    def __init__(self, _schema: JSON, wanted: Any, _path: list[str | int]) -> None:
        self._is_wanted = wanted is True

    def validate(self, instance: Any) -> None:
        if not self._is_wanted or not isinstance(instance, list):
            return
        if len(set(map(equality_key, instance))) < len(instance):
            raise _KeywordRejection("has non-unique elements")


CUSTOM_KEYWORDS: Final[dict[str, type[Any]]] = {
    "const": _Const,
    "enum": _Enum,
    "uniqueItems": _UniqueItems,
}


def error_message(error: Any) -> str:
    """Return the message of an error, with the value prepended for the keywords above."""
    if getattr(error.kind, "keyword", "const") == "const":
        return str(error.message)
    return f"{_compact_json(error.instance)} {error.message}"


def _compact_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
