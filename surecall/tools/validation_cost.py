"""Estimates the cost of validating a value before the work starts.

    visit   the validator evaluates one keyword at one value: about 20 ns
    unit    one step in Python, or as much work of the validator: about a microsecond

The schema may come from a client and the value from a model, so both may be hostile. The estimate
walks the value once and builds an outline, which counts the values at each path together, treating
all items of a list as one path. It then sums the cost of each part of the schema at each path.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from surecall.parsing.budget import (
    CHARS_PER_NODE,
    EXTREME_FLOAT,
    extra_digit_visits,
    heavy_values,
    node_count,
)
from surecall.values.types import JSON

VISITS_PER_UNIT: Final = 32
UNITS_PER_STEP: Final = 2
_NODES_PER_STEP: Final = 2
# An error is a Python object with a copy of the offending value and of the options.
_ERROR_UNITS: Final = 8
_NODES_PER_UNIT: Final = 4
_VISITS_PER_NODE: Final = 16
_CHARS_PER_VISIT: Final = 4
# Arithmetic with a number other than a small integer, and per node of digits in a value.
_ARITHMETIC_VISITS: Final = 48
_DIGITS_PER_NODE: Final = 256
_MIN_USUAL_DIVISOR: Final = 1e-9
_ARITHMETIC_KEYWORDS: Final = frozenset(
    {"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"}
)
_SINGLE_RUN: Final = re.compile(r"\^(?:\[(?:[^\[\]\\]|\\.)+\]|\\\w|\.)(?:[*+]|\{\d*,?\d*\})\$?")
# `const`, `enum`, and `uniqueItems` walk a value once, in Python.
_COMPARISON_VISITS: Final = 24
_COMPARISON_KEYWORDS: Final = frozenset({"const", "enum", "uniqueItems"})
_UNICODE_CLASS: Final = 4
_UNICODE_CLASSES: Final = frozenset("bBdDpPsSwW")
_MAX_REPETITIONS: Final = 1_000_000
_REPETITION: Final = re.compile(r"\{\s*+0*+([0-9]*+)\s*+,?\s*+0*+([0-9]*+)\s*+\}")
# The limit for all patterns of a schema together. The validator compiles each pattern twice.
MAX_PATTERN_STATES: Final = 50_000
MAX_SCHEMA_NODES: Final = 500_000
_COST_CAP: Final = 10**15
# `unevaluated…` evaluates its sibling keywords again.
_UNEVALUATED_KEYWORDS: Final = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_UNEVALUATED_REPEATS: Final = 3
_REFERENCES: Final = frozenset({"$dynamicRef", "$recursiveRef", "$ref"})
_ALTERNATIVES: Final = frozenset({"anyOf", "oneOf"})
_IN_PLACE: Final = frozenset({"allOf", "else", "if", "not", "then"}) | _ALTERNATIVES
_IN_PLACE_BY_KEY: Final = frozenset({"dependencies", "dependentSchemas"})
_ANCHORS: Final = frozenset({"$anchor", "$dynamicAnchor"})
_KEY_NAMING_KEYWORDS: Final = ("properties", *sorted(_IN_PLACE_BY_KEY))
_ON_PARTS: Final = _UNEVALUATED_KEYWORDS | {
    "additionalItems",
    "additionalProperties",
    "contains",
    "items",
}
# Keywords that report errors of their own. Others only pass on errors of the schemas below.
_ASSERTING_KEYWORDS: Final = (
    _ALTERNATIVES
    | _ON_PARTS
    | frozenset(
        {
            "const",
            "enum",
            "exclusiveMaximum",
            "exclusiveMinimum",
            "format",
            "maxContains",
            "maxItems",
        }
        | {"maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength"}
        | {"minProperties", "minimum", "multipleOf", "not", "pattern", "type", "uniqueItems"}
    )
)


class ValidationCost(NamedTuple):
    """The visits to check a value, and the units to list all its errors or only the first."""

    visits: int
    explain: int
    first: int


class TooCostly(Exception):
    """Validation would exceed the work budget."""


class SchemaWeight(NamedTuple):
    """The size of a schema: nodes, visits per node of a value, and states of its patterns.

    Integers with many digits are slow to compile and count as many nodes. If `is_plain`, no part of
    the schema is evaluated twice at one value.
    """

    nodes: int
    visits: int
    states: int
    is_plain: bool


def schema_weight(schema: JSON) -> SchemaWeight:
    """Return the weight of a schema; computed once, when the schema is compiled."""
    nodes, visits, states, is_plain = 0, 0, 0, True
    waiting: list[Any] = [schema]
    while waiting:
        item = waiting.pop()
        nodes += 1 + (len(item) // CHARS_PER_NODE if isinstance(item, str) else 0)
        nodes += extra_digit_visits(item) // _VISITS_PER_NODE if isinstance(item, int) else 0
        if isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, dict):
            waiting.extend(item.values())
            patterns = _own_patterns(item)
            nodes += sum(map(len, item)) // CHARS_PER_NODE
            states += sum(map(pattern_weight, patterns))
            if states > MAX_PATTERN_STATES or nodes > MAX_SCHEMA_NODES:
                break
            matched = sum(map(_active_states, patterns))
            visits += matched * CHARS_PER_NODE // _CHARS_PER_VISIT + _comparison_visits(item)
            is_plain = is_plain and (_UNEVALUATED_KEYWORDS | _REFERENCES).isdisjoint(item)
    return SchemaWeight(nodes, nodes + visits, states, is_plain)


def _comparison_visits(schema: JSON) -> int:
    """Return the maximum visits for comparison and arithmetic at each node of a value."""
    arithmetic = [
        _arithmetic_visits(key, schema[key]) for key in _ARITHMETIC_KEYWORDS & schema.keys()
    ]
    compared = _COMPARISON_VISITS * len(_COMPARISON_KEYWORDS & schema.keys())
    return _DIGITS_PER_NODE * len(arithmetic) + sum(arithmetic) + compared


def _arithmetic_visits(keyword: str, number: Any) -> int:
    """Return the visits for checking a limit or a divisor; division is exact, in digits."""
    visits = extra_digit_visits(number) + (_ARITHMETIC_VISITS if isinstance(number, float) else 1)
    if keyword == "multipleOf" and isinstance(number, int | float):
        is_usual = _MIN_USUAL_DIVISOR <= abs(number) < EXTREME_FLOAT
        visits += _ARITHMETIC_VISITS // 2 if is_usual else _ARITHMETIC_VISITS * CHARS_PER_NODE
    return visits


def _own_patterns(schema: JSON) -> list[str]:
    """List the patterns of a schema, without those of the schemas below it."""
    own = schema.get("pattern")
    keys = schema.get("patternProperties")
    return [*([own] if isinstance(own, str) else ()), *(keys if isinstance(keys, dict) else ())]


def pattern_weight(pattern: str) -> int:
    """Estimate the number of states of a regular expression with its repetitions expanded.

    Takes linear time.
    """
    if len(pattern) > MAX_PATTERN_STATES:
        return len(pattern)
    sizes, last, at = [0], 0, 0
    first_open = pattern.find("[^")
    while at < len(pattern):
        char = pattern[at]
        repetition = _REPETITION.match(pattern, at) if char == "{" else None
        if repetition is not None and (times := _max_repetitions(repetition)):
            sizes[-1] += last * (times - 1)
            last, at = min(last * times, _COST_CAP), repetition.end() - 1
        elif char == "(":
            sizes.append(0)
        elif char == ")" and len(sizes) > 1:
            last = sizes.pop() + 1
            sizes[-1] += last
        else:
            is_class = char == "\\" and pattern[at + 1 : at + 2] in _UNICODE_CLASSES
            # A negated class matches almost any character.
            is_open = char == "." or (char == "]" and 0 <= first_open < at)
            last = _UNICODE_CLASS if is_class or is_open else 1
            sizes[-1] += last
            at += char == "\\"
        at += 1
    # Parts without states take time as well.
    return max(sum(sizes), len(pattern) // 2)


def _active_states(pattern: str) -> int:
    """Return how many states can be active at once; a single run of one class has one."""
    return _UNICODE_CLASS if _SINGLE_RUN.fullmatch(pattern) else pattern_weight(pattern)


def _max_repetitions(repetition: re.Match[str]) -> int:
    """Return the maximum count of a repetition such as `{2,5}`; 0 if it has none."""
    least, most = repetition.groups()
    digits = most or least
    return min(int(digits[: len(str(_MAX_REPETITIONS))] or 0), _MAX_REPETITIONS)


class _Node(msgspec.Struct):
    """One schema, prepared for the estimate."""

    visits: int = 1  # at any value
    keys: int = 0  # visits at an object
    states: int = 0  # of the pattern, at a string
    key_states: int = 0  # of the patterns, at each key of an object
    compared: int = 0  # visits at each node below
    arithmetic: int = 0  # how often the digits of a number count
    errors: int = 0
    repeats: int = 1
    in_place: list[Any] = []
    alternatives: list[Any] = []
    by_key: dict[str, Any] = {}
    targets: list[Any] = []
    parts: list[Any] = []
    prefix: list[Any] = []
    properties: dict[str, Any] = {}
    names: list[Any] = []

    @property
    def is_repeated(self) -> bool:
        """Whether explaining an error evaluates the schemas below more than once."""
        return bool(self.alternatives) or self.repeats > 1


class ValueCounts(msgspec.Struct):
    """Totals over all values at one path, or the maximum of each count."""

    values: int = 0
    chars: int = 0
    keys: int = 0
    key_chars: int = 0
    items: int = 0
    weight: int = 0
    digits: int = 0

    def add(self, other: "ValueCounts") -> None:
        """Add the counts of another value."""
        self.values += other.values
        self.chars += other.chars
        self.keys += other.keys
        self.key_chars += other.key_chars
        self.items += other.items
        self.weight += other.weight
        self.digits += other.digits

    def raise_to(self, other: "ValueCounts") -> None:
        """Keep the larger of each count."""
        self.values = max(self.values, other.values)
        self.chars = max(self.chars, other.chars)
        self.keys = max(self.keys, other.keys)
        self.key_chars = max(self.key_chars, other.key_chars)
        self.items = max(self.items, other.items)
        self.weight = max(self.weight, other.weight)
        self.digits = max(self.digits, other.digits)


class ValueOutline:
    """The counts of all values at one path, and the outlines of the paths below."""

    def __init__(self) -> None:
        self.all = ValueCounts()
        self.largest = ValueCounts()
        self.items: ValueOutline | None = None
        self.named: dict[str, ValueOutline] = {}
        self.rest: ValueOutline | None = None  # under keys that the schema does not name
        self._names: ValueOutline | None = None

    def add(self, value: Any, known: frozenset[str]) -> int:
        """Count a value and everything in it; return its weight."""
        found = ValueCounts(1, weight=1)
        if isinstance(value, str):
            found.chars = len(value)
            found.weight += len(value) // CHARS_PER_NODE
        elif isinstance(value, dict):
            found.keys, found.key_chars = len(value), sum(map(len, value))
            found.weight += found.key_chars // CHARS_PER_NODE
            found.weight += sum(
                self._outline_for(name, known).add(item, known) for name, item in value.items()
            )
        elif isinstance(value, list):
            found.items = len(value)
            self.items = self.items or ValueOutline()
            heavy = heavy_values(value)
            found.weight += self.items.add_light(len(value) - len(heavy))
            found.weight += sum(self.items.add(item, known) for item in heavy)
        elif isinstance(value, int | float):
            found.digits = extra_digit_visits(value)
            found.weight += found.digits // _VISITS_PER_NODE
        self.all.add(found)
        self.largest.raise_to(found)
        return found.weight

    def add_light(self, count: int) -> int:
        """Count values of one node each; return their weight."""
        self.all.add(ValueCounts(count, weight=count))
        self.largest.raise_to(ValueCounts(min(count, 1), weight=min(count, 1)))
        return count

    def _outline_for(self, name: str, known: frozenset[str]) -> "ValueOutline":
        """Return the outline of a property; unknown properties share one."""
        if name in known:
            return self.named.setdefault(name, ValueOutline())
        self.rest = self.rest or ValueOutline()
        return self.rest

    @property
    def names(self) -> "ValueOutline":
        """The keys of all objects, as strings."""
        if self._names is None:
            keys = self._names = ValueOutline()
            every, most = self.all, self.largest
            keys.all = ValueCounts(every.keys, every.key_chars, weight=every.keys + every.key_chars)
            keys.largest = ValueCounts(1, most.key_chars, weight=1 + most.key_chars)
        return self._names


class _Step(NamedTuple):
    """A schema evaluated at a path: how often, and how often at most for one value."""

    schema: Any
    at: ValueOutline
    times: int
    at_most: int = 1
    is_alternative: bool = False


class CostEstimator:
    """Estimates the cost of validating values against one schema."""

    def __init__(self, root: JSON) -> None:
        self._root = root
        self._nodes: dict[int, _Node] = {}
        self._known_names: frozenset[str] | None = None
        self._anchored: list[JSON] = []

    def estimate(self, value: Any, max_steps: int) -> tuple[ValidationCost, int]:
        """Return the cost of a value, and the number of steps that the estimate took.

        Raises `TooCostly` if the estimate needs more than `max_steps`.
        """
        nodes = node_count(value, _NODES_PER_STEP * max_steps) // _NODES_PER_STEP
        if nodes >= max_steps:
            raise TooCostly
        outline = ValueOutline()
        outline.add(value, self._property_names())
        estimate = _Estimate(self, max_steps - nodes)
        cost = estimate.total_cost(_Step(self._root, outline, 1))
        return cost, max_steps - estimate.remaining

    def _property_names(self) -> frozenset[str]:
        """Return the names of all properties that the schema declares anywhere."""
        if self._known_names is None:
            schemas = list(_all_schemas(self._root))
            self._anchored = [each for each in schemas if _ANCHORS & each.keys()]
            maps = [schema.get(key) for schema in schemas for key in _KEY_NAMING_KEYWORDS]
            self._known_names = frozenset(
                name for each in maps if isinstance(each, dict) for name in each
            )
        return self._known_names

    def node(self, schema: JSON) -> _Node:
        """Return a schema prepared for the estimate; cached."""
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = self._build_node(schema)
        return node

    def _build_node(self, schema: JSON) -> _Node:
        """Prepare a schema for the estimate."""
        node = _Node(
            len(schema), compared=_COMPARISON_VISITS * len(_COMPARISON_KEYWORDS & schema.keys())
        )
        for keyword, below in schema.items():
            self._add_keyword(node, keyword, below)
        own = schema.get("pattern")
        node.states = _active_states(own) if isinstance(own, str) else 0
        node.errors += len(_ASSERTING_KEYWORDS & schema.keys())
        return node

    def _add_keyword(self, node: _Node, keyword: str, below: Any) -> None:
        """Add the cost of a keyword to its node."""
        schemas = below if isinstance(below, list) else [below]
        if keyword in _ALTERNATIVES:
            node.alternatives += schemas
        elif keyword in _IN_PLACE:
            node.in_place += schemas
        elif keyword in _REFERENCES:
            node.targets += self._reference_targets(str(below))
        elif keyword == "prefixItems":
            node.prefix = schemas
        elif keyword == "propertyNames":
            node.names = schemas
        elif keyword in _ON_PARTS:
            node.parts += [schema for schema in schemas if isinstance(schema, dict)]
            node.repeats *= _UNEVALUATED_REPEATS if keyword in _UNEVALUATED_KEYWORDS else 1
        elif isinstance(below, dict):
            _add_object_keyword(node, keyword, below)
        else:
            _add_scalar_keyword(node, keyword, below)

    def _reference_targets(self, pointer: str) -> list[Any]:
        """Return the possible targets of a reference: a definition, or the root and anchors."""
        start, _, name = pointer.rpartition("/")
        if start:
            return [self._root.get("$defs", {}).get(name, self._root)]
        return [self._root, *self._anchored]


def _add_object_keyword(node: _Node, keyword: str, below: JSON) -> None:
    """Add the cost of a keyword whose value is an object."""
    if keyword == "properties":
        node.properties = below
        node.keys += len(below)
    elif keyword == "patternProperties":
        node.parts += below.values()
        node.key_states = sum(map(_active_states, below))
    elif keyword in _IN_PLACE_BY_KEY:
        node.by_key |= {key: item for key, item in below.items() if isinstance(item, dict)}
        node.keys += node_count(below, _COST_CAP)
    elif keyword == "dependentRequired":
        weight = node_count(below, _COST_CAP)
        node.visits += weight
        node.errors += weight


def _add_scalar_keyword(node: _Node, keyword: str, below: Any) -> None:
    """Add the cost of any other keyword."""
    if keyword == "required" and isinstance(below, list):
        node.keys += len(below)
        node.errors += len(below)
    elif keyword in _ARITHMETIC_KEYWORDS:
        node.arithmetic += 1
        node.visits += _arithmetic_visits(keyword, below)


def _all_schemas(root: JSON) -> Iterator[JSON]:
    """Yield every object in a schema: the schemas below it are among them."""
    waiting: list[Any] = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


class _PathCost(NamedTuple):
    """The cost of a schema at a path and below: for all values there, and for the largest."""

    visits: int = 1
    explain: int = _ERROR_UNITS
    one_visits: int = 1
    one_explain: int = _ERROR_UNITS
    first: int = _ERROR_UNITS


_LOOP_COST: Final = _PathCost(explain=_COST_CAP, one_explain=_COST_CAP, first=_COST_CAP)


class _Estimate:
    """One estimate: the cost of each pair of a schema and a path."""

    def __init__(self, schemas: CostEstimator, most_steps: int) -> None:
        self.remaining = most_steps
        self._schemas = schemas
        self._known: dict[tuple[int, int], _PathCost] = {}
        self._visits = 0

    def total_cost(self, first: _Step) -> ValidationCost:
        """Return the cost of a step and all steps below it, bottom-up and without recursion."""
        waiting: list[tuple[_Step, list[_Step] | None]] = [(first, None)]
        while waiting:
            step, below = waiting.pop()
            if below is not None:
                self._known[_step_key(step)] = self._sum_costs(step, below)
            elif _step_key(step) not in self._known:
                below = self._next_steps(step)
                waiting.append((step, below))
                waiting += [(one, None) for one in below]
        total = self._known[_step_key(first)]
        return ValidationCost(min(self._visits, _COST_CAP), total.explain, total.first)

    def _next_steps(self, step: _Step) -> list[_Step]:
        """Return the steps below a step; raise `TooCostly` if the estimate takes too long."""
        # A pair that recurs while it is counted is a loop. The validator cuts it when checking a
        # value, but lists the errors of every path through it.
        self._known[_step_key(step)] = _LOOP_COST
        if not isinstance(step.schema, dict):
            return []
        node = self._schemas.node(step.schema)
        if len(node.parts) * (2 + len(step.at.named)) > self.remaining:
            raise TooCostly
        below = list(_steps_below(node, step))
        self.remaining -= 1 + len(below)
        if self.remaining < 0:
            raise TooCostly
        return below

    def _sum_costs(self, step: _Step, below: list[_Step]) -> _PathCost:
        """Sum the cost of a pair and everything below it."""
        if not isinstance(step.schema, dict):
            return _PathCost(step.at.all.values, _ERROR_UNITS * step.at.all.values)
        node = self._schemas.node(step.schema)
        own, one = _own_visits(node, step.at.all), _own_visits(node, step.at.largest)
        self._visits += own * step.times
        sums = [(step, self._known[_step_key(step)]) for step in below]
        visits = own + node.repeats * sum(cost.visits for _, cost in sums)
        one_visits = one + node.repeats * sum(step.at_most * cost.one_visits for step, cost in sums)
        # The validator looks for a matching alternative before it explains why none matches.
        again, one_again = (visits, one_visits) if node.is_repeated else (own, one)
        explain = sum(cost.explain for _, cost in sums)
        one_explain = sum(step.at_most * cost.one_explain for step, cost in sums)
        alternatives = sum(cost.one_explain for step, cost in sums if step.is_alternative)
        error, one_error = _error_units(step.at.all), _error_units(step.at.largest)
        first = one_error + one_again // VISITS_PER_UNIT + alternatives
        counts = (
            visits,
            error * node.errors + again // VISITS_PER_UNIT + explain,
            one_visits,
            one_error * node.errors + one_again // VISITS_PER_UNIT + one_explain,
            max([first, *(cost.first for _, cost in sums)]),
        )
        return _PathCost(*(min(count, _COST_CAP) for count in counts))


def _step_key(step: _Step) -> tuple[int, int]:
    """Return what identifies a step: its schema and its place."""
    return id(step.schema), id(step.at)


def _steps_below(node: _Node, step: _Step) -> Iterator[_Step]:
    """Yield the steps that a schema evaluates at a path and below it."""
    at, times = step.at, min(step.times * node.repeats, _COST_CAP)
    for schema in node.targets:
        yield _Step(schema, at, 1)  # the validator caches the result of a reference
    by_key = [schema for name, schema in node.by_key.items() if name in at.named]
    for schema in (*node.in_place, *by_key):
        yield _Step(schema, at, times)
    for schema in node.alternatives:
        yield _Step(schema, at, times, is_alternative=True)
    yield from _part_steps(node, at, times)


def _part_steps(node: _Node, at: ValueOutline, times: int) -> Iterator[_Step]:
    """Yield the steps for the properties, items, and keys of a value."""
    for name in node.properties.keys() & at.named.keys():
        yield _Step(node.properties[name], at.named[name], times)
    more = ((at.rest, at.largest.keys), (at.items, at.largest.items))
    parts = [(part, 1) for part in at.named.values()]
    parts += [(part, most) for part, most in more if part is not None]
    for schema in node.parts:
        yield from (_Step(schema, part, times, most) for part, most in parts)
    if at.items is not None:
        yield from (_Step(schema, at.items, times) for schema in node.prefix)
    if at.all.keys:
        yield from (_Step(schema, at.names, times, at.largest.keys) for schema in node.names)


def _own_visits(node: _Node, counts: ValueCounts) -> int:
    """Return the visits of a schema itself, without the schemas below it."""
    keys = counts.key_chars + counts.keys
    visits = node.visits * counts.values + counts.keys + counts.items
    visits += node.states * counts.chars // _CHARS_PER_VISIT + counts.chars // CHARS_PER_NODE
    visits += node.keys * counts.values + node.key_states * keys // _CHARS_PER_VISIT
    return visits + node.arithmetic * counts.digits + node.compared * counts.weight


def _error_units(counts: ValueCounts) -> int:
    """Return the units for one error of each value."""
    return _ERROR_UNITS * counts.values + counts.weight // _NODES_PER_UNIT
