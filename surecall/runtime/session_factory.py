"""Creates the sessions of a runner's runs, and checks the decisions on their calls."""

import functools
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from surecall.core.approvals import record_decisions
from surecall.core.loop import next_move
from surecall.core.outcome import RunFailed, RunResult, T_co
from surecall.core.reply_parsing import resolve_given_call
from surecall.core.state import Fail, Run
from surecall.core.streaming import CallAnnounced, DisplayDelta, ShowDelta
from surecall.core.tool_search import is_search_name, with_learned_limit
from surecall.runtime.candidates import ModelCandidate
from surecall.runtime.dispatch import ToolDispatcher
from surecall.runtime.event_loop import EventLoopThread, wait_for_slot
from surecall.runtime.execution import USER_CODE_ERRORS, LeftRunningTools, ToolThreadPool
from surecall.runtime.fallback_chain import FallbackChain, RestingModels, SessionParts
from surecall.runtime.hooks import AcceptFinal, AnyToolPolicy, Executor, Observer
from surecall.runtime.recording import Recorder, allowed_context
from surecall.runtime.retrying_requests import PromptRunner
from surecall.runtime.run_stream import BlockingRunStream, LiveObserver, RunStream
from surecall.runtime.runner_checks import (
    WatchOptions,
    checked_context,
    checked_observer,
    checked_run,
)
from surecall.runtime.session import Session, record_policy_error
from surecall.runtime.transport import Client
from surecall.settings.config import ToolCallingConfig, ToolUseMode
from surecall.settings.connection import RetryPolicy
from surecall.tools.output import TypedOutput
from surecall.tools.ranking import tool_index
from surecall.tools.registry import FilteredToolRegistry, Toolbox, ToolRegistry, specs_of
from surecall.values.decisions import Decision, StaleDecision, WaitingCall
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.types import Refusal, ToolSpec
from surecall.wire.chat_format import roundtrip_json


def checked_decisions(decisions: Any, run: Run, toolbox: Toolbox) -> dict[str, Decision]:
    """Return the decisions by the ids of the calls in the transcript.

    Each must be about a call that is waiting, and valid for it.
    """
    if decisions is not None and not isinstance(decisions, Mapping):
        raise ConfigError("decisions must be a mapping such as {call.id: Decision.approve()}")
    if not decisions:
        return {}
    waiting = {call.id: call for call in run.waiting}
    checked: dict[str, Decision] = {}
    for key, decision in decisions.items():
        call = waiting.get(key)
        if call is None:
            raise StaleDecision(key, run.waiting)
        checked[call.call_id] = _checked_decision(decision, call, run.config, toolbox)
    return checked


def _checked_decision(
    decision: Any, call: WaitingCall, config: ToolCallingConfig, toolbox: Toolbox
) -> Decision:
    match decision:
        case Decision("allow"):
            return decision
        case Decision("deny", reason):
            return Decision.deny(roundtrip_json(str(reason or "")))
        case Decision("replace", _, dict() as arguments):
            roundtrip_json(arguments)  # raises if they are not JSON
            validated = resolve_given_call(call.name, arguments, config, toolbox)
            if validated.problem is not None:
                where = f"decisions: the new arguments of {call.name} ({call.call_id})"
                raise ConfigError(f"{where} are invalid: {validated.problem.message}")
            return Decision.replace(validated.arguments)
        case _:
            raise ConfigError(
                f"decisions: for {call.name} ({call.call_id}) pass Decision.approve(), "
                "Decision.deny(reason), or Decision.replace(arguments) with a mapping"
            )


