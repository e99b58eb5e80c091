"""A tool is the same tool, whoever wrapped it: the same arguments come to the same result."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import tool as langchain_tool
from pydantic_ai import Tool

from surecall.testing import calls
from surecall.tools.registry import ToolRegistry, tool
from surecall.values.types import JSON
from tests.support.generated import FINITE_VALUES
from tests.support.tools import run_of


def keep(
    text: str, number: int, flags: list[bool], extra: dict[str, Any], rest: float = 0.5
) -> JSON:
    """Return what was given."""
    return {"text": text, "number": number, "flags": flags, "extra": extra, "rest": rest}


WRAPPED = {
    "langchain": langchain_tool(keep),
    "pydantic-ai": Tool(keep),
    "plain": tool(keep).as_function(),
    "langchain and back": langchain_tool(tool(langchain_tool(keep)).as_function()),
    "pydantic-ai and back": Tool(tool(Tool(keep)).as_function()),
}
# Made once: a schema takes longer to write than a run.
TOOLS = {name: ToolRegistry([wrapped]) for name, wrapped in WRAPPED.items()}
BARE = ToolRegistry([keep])
NUMBERS = st.integers(min_value=-(2**53), max_value=2**53)
RIGHT = st.fixed_dictionaries(
    {
        "text": st.text(st.characters(codec="utf-8")),
        "number": NUMBERS,
        "flags": st.lists(st.booleans(), max_size=3),
        "extra": st.dictionaries(st.text("abc", max_size=3), FINITE_VALUES, max_size=3),
    },
    optional={"rest": st.floats(allow_nan=False, allow_infinity=False)},
)
ANY = st.dictionaries(
    st.sampled_from(["text", "number", "flags", "extra", "rest", "more"]), FINITE_VALUES
)


@pytest.mark.parametrize("how", TOOLS)
@given(arguments=RIGHT | ANY)
def test_a_wrapped_function_answers_as_the_function_does(how: str, arguments: JSON) -> None:
    bare, _ = run_of(BARE, calls("keep", **arguments))
    wrapped, _ = run_of(TOOLS[how], calls("keep", **arguments))

    (expected,), (found,) = bare.run.results, wrapped.run.results
    assert (found.ok, found.error_codes) == (expected.ok, expected.error_codes)
    if expected.ok:
        assert found.content == expected.content
