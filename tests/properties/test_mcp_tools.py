"""Whatever an MCP server lists or answers: safe names, no laxer tools, no base64, no surprise."""

import base64
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from surecall.mcp.server_connection import result_value
from surecall.mcp.server_tools import Hints, ServerTool, ToolSelection, define_tools, parse_tool
from surecall.parsing.names import fold_name, is_legal_name
from surecall.values.errors import ConfigError, ToolError
from surecall.values.types import JSON
from tests.support.generated import FINITE_VALUES

NAMES = st.one_of(st.text(max_size=70), st.text("aA_-. /", max_size=4))
PREFIXES = st.sampled_from(["", "fs_", "a", "p" * 60])
HINTS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("readOnlyHint", "idempotentHint", "destructiveHint"), st.sampled_from([True, False, None])
    ),
)
OWN = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("idempotent", "destructive"), st.booleans())
)
KEYWORDS = st.sampled_from(
    ["type", "properties", "items", "$ref", "$defs", "anyOf", "required", "enum", "pattern", "not"]
)
SCHEMAS = st.recursive(
    st.one_of(FINITE_VALUES, st.sampled_from(["#", "#/$defs/a", "object", "https://x.invalid/"])),
    lambda inner: st.dictionaries(st.one_of(KEYWORDS, st.just("a")), inner, max_size=4),
    max_leaves=8,
)
SECRET = base64.b64encode(b"a picture that must not be shown").decode()
BLOCKS = st.lists(
    st.one_of(
        st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=20)),
        st.sampled_from(
            [
                {"type": "image", "data": SECRET, "mimeType": "image/png"},
                {"type": "audio", "data": SECRET, "mimeType": "audio/wav"},
                {"type": "resource", "resource": {"uri": "file:///a", "blob": SECRET}},
                {"type": "something new", "data": SECRET},
                {"type": "image", "data": {"bytes": SECRET}},
            ]
        ),
        st.dictionaries(st.sampled_from(["type", "text", "data", "uri"]), FINITE_VALUES),
    ),
    max_size=4,
)


def listed(name: str, schema: Any = None, annotations: JSON | None = None) -> ServerTool:
    return parse_tool({"name": name, "inputSchema": schema, "annotations": annotations})


def no_handler(_: ServerTool) -> Any:
    return lambda **_: None


def outcome(work: Callable[[], Any]) -> Any:
    """Return what comes of it: a value, or one of the two errors that are expected."""
    try:
        return work()
    except (ConfigError, ToolError) as error:
        return error


@given(st.lists(NAMES, max_size=5), PREFIXES)
def test_every_tool_has_a_name_that_is_legal_and_its_own_or_the_list_is_refused(
    names: list[str], prefix: str
) -> None:
    made = outcome(
        lambda: define_tools(map(listed, names), ToolSelection(prefix=prefix), no_handler)
    )
    if isinstance(made, ConfigError):
        assert "deny=[" in str(made)
        return
    ours = [tool.name for tool in made.values()]
    assert list(made) == names
    assert all(map(is_legal_name, ours))
    assert len({fold_name(name) for name in ours}) == len(names)
    kept = [prefix + name for name in names]
    assert [name for name in ours if name in kept] == [name for name in kept if is_legal_name(name)]


@given(HINTS, OWN)
def test_a_server_that_is_not_trusted_makes_no_tool_run_twice(hints: JSON, own: Hints) -> None:
    tool = listed("t", annotations=hints)
    (made,) = define_tools([tool], ToolSelection(hints={"t": own}), no_handler).values()
    (trusted,) = define_tools([tool], ToolSelection(trust_hints=True), no_handler).values()

    assert made.spec.may_repeat == own.get("idempotent", False)
    assert made.spec.destructive == own.get("destructive", hints.get("destructiveHint") is True)
    assert trusted.spec.destructive == (hints.get("destructiveHint") is True)


@given(SCHEMAS)
def test_a_schema_can_be_offered_or_is_refused(schema: Any) -> None:
    made = outcome(lambda: define_tools([listed("t", schema)], ToolSelection(), no_handler)["t"])
    if isinstance(made, ConfigError):
        assert str(made).startswith("the tool 't' cannot be used: ")
    else:
        assert made.spec.parameters["type"] == "object"
        made.validate({})


@given(blocks=BLOCKS, structured=st.one_of(st.none(), FINITE_VALUES), failed=st.booleans())
def test_no_base64_gets_to_the_model(blocks: list[JSON], structured: Any, *, failed: bool) -> None:
    result = {"content": blocks, "structuredContent": structured, "isError": failed}
    value = outcome(lambda: result_value(result))

    assert isinstance(value, ToolError) == failed
    assert not failed or len(str(value)) <= 500
    assert SECRET not in repr(value)
