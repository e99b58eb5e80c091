"""Tests of `surecall.core.guided.call_forms`."""

from typing import Any

import pytest

from surecall import (
    Contract,
    From,
    Need,
    ToolError,
    ToolLoopRunner,
    replay,
    tool,
)
from surecall.core.guided.call_forms import MAX_FORMS, distinguish_values
from surecall.core.guided.call_forms import describe_value as described_choices_told
from surecall.settings.config import ToolFailurePolicy
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel
from surecall.values.events import LlmRequestStartEvent
from surecall.values.types import JSON
from tests.support.prompted_runs import FIND, NEED, Plain, Shop, body, forms, ran, told

# What a guided reply may hold: values that were seen, and what the contract names


PAID = {"bill_id": "find_bills", "account_id": "find_accounts", "amount": "find_bills"}


def test_a_tool_that_waits_for_a_value_is_not_on_offer() -> None:
    _, requests = ran(Shop(), "guided", FIND)

    first, second = map(forms, requests[:2])
    assert first.keys() == {"find_order", "pay"}, "no id was named, but an amount is only checked"
    assert second["refund"] == [
        {
            "order_id": {"const": "O-7731"},
            "about item_id": {"const": f"{name}, {item}"},
            "item_id": {"const": item},
        }
        for item, name in (("i-1", "name 'lamp'"), ("i-2", "name 'desk'"))
    ]
    assert second["track"] == [{"order_id": {"const": "O-7731"}}]


def test_linked_values_are_chosen_together_the_first_one_first() -> None:
    rows = [
        {"order_id": order, "items": [{"item_id": f"{order}-{item}"} for item in "ab"]}
        for order in ("O-1", "O-2")
    ]
    _, requests = ran(Shop(rows), "guided", FIND)
    assert forms(requests[1])["refund"] == [
        {"order_id": {"const": "O-1"}, "item_id": {"enum": ["O-1-a", "O-1-b"]}},
        {"order_id": {"const": "O-2"}, "item_id": {"enum": ["O-2-a", "O-2-b"]}},
    ]


def test_values_that_stand_together_are_linked_beside_others_that_do_not() -> None:
    @tool(read_only=True)
    def find_bills() -> list[JSON]:
        """Find bills."""
        return [{"bill_id": f"B-{number}", "amount": number} for number in (1, 2)]

    @tool(read_only=True)
    def find_accounts() -> list[JSON]:
        """Find accounts."""
        return [{"account_id": "A-1"}, {"account_id": "A-2"}]

    @tool(grounded={"bill": "find_bills"} | PAID)
    def pay(bill: str, bill_id: str, account_id: str, amount: int) -> str:
        """Pay."""
        return f"{bill} {bill_id} {account_id} {amount}"

    steps: list[Any] = [("find_bills", {}), ("find_accounts", {})]
    mixed = {"bill": "B-1", "bill_id": "B-1", "account_id": "A-1", "amount": 2}
    model = ScriptedModel(*(body("guided", each) for each in (*steps, ("pay", mixed), "Done.")))
    config = raw(call_protocol="guided")
    tools = [find_bills, find_accounts, pay]
    result = ToolLoopRunner(client=model, model="m", tools=tools, config=config).run_sync("Pay.")

    both = [(form["bill_id"], form["amount"]) for form in forms(model.requests[2])["pay"]]
    assert both == [({"const": f"B-{number}"}, {"const": number}) for number in (1, 2)]
    enums = {str(form["account_id"]) for form in forms(model.requests[2])["pay"]}
    assert enums == {"{'enum': ['A-1', 'A-2']}"}
    assert told(result) == (
        "bill_id and amount do not belong together. These do: "
        "bill_id B-1, amount 1; bill_id B-2, amount 2."
    )


