"""What a tool is made of: a function, or a tool of another framework, known by its shape.

    LangChain      name, description, tool_call_schema, invoke, ainvoke
    pydantic-ai    name, description, function_schema

None of these is ever imported.
"""

import inspect
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from surecall.tools.schema import FunctionSchema, describe_function
from surecall.values.errors import ConfigError


class ForeignTool(Protocol):
    """What the tools of all other frameworks have in common."""

    @property
    def name(self) -> str:
        """The name that the model is told."""

    @property
    def description(self) -> str | None:
        """What the model is told about it."""


class ToolSource(msgspec.Struct, frozen=True):
    """How the model is told of a tool, what runs, and what its framework says of running it."""

    described: FunctionSchema
    handler: Callable[..., Any]
    timeout_s: float | None = None
    serial: bool = False


def source_of(given: Any) -> ToolSource:
    """Read what a tool is made of, or say why it cannot be one."""
    # Imported where they are met: a program with tools of its own never does.
    if is_foreign(given):
        if _is_langchain(given):
            from surecall.tools.langchain_tools import langchain_source  # noqa: PLC0415

            return langchain_source(given)
        if _is_pydantic_ai(given):
            from surecall.tools.pydantic_ai_tools import pydantic_ai_source  # noqa: PLC0415

            return pydantic_ai_source(given)
        raise ConfigError(
            f"the openai-agents tool {given.name!r} runs only inside its own framework: pass the "
            "function that it was made of"
        )
    if isinstance(given, type) and hasattr(given, "tool_call_schema"):
        raise ConfigError(f"{given.__name__} is a class of LangChain tools: pass an object of it")
    return ToolSource(describe_function(given), given)


def is_foreign(given: Any) -> bool:
    """Whether something is a tool of another framework."""
    if inspect.isroutine(given) or isinstance(given, type):
        return False
    if not isinstance(getattr(given, "name", None), str):
        return False
    return _is_langchain(given) or _is_pydantic_ai(given) or _is_openai_agents(given)


def _is_langchain(given: Any) -> bool:
    # Asked of the class: the property builds a schema, and may fail.
    has_schema = hasattr(type(given), "tool_call_schema")
    return has_schema and all(callable(getattr(given, way, None)) for way in ("invoke", "ainvoke"))


def _is_pydantic_ai(given: Any) -> bool:
    schema = getattr(given, "function_schema", None)
    return isinstance(getattr(schema, "json_schema", None), dict) and hasattr(given, "takes_ctx")


def _is_openai_agents(given: Any) -> bool:
    return callable(getattr(given, "on_invoke_tool", None)) and hasattr(given, "params_json_schema")


def is_named(error: BaseException, package: str, *names: str) -> bool:
    """Whether an exception is of a class of that package, known by its name."""
    return any(
        kind.__name__ in names and kind.__module__.partition(".")[0] == package
        for kind in type(error).__mro__
    )
