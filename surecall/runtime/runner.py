"""ToolLoopRunner: the drivers of the loop, asynchronous and synchronous.

    async   await runner.run("…")        async for event in runner.stream("…")
    sync    runner.run_sync("…")         for event in runner.stream_sync("…")

All run the same lines: the synchronous ones hand the work to an event loop in a thread of its own,
which is kept, so that connections are reused from one run to the next. They also work inside a
running event loop or a notebook.
"""

import functools
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from surecall.core.loop import next_move
from surecall.core.outcome import RunResult
from surecall.core.state import Fail, Run
from surecall.runtime.accepting import AcceptFinal
from surecall.runtime.conversation import PromptRunner
from surecall.runtime.dispatch import Executor, ToolDispatcher, ToolPolicy
from surecall.runtime.event_loop_thread import EventLoopThread
from surecall.runtime.execution import FOREIGN, LeftRunning
from surecall.runtime.run_stream import BlockingRunStream, RunStream, Watch
from surecall.runtime.runner_checks import (
    check_contract,
    checked_client,
    checked_config,
    checked_context,
    checked_executor,
    checked_history,
    checked_hook,
    checked_model,
    checked_observer,
    checked_policy,
    checked_system,
    checked_tools,
    checked_words,
    endpoint_of,
)
from surecall.runtime.session import Session, record_policy_error
from surecall.runtime.thread_pool import Threads
from surecall.runtime.trace import Observer, Recorder, allowed_context
from surecall.runtime.transport import Client
from surecall.runtime.turns import turn
from surecall.settings.capabilities import Capabilities
from surecall.settings.config import ToolCallingConfig, ToolUseMode, check_options, deep_merge
from surecall.settings.connection import RetryPolicy
from surecall.settings.contract import in_words
from surecall.tools.registry import (
    FilteredToolRegistry,
    Toolbox,
    ToolRegistry,
    Tools,
    check_surface,
)
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.types import JSON, Refusal
from surecall.wire.history import legal_history
from surecall.wire.messages import encodable