def test_what_was_written_or_refused_stays_so_that_nobody_must_write_another() -> None:
    @tool(read_only=True)
    def find_doors() -> list[JSON]:
        """Find doors."""
        return [{"door_id": "D-1"}, {"door_id": "D-2"}]

    @tool(grounded={"door_id": "find_doors"})
    def lock(door_id: str) -> str:
        """Lock a door."""
        if door_id == "D-2":
            raise ToolError("It has no lock.")
        return f"{door_id} is locked"

    @tool
    def ring() -> str:
        """Ring."""
        return "rung"

    doors: list[Any] = [("lock", {"door_id": door}) for door in ("D-1", "D-2")]
    done = [("find_doors", {}), *doors, ("ring", {})]
    model = ScriptedModel(*(body("guided", each) for each in (*done, "Done.")))
    tolerated = ToolFailurePolicy.TOLERATED
    config = raw(call_protocol="guided", tool_failure_policy=tolerated)
    tools = [find_doors, lock, ring]
    ToolLoopRunner(client=model, model="m", tools=tools, config=config).run_sync("Lock them.")

    offered = [forms(request).get("lock") for request in model.requests]
    assert offered[1] == [{"door_id": {"enum": ["D-1", "D-2"]}}]
    assert offered[1] == offered[2] == offered[3] == offered[4]


def test_where_the_contract_wants_one_more_it_must_be_another_one() -> None:
    @tool(read_only=True)
    def find_doors() -> list[JSON]:
        """Find doors."""
        return [{"door_id": f"D-{number}"} for number in range(3)]

    @tool(grounded={"door_id": "find_doors"})
    def lock(door_id: str) -> str:
        """Lock a door."""
        return f"{door_id} is locked"

    steps: list[Any] = [("find_doors", {}), *(("lock", {"door_id": f"D-{at}"}) for at in (1, 0))]
    model = ScriptedModel(*(body("guided", each) for each in (*steps, "Done.")))
    contract = Contract(in_order=["lock", "lock"], then_finalise=False)
    config = raw(call_protocol="guided", contract=contract)
    tools = [find_doors, lock]
    ToolLoopRunner(client=model, model="m", tools=tools, config=config).run_sync("Lock two.")

    left = [forms(request)["lock"][0]["door_id"] for request in model.requests[1:]]
    assert left == [
        {"enum": enum} for enum in (["D-0", "D-1", "D-2"], ["D-0", "D-2"], ["D-0", "D-1", "D-2"])
    ]


def test_an_optional_value_that_nobody_has_named_is_left_out() -> None:
    @tool(read_only=True)
    def find_tags() -> list[JSON]:
        """Find tags."""
        return [{"tag_id": "T-1"}, {"tag_id": "T-2"}]

    @tool(read_only=True, grounded={"tag_id": "find_tags", "other_id": "find_tags"})
    def compare(tag_id: str = "", other_id: str = "") -> str:
        """Compare tags."""
        return tag_id + other_id

    steps: list[Any] = [("find_tags", {}), ("compare", {"tag_id": "T-1"})]
    model = ScriptedModel(*(body("guided", each) for each in (*steps, "Done.")))
    config = raw(call_protocol="guided")
    tools = [find_tags, compare]
    ToolLoopRunner(client=model, model="m", tools=tools, config=config).run_sync("Compare.")

    before, after, again = (forms(request)["compare"] for request in model.requests)
    assert before == [{}]
    assert after == again == [{name: {"enum": ["T-1", "T-2"]} for name in ("tag_id", "other_id")}]


def test_a_value_that_failed_or_was_looked_up_leaves_the_enum_until_something_changes() -> None:
    track = [("track", {"order_id": value}) for value in ("O-9", "O-1")]
    done = [*track, ("pay", {"amount": 1})]
    _, requests = ran(Shop(), "guided", *done, text="Track O-9, O-1 and O-2, then pay 1.")

    offered = [forms(request).get("track") for request in requests]
    assert offered[0] == [{"order_id": {"enum": ["O-9", "O-1", "O-2", "1"]}}]
    assert offered[1] == [{"order_id": {"enum": ["O-1", "O-2", "1"]}}]
    assert offered[2] == [{"order_id": {"enum": ["P-55", "O-2", "1"]}}]
    assert "O-1" in offered[3][0]["order_id"]["enum"]  # type: ignore[index]


