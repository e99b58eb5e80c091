"""Reliable multi-turn tool calling over any OpenAI-compatible endpoint.

Names are imported when they are first used, so that `import surecall` and the command line's help
cost next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from surecall.values.version import __version__

if TYPE_CHECKING:
    from surecall.core.outcome import (
        LimitExceeded,
        RequestFailed,
        RunFailed,
        RunResult,
        ToolUseError,
    )
    from surecall.core.state import Run
    from surecall.runtime.conversation import PromptRunner
    from surecall.runtime.dispatch import Decision, ToolDispatcher, ToolPolicy
    from surecall.runtime.replay import replay, run_of
    from surecall.runtime.runner import ToolLoopRunner
    from surecall.runtime.trace import JsonlSink, load_trace, save_trace
    from surecall.runtime.transport import OpenAICompatible
    from surecall.settings import presets
    from surecall.settings.capabilities import Capabilities, capabilities_for
    from surecall.settings.catalog import ModelCatalog
    from surecall.settings.config import ToolCallingConfig, ToolFailurePolicy, ToolUseMode
    from surecall.settings.connection import Limits, RetryPolicy
    from surecall.settings.contract import Contract, Need
    from surecall.settings.sampling import SamplingCatalog
    from surecall.tools.registry import FilteredToolRegistry, ToolDefinition, ToolRegistry, tool
    from surecall.values.errors import (
        ConfigError,
        ErrorCode,
        Fault,
        ProviderError,
        ReplayDiverged,
        SurecallError,
        ToolError,
    )
    from surecall.values.events import Event
    from surecall.values.trace import Trace
    from surecall.values.types import Plan, Secret

# Where each public name lives; for readers that do not run the code, the imports above say it.
_HOMES: Final = {
    "settings.capabilities": ("Capabilities", "capabilities_for"),
    "settings.catalog": ("ModelCatalog",),
    "settings.config": ("ToolCallingConfig", "ToolFailurePolicy", "ToolUseMode"),
    "settings.contract": ("Contract", "Need"),
    "runtime.dispatch": ("Decision", "ToolDispatcher", "ToolPolicy"),
    "settings.connection": ("Limits", "RetryPolicy"),
    "values.errors": (
        "ConfigError",
        "ErrorCode",
        "Fault",
        "ProviderError",
        "ReplayDiverged",
        "SurecallError",
        "ToolError",
    ),
    "values.events": ("Event",),
    "values.trace": ("Trace",),
    "core.outcome": ("LimitExceeded", "RequestFailed", "RunFailed", "RunResult", "ToolUseError"),
    "runtime.conversation": ("PromptRunner",),
    "tools.registry": ("FilteredToolRegistry", "ToolDefinition", "ToolRegistry", "tool"),
    "runtime.replay": ("replay", "run_of"),
    "runtime.runner": ("ToolLoopRunner",),
    "settings.sampling": ("SamplingCatalog",),
    "core.state": ("Run",),
    "runtime.trace": ("JsonlSink", "load_trace", "save_trace"),
    "runtime.transport": ("OpenAICompatible",),
    "values.types": ("Plan", "Secret"),
}
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Capabilities",
    "ConfigError",
    "Contract",
    "Decision",
    "ErrorCode",
    "Event",
    "Fault",
    "FilteredToolRegistry",
    "JsonlSink",
    "LimitExceeded",
    "Limits",
    "ModelCatalog",
    "Need",
    "OpenAICompatible",
    "Plan",
    "PromptRunner",
    "ProviderError",
    "ReplayDiverged",
    "RequestFailed",
    "RetryPolicy",
    "Run",
    "RunFailed",
    "RunResult",
    "SamplingCatalog",
    "Secret",
    "SurecallError",
    "ToolCallingConfig",
    "ToolDefinition",
    "ToolDispatcher",
    "ToolError",
    "ToolFailurePolicy",
    "ToolLoopRunner",
    "ToolPolicy",
    "ToolRegistry",
    "ToolUseError",
    "ToolUseMode",
    "Trace",
    "__version__",
    "capabilities_for",
    "load_trace",
    "presets",
    "replay",
    "run_of",
    "save_trace",
    "tool",
]

if not TYPE_CHECKING:  # pragma: no branch  # or a type checker would take any name for ours

    def __getattr__(name: str) -> Any:
        """Import a public name at its first use."""
        if name == "presets":
            return import_module("surecall.settings.presets")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'surecall' has no attribute {name!r}")
        value = getattr(import_module(f"surecall.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """List the public names."""
        return __all__
