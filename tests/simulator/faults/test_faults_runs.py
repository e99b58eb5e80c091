"""Faults in whole runs: the right tool runs once, a refused call never, and the run goes on."""

import asyncio
from typing import Any, Literal

import pytest

from surecall import ProviderError, RetryPolicy, RunResult, ToolLoopRunner, ToolRegistry
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.testing import ScriptedModel, calls, raw, says
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON
from surecall.wire.messages import encode
from tests.support.fault_samples import DEFAULT, SAMPLES, with_fault

QUICK = RetryPolicy(attempts=2, first_wait_s=0.001, longest_wait_s=0.001)
OF_REQUESTS = {"PAYMENT_REQUIRED", "CONTENT_POLICY", "DECODE_ERROR"}


def ids_with(*outcomes: str) -> list[str]:
    return [fault.id for fault in SHAPE_FAULTS.values() if fault.outcome in outcomes]


class Journal:
    """Tools that write down how they were called."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, JSON]] = []

    def registry(self) -> ToolRegistry:
        def add(a: int, b: int, label: str = "", exact: bool = False) -> int:  # noqa: FBT001, FBT002
            """Add two numbers."""
            self.ran.append(("add", {"a": a, "b": b, "label": label, "exact": exact}))
            return a + b

        def save(
            path: str,
            rows: list[int],
            options: dict[str, int],
            force: bool = False,  # noqa: FBT001, FBT002
            at: int = 0,
        ) -> str:
            """Save rows."""
            told = {"path": path, "rows": rows, "options": options, "force": force, "at": at}
            self.ran.append(("save", told))
            return "saved"

        def ping() -> str:
            """Ask whether anyone is there."""
            self.ran.append(("ping", {}))
            return "pong"

        def compare(
            column: str,
            operator: Literal["<", ">="],
            case: Literal["lower", "upper"] = "lower",
        ) -> str:
            """Compare a column."""
            told = {"column": column, "operator": operator, "case": case}
            self.ran.append(("compare", told))
            return "equal"

        return ToolRegistry([add, save, ping, compare])


def wire(body: Any) -> Any:
    """Send a body as bytes, so that it passes through the decoder too."""
    return raw(encode(body))


def run(journal: Journal, *script: Any) -> tuple[RunResult, ScriptedModel]:
    model = ScriptedModel(*script)
    runner = ToolLoopRunner(
        client=model, model="m", registry=journal.registry(), config=DEFAULT, retry=QUICK
    )
    return asyncio.run(runner.run("go")), model


@pytest.mark.slow
@pytest.mark.parametrize("fault_id", ids_with("cured"))
def test_a_cured_call_runs_once_with_its_arguments_and_costs_no_further_request(
    fault_id: str,
) -> None:
    compared = calls("compare", column="2662", operator=">=")
    for clean in (calls("ping"), calls("add", a=1, b=2), SAMPLES[3], SAMPLES[7], compared):
        faulty = with_fault(fault_id, clean)
        straight, healed = Journal(), Journal()
        run(straight, wire(clean), says("Done."))
        result, model = run(healed, wire(faulty), says("Done."))

        assert len(straight.ran) == 1
        assert (healed.ran, len(model.requests)) == (straight.ran, 2)
        assert result.assistant_text == "Done."


@pytest.mark.parametrize("fault_id", ids_with("cured"))
def test_a_cured_answer_is_the_final_answer(fault_id: str) -> None:
    result, model = run(Journal(), wire(with_fault(fault_id, says("It is 3."))))

    assert (result.assistant_text, len(model.requests)) == ("It is 3.", 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fault_id", ids_with("retried"))
def test_what_cannot_be_read_is_asked_for_once_more(fault_id: str, seed: int) -> None:
    journal = Journal()
    faulty = with_fault(fault_id, says("It is 3."), seed)

    result, model = run(journal, calls("add", a=1, b=2), wire(faulty), says("It is 3."))

    assert (result.assistant_text, len(model.requests)) == ("It is 3.", 3)
    assert [name for name, _ in journal.ran] == ["add"]


@pytest.mark.parametrize("fault_id", ids_with(*{*ErrorCode} - OF_REQUESTS))
def test_a_refused_call_never_runs_and_the_model_is_told(fault_id: str) -> None:
    journal = Journal()
    faulty = with_fault(fault_id, calls("add", a=1, b=2))

    result, model = run(journal, wire(faulty), says("Sorry."))

    assert journal.ran == []
    told = model.requests[1]["messages"][-1]
    assert (told["role"], result.assistant_text) == ("tool", "Sorry.")
    assert [*result.run.results[0].error_codes] == [SHAPE_FAULTS[fault_id].outcome]


@pytest.mark.parametrize("fault_id", ids_with(*OF_REQUESTS))
def test_an_error_that_no_retry_mends_ends_the_run_at_once(fault_id: str) -> None:
    model = ScriptedModel(wire(with_fault(fault_id, calls("ping"))))
    runner = ToolLoopRunner(client=model, model="m", config=DEFAULT, retry=QUICK)

    with pytest.raises(ProviderError) as failure:
        asyncio.run(runner.run("go"))

    assert failure.value.code == SHAPE_FAULTS[fault_id].outcome
    assert len(model.requests) == 1
