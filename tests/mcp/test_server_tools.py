"""A server's tools as tools of ours: names, hints, schemas, and what is refused in one sentence."""

from typing import Any

import pytest

from surecall.mcp.server_tools import (
    Hints,
    ToolSelection,
    build_selection,
    check_names,
    define_tools,
    parse_tool,
)
from surecall.tools.registry import ToolDefinition
from surecall.values.errors import ConfigError
from surecall.values.types import JSON


def listed(name: str, **fields: Any) -> JSON:
    return {"name": name, "inputSchema": {"type": "object"}, **fields}


def defined(*tools: JSON, **wanted: Any) -> dict[str, ToolDefinition]:
    return define_tools(
        map(parse_tool, tools), ToolSelection(**wanted), lambda tool: lambda **_: tool.name
    )


def refusal(*tools: JSON, **wanted: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        defined(*tools, **wanted)
    return str(raised.value)


# Names


def test_a_tool_keeps_its_name_behind_the_prefix_and_is_found_by_its_own() -> None:
    made = defined(listed("read_file", description="Read."), prefix="fs_")

    assert made["read_file"].name == "fs_read_file"
    assert made["read_file"].spec.description == "Read."
    assert made["read_file"]() == "read_file"


def test_what_no_provider_accepts_in_a_name_becomes_an_underscore() -> None:
    made = defined(listed("admin.tools/list all"), listed("größe"))

    assert [tool.name for tool in made.values()] == ["admin_tools_list_all", "gr__e"]
    assert [tool() for tool in made.values()] == ["admin.tools/list all", "größe"]


@pytest.mark.parametrize("pair", [("a.b", "a_b"), ("a", "a"), ("A", "a"), ("a b", "a/b")])
def test_tools_that_would_answer_to_one_name_are_refused(pair: tuple[str, str]) -> None:
    assert refusal(*map(listed, pair)) == (
        f"the tools {pair[0]!r} and {pair[1]!r} would both be called "
        f"{pair[1].translate({46: 95, 32: 95, 47: 95})!r}: leave it out with deny=[{pair[1]!r}]"
    )


def test_a_name_that_is_too_long_is_refused_and_the_sentence_says_what_to_do() -> None:
    assert refusal(listed("n" * 60), prefix="files_") == (
        f"the tool '{'n' * 60}' has a name of 66 characters, and providers accept at most 64: "
        f"leave it out with deny=['{'n' * 60}'] or shorten the prefix"
    )
    assert len(refusal(listed("n" * 10_000))) < 400


def test_a_tool_without_a_name_is_refused_unless_it_is_denied() -> None:
    assert refusal(listed("")) == "a tool has no name: leave it out with deny=['']"
    assert defined(listed(""), listed("b"), deny=frozenset({""})).keys() == {"b"}


def test_only_what_is_allowed_is_taken_and_deny_wins() -> None:
    tools = map(listed, "abc")
    made = defined(*tools, allow=frozenset({"a", "b"}), deny=frozenset({"b"}))

    assert made.keys() == {"a"}


@pytest.mark.parametrize("wanted", [{"allow": ["reed"]}, {"deny": ["reed"]}])
def test_a_name_that_the_server_does_not_know_is_a_mistake(wanted: dict[str, list[str]]) -> None:
    (word,) = wanted
    selection = build_selection(
        **({"prefix": "", "allow": None, "deny": ()} | wanted),  # type: ignore[arg-type]
        hints=None,
        trust_hints=False,
        timeout_s=None,
    )
    with pytest.raises(ConfigError) as raised:
        check_names(selection, ["read"])

    assert str(raised.value) == f'unknown tool in {word} "reed"; did you mean "read"?'


@pytest.mark.parametrize(
    "wrong",
    [
        {"prefix": "fs."},
        {"prefix": "p" * 65},
        {"allow": "read"},
        {"deny": "read"},
        {"hints": {"read": {"readonly": True}}},
    ],
)
def test_a_selection_that_cannot_be_meant_is_refused(wrong: Any) -> None:
    usual: Any = {"prefix": "", "allow": None, "deny": (), "hints": None}
    with pytest.raises(ConfigError):
        build_selection(**(usual | wrong), trust_hints=False, timeout_s=None)


# Hints


def hints_of(annotations: JSON, **wanted: Any) -> tuple[bool, bool, bool]:
    spec = defined(listed("t", annotations=annotations), **wanted)["t"].spec
    return spec.read_only, spec.idempotent, spec.destructive


READ_ONLY, IDEMPOTENT = {"readOnlyHint": True}, {"idempotentHint": True}
DESTRUCTIVE = {"destructiveHint": True}


@pytest.mark.parametrize(
    ("annotations", "believed", "trusted"),
    [
        ({}, (False, False, False), (False, False, False)),
        (READ_ONLY, (False, False, False), (True, False, False)),
        (IDEMPOTENT, (False, False, False), (False, True, False)),
        (DESTRUCTIVE, (False, False, True), (False, False, True)),
        (DESTRUCTIVE | IDEMPOTENT, (False, False, True), (False, True, True)),
        (DESTRUCTIVE | READ_ONLY, (False, False, True), (False, False, True)),
        ({"readOnlyHint": "yes"}, (False, False, False), (False, False, False)),
    ],
)
def test_a_server_that_is_not_trusted_can_only_make_a_tool_stricter(
    annotations: JSON, believed: tuple[bool, ...], trusted: tuple[bool, ...]
) -> None:
    assert hints_of(annotations) == believed
    assert hints_of(annotations, trust_hints=True) == trusted


@pytest.mark.parametrize(
    ("own", "counts"),
    [
        (Hints(read_only=True), (True, False, False)),
        (Hints(idempotent=True), (False, True, True)),
        (Hints(destructive=False), (False, False, False)),
    ],
)
def test_the_application_has_the_last_word(own: Hints, counts: tuple[bool, ...]) -> None:
    assert hints_of(DESTRUCTIVE, hints={"t": own}) == counts


def test_a_title_stands_in_for_a_description() -> None:
    assert parse_tool(listed("a", title="One")).description == "One"
    assert parse_tool(listed("a", annotations={"title": "Two"})).description == "Two"
    assert parse_tool(listed("a", description=None)).description == ""


# Schemas


def nested(depth: int) -> JSON:
    schema: JSON = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"in": schema}}
    return schema


BOMB: JSON = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/d0"}},
    "$defs": {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} if n < 9 else {"type": "string"}
        for n in range(10)
    },
}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "https://example.invalid/s.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "array"},
        {"type": "object", "properties": {"a": {"pattern": "(?=x)"}}},
        {"type": "object", "properties": {f"p{n}": {} for n in range(20_000)}},
        nested(100),
        BOMB,
    ],
    ids=["remote", "file", "no object", "look-around", "huge", "deep", "bomb"],
)
def test_a_schema_that_cannot_be_offered_is_refused_by_name(schema: JSON) -> None:
    sentence = refusal(listed("bad", inputSchema=schema))

    assert sentence.startswith("the tool 'bad' cannot be used: ")
    assert sentence.endswith("(leave it out with deny=['bad'])")
    assert len(sentence) < 400
    assert defined(listed("bad", inputSchema=schema), deny=frozenset({"bad"})) == {}


def test_a_parameter_may_have_any_name() -> None:
    names = ["self", "context", "arguments", "tool", "handler", "a b", "func"]
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
    made = defined(listed("t", inputSchema=schema))["t"]

    assert made.bind(dict.fromkeys(names, 1)) == dict.fromkeys(names, 1)
    assert made.context is None
