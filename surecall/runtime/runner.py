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
from typing import TYPE_CHECKING, Any, Generic

from surecall.core.outcome import RunResult, T_co
from surecall.core.state import Run
from surecall.runtime.candidates import Clients, Given, Models, candidates_of, output_of
from surecall.runtime.hooks import AcceptFinal, AnyToolPolicy, Executor, Observer
from surecall.runtime.runner_checks import (
    check_contract,
    checked_executor,
    checked_history,
    checked_hook,
    checked_observer,
    checked_policy,
    checked_system,
    checked_tools,
    checked_words,
)
from surecall.settings.capabilities import Capabilities
from surecall.settings.config import ToolCallingConfig, ToolUseMode
from surecall.settings.connection import RetryPolicy
from surecall.settings.contract import in_words
from surecall.tools.registry import (
    FilteredToolRegistry,
    Toolbox,
    ToolRegistry,
    Tools,
    check_surface,
)
from surecall.values.decisions import Decision
from surecall.values.errors import ConfigError
from surecall.wire.history import legal_history

if TYPE_CHECKING:
    from surecall.runtime.run_stream import BlockingRunStream, RunStream


class ToolLoopRunner(Generic[T_co]):
    """Runs conversations with tools: sends, reads, heals, runs tools, repeats, records.

    `client` is a client, or the address of an endpoint that needs no key. `tools` (or `registry`,
    which is the same) are functions or tool definitions, one or many. Without a `config` it uses
    what `presets.resolve` recommends for the client's address and the model; `presets.raw()` is the
    bare one. `runner.config` shows which is in force. `output` is the type that the final answer
    must have, or its JSON Schema; the result has it as `output`.

    A list of models, or of clients, is a chain: where one fails, the next goes on with the run. An
    item may be a `Fallback`, with settings of its own. `runner.client`, `runner.model` and
    `runner.config` are those of the first, `runner.models` names all.
    """

    def __init__(  # noqa: PLR0913  # collaborators and settings, all by keyword
        self,
        *,
        client: Clients,
        model: Models,
        tools: Tools | None = None,
        registry: Tools | None = None,
        config: ToolCallingConfig | Mapping[str, Any] | None = None,
        system: str = "",
        executor: Executor | None = None,
        llm_options_defaults: Mapping[str, Any] | None = None,
        observers: Sequence[Observer] = (),
        tool_policy: AnyToolPolicy | None = None,
        retry: RetryPolicy | None = None,
        capabilities: Capabilities | None = None,
        accept_final: AcceptFinal | None = None,
        output: type[T_co] | Mapping[str, Any] | None = None,
    ) -> None:
        from surecall.runtime.sessions import Sessions  # noqa: PLC0415 - see the first lines

        given = Given(config, llm_options_defaults or {}, capabilities)
        self._candidates = candidates_of(client, model, given)
        first = self._candidates[0]
        self.client, self.model, self._config = first.client, first.model, first.config
        self._system = checked_system(system)
        self._executor = checked_executor(executor)
        self._registry = checked_tools(tools, registry)
        self._toolbox = _masked(self._registry, self._config)
        self._sessions = Sessions(
            candidates=self._candidates,
            retry=retry,
            registry=self._registry,
            toolbox=self._toolbox,
            executor=self._executor,
            observers=tuple(map(checked_observer, observers)),
            tool_policy=checked_policy(tool_policy),
            accept_final=checked_hook(accept_final),
            output=output_of(output, self._candidates),
        )
        self._check_tools()

    @property
    def config(self) -> ToolCallingConfig:
        """The config in force: the one that was given, or what is recommended."""
        return self._config

    @property
    def models(self) -> tuple[str, ...]:
        """The models that may be asked, in order; mostly one."""
        return tuple(each.model for each in self._candidates)

    def _check_tools(self) -> None:
        if self._config.tool_use_mode is ToolUseMode.DISABLED:
            return
        config = self._config
        check_surface(
            self._toolbox,
            config.endpoint.max_tool_definitions_count,
            config.endpoint.max_tool_definitions_bytes,
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
    ) -> RunResult[T_co]:
        """Answer a user: loop until there is a final answer, or raise `RunFailed`.

        `system` takes the place of the runner's own instructions in this run; a blank text means
        none. `context` is for the application's own code: its tool policy, and tools that have a
        parameter annotated `Context`. The model never sees it.
        """
        return await self._sessions.drive(
            lambda: self._new_run(user_text, history, max_turns, system), on_event, context
        )

    def stream(
        self,
        user_text: str | list[Any] = "",
        *,
        history: Iterable[Any] = (),
        system: str | None = None,
        max_turns: int | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> "RunStream[T_co]":
        """Do the same as `run`, watched: iterate over what happens and the text as it comes."""
        run = self._new_run(user_text, history, max_turns, system)
        return self._sessions.watch(run, on_event, context)

    def _new_run(
        self,
        user_text: str | list[Any],
        history: Iterable[Any],
        max_turns: int | None,
        system: str | None,
    ) -> Run:
        config = self._config if max_turns is None else self._config.replace(max_turns=max_turns)
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
            options=self._candidates[0].options,
        )

    async def resume(
        self,
        run: Run,
        *,
        decisions: Mapping[str, Decision] | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunResult[T_co]:
        """Continue a run from where it was written down; a request that failed is made again.

        A call that had begun, and whose result was not recorded, does not run again unless its
        tool is read-only or idempotent: the model is told that nobody knows what came of it.

        `decisions` are about the calls in `run.waiting`, by their id. As long as there is none
        about the first of them, the run stays where it is.
        """
        return await self._sessions.resume(run, decisions, on_event, context)

    def stream_resumed(
        self,
        run: Run,
        *,
        decisions: Mapping[str, Decision] | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> "RunStream[T_co]":
        """Do the same as `resume`, watched."""
        return self._sessions.watch_resumed(run, decisions, on_event, context)

    def run_sync(
        self,
        user_text: str | list[Any] = "",
        *,
        history: Iterable[Any] = (),
        system: str | None = None,
        max_turns: int | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunResult[T_co]:
        """Do the same as `run`, blocking; works inside a running event loop and in notebooks."""
        thread = self._sessions.thread()
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
        run: Run,
        *,
        decisions: Mapping[str, Decision] | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> "BlockingRunStream[T_co]":
        """Do the same as `stream_resumed`, blocking."""
        stream = self.stream_resumed(run, decisions=decisions, on_event=on_event, context=context)
        return self._sessions.watch_blocking(stream)

    def stream_sync(
        self,
        user_text: str | list[Any] = "",
        *,
        history: Iterable[Any] = (),
        system: str | None = None,
        max_turns: int | None = None,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> "BlockingRunStream[T_co]":
        """Do the same as `stream`, blocking."""
        stream = self.stream(
            user_text,
            history=history,
            system=system,
            max_turns=max_turns,
            on_event=on_event,
            context=context,
        )
        return self._sessions.watch_blocking(stream)

    def close(self) -> None:
        """Close what `run_sync` keeps open. Happens by itself when the program ends."""
        self._sessions.close()


def _masked(registry: ToolRegistry, config: ToolCallingConfig) -> Toolbox:
    if config.tool_allowlist is None and not config.tool_denylist:
        return registry
    return FilteredToolRegistry(registry, config.tool_allowlist, config.tool_denylist)
