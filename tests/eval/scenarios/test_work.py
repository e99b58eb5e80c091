"""Tests of `surecall.eval.scenarios.work`."""

import json
from typing import Any

import jsonschema_rs
import pytest

from surecall.eval.analysis.comparisons import STRATEGIES
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.plugins import choose_scenarios
from surecall.eval.scenarios.work import WORK
from surecall.eval.storage.trial import SideEffects
from surecall.settings.presets import Strategy
from surecall.simulator.personas.persona import answer_request
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.simulator.server import Simulator
from surecall.testing import calls, says
from surecall.values.types import JSON
from tests.support.scenario_packs import LOOK_UPS, done, played, scripted

# The pack `work`: a good model does all of it, and bad work of each kind is judged as such


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
    "work_extend_loan": 3,
    "work_give_shift": 4,
    "work_end_subscription": 3,
    "work_find_tariff": 4,
    "work_common_knowledge": 1,
    "work_told_already": 1,
    "work_dead_printer": 3,
    "work_missing_booking": 2,
    "work_full_course": 2,
    "work_closed_transfers": 4,
}


def test_the_pack_has_its_kinds_and_is_no_part_of_the_default() -> None:
    assert choose_scenarios("work") == WORK
    assert {one.id for one in choose_scenarios("work_flow,work_no_tool,work_impossible")} == set(
        REQUESTS
    )
    assert not {one.id for one in choose_scenarios("")} & set(REQUESTS)
    assert choose_scenarios("all") == (*SCENARIOS, *WORK)
    kinds = [one.tags[1] for one in WORK]
    assert [kinds.count(f"work_{kind}") for kind in ("flow", "no_tool", "impossible")] == [13, 2, 4]


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


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_clean_model_does_all_of_it_with_no_request_too_many(
    simulator: Simulator, strategy: Strategy
) -> None:
    found = {name: played(simulator, "sim/clean", name, strategy) for name in REQUESTS}

    assert [name for name, one in found.items() if not one.ok] == []
    for name, requests in REQUESTS.items():
        score = found[name].score
        assert len(found[name].requests) == requests, name
        assert (found[name].truth, score.final, found[name].after_no) == ("right", True, 0)
        assert score.effects is not None
        assert (score.effects.wrong, score.effects.repeated) == (0, 0)


def test_a_simulated_model_that_is_bound_keeps_to_the_form_of_every_choice() -> None:
    with Simulator(seed=3) as simulator:
        for name in REQUESTS:
            assert played(simulator, "sim/clean", name, "guided_contract").ok
        asked: list[JSON] = [item for item in simulator.requests if "response_format" in item]

    assert sum('"about ' in json.dumps(request) for request in asked) > 8
    for request in asked:
        said = answer_request(PERSONAS["sim/clean"], request, 3).body["choices"][0]["message"][
            "content"
        ]
        schema = request["response_format"]["json_schema"]["schema"]
        assert jsonschema_rs.is_valid(schema, json.loads(said)), said


@pytest.mark.parametrize("name", ["work_redirect_parcel", "work_dead_printer"])
def test_a_model_that_claims_success_without_the_work_is_told_from_one_that_fails(
    simulator: Simulator, name: str
) -> None:
    unmoved = played(simulator, "sim/unmoved", name, "raw")
    assert (unmoved.category, unmoved.truth) == ("NO_TOOL_CALLS", "open")
    premature = played(simulator, "sim/premature", name, "raw")
    assert (premature.category, premature.truth) == ("ASSERTION_FAILED", "false_success")
    assert unmoved.score.effects == premature.score.effects == SideEffects()


def test_the_requests_that_follow_a_no_are_counted(simulator: Simulator) -> None:
    found = played(simulator, "sim/unwilling", "work_redirect_parcel", "production")
    assert (found.status, found.truth, found.score.effects) == ("failed", "open", SideEffects())
    assert found.after_no == len(found.requests) - 1 > 0


# What needs no tool, and what cannot be done: an answer, and nothing changed


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

    assert (found.ok, found.truth, found.score.effects) == (passes, truth, SideEffects())


def test_another_thing_instead_of_the_impossible_one_is_a_wrong_effect() -> None:
    look = calls("find_bookings", guest="Samuel Okoro", call_id="a")
    cancel = calls("cancel_booking", booking_id="H-55", call_id="b")
    found = scripted("work_missing_booking", look, cancel, says("The booking is cancelled."))
    assert (found.score.effects, found.truth) == (SideEffects(1, 1, 0), "false_success")

    courses = calls("find_courses", topic="first aid", call_id="a")
    enrolled = calls("enrol", course_id="C-7", person="Lena Vogt", call_id="b")
    found = scripted("work_full_course", courses, enrolled, says("Lena is enrolled."))
    assert (found.score.effects, found.truth) == (SideEffects(1, 1, 0), "false_success")


def test_a_question_without_need_of_a_tool_may_not_be_answered_by_doing_something() -> None:
    revoke = ("revoke_key", {"key_id": "K-101"})
    looked = LOOK_UPS["work_told_already"]
    found = done("work_told_already", *looked, revoke, answer="The code is 9020.")
    assert (found.ok, found.score.effects, found.score.final) == (False, SideEffects(1, 1, 0), True)
    mistaken = scripted("work_told_already", says("It is 4417."))
    assert (mistaken.ok, mistaken.score.final, mistaken.truth) == (False, False, "silent")


def test_a_course_that_is_full_takes_nobody() -> None:
    steps: list[Any] = [
        ("find_courses", {"topic": "first aid"}),
        ("enrol", {"course_id": "C-6", "person": "Lena Vogt"}),
    ]
    found = done("work_full_course", *steps, answer="It cannot be done: the course is full.")
    assert (found.truth, found.score.effects, found.draft["enrolled"]) == (
        "right",
        SideEffects(),
        [],
    )
