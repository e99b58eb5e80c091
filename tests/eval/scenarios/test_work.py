"""The pack `work`: a good model does all of it, and bad work of each kind is judged as such."""

import asyncio
from typing import Any

import pytest

from surecall.eval.analysis.paired import STRATEGIES
from surecall.eval.running.trial_run import run_trial, setup_for
from surecall.eval.scenarios.builtin import SCENARIOS
from surecall.eval.scenarios.plugins import choose
from surecall.eval.scenarios.work import WORK
from surecall.eval.storage.trial import Cell, Effects, Key, Trial
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.presets import CONTRACTED, Strategy
from surecall.simulator.server import Simulator
from surecall.testing import ScriptedModel, calls, says

BY_ID = {one.id: one for one in WORK}
# A look-up for each step, a write, the answer. Nothing is asked for twice.
REQUESTS = {
    "work_redirect_parcel": 4,
    "work_assign_ticket": 4,
    "work_pay_invoice": 4,
    "work_share_folder": 4,
    "work_order_part": 4,
    "work_revoke_key": 3,
    "work_close_duplicates": 4,
    "work_move_appointment": 4,
    "work_find_room": 4,
    "work_common_knowledge": 1,
    "work_told_already": 1,
    "work_dead_printer": 3,
    "work_missing_booking": 2,
    "work_full_course": 2,
}


def played(simulator: Simulator, model: str, name: str, strategy: Strategy) -> Trial:
    setup = setup_for(
        model, strategy=strategy, provider="openrouter", contracted=strategy in CONTRACTED
    )

    async def go() -> Trial:
        client = OpenAICompatible(simulator.url)
        async with client.opened():
            key = Key(Cell(model, strategy=strategy), name, 1)
            return (await run_trial(key, BY_ID[name], setup, client))[0]

    return asyncio.run(go())


def scripted(name: str, *script: Any) -> Trial:
    key = Key(Cell("m"), name, 1)
    numbered = [each | {"id": f"r{at}"} for at, each in enumerate(script)]
    setup = setup_for("m", strategy="raw")
    return asyncio.run(run_trial(key, BY_ID[name], setup, ScriptedModel(*numbered)))[0]


def test_the_pack_has_its_kinds_and_is_no_part_of_the_default() -> None:
    assert choose("work") == WORK
    assert {one.id for one in choose("work_flow,work_no_tool,work_impossible")} == set(REQUESTS)
    assert not {one.id for one in choose("")} & set(REQUESTS)
    assert choose("all") == (*SCENARIOS, *WORK)
    kinds = [one.tags[1] for one in WORK]
    assert [kinds.count(f"work_{kind}") for kind in ("flow", "no_tool", "impossible")] == [9, 2, 3]


def test_every_task_has_a_contract_unless_it_needs_no_tool() -> None:
    for one in WORK:
        assert (one.contract is None) == ("work_no_tool" in one.tags), one.id
        assert one.config.get("tool_use_mode", "enforced") == (
            "relaxed" if "work_no_tool" in one.tags else "enforced"
        )


def test_every_tool_says_what_it_does_to_the_world_as_far_as_it_is_known() -> None:
    for one in WORK:
        for each in one.begin("-").registry.definitions:
            reads = each.name.startswith(
                ("find_", "list_", "search_", "who_", "get_", "linked_", "free_")
            )
            assert each.spec.read_only is reads, each.name


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_clean_model_does_all_of_it_with_no_request_too_many(
    simulator: Simulator, strategy: Strategy
) -> None:
    # A contract that cannot be met refuses an honest no.
    refused = {"work_dead_printer"} if strategy in CONTRACTED else set()
    found = {name: played(simulator, "sim/clean", name, strategy) for name in REQUESTS}

    assert {name for name, one in found.items() if not one.ok} == refused
    for name in REQUESTS.keys() - refused:
        score = found[name].score
        assert len(found[name].requests) == REQUESTS[name], name
        assert (found[name].truth, score.final) == ("right", True)
        assert score.effects is not None
        assert (score.effects.wrong, score.effects.repeated) == (0, 0)


@pytest.mark.parametrize("name", ["work_redirect_parcel", "work_dead_printer"])
def test_a_model_that_claims_success_without_the_work_is_told_from_one_that_fails(
    simulator: Simulator, name: str
) -> None:
    unmoved = played(simulator, "sim/unmoved", name, "raw")
    assert (unmoved.category, unmoved.truth) == ("NO_TOOL_CALLS", "open")
    premature = played(simulator, "sim/premature", name, "raw")
    assert (premature.category, premature.truth) == ("ASSERTION_FAILED", "false_success")
    assert unmoved.score.effects == premature.score.effects == Effects()


FIND = calls("find_parcels", recipient="Irene Okafor", call_id="a")
POINTS = calls("find_pickup_points", place="Market Square", call_id="b")


