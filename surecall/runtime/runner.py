"""ToolLoopRunner: runs the loop, asynchronously or blocking.

    async   await runner.run("…")        async for event in runner.stream("…")
    sync    runner.run_sync("…")         for event in runner.stream_sync("…")

The blocking methods hand the work to an event loop in its own thread, which stays open, so that
connections are reused. They also work inside a running event loop or a notebook.

The session machinery is imported when the first runner is created, so that importing this module
is cheap: loading asyncio takes longer than all the rest.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Unpack

from surecall.core.outcome import RunFailed, RunResult, T_co
from surecall.core.state import Run
from surecall.runtime.candidates import (
    Clients,
    Models,
    SharedSettings,
    build_output,
    model_candidates,
)
from surecall.runtime.hooks import AcceptFinal, AnyToolPolicy, Executor, Observer
from surecall.runtime.runner_checks import (
    ResumeOptions,
    RunOptions,
    check_contract,
    check_keywords,
    checked_executor,
    checked_history,
    checked_hook,
    checked_observers,
    checked_policy,
    checked_system,
    checked_tools,
    checked_user_text,
    expand_keywords,
    sampling_options,
)
from surecall.runtime.transport import Client
from surecall.settings.capabilities import Capabilities
from surecall.settings.config import ToolCallingConfig, ToolUseMode
from surecall.settings.connection import RetryPolicy, require_type
from surecall.settings.contract import describe_missing
from surecall.settings.overlay import deep_merge
from surecall.tools.registry import (
    FilteredToolRegistry,
    Toolbox,
    ToolRegistry,
    Tools,
    check_exposed_tools,
)
from surecall.values.errors import ConfigError
from surecall.wire.history_repair import repair_history

if TYPE_CHECKING:
    from surecall.runtime.run_stream import BlockingRunStream, RunStream


class ToolLoopRunner(Generic[T_co]):
    """Runs conversations with tools: sends requests, repairs replies, runs tools, records events.

    `client` is a client, or the address of an endpoint that needs no key. `tools` (or `registry`,
    an alias) are functions, tool definitions, a registry, or a mixture. `config` overrides the
    settings that `presets.resolve` recommends for the endpoint and model; only `presets.raw()`
    repairs nothing. `runner.config` is the result. `temperature`, `max_tokens` and `options` go
    into every request; `llm_options_defaults` is an alias of `options`. `output` is the type of the
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
        from surecall.runtime.session_factory import SessionFactory  # noqa: PLC0415 - see the first lines

        sent = sampling_options(options, temperature, max_tokens, llm_options_defaults)
        shared = SharedSettings(config, sent, capabilities)
        self._candidates = model_candidates(client, model, shared)
        self._system, self._registry = checked_system(system), checked_tools(tools, registry)
        self._toolbox = _visible_toolbox(self._registry, self.config)
        self._sessions = SessionFactory(
            candidates=self._candidates,
            retry=None if retry is None else require_type(retry, RetryPolicy, "retry"),
            registry=self._registry,
            toolbox=self._toolbox,
            executor=checked_executor(executor),
            observers=checked_observers(observers),
            tool_policy=checked_policy(tool_policy),
            accept_final=checked_hook(accept_final),
            output=build_output(output, self._candidates),
        )
        self._check_tools(has_executor=executor is not None)

    @property
    def client(self) -> Client:
        """The client; in a fallback chain, the first one."""
        return self._candidates[0].client

    @property
    def model(self) -> str:
        """The model; in a fallback chain, the first one."""
        return self._candidates[0].model

    @property
    def config(self) -> ToolCallingConfig:
        """The effective config: yours merged over the recommended one."""
        return self._candidates[0].config

    @property
    def models(self) -> tuple[str, ...]:
        """The models of the fallback chain, in order; usually one."""
        return tuple(each.model for each in self._candidates)

    def _check_tools(self, *, has_executor: bool) -> None:
        """Raise for tools that cannot run, exceed the limits, or do not meet the contract."""
        if self.config.tool_use_mode is ToolUseMode.DISABLED:
            return
        endpoint = self.config.endpoint
        check_exposed_tools(
            self._toolbox,
            endpoint.max_tool_definitions_count,
            endpoint.max_tool_definitions_bytes,
            endpoint.max_tools_per_request,
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
        if absent := contract.progress(()).unreachable(
            [tool.name for tool in self._toolbox.definitions]
        ):
            raise ConfigError(
                f"contract: tools that it needs are masked: {describe_missing(absent)}"
            )

    async def run(
        self, user_text: str | list[Any] = "", **options: Unpack[RunOptions]
    ) -> RunResult[T_co]:
        """Run the loop until there is a final answer; raise `RunFailed` if there is none.

        `history` is the conversation so far, such as `result.messages`. The other keyword arguments
        are those of `TurnOptions`.
        """
        check_keywords(options, RunOptions)
        return await self._sessions.drive(lambda: self._new_run(user_text, options), options)

    def stream(
        self, user_text: str | list[Any] = "", **options: Unpack[RunOptions]
    ) -> "RunStream[T_co]":
        """Run and yield events, and the text of the answer as it arrives."""
        check_keywords(options, RunOptions)
        run = self._new_run(user_text, options)
        return self._sessions.open_stream(run, options)

    def _new_run(self, user_text: str | list[Any], options: RunOptions) -> Run:
        """Return a new run with the user text and options."""
        max_turns = options.get("max_turns")
        config = self.config if max_turns is None else self.config.replace(max_turns=max_turns)
        system = options.get("system")
        earlier = repair_history(checked_history(options.get("history", ())))
        new_messages = checked_user_text(user_text)
        if not earlier and not new_messages:
            raise ConfigError("there is nothing to answer: pass user text or a history")
        own = sampling_options(
            options.get("options"), options.get("temperature"), options.get("max_tokens")
        )
        return Run(
            run_id=os.urandom(16).hex(),
            model=self.model,
            config=config,
            messages=(*earlier, *new_messages),
            start=len(earlier),
            system=self._system if system is None else checked_system(system),
            options=deep_merge(self._candidates[0].options, own),
            own_options=own,
        )

    @expand_keywords
    async def resume(
        self, run: Run | RunResult | RunFailed, **options: Unpack[ResumeOptions]
    ) -> RunResult[T_co]:
        """Resume a run, or the run of a result or error; a failed request is sent again.

        A call that had begun and has no recorded result does not run again unless its tool is
        read-only or idempotent; its unknown outcome is reported to the model.

        `decisions` maps ids of the calls in `run.waiting` to decisions. Without a decision about
        the first of them, the run does not continue. A decision about a call that is not waiting,
        or is waiting with other arguments, raises `StaleDecision`.
        """
        check_keywords(options, ResumeOptions)
        return await self._sessions.drive(lambda: self._reopen(run, options), options)

    @expand_keywords
    def stream_resumed(
        self, run: Run | RunResult | RunFailed, **options: Unpack[ResumeOptions]
    ) -> "RunStream[T_co]":
        """Do the same as `resume`, and yield events and text as they arrive."""
        check_keywords(options, ResumeOptions)
        return self._sessions.open_stream(self._reopen(run, options), options)

    def _reopen(self, run: Run | RunResult | RunFailed, options: ResumeOptions) -> Run:
        return self._sessions.reopen(run, options.get("decisions"))

    def run_sync(
        self, user_text: str | list[Any] = "", **options: Unpack[RunOptions]
    ) -> RunResult[T_co]:
        """Do the same as `run`, blocking; works in notebooks and inside a running event loop."""
        return self._sessions.event_loop_thread().call(self.run(user_text, **options))

    @expand_keywords
    def resume_sync(
        self, run: Run | RunResult | RunFailed, **options: Unpack[ResumeOptions]
    ) -> RunResult[T_co]:
        """Do the same as `resume`, blocking."""
        return self._sessions.event_loop_thread().call(self.resume(run, **options))

    @expand_keywords
    def stream_resumed_sync(
        self, run: Run | RunResult | RunFailed, **options: Unpack[ResumeOptions]
    ) -> "BlockingRunStream[T_co]":
        """Do the same as `stream_resumed`, blocking."""
        return self._sessions.open_blocking_stream(self.stream_resumed(run, **options))

    def stream_sync(
        self, user_text: str | list[Any] = "", **options: Unpack[RunOptions]
    ) -> "BlockingRunStream[T_co]":
        """Do the same as `stream`, blocking."""
        return self._sessions.open_blocking_stream(self.stream(user_text, **options))

    def close(self) -> None:
        """Close the connections that `run_sync` keeps open. Called automatically at exit."""
        self._sessions.close()


def _visible_toolbox(registry: ToolRegistry, config: ToolCallingConfig) -> Toolbox:
    """Return the tools that the allowlist and denylist leave visible."""
    if config.tool_allowlist is None and not config.tool_denylist:
        return registry
    return FilteredToolRegistry(registry, config.tool_allowlist, config.tool_denylist)
