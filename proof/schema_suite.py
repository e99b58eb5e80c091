"""D5: schemas through our own doors: what the validator says, and what a tool makes of a schema.

The suite (see `proof/data/README.md`) goes through `compile_schema`. It must agree case by case;
what refers to another host is refused, for nothing is ever fetched. A tool's parameters are an
object, and its schema is rewritten first, so cases about objects go through that door as well:
each is judged alike or its schema is refused. Where a rewritten schema says less or more, it is
named here. Bombs must be refused, or judged, in little time.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from proof.claims import Claim, Outcome, gathered
from surecall.tools.registry import ToolDefinition
from surecall.tools.validation import compile_schema
from surecall.values.errors import ConfigError
from surecall.values.types import JSON

_FILE = Path(__file__).parent / "data" / "schema_suite.json"
_DRAFTS: Final = {
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
_REMOTE: Final = "http://localhost:1234/"
_BOMB_S: Final = 0.05
_REPEATS: Final = 5
# Where the schema of a tool says something else than the one it was made from, and why.
DIFFERENT: Final = {
    ("draft7", "root pointer ref"): "the root of a tool is an object, and so is what refers to it",
    ("draft2020-12", "root pointer ref"): "as above",
    ("draft7", "ref overrides any sibling keywords"): "a tool's schema is read as 2020-12",
    (
        "draft2020-12",
        "schema that uses custom metaschema with with no validation vocabulary",
    ): "`$schema` is not sent to a model",
}


def groups() -> list[JSON]:
    """Return the groups of the suite: draft, description, schema, tests."""
    stored: list[JSON] = json.loads(_FILE.read_text("utf-8"))
    return stored


def attempt(_size: int, _seed: int) -> Outcome:
    """Judge every case of the suite, and set off every bomb."""
    seen: Counter[str] = Counter()
    failures = [problem for group in groups() for problem in problems_of(group, seen)]
    slowest = 0.0
    for name, bomb in BOMBS.items():
        took, problem = set_off(bomb)
        slowest = max(slowest, took)
        if problem or took > _BOMB_S:
            failures.append(f"bomb {name}: {problem or f'{took * 1000:.0f} ms'}")
    figures = (
        f"draft 7 {seen['draft7']}/913, 2020-12 {seen['draft2020-12']}/1257, of these refused "
        f"for references to other hosts {seen['remote']}; as tool parameters: same result "
        f"{seen['alike']}, refused {seen['refused']}, different for documented reasons "
        f"{seen['different']}; slowest of {len(BOMBS)} bombs {slowest * 1000:.0f} ms"
    )
    cases = seen["draft7"] + seen["draft2020-12"] + seen["alike"] + seen["refused"] + len(BOMBS)
    ran = "JSON-Schema-Test-Suite (the files of jsonschema 4.26.0), required tests, and bombs"
    return Outcome(ran, cases, gathered(failures), every=True, figures=figures)


def problems_of(group: JSON, seen: Counter[str]) -> Iterator[str]:
    """Yield where our doors disagree with one group of the suite."""
    schema = group["schema"]
    if isinstance(schema, bool):  # a schema of ours is an object; these mean the same
        schema = {} if schema else {"not": {}}
    schema = {"$schema": _DRAFTS[group["draft"]], **schema}
    where = f"{group['draft']}/{group['file']} {group['description']!r}"
    try:
        judge = compile_schema(schema)
    except ConfigError as problem:
        seen["remote"] += len(group["tests"])
        seen[group["draft"]] += len(group["tests"])
        if _REMOTE not in str(problem):
            yield f"{where} is refused: {problem}"
    else:
        for name, value, valid in group["tests"]:
            if valid == bool(found := judge(value)):
                yield f"{where}, {name!r}: {found or 'accepted'}"
            else:
                seen[group["draft"]] += 1
    yield from (f"{where} as a tool, {each}" for each in _as_tool(group, schema, seen))


def _as_tool(group: JSON, schema: JSON, seen: Counter[str]) -> Iterator[str]:
    cases = [case for case in group["tests"] if isinstance(case[1], dict)]
    try:
        judge = ToolDefinition("t", "", parameters=schema).validate
        judge({})
    except ConfigError:
        seen["refused"] += len(cases)
        return
    for name, value, valid in cases:
        if valid != bool(judge(value)):
            seen["alike"] += 1
        elif (group["draft"], group["description"]) in DIFFERENT:
            seen["different"] += 1
        else:
            yield f"{name!r}: {judge(value) or 'accepted'}"


class Bomb:
    """A schema that wants to take long, the value that it is given, and whether it is accepted.

    None means that the schema itself has to be refused.
    """

    def __init__(self, schema: JSON, value: Any, accepted: bool | None) -> None:  # noqa: FBT001
        self.schema = schema
        self.value = value
        self.accepted = accepted


def set_off(bomb: Bomb) -> tuple[float, str]:
    """Make a tool of a schema and judge the value; return the CPU time, and what is wrong."""
    return min((_once(bomb) for _ in range(_REPEATS)), key=lambda once: (not once[1], once[0]))


def _once(bomb: Bomb) -> tuple[float, str]:
    started = time.process_time()
    try:
        tool = ToolDefinition("t", "", parameters=bomb.schema)
        accepted: bool | None = not tool.validate(bomb.value)
    except ConfigError:
        accepted = None
    words = {True: "accepted", False: "rejected", None: "refused as a schema"}
    problem = "" if accepted is bomb.accepted else f"{words[accepted]}, not {words[bomb.accepted]}"
    return time.process_time() - started, problem


def _of_a(schema: JSON, **rest: Any) -> JSON:
    return {"type": "object", "properties": {"a": schema}, **rest}


def _doubling(count: int) -> JSON:
    twice: Callable[[int], JSON] = lambda n: {"allOf": [{"$ref": f"#/$defs/{n}"}] * 2}  # noqa: E731
    definitions = {str(n): twice(n + 1) for n in range(count)} | {str(count): {}}
    return _of_a({"$ref": "#/$defs/0"}, **{"$defs": definitions})


def _deep(count: int) -> JSON:
    schema: JSON = {}
    for _ in range(count):
        schema = {"items": schema}
    return _of_a(schema)


def _nested(count: int) -> Any:
    value: Any = 1
    for _ in range(count):
        value = [value]
    return value


_SELF = {"anyOf": [{"items": {"$ref": "#/properties/a"}}, {"type": "integer"}]}
_RING = {"$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}}
_MANY = [[number, {"n": number}] for number in range(3_000)]
BOMBS: Final[dict[str, Bomb]] = {
    "references that double": Bomb(_doubling(64), {"a": 1}, accepted=None),
    # What refers to nothing but itself demands nothing.
    "a reference to itself": Bomb(_of_a({"$ref": "#/properties/a"}), {"a": 1}, accepted=True),
    "a ring of references": Bomb(_of_a({"$ref": "#/$defs/x"}, **_RING), {"a": 1}, accepted=True),
    "a tree that is deep": Bomb(_of_a(_SELF), {"a": _nested(60)}, accepted=True),
    "nested too deeply": Bomb(_deep(5_000), {"a": 1}, accepted=None),
    "a hundred thousand properties": Bomb(
        {"type": "object", "properties": {str(n): {} for n in range(100_000)}}, {}, accepted=None
    ),
    "an enumeration of thousands": Bomb(
        _of_a({"enum": list(range(9_000))}), {"a": 8_999}, accepted=True
    ),
    "a pattern that backtracks": Bomb(
        _of_a({"type": "string", "pattern": "^(a+)+$"}), {"a": "a" * 50_000 + "!"}, accepted=False
    ),
    "a pattern with alternatives": Bomb(
        _of_a({"type": "string", "pattern": "^(a|a)*$"}), {"a": "a" * 50_000 + "!"}, accepted=False
    ),
    "a pattern that looks back": Bomb(
        _of_a({"type": "string", "pattern": r"^(a+)\1$"}), {"a": "aa"}, accepted=None
    ),
    "a pattern that looks ahead": Bomb(
        _of_a({"type": "string", "pattern": "^(?=a)a$"}), {"a": "a"}, accepted=None
    ),
    "a pattern that counts": Bomb(
        _of_a({"type": "string", "pattern": "^((a{1,999}){1,999}){1,999}$"}),
        {"a": "a"},
        accepted=None,
    ),
    "unique items": Bomb(_of_a({"uniqueItems": True}), {"a": _MANY}, accepted=True),
    "unique items of many kinds": Bomb(
        _of_a({"uniqueItems": True}), {"a": [*_MANY, *_MANY[-1:]]}, accepted=False
    ),
    "alternatives of alternatives": Bomb(
        _of_a({"anyOf": [{"anyOf": [{"const": n * m} for n in range(30)]} for m in range(30)]}),
        {"a": -1},
        accepted=False,
    ),
    "a reference to another host": Bomb(
        _of_a({"$ref": "http://127.0.0.1:9/x.json"}), {"a": 1}, accepted=None
    ),
    "a reference to a file": Bomb(_of_a({"$ref": "file:///etc/hosts"}), {"a": 1}, accepted=None),
    "a schema of another host": Bomb(
        _of_a({"$dynamicRef": "http://127.0.0.1:9/x.json"}), {"a": 1}, accepted=None
    ),
}

CLAIM = Claim(
    "D5",
    "Schema validation follows JSON Schema, fetches nothing, and takes bounded time.",
    attempt,
    (1, 1, 1),
)
