"""ToolLoopRunner: the drivers of the loop, asynchronous and synchronous.

    async   await runner.run("…")        async for event in runner.stream("…")
    sync    runner.run_sync("…")         for event in runner.stream_sync("…")

All run the same lines: the synchronous ones hand the work to an event loop in a thread of its own,
which is kept, so that connections are reused from one run to the next. They also work inside a
running event loop or a notebook.
"""

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from surecall.core.loop import next_move
from surecall.core.outcome import RunResult
from surecall.core.state import Fail, Run
from surecall.runtime.conversation import PromptRunner
from surecall.runtime.dispatch import Executor, ToolDispatcher, ToolPolicy
from surecall.runtime.event_loop_thread import EventLoopThread
from surecall.runtime.run_stream import BlockingRunStream, RunStream, Watch
from surecall.runtime.session import AcceptFinal, Session
from surecall.runtime.thread_pool import Threads
from surecall.runtime.trace import Observer, Recorder, allowed_context
from surecall.runtime.transport import Client
from surecall.settings.capabilities import Capabilities
from surecall.settings.config import ToolCallingConfig, ToolUseMode, check_options, deep_merge
from surecall.settings.connection import RetryPolicy
from surecall.settings.contract import in_words
from surecall.tools.registry import (
    FilteredToolRegistry,
    Toolbox,
    ToolRegistry,
    check_surface,
    is_async_callable,
)
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.family import unknown
from surecall.values.types import JSON, Message, Refusal, System, User
from surecall.wire.history import legal_history
from surecall.wire.messages import encodable, parse_message


