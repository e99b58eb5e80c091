"""Recognizes the tools of other frameworks by their attributes, without importing a framework.

LangChain        name, description, tool_call_schema, invoke, ainvoke
pydantic-ai      name, description, function_schema
openai-agents    name, description, params_json_schema, on_invoke_tool
"""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from surecall.tools.schema import describe_function
from surecall.tools.sources import ToolSource
from surecall.values.errors import ConfigError


def source_of(tool: Any) -> ToolSource:
    """Return the source of a tool; raise `ConfigError` if it cannot be used as a tool."""
    module = _module_for(tool)
    if module:
        source: ToolSource = import_module(f"surecall.tools.integrations.{module}").source_of(tool)
        return source
    if module is not None:
        raise ConfigError(
            f"the openai-agents tool {tool.name!r} only runs inside its own framework: pass the "
            "function behind it"
        )
    if isinstance(tool, type) and hasattr(tool, "tool_call_schema"):
        raise ConfigError(f"{tool.__name__} is a LangChain tool class: pass an instance")
    return ToolSource(describe_function(tool), tool)


def is_third_party_tool(value: Any) -> bool:
    """Whether `value` is a tool of another framework."""
    return _module_for(value) is not None


def _module_for(value: Any) -> str | None:
    """Return the integration module for a third-party tool (blank if unsupported), or None."""
    if inspect.isroutine(value) or isinstance(value, type):
        return None
    if not isinstance(getattr(value, "name", None), str):
        return None
    return next((module for recognizes, module in _FRAMEWORKS if recognizes(value)), None)


def _is_langchain(value: Any) -> bool:
    # Checked on the class, because the property builds a schema and may fail.
    has_schema = hasattr(type(value), "tool_call_schema")
    return has_schema and all(callable(getattr(value, way, None)) for way in ("invoke", "ainvoke"))


def _is_pydantic_ai(value: Any) -> bool:
    schema = getattr(value, "function_schema", None)
    return isinstance(getattr(schema, "json_schema", None), dict) and hasattr(value, "takes_ctx")


def _is_openai_agents(value: Any) -> bool:
    return callable(getattr(value, "on_invoke_tool", None)) and hasattr(value, "params_json_schema")


# To add a framework, add a row here and a module in this package with a `source_of` function.
_FRAMEWORKS: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (_is_langchain, "langchain"),
    (_is_pydantic_ai, "pydantic_ai"),
    (_is_openai_agents, ""),
)