class SessionFactory:
    """Creates a session for each run of a runner, and owns the threads that they share."""

    def __init__(  # noqa: PLR0913  # collaborators, all by keyword
        self,
        *,
        candidates: Sequence[ModelCandidate],
        retry: RetryPolicy | None,
        registry: ToolRegistry,
        toolbox: Toolbox,
        executor: Executor | None,
        observers: Sequence[Observer],
        tool_policy: AnyToolPolicy | None,
        accept_final: AcceptFinal | None,
        output: TypedOutput | None,
    ) -> None:
        self.left_running = LeftRunningTools()
        self._candidates = candidates
        self._prompts = [
            PromptRunner(each.client, retry=retry, capabilities=each.capabilities)
            for each in candidates
        ]
        self._resting = RestingModels()
        self._clients = {each.endpoint: each.client for each in candidates}
        self._registry = registry
        self._toolbox = toolbox
        # The same objects in every run, so that they are encoded once.
        self._specs = specs_of(toolbox)
        limits = [each.config.endpoint.max_tools_per_request for each in candidates]
        if any(limit is not None and len(self._specs) > limit for limit in limits):
            tool_index(self._specs)  # now, instead of during the first run
        self._executor = executor
        self._observers = observers
        self._tool_policy = tool_policy
        self._accept_final = accept_final
        self._output = output
        self._threads = ToolThreadPool()
        self._thread: EventLoopThread | None = None
        self._opening = threading.Lock()

    async def drive(self, begin: Callable[[], Run], options: WatchOptions) -> RunResult:
        """Wait for a slot, begin or reopen a run, and drive it to its end."""
        await wait_for_slot()
        return await self.create_session(begin(), options).drive()

    def open_stream(self, run: Run, options: WatchOptions) -> RunStream:
        """Return a stream that drives a run."""
        return RunStream(lambda watch: self.create_session(run, options, watch))

    def reopen(
        self, run: Run | RunResult | RunFailed, decisions: Mapping[str, Decision] | None
    ) -> Run:
        """Return a run with the decisions, and without the fault that ended it."""
        run = checked_run(run)
        checked = checked_decisions(decisions, run, self._toolbox)
        return _without_fault(record_decisions(run, checked))

    def open_blocking_stream(self, stream: RunStream[T_co]) -> BlockingRunStream[T_co]:
        """Return a stream for blocking code."""
        return BlockingRunStream(stream, self.event_loop_thread())

    def event_loop_thread(self) -> EventLoopThread:
        """Return the event loop for blocking callers; it is started once and stays open."""
        with self._opening:
            if self._thread is None or not self._thread.is_alive:
                # Not a method of this object, because the thread must not keep it alive.
                clients = [each.client for each in self._candidates]
                self._thread = EventLoopThread(functools.partial(_keep_clients_open, clients))
            return self._thread

    def close(self) -> None:
        """Close the event loop for blocking callers."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    def create_session(
        self,
        run: Run,
        options: WatchOptions,
        watch: LiveObserver | None = None,
        journal: Observer | None = None,
    ) -> Session:
        """Return the session of a run."""
        context = checked_context(options.get("context"))
        toolbox, policy_error = self._visible_tools(run, context)
        at = self._candidate_index(run)
        run = msgspec.structs.replace(
            run,
            tools=self._specs if toolbox is self._toolbox else specs_of(toolbox),
            endpoint=self._candidates[at].endpoint,
            # A resumed run keeps its own if this runner has none.
            output=run.output if self._output is None else self._output.answer_format,
        )
        run = with_learned_limit(run, self._prompts[at].lessons.get(run.model, ()))
        on_event = options.get("on_event")
        extra = None if on_event is None else checked_observer(on_event)
        observers = [each for each in (journal, *self._observers, extra, watch) if each is not None]
        allowed = allowed_context(context, run.config.event_context_keys)
        recorder = Recorder(run.run_id, observers, allowed, self._clients)
        build_parts = functools.partial(self._build_parts, toolbox, context, recorder, watch)
        chain = None
        if len(self._candidates) > 1:
            chain = FallbackChain(self._candidates, self._resting, build_parts, at)
        return Session(
            run,
            *build_parts(at, run),
            recorder,
            policy_error,
            self._accept_final,
            read_output=None if self._output is None else self._output.parse,
            chain=chain,
        )

    def _build_parts(
        self,
        toolbox: Toolbox,
        context: Mapping[str, Any],
        recorder: Recorder,
        watch: LiveObserver | None,
        candidate_index: int,
        run: Run,
    ) -> SessionParts:
        """Return the collaborators of a session that depend on the model."""
        dispatcher = ToolDispatcher(
            toolbox,
            run.config,
            executor=self._executor,
            policy=self._tool_policy,
            context=context,
            threads=self._threads,
            left_running=self.left_running,
            run_id=run.run_id,
            on_policy_error=functools.partial(record_policy_error, recorder),
        )
        show = None if watch is None else functools.partial(show_unless_search, run.tools, watch)
        requests = self._prompts[candidate_index].requests(run.config, toolbox, recorder.emit, show)
        return SessionParts(requests, dispatcher)

    def _candidate_index(self, run: Run) -> int:
        """Return the index of a run's model; the run may come from another runner."""
        if len(self._candidates) == 1:
            return 0
        pairs = [(each.model, each.endpoint) for each in self._candidates]
        if (run.model, run.endpoint) in pairs:
            return pairs.index((run.model, run.endpoint))
        names = [name for name, _ in pairs]
        return names.index(run.model) if run.model in names else 0

    def _visible_tools(
        self, run: Run, context: Mapping[str, Any]
    ) -> tuple[Toolbox, BaseException | None]:
        """Return the tools that mode and policy leave visible, and an error of the policy."""
        if run.config.tool_use_mode is ToolUseMode.DISABLED:
            return ToolRegistry(), None
        if self._tool_policy is None:
            return self._toolbox, None
        tools = self._toolbox.definitions
        try:
            visible = [tool for tool in tools if self._tool_policy.visible(tool.spec, context)]
        except USER_CODE_ERRORS as error:  # a policy is user code
            visible = list(tools) if run.config.policy_error_mode == "allow" else []
            return FilteredToolRegistry(self._registry, [tool.name for tool in visible]), error
        return FilteredToolRegistry(self._registry, [tool.name for tool in visible]), None


def show_unless_search(tools: tuple[ToolSpec, ...], show: ShowDelta, shown: DisplayDelta) -> None:
    """Show a delta, unless it announces a search for tools, which is no call of a tool."""
    if not (isinstance(shown, CallAnnounced) and is_search_name(tools, shown.name)):
        show(shown)


@asynccontextmanager
async def _keep_clients_open(clients: Sequence[Client]) -> AsyncIterator[None]:
    """Keep the connections of all clients open while the block lasts."""
    async with AsyncExitStack() as stack:
        for client in clients:
            await stack.enter_async_context(client.opened())
        yield


def _without_fault(run: Run) -> Run:
    """Remove the fault that ended a run, unless it was a failure of the tool policy."""
    match run.last_message, next_move(run):
        case Refusal(fault), Fail() if fault.code is not ErrorCode.POLICY_ERROR:
            return msgspec.structs.replace(run, messages=run.messages[:-1])
        case _:
            return run