class ToolLoopRunner:
    """Runs conversations with tools: sends, reads, heals, runs tools, repeats, records."""

    def __init__(  # noqa: PLR0913  # collaborators and settings, all by keyword
        self,
        *,
        client: Client,
        model: str,
        registry: ToolRegistry | Iterable[Any] | None = None,
        config: ToolCallingConfig | Mapping[str, Any] | None = None,
        system: str = "",
        executor: Executor | None = None,
        llm_options_defaults: Mapping[str, Any] | None = None,
        observers: Sequence[Observer] = (),
        tool_policy: ToolPolicy | None = None,
        retry: RetryPolicy | None = None,
        capabilities: Capabilities | None = None,
        accept_final: AcceptFinal | None = None,
    ) -> None:
        self.client = client
        self.model = _checked_model(model)
        self._config = _checked_config(config)
        self._system = System(encodable(system)) if system else None
        self._executor = executor
        self._observers = tuple(map(_checked_observer, observers))
        self._tool_policy = tool_policy
        self._accept_final = _checked_hook(accept_final)
        self._prompt = PromptRunner(client, retry=retry, capabilities=capabilities)
        tools = () if registry is None else registry
        self._registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)
        self._toolbox = _masked(self._registry, self._config)
        defaults = llm_options_defaults or {}
        check_options(defaults, "llm_options_defaults")
        self._options = _limited(
            deep_merge(defaults, self._config.request_overrides), self._config.default_max_tokens
        )
        self._threads = Threads()
        self._thread: EventLoopThread | None = None
        self._opening = threading.Lock()
        self._check_tools()

    def _check_tools(self) -> None:
        if self._config.tool_use_mode is ToolUseMode.DISABLED:
            return
        config = self._config
        check_surface(
            self._toolbox, config.max_tool_definitions_count, config.max_tool_definitions_bytes
        )
        self._check_contract()
        for tool in self._toolbox.definitions:
            if tool.handler is None and self._executor is None:
                raise ConfigError(
                    f"tool {tool.name!r} cannot run: give it a handler, or the runner an executor"
                )

    def _check_contract(self) -> None:
        contract = self._config.contract
        if contract is None:
            return
        for need in contract.needs:
            if need.tool not in self._registry.names:
                raise ConfigError(f"contract: {unknown('tool', need.tool, self._registry.names)}")
        if absent := contract.progress(()).out_of_reach(
            [tool.name for tool in self._toolbox.definitions]
        ):
            raise ConfigError(f"contract: tools that it needs are masked: {in_words(absent)}")

    async def run(
        self,
        user_text: str | list[Any] = "",
        *,
        history: Iterable[Any] = (),
        max_turns: int | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Answer a user: loop until there is a final answer, or raise `RunFailed`."""
        run = self._new_run(user_text, history, max_turns)
        return await self._session(run, on_event, context).drive()

    def stream(
        self,
        user_text: str | list[Any] = "",
        *,
        history: Iterable[Any] = (),
        max_turns: int | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunStream:
        """Do the same as `run`, watched: iterate over what happens and the text as it comes."""
        run = self._new_run(user_text, history, max_turns)
        return RunStream(lambda watch: self._session(run, on_event, context, watch))

    def _new_run(
        self, user_text: str | list[Any], history: Iterable[Any], max_turns: int | None
    ) -> Run:
        config = self._config if max_turns is None else self._config.but(max_turns=max_turns)
        earlier = legal_history(_checked_history(history))
        asked = _checked_words(user_text)
        if not earlier and not asked:
            raise ConfigError("there is nothing to answer: no user text and no history")
        return Run(
            run_id=os.urandom(16).hex(),
            model=self.model,
            config=config,
            messages=(*earlier, *asked),
            start=len(earlier),
            system=self._system,
            options=self._options,
        )

    async def resume(
        self,
        run: Run,
        *,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Continue a run from where it was written down; a request that failed is made again."""
        return await self._session(_reopened(run), on_event, context).drive()

    def stream_resumed(
        self,
        run: Run,
        *,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunStream:
        """Do the same as `resume`, watched."""
        again = _reopened(run)
        return RunStream(lambda watch: self._session(again, on_event, context, watch))

    def run_sync(self, user_text: str | list[Any] = "", **settings: Any) -> RunResult:
        """Do the same as `run`, blocking; works inside a running event loop and in notebooks."""
        return self._opened_thread().call(self.run(user_text, **settings))

    def resume_sync(self, run: Run, **settings: Any) -> RunResult:
        """Do the same as `resume`, blocking."""
        return self._opened_thread().call(self.resume(run, **settings))

    def stream_sync(self, user_text: str | list[Any] = "", **settings: Any) -> BlockingRunStream:
        """Do the same as `stream`, blocking."""
        return BlockingRunStream(self.stream(user_text, **settings), self._opened_thread())

    def _opened_thread(self) -> EventLoopThread:
        with self._opening:
            if self._thread is None or not self._thread.alive:
                self._thread = EventLoopThread(self._prompt.client.opened)
            return self._thread

    def close(self) -> None:
        """Close what `run_sync` keeps open. Happens by itself when the program ends."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    def _session(
        self,
        run: Run,
        on_event: Observer | None,
        context: Mapping[str, Any] | None,
        watch: Watch | None = None,
    ) -> Session:
        context = context or {}
        toolbox, policy_error = self._visible(run, context)
        run = msgspec.structs.replace(run, tools=tuple(tool.spec for tool in toolbox.definitions))
        extra = () if on_event is None else (_checked_observer(on_event),)
        observers = (*self._observers, *extra, *(() if watch is None else (watch,)))
        allowed = allowed_context(context, run.config.event_context_keys)
        recorder = Recorder(run.run_id, observers, allowed)
        dispatcher = ToolDispatcher(
            toolbox,
            run.config,
            executor=self._executor,
            policy=self._tool_policy,
            context=context,
            threads=self._threads,
        )
        conversation = self._prompt.conversation(run.config, toolbox, recorder.emit, watch)
        session = Session(run, conversation, dispatcher, recorder, policy_error)
        session.accept_final = self._accept_final
        return session

    def _visible(self, run: Run, context: Mapping[str, Any]) -> tuple[Toolbox, Exception | None]:
        """Let the mode, and the application's policy, hide tools from this run."""
        if run.config.tool_use_mode is ToolUseMode.DISABLED:
            return ToolRegistry(), None
        if self._tool_policy is None:
            return self._toolbox, None
        tools = self._toolbox.definitions
        try:
            shown = [tool for tool in tools if self._tool_policy.visible(tool.spec, context)]
        except Exception as error:  # noqa: BLE001  # a policy is foreign code
            shown = list(tools) if run.config.policy_error_mode == "allow" else []
            return FilteredToolRegistry(self._registry, [tool.name for tool in shown]), error
        return FilteredToolRegistry(self._registry, [tool.name for tool in shown]), None


def _checked_model(model: Any) -> str:
    if not isinstance(model, str) or not model.strip():
        raise ConfigError("model is blank: name the model to ask")
    return model


def _checked_config(config: Any) -> ToolCallingConfig:
    if config is None or isinstance(config, ToolCallingConfig):
        return config or ToolCallingConfig()
    return ToolCallingConfig.from_mapping(config)


def _checked_observer(observer: Any) -> Observer:
    if not callable(observer) or is_async_callable(observer):
        raise ConfigError("an observer is a plain function of one event; it is not awaited")
    return cast("Observer", observer)


def _checked_hook(hook: Any) -> AcceptFinal | None:
    if hook is not None and not callable(hook):
        raise ConfigError("accept_final is a function of one result; it returns a reason or None")
    return cast("AcceptFinal | None", hook)


def _checked_history(history: Any) -> list[Message]:
    if isinstance(history, str | bytes | Mapping | RunResult) or not isinstance(history, Iterable):
        raise ConfigError("history must be a list of messages, such as result.history")
    return [parse_message(item) for item in history]


def _checked_words(user_text: Any) -> tuple[User, ...]:
    if not isinstance(user_text, str | list):
        raise ConfigError(f"the user's words must be text, not {type(user_text).__name__}")
    words = user_text.strip() if isinstance(user_text, str) else user_text
    return (User(encodable(user_text)),) if words else ()


def _reopened(run: Run) -> Run:
    """Take back the fault that ended a run, unless it was the application's policy."""
    match run.last, next_move(run):
        case Refusal(fault), Fail() if fault.code is not ErrorCode.POLICY_ERROR:
            return msgspec.structs.replace(run, messages=run.messages[:-1])
        case _:
            return run


def _limited(options: JSON, max_tokens: int | None) -> JSON:
    """Limit the length of replies, unless the options do so themselves."""
    if max_tokens is None or not {"max_tokens", "max_completion_tokens"}.isdisjoint(options):
        return options
    return options | {"max_tokens": max_tokens}


def _masked(registry: ToolRegistry, config: ToolCallingConfig) -> Toolbox:
    if config.tool_allowlist is None and not config.tool_denylist:
        return registry
    return FilteredToolRegistry(registry, config.tool_allowlist, config.tool_denylist)