class ToolLoopRunner:
    """Runs conversations with tools: sends, reads, heals, runs tools, repeats, records.

    `client` is a client, or the address of an endpoint that needs no key. `tools` (or `registry`,
    which is the same) are functions or tool definitions, one or many. Without a `config` it uses
    what `presets.resolve` recommends for the client's address and the model; `presets.raw()` is the
    bare one. `runner.config` shows which is in force.
    """

    def __init__(  # noqa: PLR0913  # collaborators and settings, all by keyword
        self,
        *,
        client: Client | str,
        model: str,
        tools: Tools | None = None,
        registry: Tools | None = None,
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
        self.client = checked_client(client)
        self.model = checked_model(model)
        self._endpoint = endpoint_of(self.client)
        self._config = checked_config(config, self.client, self.model)
        self._system = checked_system(system)
        self._executor = checked_executor(executor)
        self._observers = tuple(map(checked_observer, observers))
        self._tool_policy = checked_policy(tool_policy)
        self._accept_final = checked_hook(accept_final)
        self._prompt = PromptRunner(self.client, retry=retry, capabilities=capabilities)
        self._registry = checked_tools(tools, registry)
        self._toolbox = _masked(self._registry, self._config)
        defaults = llm_options_defaults or {}
        check_options(defaults, "llm_options_defaults")
        options = deep_merge(defaults, self._config.request_overrides)
        self._options = encodable(_limited(options, self._config.default_max_tokens))
        self._threads = Threads()
        self._left_running = LeftRunning()
        self._thread: EventLoopThread | None = None
        self._opening = threading.Lock()
        self._check_tools()

    @property
    def config(self) -> ToolCallingConfig:
        """The config in force: the one that was given, or what is recommended."""
        return self._config

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
        check_contract(contract, self._registry)
        if absent := contract.progress(()).out_of_reach(
            [tool.name for tool in self._toolbox.definitions]
        ):
            raise ConfigError(f"contract: tools that it needs are masked: {in_words(absent)}")

    async def run(
        self,
        user_text: str | list[Any] = "",
        *,
        history: Iterable[Any] = (),
        system: str | None = None,
        max_turns: int | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Answer a user: loop until there is a final answer, or raise `RunFailed`.

        `system` takes the place of the runner's own instructions in this run; a blank text means
        none. `context` is for the application's own code: its tool policy, and tools that have a
        parameter annotated `Context`. The model never sees it.
        """
        await turn()
        run = self._new_run(user_text, history, max_turns, system)
        return await self._session(run, on_event, context).drive()

    def stream(
        self,
        user_text: str | list[Any] = "",
        *,
        history: Iterable[Any] = (),
        system: str | None = None,
        max_turns: int | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunStream:
        """Do the same as `run`, watched: iterate over what happens and the text as it comes."""
        run = self._new_run(user_text, history, max_turns, system)
        return RunStream(lambda watch: self._session(run, on_event, context, watch))

    def _new_run(
        self,
        user_text: str | list[Any],
        history: Iterable[Any],
        max_turns: int | None,
        system: str | None,
    ) -> Run:
        config = self._config if max_turns is None else self._config.but(max_turns=max_turns)
        earlier = legal_history(checked_history(history))
        asked = checked_words(user_text)
        if not earlier and not asked:
            raise ConfigError("there is nothing to answer: no user text and no history")
        return Run(
            run_id=os.urandom(16).hex(),
            model=self.model,
            config=config,
            messages=(*earlier, *asked),
            start=len(earlier),
            system=self._system if system is None else checked_system(system),
            options=self._options,
        )

    async def resume(
        self,
        run: Run,
        *,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Continue a run from where it was written down; a request that failed is made again.

        A call that had begun, and whose result was not recorded, does not run again unless its
        tool is read-only or idempotent: the model is told that nobody knows what came of it.
        """
        await turn()
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

    def run_sync(
        self,
        user_text: str | list[Any] = "",
        *,
        history: Iterable[Any] = (),
        system: str | None = None,
        max_turns: int | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Do the same as `run`, blocking; works inside a running event loop and in notebooks."""
        thread = self._opened_thread()
        work = self.run(
            user_text,
            history=history,
            system=system,
            max_turns=max_turns,
            on_event=on_event,
            context=context,
        )
        return thread.call(work)

    def resume_sync(
        self,
        run: Run,
        *,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Do the same as `resume`, blocking."""
        thread = self._opened_thread()
        return thread.call(self.resume(run, on_event=on_event, context=context))

    def stream_sync(
        self,
        user_text: str | list[Any] = "",
        *,
        history: Iterable[Any] = (),
        system: str | None = None,
        max_turns: int | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> BlockingRunStream:
        """Do the same as `stream`, blocking."""
        stream = self.stream(
            user_text,
            history=history,
            system=system,
            max_turns=max_turns,
            on_event=on_event,
            context=context,
        )
        return BlockingRunStream(stream, self._opened_thread())

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
        given = checked_context(context)
        toolbox, policy_error = self._visible(run, given)
        run = msgspec.structs.replace(
            run,
            tools=tuple(tool.spec for tool in toolbox.definitions),
            endpoint=self._endpoint,
        )
        extra = () if on_event is None else (checked_observer(on_event),)
        observers = (*self._observers, *extra, *(() if watch is None else (watch,)))
        allowed = allowed_context(given, run.config.event_context_keys)
        recorder = Recorder(run.run_id, observers, allowed)
        dispatcher = ToolDispatcher(
            toolbox,
            run.config,
            executor=self._executor,
            policy=self._tool_policy,
            context=given,
            threads=self._threads,
            left_running=self._left_running,
            run_id=run.run_id,
            on_policy_error=functools.partial(record_policy_error, recorder),
        )
        conversation = self._prompt.conversation(run.config, toolbox, recorder.emit, watch)
        return Session(run, conversation, dispatcher, recorder, policy_error, self._accept_final)

    def _visible(
        self, run: Run, context: Mapping[str, Any]
    ) -> tuple[Toolbox, BaseException | None]:
        """Let the mode, and the application's policy, hide tools from this run."""
        if run.config.tool_use_mode is ToolUseMode.DISABLED:
            return ToolRegistry(), None
        if self._tool_policy is None:
            return self._toolbox, None
        tools = self._toolbox.definitions
        try:
            shown = [tool for tool in tools if self._tool_policy.visible(tool.spec, context)]
        except FOREIGN as error:  # a policy is foreign code
            shown = list(tools) if run.config.policy_error_mode == "allow" else []
            return FilteredToolRegistry(self._registry, [tool.name for tool in shown]), error
        return FilteredToolRegistry(self._registry, [tool.name for tool in shown]), None


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