def test_results_that_were_cut_and_lists_that_are_too_long_are_only_checked() -> None:
    plain = [{"order_id": {"type": "string"}, "item_id": {"type": "string"}}]
    _, requests = ran(Shop({"order_id": "x" * 900}), "guided", FIND, max_tool_output_bytes=400)
    assert forms(requests[1])["refund"] == plain

    many = [{"order_id": f"O-{number}", "item_id": "i-1"} for number in range(201)]
    _, requests = ran(Shop(many), "guided", FIND)
    assert forms(requests[1])["refund"][0]["order_id"] == {"type": "string"}


def test_in_a_guided_reply_it_is_an_enum_and_what_a_need_names_a_constant() -> None:
    need = Need("refund", {"item_id": From("find_order", "items[*].item_id"), "reason": "broken"})
    _, requests = ran(Plain(), "guided", FIND, contract=Contract(all_of=[need]))

    assert forms(requests[0]).keys() == {"find_order"}
    assert forms(requests[1])["refund"] == [
        {
            "about item_id": {"const": f"{name}, {item}"},
            "item_id": {"const": item},
            "reason": {"const": "broken"},
        }
        for item, name in (("i-1", "name 'lamp'"), ("i-2", "name 'desk'"))
    ]


def test_what_a_path_leads_to_is_offered_only_if_it_fits() -> None:
    found = {"items": [{"item_id": True}, {"item_id": "i-1"}, {"item_id": {"deep": 1}}]}
    _, requests = ran(Plain(found), "guided", FIND, contract=Contract(all_of=[NEED]))
    assert forms(requests[1])["refund"][0]["item_id"] == {"const": "i-1"}


# What tells the values of a grounded parameter apart


PARCELS: list[JSON] = [
    {"parcel_id": "P-1", "to": "Irene", "contents": "books", "status": "delivered"},
    {"parcel_id": "P-2", "to": "Irene", "contents": "a lamp", "status": "in transit"},
]
PEOPLE: list[JSON] = [
    {"person_id": "U-1", "name": "Leo Brunner", "team": "Sales"},
    {"person_id": "U-2", "name": "Lea Brunner", "team": "Legal"},
]


@pytest.mark.parametrize(
    ("asked", "first", "second"),
    [
        ("Send it on.", "contents 'books', status 'delivered', P-1", "contents 'a lamp', "),
        ("Send on what is in transit.", "status 'delivered', P-1", "status 'in transit', P-2"),
        ("Send on what is IN TRANSIT.", "status 'delivered', P-1", "status 'in transit', P-2"),
        ("What of the intransitive?", "contents 'books', ", "contents 'a lamp', "),
    ],
)
def test_it_is_what_differs_and_what_the_user_has_named_if_that_does(
    asked: str, first: str, second: str
) -> None:
    words = distinguish_values("parcel_id", ["P-1", "P-2"], PARCELS, [asked])
    assert words["P-1"].startswith(first)
    assert words["P-2"].startswith(second)
    assert all(text.endswith(f", {value}") for value, text in words.items())


def test_what_differs_at_once_comes_before_what_begins_alike() -> None:
    asked = ["Lea Brunner from Legal may read it."]
    assert distinguish_values("person_id", ["U-1", "U-2"], PEOPLE, asked) == {
        "U-1": "team 'Sales', name 'Leo Brunner', U-1",
        "U-2": "team 'Legal', name 'Lea Brunner', U-2",
    }


