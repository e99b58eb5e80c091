"""The sources of tools: functions, and tools of other frameworks."""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from surecall.tools.schema import FunctionSchema


class ThirdPartyTool(Protocol):
    """The attributes that tools of all supported frameworks share."""

    @property
    def name(self) -> str:
        """The tool's name for the model."""

    @property
    def description(self) -> str | None:
        """The tool's description for the model."""


class ToolSource(msgspec.Struct, frozen=True):
    """A tool's schema and handler, and the settings from its framework."""

    schema: FunctionSchema
    handler: Callable[..., Any]
    timeout_s: float | None = None
    serial: bool = False


def is_instance_by_name(error: BaseException, package: str, *names: str) -> bool:
    """Whether an exception is an instance of a class with one of these names in a package."""
    return any(
        kind.__name__ in names and kind.__module__.partition(".")[0] == package
        for kind in type(error).__mro__
    )
