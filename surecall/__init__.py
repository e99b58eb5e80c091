"""Tool calling that survives real models, over any OpenAI-compatible endpoint.

    from surecall import OpenAICompatible, ToolLoopRunner

    def get_weather(city: str, days: int) -> dict:
        "Weather for a city."
        return {"city": city, "days": days, "sky": "clear"}

    client = OpenAICompatible("http://127.0.0.1:8000", api_key="sk-your-key")
    runner = ToolLoopRunner(client, "qwen/qwen3-next-80b-a3b-instruct", [get_weather])
    print(runner.run_sync("Weather in Paris for 3 days?").text)

run         ToolLoopRunner (run, stream, resume, …; the same with _sync), RunOptions, TurnOptions,
            RunResult, ToolCallRecord, Usage, Run
stream      TextDelta, TextWithdrawn, ReasoningDelta, CallAnnounced; RunStream, BlockingRunStream
store       Conversation (say, stream, resume, …), SqliteStore, ConversationBusy,
            ConversationTaken; Store, Stored, StoreConflict for your own stores
endpoint    OpenAICompatible, Limits, RetryPolicy, Secret, Capabilities, capabilities_for
tools       tool, ToolDefinition, ToolRegistry, FilteredToolRegistry, ToolDispatcher, Context,
            Grounded, ToolError; ToolPolicy, AskFirst, Decision, WaitingCall
settings    presets (resolve, raw, small_model, …), ToolCallingConfig, EndpointProfile,
            ToolUseMode, ToolFailurePolicy, Contract, Need, From, Fallback, ModelCatalog,
            SamplingCatalog
errors      SurecallError: ConfigError (StaleDecision), ProviderError, RunFailed (ToolUseError,
            LimitExceeded, RequestFailed), ReplayDiverged; ErrorCode, Fault
record      Trace, Event, JsonlSink, save_trace, load_trace, replay, run_of
requests    PromptRunner, Plan

`surecall.testing` has scripted models and servers, `surecall.simulator` a misbehaving provider,
`surecall.proxy` the proxy, and `surecall.eval` the evaluation harness. Names are imported on first
use, so `import surecall` is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from surecall.values.version import __version__

if TYPE_CHECKING:
    from surecall.core.conversation_state import (
        ConversationBusy,
        ConversationTaken,
        Store,
        StoreConflict,
        Stored,
    )
    from surecall.core.outcome import (
        LimitExceeded,
        RequestFailed,
        RunFailed,
        RunResult,
        ToolCallRecord,
        ToolUseError,
    )
    from surecall.core.state import Run
    from surecall.core.streaming import CallAnnounced, TextWithdrawn
    from surecall.runtime.conversation import Conversation
    from surecall.runtime.dispatch import ToolDispatcher
    from surecall.runtime.hooks import AskFirst, ToolPolicy
    from surecall.runtime.recording import JsonlSink, load_trace, save_trace
    from surecall.runtime.replay import replay, run_of
    from surecall.runtime.retrying_requests import PromptRunner
    from surecall.runtime.run_stream import BlockingRunStream, RunStream
    from surecall.runtime.runner import ToolLoopRunner
    from surecall.runtime.runner_checks import RunOptions, TurnOptions
    from surecall.runtime.sqlite_store import SqliteStore
    from surecall.runtime.transport import OpenAICompatible
    from surecall.settings import presets
    from surecall.settings.capabilities import Capabilities, capabilities_for
    from surecall.settings.catalog import ModelCatalog, SamplingCatalog
    from surecall.settings.config import ToolCallingConfig, ToolFailurePolicy, ToolUseMode
    from surecall.settings.connection import Limits, RetryPolicy
    from surecall.settings.contract import Contract, From, Need
    from surecall.settings.endpoint_profile import EndpointProfile
    from surecall.settings.fallback import Fallback
    from surecall.tools.context import Context
    from surecall.tools.grounded import Grounded
    from surecall.tools.registry import FilteredToolRegistry, ToolDefinition, ToolRegistry, tool
    from surecall.values.decisions import Decision, StaleDecision, WaitingCall
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
    from surecall.values.types import Plan, Secret, Usage
    from surecall.wire.assembler import ReasoningDelta, TextDelta

# The module of each public name. Static tools use the imports above instead.
_NAMES_BY_MODULE: Final = {
    "core.streaming": ("CallAnnounced", "TextWithdrawn"),
    "runtime.run_stream": ("BlockingRunStream", "RunStream"),
    "wire.assembler": ("ReasoningDelta", "TextDelta"),
    "settings.capabilities": ("Capabilities", "capabilities_for"),
    "settings.catalog": ("ModelCatalog", "SamplingCatalog"),
    "settings.endpoint_profile": ("EndpointProfile",),
    "settings.config": ("ToolCallingConfig", "ToolFailurePolicy", "ToolUseMode"),
    "settings.contract": ("Contract", "From", "Need"),
    "settings.fallback": ("Fallback",),
    "runtime.dispatch": ("ToolDispatcher",),
    "runtime.hooks": ("AskFirst", "ToolPolicy"),
    "values.decisions": ("Decision", "StaleDecision", "WaitingCall"),
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
    "core.conversation_state": (
        "ConversationBusy",
        "ConversationTaken",
        "Store",
        "StoreConflict",
        "Stored",
    ),
    "core.outcome": (
        "LimitExceeded",
        "RequestFailed",
        "RunFailed",
        "RunResult",
        "ToolCallRecord",
        "ToolUseError",
    ),
    "runtime.conversation": ("Conversation",),
    "runtime.retrying_requests": ("PromptRunner",),
    "tools.context": ("Context",),
    "tools.grounded": ("Grounded",),
    "tools.registry": ("FilteredToolRegistry", "ToolDefinition", "ToolRegistry", "tool"),
    "runtime.replay": ("replay", "run_of"),
    "runtime.runner_checks": ("RunOptions", "TurnOptions"),
    "runtime.runner": ("ToolLoopRunner",),
    "runtime.sqlite_store": ("SqliteStore",),
    "core.state": ("Run",),
    "runtime.recording": ("JsonlSink", "load_trace", "save_trace"),
    "runtime.transport": ("OpenAICompatible",),
    "values.types": ("Plan", "Secret", "Usage"),
}
_MODULE_OF: Final = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = [
    "AskFirst",
    "BlockingRunStream",
    "CallAnnounced",
    "Capabilities",
    "ConfigError",
    "Context",
    "Contract",
    "Conversation",
    "ConversationBusy",
    "ConversationTaken",
    "Decision",
    "EndpointProfile",
    "ErrorCode",
    "Event",
    "Fallback",
    "Fault",
    "FilteredToolRegistry",
    "From",
    "Grounded",
    "JsonlSink",
    "LimitExceeded",
    "Limits",
    "ModelCatalog",
    "Need",
    "OpenAICompatible",
    "Plan",
    "PromptRunner",
    "ProviderError",
    "ReasoningDelta",
    "ReplayDiverged",
    "RequestFailed",
    "RetryPolicy",
    "Run",
    "RunFailed",
    "RunOptions",
    "RunResult",
    "RunStream",
    "SamplingCatalog",
    "Secret",
    "SqliteStore",
    "StaleDecision",
    "Store",
    "StoreConflict",
    "Stored",
    "SurecallError",
    "TextDelta",
    "TextWithdrawn",
    "ToolCallRecord",
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
    "TurnOptions",
    "Usage",
    "WaitingCall",
    "__version__",
    "capabilities_for",
    "load_trace",
    "presets",
    "replay",
    "run_of",
    "save_trace",
    "tool",
]

if not TYPE_CHECKING:  # pragma: no branch  # or type checkers would accept any name

    def __getattr__(name: str) -> Any:
        """Import a public name on first use."""
        if name == "presets":
            return import_module("surecall.settings.presets")
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'surecall' has no attribute {name!r}")
        value = getattr(import_module(f"surecall.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """List the public names."""
        return __all__
