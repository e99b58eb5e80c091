"""Whatever the schema and the arguments are, judging a call takes bounded work.

What is counted: how often the validator is asked, what it builds to explain its errors, each of
which holds a copy of the offending value, how many nodes are compared, and how many digits it
calculates with. The verdict is that of the validator itself, or the call is refused because there
is too much to check.
"""

import json
import string
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from surecall.core.reply_parsing import resolve_call
from surecall.parsing.budget import WorkBudget, node_count
from surecall.settings.config import ToolCallingConfig
from surecall.tools import validation
from surecall.tools.registry import ToolDefinition, ToolRegistry
from surecall.tools.validation_cost import VISITS_PER_UNIT, pattern_weight
from surecall.values import json_equality
from surecall.values.errors import ConfigError
from tests.support.costly_inputs import FAMILIES, NUMERIC, case
from tests.support.generated import Broken, check, dice, many

CASES = 200
# In nodes: of all errors that are built for one call, each with the value that it holds.
MOST_BUILT = 40_000
# Each guess at what a value may mean is a check.
MOST_CHECKS = 100
PLAIN = ToolCallingConfig(max_tool_args_bytes=8_000_000)
TOO_MUCH = "too much to check"
NATIVE = jsonschema_rs.validator_for
STRICT = PLAIN.replace(coerce_arguments=False)


class Watched:
    """A validator whose work is counted."""

    def __init__(self, validator: Any, counted: Counter[str]) -> None:
        self._validator = validator
        self._counted = counted

    def is_valid(self, value: Any) -> bool:
        self._counted["checks"] += 1
        return bool(self._validator.is_valid(value))

    def validate(self, value: Any) -> None:
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            self._counted["built"] += built(error)
            raise

    def iter_errors(self, value: Any) -> Iterator[Any]:
        for error in self._validator.iter_errors(value):
            self._counted["built"] += built(error)
            yield error


def built(error: Any) -> int:
    """Count the nodes of an error: itself, its copy of the value, and what it says of others."""
    below = (one for branch in getattr(error.kind, "context", ()) for one in branch)
    options = getattr(error.kind, "options", ())
    own = node_count(error.instance, MOST_BUILT) + len(options)
    return 1 + own + sum(map(built, below))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    work = Counter[str]()
    compile_plain, compare_plain = jsonschema_rs.validator_for, json_equality.equality_key

    def compile_watched(*args: Any, **kwargs: Any) -> Watched:
        # The validator's own compare pairs, unseen.
        if not {"const", "enum", "uniqueItems"} <= kwargs.get("keywords", {}).keys():
            pytest.fail("the validator compares by itself")
        return Watched(compile_plain(*args, **kwargs), work)

    def compare_watched(value: Any) -> Any:
        work["compared"] += 1
        return compare_plain(value)

    monkeypatch.setattr(jsonschema_rs, "validator_for", compile_watched)
    monkeypatch.setattr(json_equality, "equality_key", compare_watched)
    monkeypatch.setattr(validation, "equality_key", compare_watched)
    return work


def digit_work(schema: Any, value: Any) -> int:
    """Count what the digits of items take at least, in visits, where numeric keywords apply.

    Measured: 0.5 us for 21 digits, 37 us for 1,000, 0.5 ms for 3,900, whatever the keyword.
    """
    each = schema.get("properties", {}).get("it", {}).get("items", {})
    if not isinstance(each, dict) or not each or each.keys() - NUMERIC:
        return 0
    words = [item.bit_length() // 64 for item in value["it"] if isinstance(item, int)]
    # The validator stops at the first keyword that fails.
    return sum(count * (24 + count) for count in words)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_call_is_judged_rightly_within_its_budget_or_refused(
    family: str, counted: Counter[str]
) -> None:
    broken, count = [], many(CASES)
    for number in range(count):
        schema, value = case(family, dice(family, number))
        shown = f"{family} {number}: {json.dumps(schema)[:200]}"
        try:
            tool = ToolDefinition("act", parameters=schema)
            tool.validate({})
        except ConfigError:
            continue
        broken += [Broken(kind, shown, f"{counted}") for kind in wrong(tool, value, counted)]

    check(broken, count)


def wrong(tool: ToolDefinition, value: Any, counted: Counter[str]) -> Iterator[str]:
    """Judge a call twice, strictly and with guesses; yield what is wrong with the work it took."""
    counted.clear()
    budget, tools = WorkBudget(), ToolRegistry([tool])
    call = resolve_call("act", json.dumps(value), STRICT, tools, budget=budget)
    spent = WorkBudget().remaining - budget.remaining
    if counted["built"] > MOST_BUILT or counted["checks"] > 1 or budget.remaining < 0:
        yield "work"
    if counted["compared"] > 2 * spent:
        yield "compared"
    if call.is_runnable and digit_work(tool.spec.parameters, value) > spent * VISITS_PER_UNIT:
        yield "digits"
    # What was not checked never runs.
    problem = "" if call.problem is None else call.problem.message
    is_right = (
        call.is_runnable == is_valid(tool, value) if counted["checks"] else TOO_MUCH in problem
    )
    if not is_right:
        yield "verdict"
    resolve_call("act", json.dumps(value), PLAIN, tools)
    if counted["built"] > 4 * MOST_BUILT or counted["checks"] > MOST_CHECKS:
        yield "guesses"


class Read(str):
    """A pattern that counts how many of its characters are read, copies included."""

    __slots__ = ("reads",)
    reads: list[int]

    def __getitem__(self, key: Any) -> str:
        piece = super().__getitem__(key)
        self.reads[0] += len(piece)
        return piece

    def find(self, *args: Any) -> int:
        found = super().find(*args)
        start = args[1] if len(args) > 1 else 0
        self.reads[0] += (len(self) if found < 0 else found) - start
        return found


@pytest.mark.parametrize("length", [100, 10_000])
def test_a_pattern_is_weighed_in_linear_time(length: int) -> None:
    pieces = [*string.printable, "{1", "{1,", "[^]", "\\p", "a{1}", "{ ", "(?:"]
    for piece in pieces:
        pattern = Read(piece * length)
        pattern.reads = [0]

        pattern_weight(pattern)

        assert pattern.reads[0] <= 10 * len(pattern), piece


def is_valid(tool: ToolDefinition, value: Any) -> bool:
    """Ask the validator itself."""
    plain = NATIVE(tool.spec.parameters)
    return bool(plain.is_valid(value))
