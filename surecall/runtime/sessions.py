"""The sessions of one runner: what its runs share, and what each of them gets of its own."""

import functools
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from surecall.core.approvals import decided
from surecall.core.loop import next_move
from surecall.core.outcome import RunFailed, RunResult, T_co
from surecall.core.state import Fail, Run
from surecall.runtime.candidates import Candidate
from surecall.runtime.chain import Chain, Parts, Resting
from surecall.runtime.decision_checks import checked_decisions
from surecall.runtime.dispatch import ToolDispatcher
from surecall.runtime.event_loop_thread import EventLoopThread
from surecall.runtime.execution import FOREIGN, LeftRunning
from surecall.runtime.hooks import AcceptFinal, AnyToolPolicy, Executor, Observer
from surecall.runtime.requests import PromptRunner
from surecall.runtime.run_stream import BlockingRunStream, RunStream, Watch
from surecall.runtime.runner_checks import checked_context, checked_observer, checked_run
from surecall.runtime.session import Session, record_policy_error
from surecall.runtime.thread_pool import Threads
from surecall.runtime.trace import Recorder, allowed_context
from surecall.runtime.transport import Client
from surecall.runtime.turns import turn
from surecall.settings.config import ToolUseMode
from surecall.settings.connection import RetryPolicy
from surecall.tools.output import TypedOutput
from surecall.tools.registry import FilteredToolRegistry, Toolbox, ToolRegistry
from surecall.values.decisions import Decision
from surecall.values.errors import ErrorCode
from surecall.values.types import Refusal, ToolSpec


