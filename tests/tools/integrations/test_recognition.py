"""What a tool may be made of, and how it is told what something is without importing anything."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import MagicMock

import pytest

from surecall.tools.integrations.recognition import is_third_party_tool, source_of
from surecall.tools.registry import ToolRegistry, definition_of
from surecall.values.errors import ConfigError
from surecall.values.types import JSON


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@dataclass
class FunctionTool:
    """The shape of a tool of openai-agents."""

    name: str
    description: str
    params_json_schema: JSON
    on_invoke_tool: Callable[[Any, str], Any]


class Named:
    """A callable that happens to have a name."""

    name = "named"

    def __call__(self, a: int) -> int:
        """Return it."""
        return a


def test_a_function_is_its_own_source() -> None:
    source = source_of(add)

    assert (source.schema.name, source.handler) == ("add", add)
    assert (source.timeout_s, source.serial) == (None, False)


@pytest.mark.parametrize("item", [add, Named(), Named, len, MagicMock(), "text", 3, None, {}])
def test_what_only_resembles_a_foreign_tool_is_none(item: object) -> None:
    assert not is_third_party_tool(item)


def test_a_callable_with_a_name_is_still_a_function() -> None:
    assert definition_of(Named()).name == "Named"


def test_a_tool_of_openai_agents_is_refused_in_one_sentence() -> None:
    theirs = FunctionTool("add", "Add.", {"type": "object"}, lambda _context, _text: None)

    with pytest.raises(ConfigError) as refused:
        ToolRegistry([theirs])
    assert str(refused.value) == (
        "the openai-agents tool 'add' only runs inside its own framework: "
        "pass the function behind it"
    )


WITHOUT_THEM = """
import sys
from surecall import ToolLoopRunner
def add(a: int) -> int: return a
ToolLoopRunner(client="http://127.0.0.1:9", model="m", tools=[add])
print(*sys.modules)
"""


@pytest.mark.processes
def test_a_runner_with_plain_functions_loads_no_bridge() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_THEM], capture_output=True, text=True, check=True
    )
    loaded = {name for name in ran.stdout.split() if name.startswith("surecall.tools.")}

    own = {name for name in loaded if name.startswith("surecall.tools.integrations.")}
    assert own == {"surecall.tools.integrations.recognition"}
    assert "surecall.tools.plain_functions" not in loaded
