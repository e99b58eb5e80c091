"""What random cases are made from: bodies with their tools, streams, texts, schemas, a trace."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Final

from surecall import RetryPolicy, RunFailed, ToolLoopRunner, ToolRegistry
from surecall.runtime.recording import dump_trace
from surecall.testing import ScriptedModel, failure, says
from surecall.values.types import JSON
from tests.support import corpus
from tests.support.project_files import CORPUS
from tests.support.replies import RECORDED, REGISTRY, SAMPLES, recorded

# One answer of a megabyte would take the time of a thousand cases.
_LIMIT: Final = 10_000


class Stock:
    """The corpus of the tests, sorted by what it is; loaded once."""

    def __init__(self) -> None:
        cases = [case for case in corpus.load().values() if len(str(case["body"])) < _LIMIT]
        self.bodies = [(case["body"], ToolRegistry(case["tools"])) for case in cases]
        self.bodies += [(body, REGISTRY) for body in SAMPLES]
        self.streams = [stream for name in RECORDED if len(stream := recorded(name)[0]) < _LIMIT]
        self.texts = [text for name in ("details", "prose", "rows") for text in _texts(name)]
        self.schemas = [
            tool.spec.parameters for _, tools in self.bodies for tool in tools.definitions
        ]
        self.arguments = [each for body, _ in self.bodies for each in _arguments(body) if each]
        self.raw_bodies = [json.dumps(body).encode() for body, _ in self.bodies]
        self.raw_texts = [text.encode() for text in (*self.texts, *map(str, self.arguments))]
        self.raw_traces = [_trace(), _trace(failing=True)]
        self.traces = [
            [json.loads(line) for line in trace.splitlines()] for trace in self.raw_traces
        ]


def _texts(name: str) -> Iterator[str]:
    rows = json.loads((CORPUS / "dialects" / f"{name}.json").read_text("utf-8"))
    for row in rows:
        yield row if isinstance(row, str) else row["text"]


def _arguments(value: Any) -> Iterator[Any]:
    """Find every value of a key `arguments`, wherever it is."""
    if isinstance(value, dict):
        yield from (value[key] for key in value if key == "arguments")
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _arguments(item)


def _trace(*, failing: bool = False) -> bytes:
    """Record a run with calls, failures, and an end."""
    script: list[Any] = [failure(503), SAMPLES[2], SAMPLES[9], says("", usage={"cost": 0.1})]
    script += [failure(401)] if failing else [says("The end.")]
    runner = ToolLoopRunner(
        client=ScriptedModel(*script),
        model="m",
        registry=REGISTRY,
        retry=RetryPolicy(attempts=2, first_wait_s=0.0),
    )
    try:
        return dump_trace(asyncio.run(runner.run("Go on.")).trace)
    except RunFailed as error:
        return dump_trace(error.result.trace)


def as_lines(events: Any) -> bytes:
    """Write events as a trace is written."""
    listed: list[JSON] = events if isinstance(events, list) else [events]
    return b"\n".join(json.dumps(event).encode() for event in listed)