class Sessions:
    """Makes a session for each run of a runner, and keeps the threads that all of them use."""

    def __init__(  # noqa: PLR0913  # collaborators, all by keyword
        self,
        *,
        candidates: Sequence[Candidate],
        retry: RetryPolicy | None,
        registry: ToolRegistry,
        toolbox: Toolbox,
        executor: Executor | None,
        observers: Sequence[Observer],
        tool_policy: AnyToolPolicy | None,
        accept_final: AcceptFinal | None,
        output: TypedOutput | None,
    ) -> None:
        self.left_running = LeftRunning()
        self._candidates = candidates
        self._prompts = [
            PromptRunner(each.client, retry=retry, capabilities=each.capabilities)
            for each in candidates
        ]
        self._resting = Resting()
        self._clients = {each.endpoint: each.client for each in candidates}
        self._registry = registry
        self._toolbox = toolbox
        # The same ones in every run, so that they are written down once.
        self._specs = _specs_of(toolbox)
        self._executor = executor
        self._observers = observers
        self._tool_policy = tool_policy
        self._accept_final = accept_final
        self._output = output
        self._threads = Threads()
        self._thread: EventLoopThread | None = None
        self._opening = threading.Lock()

    async def drive(
        self,
        begin: Callable[[], Run],
        on_event: Observer | None,
        context: Mapping[str, Any] | None,
    ) -> RunResult:
        """Wait for a turn, begin a run, and drive it to its end."""
        await turn()
        return await self.session(begin(), on_event, context).drive()

    async def resume(
        self,
        run: Run | RunResult | RunFailed,
        decisions: Mapping[str, Decision] | None,
        on_event: Observer | None,
        context: Mapping[str, Any] | None,
    ) -> RunResult:
        """Wait for a turn, and drive a run on from where it was written down."""
        return await self.drive(lambda: self.reopened(run, decisions), on_event, context)

    def watch(
        self, run: Run, on_event: Observer | None, context: Mapping[str, Any] | None
    ) -> RunStream:
        """Drive a run while somebody watches it."""
        return RunStream(lambda watch: self.session(run, on_event, context, watch))

    def watch_resumed(
        self,
        run: Run | RunResult | RunFailed,
        decisions: Mapping[str, Decision] | None,
        on_event: Observer | None,
        context: Mapping[str, Any] | None,
    ) -> RunStream:
        """Drive a run on while somebody watches it."""
        return self.watch(self.reopened(run, decisions), on_event, context)

    def reopened(
        self, run: Run | RunResult | RunFailed, decisions: Mapping[str, Decision] | None
    ) -> Run:
        """Return a run with what was decided, and without the fault that ended it."""
        run = checked_run(run)
        made = checked_decisions(decisions, run, self._toolbox)
        return _without_fault(decided(run, made))

    def watch_blocking(self, stream: RunStream[T_co]) -> BlockingRunStream[T_co]:
        """Watch a run from code that blocks."""
        return BlockingRunStream(stream, self.thread())

    def thread(self) -> EventLoopThread:
        """Return the event loop for callers that block; it is opened once, and kept."""
        with self._opening:
            if self._thread is None or not self._thread.alive:
                # Not a method of ours: the thread must not keep what it serves alive.
                clients = [each.client for each in self._candidates]
                self._thread = EventLoopThread(functools.partial(_opened, clients))
            return self._thread

    def close(self) -> None:
        """Close the event loop for callers that block."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    def session(
        self,
        run: Run,
        on_event: Observer | None,
        context: Mapping[str, Any] | None,
        watch: Watch | None = None,
        journal: Observer | None = None,
    ) -> Session:
        """Open a session for one run."""
        given = checked_context(context)
        toolbox, policy_error = self._visible(run, given)
        at = self._place(run)
        run = msgspec.structs.replace(
            run,
            tools=self._specs if toolbox is self._toolbox else _specs_of(toolbox),
            endpoint=self._candidates[at].endpoint,
            # A run that was begun elsewhere keeps its own, if this runner says nothing about it.
            output=run.output if self._output is None else self._output.form,
        )
        extra = None if on_event is None else checked_observer(on_event)
        observers = [each for each in (journal, *self._observers, extra, watch) if each is not None]
        allowed = allowed_context(given, run.config.event_context_keys)
        recorder = Recorder(run.run_id, observers, allowed, self._clients)
        talk = functools.partial(self._parts, toolbox, given, recorder, watch)
        chain = None
        if len(self._candidates) > 1:
            chain = Chain(self._candidates, self._resting, talk, at)
        return Session(
            run,
            *talk(at, run),
            recorder,
            policy_error,
            self._accept_final,
            read_output=None if self._output is None else self._output.read,
            chain=chain,
        )

    def _parts(
        self,
        toolbox: Toolbox,
        context: Mapping[str, Any],
        recorder: Recorder,
        watch: Watch | None,
        at: int,
        run: Run,
    ) -> Parts:
        """Return what a session talks to a model with."""
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
        prompt = self._prompts[at]
        return Parts(prompt.requests(run.config, toolbox, recorder.emit, watch), dispatcher)

    def _place(self, run: Run) -> int:
        """Say which model a run is at; it may have been written down by another runner."""
        if len(self._candidates) == 1:
            return 0
        known = [(each.model, each.endpoint) for each in self._candidates]
        if (run.model, run.endpoint) in known:
            return known.index((run.model, run.endpoint))
        names = [name for name, _ in known]
        return names.index(run.model) if run.model in names else 0

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


@asynccontextmanager
async def _opened(clients: Sequence[Client]) -> AsyncIterator[None]:
    """Keep the connections of all clients open while the block lasts."""
    async with AsyncExitStack() as stack:
        for client in clients:
            await stack.enter_async_context(client.opened())
        yield


def _without_fault(run: Run) -> Run:
    """Take back the fault that ended a run, unless it was the application's policy."""
    match run.last, next_move(run):
        case Refusal(fault), Fail() if fault.code is not ErrorCode.POLICY_ERROR:
            return msgspec.structs.replace(run, messages=run.messages[:-1])
        case _:
            return run


def _specs_of(toolbox: Toolbox) -> tuple[ToolSpec, ...]:
    return tuple(tool.spec for tool in toolbox.definitions)
