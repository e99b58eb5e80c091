"""Errors inside of streams, bent in ways that would outlive the stream."""

import json
from typing import Any

import pytest

from surecall import RetryPolicy, Run, RunFailed, ToolLoopRunner
from surecall.testing import Scripted, ScriptedModel


@pytest.mark.parametrize(
    "error",
    [
        {"message": "\ud800 overloaded"},
        {"message": "no", "metadata": {"provider_name": "\udc00", "remedy_hint": "\ud83d"}},
        {"message": "no", "metadata": {"raw": "\ud800"}},
        "\ud800",
    ],
)
def test_half_a_character_in_an_error_does_not_make_a_run_unwritable(error: Any) -> None:
    body = f"data: {json.dumps({'error': error})}\n\ndata: [DONE]\n\n".encode()
    runner = ToolLoopRunner(
        client=ScriptedModel(Scripted(body=body)),
        model="m",
        config={},
        retry=RetryPolicy(attempts=1),
    )
    with pytest.raises(RunFailed) as failed, runner.stream_sync("Go.") as stream:
        list(stream)

    run = failed.value.result.run
    assert Run.from_json(run.to_json()) == run
