"""Reliable multi-turn tool calling over any OpenAI-compatible endpoint.

    from surecall import OpenAICompatible, ToolLoopRunner

    def get_weather(city: str, days: int) -> dict:
        "Weather for a city."
        return {"city": city, "days": days, "sky": "clear"}

    runner = ToolLoopRunner(
        client=OpenAICompatible("http://127.0.0.1:8000", api_key="sk-your-key"),
        model="qwen/qwen3-next-80b-a3b-instruct",
        tools=[get_weather],
    )
    print(runner.run_sync("Weather in Paris for 3 days?").assistant_text)

running     ToolLoopRunner (run, stream, resume, …; the same with _sync), RunResult, Run
kept        Conversation (say, stream, resume, …), SqliteStore, ConversationBusy,
            ConversationTaken; Store, Stored, StoreConflict for stores of your own
endpoint    OpenAICompatible, Limits, RetryPolicy, Secret
tools       tool, ToolDefinition, ToolRegistry, Context, Grounded, ToolError; ToolPolicy,
            AskFirst, Decision
settings    presets (resolve, raw, small_model, …), ToolCallingConfig, ToolUseMode,
            ToolFailurePolicy, Contract, Need, From, Fallback
errors      SurecallError: ConfigError, ProviderError, RunFailed (ToolUseError, LimitExceeded),
            ReplayDiverged; ErrorCode
record      Trace, Event, JsonlSink, save_trace, load_trace, replay, run_of

surecall.streaming has what a stream shows, surecall.testing a scripted model, surecall.simulator a
provider that misbehaves, surecall.eval scenarios. Names are imported when they are first used, so
`import surecall` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from surecall.values.version import __version__

if TYPE_CHECKING:
    from surecall.core.kept import ConversationBusy as ConversationBusy
    from surecall.core.kept import ConversationTaken as ConversationTaken
    from surecall.core.kept import Store as Store
    from surecall.core.kept import StoreConflict as StoreConflict
    from surecall.core.kept import Stored as Stored
    from surecall.core.outcome import LimitExceeded, RunFailed, RunResult, ToolUseError
    from surecall.core.outcome import RequestFailed as RequestFailed
    from surecall.core.state import Run
    from surecall.runtime.conversation import Conversation
    from surecall.runtime.dispatch import ToolDispatcher as ToolDispatcher
    from surecall.runtime.hooks import AskFirst, ToolPolicy
    from surecall.runtime.replay import replay, run_of
    from surecall.runtime.requests import PromptRunner as PromptRunner
    from surecall.runtime.runner import ToolLoopRunner
    from surecall.runtime.sqlite_store import SqliteStore
    from surecall.runtime.trace import JsonlSink, load_trace, save_trace
    from surecall.runtime.transport import OpenAICompatible
    from surecall.settings import presets
    from surecall.settings.capabilities import Capabilities as Capabilities
    from surecall.settings.capabilities import capabilities_for as capabilities_for
    from surecall.settings.catalog import ModelCatalog as ModelCatalog
    from surecall.settings.config import ToolCallingConfig, ToolFailurePolicy, ToolUseMode
    from surecall.settings.connection import Limits, RetryPolicy
    from surecall.settings.contract import Contract, From, Need
    from surecall.settings.endpoint_profile import EndpointProfile
    from surecall.settings.fallback import Fallback
    from surecall.settings.sampling import SamplingCatalog as SamplingCatalog
    from surecall.tools.context import Context
    from surecall.tools.grounded import Grounded
    from surecall.tools.registry import FilteredToolRegistry as FilteredToolRegistry
    from surecall.tools.registry import ToolDefinition, ToolRegistry, tool
    from surecall.values.decisions import Decision
    from surecall.values.decisions import WaitingCall as WaitingCall
    from surecall.values.errors import (
        ConfigError,
        ErrorCode,
        ProviderError,
        ReplayDiverged,
        SurecallError,
        ToolError,
    )
    from surecall.values.errors import Fault as Fault
    from surecall.values.events import Event
    from surecall.values.trace import Trace
    from surecall.values.types import Plan as Plan
    from surecall.values.types import Secret

# Where each public name lives; for readers that do not run the code, the imports above say it.
_HOMES: Final = {
    "settings.capabilities": ("Capabilities", "capabilities_for"),
    "settings.catalog": ("ModelCatalog",),
    "settings.endpoint_profile": ("EndpointProfile",),
    "settings.config": ("ToolCallingConfig", "ToolFailurePolicy", "ToolUseMode"),
    "settings.contract": ("Contract", "From", "Need"),
    "settings.fallback": ("Fallback",),
    "runtime.dispatch": ("ToolDispatcher",),
    "runtime.hooks": ("AskFirst", "ToolPolicy"),
    "values.decisions": ("Decision", "WaitingCall"),
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
    "core.kept": ("ConversationBusy", "ConversationTaken", "Store", "StoreConflict", "Stored"),
    "core.outcome": ("LimitExceeded", "RequestFailed", "RunFailed", "RunResult", "ToolUseError"),
    "runtime.conversation": ("Conversation",),
    "runtime.requests": ("PromptRunner",),
    "tools.context": ("Context",),
    "tools.grounded": ("Grounded",),
    "tools.registry": ("FilteredToolRegistry", "ToolDefinition", "ToolRegistry", "tool"),
    "runtime.replay": ("replay", "run_of"),
    "runtime.runner": ("ToolLoopRunner",),
    "runtime.sqlite_store": ("SqliteStore",),
    "settings.sampling": ("SamplingCatalog",),
    "core.state": ("Run",),
    "runtime.trace": ("JsonlSink", "load_trace", "save_trace"),
    "runtime.transport": ("OpenAICompatible",),
    "values.types": ("Plan", "Secret"),
}
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}

# These can be imported, too, but are not listed: they are parts that a runner is made of or that
# others carry. `RequestFailed` is caught as `RunFailed` or `ProviderError`; masks are
# `tool_allowlist` and `tool_denylist`. Who shares conversations, or stores them elsewhere, finds
# the rest of what that takes in docs/conversations.md.
_UNLISTED: Final = (
    "Capabilities",
    "ConversationBusy",
    "ConversationTaken",
    "Fault",
    "FilteredToolRegistry",
    "ModelCatalog",
    "Plan",
    "PromptRunner",
    "RequestFailed",
    "SamplingCatalog",
    "Store",
    "StoreConflict",
    "Stored",
    "ToolDispatcher",
    "WaitingCall",
    "capabilities_for",
)

__all__ = [
    "AskFirst",
    "ConfigError",
    "Context",
    "Contract",
    "Conversation",
    "Decision",
    "EndpointProfile",
    "ErrorCode",
    "Event",
    "Fallback",
    "From",
    "Grounded",
    "JsonlSink",
    "LimitExceeded",
    "Limits",
    "Need",
    "OpenAICompatible",
    "ProviderError",
    "ReplayDiverged",
    "RetryPolicy",
    "Run",
    "RunFailed",
    "RunResult",
    "Secret",
    "SqliteStore",
    "SurecallError",
    "ToolCallingConfig",
    "ToolDefinition",
    "ToolError",
    "ToolFailurePolicy",
    "ToolLoopRunner",
    "ToolPolicy",
    "ToolRegistry",
    "ToolUseError",
    "ToolUseMode",
    "Trace",
    "__version__",
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
