"""Whole runs with tools that write down each time they run, plain or streamed."""

from collections.abc import Sequence
from typing import Any

from surecall import RetryPolicy, RunResult, ToolCallingConfig, ToolLoopRunner, ToolRegistry
from surecall.testing import ScriptedModel, says, streams
from surecall.tools.registry import ToolDefinition
from surecall.values.types import JSON

_PIECE_BYTES = 64
_ENDS = 8
THE_END = "All done."


class Recorded:
    """The tools of a registry, with handlers of their own that keep what they were given."""

    def __init__(self, tools: ToolRegistry, results: dict[str, Any]) -> None:
        self.ran: list[tuple[str, JSON]] = []
        self._results = results
        self.registry = ToolRegistry([self._recorded(each) for each in tools.definitions])

    def _recorded(self, tool: ToolDefinition) -> ToolDefinition:
        def handler(**arguments: Any) -> Any:
            self.ran.append((tool.name, arguments))
            return self._results.get(tool.name, "done")

        return ToolDefinition(
            tool.name, tool.spec.description, parameters=tool.spec.parameters, handler=handler
        )

    async def run(
        self, asked: str, script: Sequence[JSON], config: ToolCallingConfig, *, streamed: bool
    ) -> RunResult:
        """Let a model say what is in the script, and then end."""
        items = [*script, *[says(THE_END)] * _ENDS]
        model = ScriptedModel(
            *(streams(item, _PIECE_BYTES) if streamed else item for item in items)
        )
        retry = RetryPolicy(attempts=1)
        runner = ToolLoopRunner(
            client=model, model="m", registry=self.registry, config=config, retry=retry
        )
        if not streamed:
            return await runner.run(asked)
        stream = runner.stream(asked)
        async for _ in stream:
            pass
        return stream.result
