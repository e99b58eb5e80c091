"""Every loop meets every shape: over HTTP, all at the same time, each at a simulator of its own."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from surecall.core.outcome import RunResult
from surecall.runtime.runner import ToolLoopRunner
from surecall.simulator.demo import sdk_loop
from surecall.simulator.demo.plain_loop import plain_loop
from surecall.simulator.demo.shapes import Shape
from surecall.simulator.demo.tasks import Desk, Judgement, Tools, judged
from surecall.simulator.server import Simulator
from surecall.values.trace import Trace

PLAIN, SDK, OWN = "plain loop", "openai SDK", "surecall"
# Most of them wait: for an answer, or before they ask again.
_THREADS: Final = 64
Blocking: TypeAlias = Callable[..., str]
Agent: TypeAlias = Callable[[Shape, Tools], Awaitable[str | RunResult]]
Opening: TypeAlias = Callable[[], Awaitable[Agent | None]]


class Outcome(NamedTuple):
    """What a loop made of a shape. Only our own leaves a trace."""

    judgement: Judgement
    trace: Trace | None = None

    @property
    def is_right(self) -> bool:
        """Whether the work was done, exactly once, and nothing else."""
        return self.judgement.verdict == "right"


class Row(NamedTuple):
    """A shape, and what each loop made of it."""

    shape: Shape
    outcomes: dict[str, Outcome]


def contest(shapes: Sequence[Shape]) -> list[Row]:
    """Let each loop meet each shape. OpenAI's client takes part where it is installed."""
    return asyncio.run(_contest(shapes))


async def _contest(shapes: Sequence[Shape]) -> list[Row]:
    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(_THREADS))
        urls = {name: stack.enter_context(Simulator()).url for name in (PLAIN, SDK, OWN)}
        opening: dict[str, Opening] = {
            PLAIN: partial(_in_threads, threads, lambda: partial(plain_loop, urls[PLAIN])),
            SDK: partial(_in_threads, threads, lambda: sdk_loop.loop_at(urls[SDK], stack)),
            OWN: partial(_own_agent, urls[OWN]),
        }
        sides = await asyncio.gather(*(_side(each, shapes) for each in opening.values()))
    found = [(name, side) for name, side in zip(opening, sides, strict=True) if side]
    return [
        Row(shape, {name: side[number] for name, side in found})
        for number, shape in enumerate(shapes)
    ]


async def _in_threads(threads: Executor, open_loop: Callable[[], Blocking | None]) -> Agent | None:
    """Return a loop that blocks, as one that does not; None if there is none."""
    loop = asyncio.get_running_loop()
    held = await loop.run_in_executor(threads, open_loop)
    if held is None:
        return None

    async def agent(shape: Shape, tools: Tools) -> str:
        call = partial(held, shape.persona.id, shape.task, tools, streamed=shape.streamed)
        return await loop.run_in_executor(threads, call)

    return agent


async def _own_agent(url: str) -> Agent:
    return partial(_own, url)


async def _own(url: str, shape: Shape, tools: Tools) -> RunResult:
    """Do the same with surecall, as its documentation shows it."""
    runner = ToolLoopRunner(
        client=url, model=shape.persona.id, tools=tools, system=shape.task.system
    )
    if not shape.streamed:
        return await runner.run(shape.task.prompt)
    async with runner.stream(shape.task.prompt) as stream:
        async for _ in stream:
            pass
        return stream.result


async def _side(opening: Opening, shapes: Sequence[Shape]) -> list[Outcome]:
    """Let one loop meet all shapes; none of them if there is no such loop."""
    agent = await opening()
    if agent is None:
        return []
    return await asyncio.gather(*(_held(agent, shape) for shape in shapes))


async def _held(agent: Agent, shape: Shape) -> Outcome:
    desk = Desk()
    try:
        said = await agent(shape, desk.tools(shape.task))
    except Exception as error:  # noqa: BLE001  # whatever an application would be told
        return Outcome(judged(shape.task, desk.made, error))
    answer, trace = (said, None) if isinstance(said, str) else (said.assistant_text, said.trace)
    return Outcome(judged(shape.task, desk.made, answer), trace)
