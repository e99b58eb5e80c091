"""What a run still has to do: derived from the transcript, once for each run."""

from collections.abc import Callable

import pytest

from surecall import ToolCallingConfig, ToolLoopRunner, presets
from surecall.core.exposed_tools import is_finalizing
from surecall.core.giving_up import ARGUMENT_CODES
from surecall.core.loop import next_move, record_reply, record_results
from surecall.core.obligations import NO_REPEAT_CODES, is_same_call, split_failures
from surecall.core.state import Fail
from surecall.settings.contract import Contract, ContractProgress
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, says
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, Assistant, Reply, ToolCall, ToolResult
from surecall.wire.chat_format import tool_choice_for
from tests.support import transcripts
from tests.support.transcripts import CALL, after, answer, begun_plain, code_of, numbered


def test_a_failure_is_made_up_for_by_the_same_tool_later_or_the_same_call_ever() -> None:
    first, other = CALL, ToolCall("c2", "add", {"a": 2})
    same = ToolCall("c3", "add", {"a": 1}, arguments_bytes=7)
    made = begun_plain().with_messages(Assistant("", (first, other, same)), answer(first))
    run = made.with_messages(answer(other, ok=False), answer(same, ok=False))
    assert split_failures(run) == ([other], [same])
    assert split_failures(made.with_messages(answer(other, ok=False), answer(same))) == (
        [],
        [other],
    )


def test_a_call_without_a_result_did_not_fail() -> None:
    assert split_failures(begun_plain().with_messages(Assistant("", (CALL,)))) == ([], [])


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
    run = begun_plain(tool_use_mode="enforced", tool_failure_policy=policy)
    for reply, ok in zip(numbered(2), oks, strict=True):
        run = after(run, reply, ok=ok)
    assert code_of(next_move(after(run, Reply("done")))) is code


@pytest.mark.parametrize("code", sorted(NO_REPEAT_CODES))
@pytest.mark.parametrize("contract", [None, Contract(all_of=("put",))])
def test_what_may_have_taken_effect_or_was_denied_is_never_demanded_again(
    code: ErrorCode, contract: Contract | None
) -> None:
    run = transcripts.begun(tool_use_mode="enforced", contract=contract)
    run = record_reply(run, Reply("", (ToolCall("c", "put", {}),)))
    result = ToolResult("c", "put", ok=False, content="{}", executed=True, error_codes=(code,))
    run = record_results(run, [result])

    assert transcripts.asking(run).may_answer
    failed = next_move(transcripts.said(run, "It failed."))
    assert isinstance(failed, Fail)
    # What was too large or too deep may be asked for in smaller parts: no reason to give up yet.
    unmet_code = "TOOL_ERROR" if contract is None else "CONTRACT_UNMET"
    assert failed.code == (unmet_code if code in ARGUMENT_CODES else "GAVE_UP")


def test_an_enforced_run_has_its_repairs_to_do_even_when_the_contract_is_met() -> None:
    settings: JSON = {"contract": Contract(all_of=("put",)), "tool_use_mode": "enforced"}
    failed = transcripts.called(transcripts.begun(**settings), "get", ok=False)
    run = transcripts.called(failed, "put")

    assert not is_finalizing(run)
    early = transcripts.said(run, "Done.", "Done.")
    assert transcripts.offer(early) == (["get"], tool_choice_for("get"))


@pytest.mark.parametrize("preset", [presets.default_tool_calling, presets.small_model])
def test_the_contract_is_judged_once_for_each_state_of_a_run(
    monkeypatch: pytest.MonkeyPatch, preset: Callable[[ToolCallingConfig], ToolCallingConfig]
) -> None:
    judged: list[tuple[ToolCall, ...]] = []
    judge = Contract.progress

    def counted(self: Contract, done: tuple[ToolCall, ...]) -> ContractProgress:
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


@pytest.mark.parametrize(("given", "is_same"), [(1, True), (1.0, True), (True, False), (2, False)])
def test_the_same_call_has_the_same_arguments_as_in_json(given: object, *, is_same: bool) -> None:
    call, other = (ToolCall("1", "pay", {"x": x}) for x in (1, given))

    assert is_same_call(call, other) is is_same
