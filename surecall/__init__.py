"""Reliable multi-turn tool calling over any OpenAI-compatible endpoint."""

from surecall import presets
from surecall.capabilities import Capabilities, capabilities_for
from surecall.catalog import ModelCatalog
from surecall.config import ToolCallingConfig, ToolFailurePolicy, ToolUseMode
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
from surecall.replay import replay, run_of
from surecall.retry import RetryPolicy
from surecall.runner import ToolLoopRunner
from surecall.sampling import SamplingCatalog
from surecall.state import Run
from surecall.trace import JsonlSink, load_trace, save_trace
from surecall.transport import OpenAICompatible
from surecall.types import Plan, Secret
from surecall.version import __version__

__all__ = [
    "Capabilities",
    "ConfigError",
    "Decision",
    "ErrorCode",
    "Event",
    "Fault",
    "FilteredToolRegistry",
    "JsonlSink",
    "LimitExceeded",
    "Limits",
    "ModelCatalog",
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
