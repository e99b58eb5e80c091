"""ToolLoopRunner: the drivers of the loop, asynchronous and synchronous.

    async   await runner.run("…")        async for event in runner.stream("…")
    sync    runner.run_sync("…")         for event in runner.stream_sync("…")

All run the same lines: the synchronous ones hand the work to an event loop in a thread of its own,
which is kept, so that connections are reused from one run to the next. They also work inside a
running event loop or a notebook.

What runs a conversation is imported when the first runner is made, because naming one must stay
cheap for programs that may never need it: asyncio alone takes longer to load than all the rest.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypedDict, Unpack

from surecall.core.outcome import RunFailed, RunResult, T_co
from surecall.core.state import Run
from surecall.runtime.candidates import Clients, Given, Models, candidates_of, output_of
from surecall.runtime.hooks import AcceptFinal, AnyToolPolicy, Executor, Observer
from surecall.runtime.runner_checks import (
    check_contract,
    checked_executor,
    checked_history,
    checked_hook,
    checked_observers,
    checked_policy,
    checked_system,
    checked_tools,
    checked_words,
    sampling_options,
)
from surecall.runtime.transport import Client
from surecall.settings.capabilities import Capabilities
from surecall.settings.config import ToolCallingConfig, ToolUseMode
from surecall.settings.connection import RetryPolicy, checked_kind
from surecall.settings.contract import in_words
from surecall.settings.overlay import deep_merge
from surecall.tools.registry import (
    FilteredToolRegistry,
    Toolbox,
    ToolRegistry,
    Tools,
    check_surface,
)
from surecall.values.decisions import Decision
from surecall.values.errors import ConfigError
from surecall.values.family import unknown
from surecall.wire.history import legal_history

if TYPE_CHECKING:
    from surecall.runtime.run_stream import BlockingRunStream, RunStream


class TurnOptions(TypedDict, total=False):
    """Keyword arguments of every method that sends user text.

    `system` replaces the runner's instructions for this run; a blank text means none.
    `temperature`, `max_tokens` and `options` take precedence over the runner's. `on_event` receives
    every event. `context` is for your own code: the tool policy, and tools that have a parameter
    annotated `Context`; the model never sees it.
    """

    system: str | None
    max_turns: int | None
    temperature: float | None
    max_tokens: int | None
    options: Mapping[str, Any] | None
    on_event: Observer | None
    context: Mapping[str, Any] | None


class RunOptions(TurnOptions, total=False):
    """Keyword arguments of `run`, `stream` and their blocking forms; `history` comes first."""

    history: Iterable[Any] | RunResult | None


class ToolLoopRunner(Generic[T_co]):
    """Runs conversations with tools: sends requests, repairs replies, runs tools, records events.

    `client` is a client, or the address of an endpoint that needs no key. `tools` (or `registry`,
    its other name) are functions, tool definitions, a registry, or a mixture. `config` is laid over
    what `presets.resolve` recommends for the endpoint and model; only `presets.raw()` repairs
    nothing. `runner.config` shows the result. `temperature`, `max_tokens` and `options` go into
    every request; `llm_options_defaults` is another name for `options`. `output` is the type of the
    final answer, or its JSON Schema; `result.output` has the value.

    A list of models, or of clients, is a fallback chain: where one fails, the next continues the
    run. An item may be a `Fallback`, with its own settings. `runner.client`, `runner.model` and
    `runner.config` are those of the first, `runner.models` names all.
    """

    def __init__(  # noqa: PLR0913  # collaborators and settings, nearly all by keyword
        self,
        client: Clients,
        model: Models,
        tools: Tools | None = None,
        *,
        registry: Tools | None = None,
        config: ToolCallingConfig | Mapping[str, Any] | None = None,
        system: str = "",
        temperature: float | None = None,
        max_tokens: int | None = None,
        options: Mapping[str, Any] | None = None,
        llm_options_defaults: Mapping[str, Any] | None = None,
        output: type[T_co] | Mapping[str, Any] | None = None,
        executor: Executor | None = None,
        observers: Sequence[Observer] = (),
        tool_policy: AnyToolPolicy | None = None,
        accept_final: AcceptFinal | None = None,
        retry: RetryPolicy | None = None,
        capabilities: Capabilities | None = None,
    ) -> None:
        from surecall.runtime.sessions import Sessions  # noqa: PLC0415 - see the first lines

        sent = sampling_options(options, temperature, max_tokens, llm_options_defaults)
        self._candidates = candidates_of(client, model, Given(config, sent, capabilities))
        self._system = checked_system(system)
        self._registry = checked_tools(tools, registry)
        self._toolbox = _masked(self._registry, self.config)
        self._sessions = Sessions(
            candidates=self._candidates,
            retry=None if retry is None else checked_kind(retry, RetryPolicy, "retry"),
            registry=self._registry,
            toolbox=self._toolbox,
            executor=checked_executor(executor),
            observers=checked_observers(observers),
            tool_policy=checked_policy(tool_policy),
            accept_final=checked_hook(accept_final),
            output=output_of(output, self._candidates),
        )
        self._check_tools(has_executor=executor is not None)

    @property
    def client(self) -> Client:
        """The client, of a fallback chain the first one."""
        return self._candidates[0].client

    @property
    def model(self) -> str:
        """The model, of a fallback chain the first one."""
        return self._candidates[0].model

    @property
    def config(self) -> ToolCallingConfig:
        """The config in force: yours, laid over what is recommended."""
        return self._candidates[0].config

    @property
    def models(self) -> tuple[str, ...]:
        """The models that may be asked, in order; mostly one."""
        return tuple(each.model for each in self._candidates)

    def _check_tools(self, *, has_executor: bool) -> None:
        if self.config.tool_use_mode is ToolUseMode.DISABLED:
            return
        endpoint = self.config.endpoint
        check_surface(
            self._toolbox, endpoint.max_tool_definitions_count, endpoint.max_tool_definitions_bytes
        )
        self._check_contract()
        for tool in self._toolbox.definitions:
            if tool.handler is None and not has_executor:
                raise ConfigError(
                    f"tool {tool.name!r} cannot run: give it a handler, or the runner an executor"
                )

    def _check_contract(self) -> None:
        contract = self.config.contract
        if contract is None:
            return
        check_contract(contract, self._registry)
        if absent := contract.progress(()).out_of_reach(
            [tool.name for tool in self._toolbox.definitions]
        ):
            raise ConfigError(f"contract: tools that it needs are masked: {in_words(absent)}")

    async def run(
        self, user_text: str | list[Any] = "", **options: Unpack[RunOptions]
    ) -> RunResult[T_co]:
        """Answer the user: loop until there is a final answer, or raise `RunFailed`.

        `history` is the conversation so far, such as `result.messages`. The other keyword arguments
        are those of `TurnOptions`.
        """
        check_keywords(options, RunOptions)
        return await self._sessions.drive(
            lambda: self._new_run(user_text, options),
            options.get("on_event"),
            options.get("context"),
        )

    def stream(
        self, user_text: str | list[Any] = "", **options: Unpack[RunOptions]
    ) -> "RunStream[T_co]":
        """Run and yield what happens: events, and the text of the answer as it arrives."""
        check_keywords(options, RunOptions)
        run = self._new_run(user_text, options)
        return self._sessions.watch(run, options.get("on_event"), options.get("context"))

    def _new_run(self, user_text: str | list[Any], options: RunOptions) -> Run:
        max_turns = options.get("max_turns")
        config = self.config if max_turns is None else self.config.replace(max_turns=max_turns)
        system = options.get("system")
        earlier = legal_history(checked_history(options.get("history", ())))
        asked = checked_words(user_text)
        if not earlier and not asked:
            raise ConfigError("there is nothing to answer: no user text and no history")
        own = sampling_options(
            options.get("options"), options.get("temperature"), options.get("max_tokens")
        )
        return Run(
            run_id=os.urandom(16).hex(),
            model=self.model,
            config=config,
            messages=(*earlier, *asked),
            start=len(earlier),
            system=self._system if system is None else checked_system(system),
            options=deep_merge(self._candidates[0].options, own),
            own_options=own,
        )

    async def resume(
        self,
        run: Run | RunResult | RunFailed,
        *,
        decisions: Mapping[str, Decision] | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunResult[T_co]:
        """Resume a run, or that of a result or an error; a failed request is sent again.

        A call that had begun, and whose result was not recorded, does not run again unless its
        tool is read-only or idempotent: the model is told that its outcome is unknown.

        `decisions` are about the calls in `run.waiting`, by id. Without one about the first of
        them, the run stays where it is.
        """
        return await self._sessions.resume(run, decisions, on_event, context)

    def stream_resumed(
        self,
        run: Run | RunResult | RunFailed,
        *,
        decisions: Mapping[str, Decision] | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> "RunStream[T_co]":
        """Do the same as `resume`, watched."""
        return self._sessions.watch_resumed(run, decisions, on_event, context)

    def run_sync(
        self, user_text: str | list[Any] = "", **options: Unpack[RunOptions]
    ) -> RunResult[T_co]:
        """Run and block until the answer; works in notebooks and inside a running event loop."""
        return self._sessions.thread().call(self.run(user_text, **options))

    def resume_sync(
        self,
        run: Run | RunResult | RunFailed,
        *,
        decisions: Mapping[str, Decision] | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunResult[T_co]:
        """Do the same as `resume`, blocking."""
        thread = self._sessions.thread()
        work = self.resume(run, decisions=decisions, on_event=on_event, context=context)
        return thread.call(work)

    def stream_resumed_sync(
        self,
        run: Run | RunResult | RunFailed,
        *,
        decisions: Mapping[str, Decision] | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> "BlockingRunStream[T_co]":
        """Do the same as `stream_resumed`, blocking."""
        stream = self.stream_resumed(run, decisions=decisions, on_event=on_event, context=context)
        return self._sessions.watch_blocking(stream)

    def stream_sync(
        self, user_text: str | list[Any] = "", **options: Unpack[RunOptions]
    ) -> "BlockingRunStream[T_co]":
        """Do the same as `stream`, blocking."""
        return self._sessions.watch_blocking(self.stream(user_text, **options))

    def close(self) -> None:
        """Close what `run_sync` keeps open. Happens by itself when the program ends."""
        self._sessions.close()


def check_keywords(given: Mapping[str, object], known: type[TurnOptions]) -> None:
    """Refuse keyword arguments that a method does not have, as Python does."""
    for name in given:
        if name not in (names := known.__annotations__):
            raise TypeError(unknown("keyword argument", name, names))


def _masked(registry: ToolRegistry, config: ToolCallingConfig) -> Toolbox:
    if config.tool_allowlist is None and not config.tool_denylist:
        return registry
    return FilteredToolRegistry(registry, config.tool_allowlist, config.tool_denylist)