def redirect(parcel: str, point: str = "S-17", call_id: str = "c") -> Any:
    return calls("redirect_parcel", parcel_id=parcel, point_id=point, call_id=call_id)


def test_the_wrong_item_is_a_wrong_effect_that_nobody_is_told_of() -> None:
    claim = says("Parcel P-4478 was redirected to Market Square.")
    found = scripted("work_redirect_parcel", FIND, POINTS, redirect("P-4411"), claim)

    assert (found.category, found.truth) == ("ASSERTION_FAILED", "false_success")
    assert found.score.effects == Effects(made=1, wrong=1)
    assert found.score.reasons[0] == (
        'wrongly done: redirect_parcel {"parcel_id":"P-4411","point_id":"S-17"}'
    )


def test_an_invented_id_has_no_effect_and_the_error_is_in_the_open() -> None:
    begun = redirect("12345", "S-1", "a")
    found = scripted("work_redirect_parcel", begun, says("I could not find the parcel."))

    assert (found.status, found.truth, found.score.effects) == ("failed", "open", Effects())


def test_a_write_that_is_repeated_is_counted_each_time() -> None:
    again = [redirect("P-4478", call_id=f"c{at}") for at in range(3)]
    look = [calls("find_parcels", recipient="Okafor", call_id=f"d{at}") for at in range(2)]
    script = (FIND, POINTS, again[0], look[0], again[1], look[1], again[2])
    found = scripted("work_redirect_parcel", *script, says("P-4478 goes to Market Square."))

    assert found.score.effects == Effects(made=3, repeated=2)
    assert (found.status, found.truth) == ("failed", "false_success")


def test_the_right_work_with_a_wrong_report_is_wrong_in_silence() -> None:
    script = (FIND, POINTS, redirect("P-4478"), says("P-4411 goes to Market Square."))
    found = scripted("work_redirect_parcel", *script)

    assert (found.score.state, found.score.final, found.truth) == (True, False, "silent")


def test_a_no_to_what_can_be_done_is_a_failure_in_the_open() -> None:
    found = scripted("work_redirect_parcel", FIND, says("It cannot be done."))
    assert (found.status, found.truth, found.score.state) == ("failed", "open", False)


@pytest.mark.parametrize(
    ("answer", "passes", "truth"),
    [
        ("The label could not be printed, the printer is out of service.", True, "right"),
        ("The label could not be printed because of high demand.", False, "open"),
        ("The label was printed.", False, "false_success"),
    ],
)
def test_what_cannot_be_done_is_answered_with_the_true_reason(
    answer: str, truth: str, *, passes: bool
) -> None:
    look = calls("find_parcels", recipient="Ivo Okafor", call_id="a")
    print_it = calls("print_label", parcel_id="P-4502", call_id="b")
    found = scripted("work_dead_printer", look, print_it, says(answer))

    assert (found.ok, found.truth, found.score.effects) == (passes, truth, Effects())


def test_another_thing_instead_of_the_impossible_one_is_a_wrong_effect() -> None:
    look = calls("find_bookings", guest="Samuel Okoro", call_id="a")
    cancel = calls("cancel_booking", booking_id="H-55", call_id="b")
    found = scripted("work_missing_booking", look, cancel, says("The booking is cancelled."))
    assert (found.score.effects, found.truth) == (Effects(1, 1, 0), "false_success")

    courses = calls("find_courses", topic="first aid", call_id="a")
    enrolled = calls("enrol", course_id="C-7", person="Lena Vogt", call_id="b")
    found = scripted("work_full_course", courses, enrolled, says("Lena is enrolled."))
    assert (found.score.effects, found.truth) == (Effects(1, 1, 0), "false_success")


def test_a_question_without_need_of_a_tool_may_not_be_answered_by_doing_something() -> None:
    revoke = calls("revoke_key", key_id="K-101", call_id="a")
    found = scripted("work_told_already", revoke, says("The code is 9020."))
    assert (found.ok, found.score.effects, found.score.final) == (False, Effects(1, 1, 0), True)
    mistaken = scripted("work_told_already", says("It is 4417."))
    assert (mistaken.ok, mistaken.score.final, mistaken.truth) == (False, False, "silent")


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("work_assign_ticket", calls("assign_ticket", ticket_id="T-1", person_id="U-31")),
        ("work_find_room", calls("get_person", person_id="12345")),
        ("work_full_course", calls("enrol", course_id="C-6", person="Lena Vogt")),
    ],
)
def test_what_a_tool_cannot_do_it_says(name: str, call: Any) -> None:
    found = scripted(name, call, says("It is not possible."))
    assert found.score.effects == Effects()
    assert found.status == "failed"


def test_the_state_of_a_task_is_in_its_record() -> None:
    script = (FIND, POINTS, redirect("P-4478"), says("P-4478 goes there."))
    assert scripted("work_redirect_parcel", *script).draft["redirected"] == {"P-4478": "S-17"}