def test_a_value_is_found_under_another_name_too() -> None:
    rows = [{"title": "Plan", "author_id": "U-1"}, {"title": "View", "author_id": "U-2"}]
    words = distinguish_values("person_id", ["U-1", "U-2"], rows, [])
    assert words == {"U-1": "title 'Plan', U-1", "U-2": "title 'View', U-2"}


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        (["P-1"], PARCELS),
        ([], PARCELS),
        (["P-8", "P-9"], PARCELS),
        (["1", "2"], [{"id": "1", "kind": "same"}, {"id": "2", "kind": "same"}]),
    ],
)
def test_where_nothing_tells_them_apart_nothing_is_said(values: list[Any], rows: Any) -> None:
    assert distinguish_values("parcel_id", values, rows, ["Send it."]) == {}


def test_words_are_bounded_however_long_the_results_are() -> None:
    rows = [{"id": each, "k" * 900: each * 900} for each in "ab"]
    assert all(len(text) < 100 for text in distinguish_values("id", ["a", "b"], rows, []).values())
    wide = [{"id": each} | {f"key{at}": each + "x" * 900 for at in range(500)} for each in "ab"]
    assert all(len(text) < 300 for text in distinguish_values("id", ["a", "b"], wide, []).values())
    many = {f"key{number}": "x" * 900 for number in range(50)} | {"id": "a"}
    assert len(described_choices_told("id", "a", [many])) < 300
    assert described_choices_told("id", ["a"], [many]) == ""


def run_of(rows: Any, text: str, **settings: Any) -> tuple[list[JSON], list[str]]:
    @tool(read_only=True)
    def find() -> Any:
        """Find things."""
        return rows

    @tool(grounded={"one_id": "find", "two_id": "find"})
    def join(one_id: str, two_id: str, note: str = "") -> str:
        """Join two things."""
        return one_id + two_id + note

    model = ScriptedModel(body("guided", ("find", {})), body("guided", "Done."))
    config = raw(call_protocol="guided", **settings)
    result = ToolLoopRunner(client=model, model="m", tools=[find, join], config=config).run_sync(
        text
    )
    said = [event.reminder for event in result.trace if isinstance(event, LlmRequestStartEvent)]
    return forms(model.requests[1])["join"], said


def things(count: int) -> list[JSON]:
    return [{"thing_id": f"T-{number}", "name": f"{number} n"} for number in range(count)]


def test_a_value_and_what_is_said_about_it_cannot_be_mixed() -> None:
    found, said = run_of(things(3), "Join two.")
    assert len(found) == 9
    for form in found:
        for name in ("one_id", "two_id"):
            assert form[f"about {name}"]["const"].endswith(form[name]["const"])
    assert said == ["", 'The request was: "Join two."']


def test_too_many_mixtures_are_only_bound_apart_as_far_as_they_go() -> None:
    found, _ = run_of(things(20), "Join two.")
    assert len(found) == 20 <= MAX_FORMS
    assert all("const" in form["one_id"] and len(form["two_id"]["enum"]) == 20 for form in found)


@pytest.mark.parametrize(("given", "sent"), [(None, 0.7), (0.0, 0.0)])
def test_a_choice_is_no_matter_of_chance_if_the_config_says_so(given: Any, sent: float) -> None:
    @tool(read_only=True)
    def find() -> Any:
        """Find things."""
        return things(2)

    @tool(grounded={"thing_id": "find"})
    def take(thing_id: str) -> str:
        """Take a thing."""
        return thing_id

    steps = [("find", {}), ("take", {"thing_id": "T-1"})]
    model = ScriptedModel(*(body("guided", each) for each in (*steps, "Done.")))
    config = raw(
        call_protocol="guided", choice_temperature=given, contract=Contract(all_of=["take"])
    )
    runner = ToolLoopRunner(
        client=model,
        model="m",
        tools=[find, take],
        config=config,
        llm_options_defaults={"temperature": 0.7},
    )
    result = runner.run_sync("Take one.")

    assert [request["temperature"] for request in model.requests] == [0.7, sent, 0.7]
    assert replay(result.trace).run == result.run
