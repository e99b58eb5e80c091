"""Reliable multi-turn tool calling over any OpenAI-compatible endpoint.

Names are imported when they are first used, so that `import surecall` and the command line's help
cost next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from surecall.version import __version__

if TYPE_CHECKING:
    from surecall import presets
    from surecall.capabilities import Capabilities, capabilities_for
    from surecall.catalog import ModelCatalog
    from surecall.config import ToolCallingConfig, ToolFailurePolicy, ToolUseMode
    from surecall.contract import Contract, Need
    from surecall.dispatch import Decision, ToolDispatcher, ToolPolicy
    from surecall.endpoint import Limits
    from surecall.errors import (
        ConfigError,
        ErrorCode,
        Fault,
        ProviderError,
        ReplayDiverged,
        SurecallError,
        ToolError,
    )
    from surecall.events import Event, Trace
    from surecall.outcome import LimitExceeded, RequestFailed, RunFailed, RunResult, ToolUseError
    from surecall.prompt import PromptRunner
    from surecall.registry import FilteredToolRegistry, ToolDefinition, ToolRegistry, tool
    from surecall.replays import replay, run_of
    from surecall.retry import RetryPolicy
    from surecall.runner import ToolLoopRunner
    from surecall.sampling import SamplingCatalog
    from surecall.state import Run
    from surecall.trace import JsonlSink, load_trace, save_trace
    from surecall.transport import OpenAICompatible
    from surecall.types import Plan, Secret

# Where each public name lives; for readers that do not run the code, the imports above say it.
_HOMES: Final = {
    "capabilities": ("Capabilities", "capabilities_for"),
    "catalog": ("ModelCatalog",),
    "config": ("ToolCallingConfig", "ToolFailurePolicy", "ToolUseMode"),
    "contract": ("Contract", "Need"),
    "dispatch": ("Decision", "ToolDispatcher", "ToolPolicy"),
    "endpoint": ("Limits",),
    "errors": (
        "ConfigError",
        "ErrorCode",
        "Fault",
        "ProviderError",
        "ReplayDiverged",
        "SurecallError",
        "ToolError",
    ),
    "events": ("Event", "Trace"),
    "outcome": ("LimitExceeded", "RequestFailed", "RunFailed", "RunResult", "ToolUseError"),
    "prompt": ("PromptRunner",),
    "registry": ("FilteredToolRegistry", "ToolDefinition", "ToolRegistry", "tool"),
    "replays": ("replay", "run_of"),
    "retry": ("RetryPolicy",),
    "runner": ("ToolLoopRunner",),
    "sampling": ("SamplingCatalog",),
    "state": ("Run",),
    "trace": ("JsonlSink", "load_trace", "save_trace"),
    "transport": ("OpenAICompatible",),
    "types": ("Plan", "Secret"),
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
            return import_module("surecall.presets")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'surecall' has no attribute {name!r}")
        value = getattr(import_module(f"surecall.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """List the public names."""
        return __all__
