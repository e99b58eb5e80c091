"""What a run still has to do: derived from the transcript, once for each run."""

from collections.abc import Callable

import pytest

from surecall import ToolCallingConfig, ToolLoopRunner, presets
from surecall.core.loop import heard, next_move, ran
from surecall.core.obligations import NOT_TO_REPEAT, failures
from surecall.core.offer import finalising
from surecall.core.state import Fail
from surecall.core.ways_out import ABOUT_ARGUMENTS
from surecall.settings.contract import Contract, Progress
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, says
from surecall.values.errors import ErrorCode
from surecall.values.types import (
    JSON,
    Assistant,
    Reply,
    ToolCall,
    ToolResult,
)
from surecall.wire.messages import named_choice
from tests.support import transcripts
from tests.support.hand_driven import (
    CALL,
    after,
    answer,
    begun,
    code_of,
    numbered,
)


def test_a_failure_is_made_up_for_by_the_same_tool_later_or_the_same_call_ever() -> None:
    first, other = CALL, ToolCall("c2", "add", {"a": 2})
    same = ToolCall("c3", "add", {"a": 1}, arguments_bytes=7)
    made = begun().plus(Assistant("", (first, other, same)), answer(first))
    run = made.plus(answer(other, ok=False), answer(same, ok=False))
    assert failures(run) == ([other], [same])
    assert failures(made.plus(answer(other, ok=False), answer(same))) == ([], [other])


def test_a_call_without_a_result_did_not_fail() -> None:
    assert failures(begun().plus(Assistant("", (CALL,)))) == ([], [])


@pytest.mark.parametrize(
    ("policy", "oks", "code"),
    [
        ("fatal", [True, True], None),
        ("fatal", [True, False], ErrorCode.GAVE_UP),
        ("tolerated", [True, False], None),
        ("tolerated", [False, False], ErrorCode.GAVE_UP),
    ],
)
def test_what_failed_tools_mean_for_an_enforced_run(
    policy: str, oks: list[bool], code: ErrorCode | None
) -> None:
    run = begun(tool_use_mode="enforced", tool_failure_policy=policy)
    for reply, ok in zip(numbered(2), oks, strict=True):
        run = after(run, reply, ok=ok)
    assert code_of(next_move(after(run, Reply("done")))) is code


@pytest.mark.parametrize("code", sorted(NOT_TO_REPEAT))
@pytest.mark.parametrize("contract", [None, Contract(all_of=("put",))])
def test_what_may_have_taken_effect_or_was_denied_is_never_demanded_again(
    code: ErrorCode, contract: Contract | None
) -> None:
    run = transcripts.begun(tool_use_mode="enforced", contract=contract)
    run = heard(run, Reply("", (ToolCall("c", "put", {}),)))
    result = ToolResult("c", "put", ok=False, content="{}", executed=True, error_codes=(code,))
    run = ran(run, [result])

    assert transcripts.asking(run).may_answer
    failed = next_move(transcripts.said(run, "It failed."))
    assert isinstance(failed, Fail)
    # What was too large or too deep may be asked for in smaller parts: no reason to give up yet.
    unmet_code = "TOOL_ERROR" if contract is None else "CONTRACT_UNMET"
    assert failed.code == (unmet_code if code in ABOUT_ARGUMENTS else "GAVE_UP")


def test_an_enforced_run_has_its_repairs_to_do_even_when_the_contract_is_met() -> None:
    settings: JSON = {"contract": Contract(all_of=("put",)), "tool_use_mode": "enforced"}
    failed = transcripts.called(transcripts.begun(**settings), "get", ok=False)
    run = transcripts.called(failed, "put")

    assert not finalising(run)
    early = transcripts.said(run, "Done.", "Done.")
    assert transcripts.offer(early) == (["get"], named_choice("get"))


@pytest.mark.parametrize("preset", [presets.default_tool_calling, presets.small_model])
def test_the_contract_is_judged_once_for_each_state_of_a_run(
    monkeypatch: pytest.MonkeyPatch, preset: Callable[[ToolCallingConfig], ToolCallingConfig]
) -> None:
    judged: list[tuple[ToolCall, ...]] = []
    judge = Contract.progress

    def counted(self: Contract, done: tuple[ToolCall, ...]) -> Progress:
        judged.append(done)
        return judge(self, done)

    def put(value: str) -> str:
        """Write."""
        return value

    model = ScriptedModel(calls("put", value="a"), says("Done."))
    if preset is presets.small_model:
        step = '{"tool": "put", "arguments": {"value": "a"}}'
        model = ScriptedModel(says(step), says('{"answer": "Done."}'))
    config = preset(raw()).replace(contract=Contract(all_of=["put"]))
    runner = ToolLoopRunner(client=model, model="m", registry=[put], config=config)
    monkeypatch.setattr(Contract, "progress", counted)
    result = runner.run_sync("Put a.")

    assert [item.ok for item in result.run.results] == [True]
    # Asked, ran, answered; and once more for the count of early answers.
    assert len(judged) == 4
