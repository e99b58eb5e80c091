"""What tells the values of a grounded parameter apart."""

from typing import Any

import pytest

from surecall import Contract, ToolLoopRunner, replay, tool
from surecall.core.bound_forms import MOST_FORMS
from surecall.core.described_choices import described, told
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel
from surecall.values.events import LlmRequestStartEvent
from surecall.values.types import JSON
from tests.laws.test_early_answers import body
from tests.support.shops import forms

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
    words = described("parcel_id", ["P-1", "P-2"], PARCELS, [asked])
    assert words["P-1"].startswith(first)
    assert words["P-2"].startswith(second)
    assert all(text.endswith(f", {value}") for value, text in words.items())


def test_what_differs_at_once_comes_before_what_begins_alike() -> None:
    asked = ["Lea Brunner from Legal may read it."]
    assert described("person_id", ["U-1", "U-2"], PEOPLE, asked) == {
        "U-1": "team 'Sales', name 'Leo Brunner', U-1",
        "U-2": "team 'Legal', name 'Lea Brunner', U-2",
    }


def test_a_value_is_found_under_another_name_too() -> None:
    rows = [{"title": "Plan", "author_id": "U-1"}, {"title": "View", "author_id": "U-2"}]
    words = described("person_id", ["U-1", "U-2"], rows, [])
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
    assert described("parcel_id", values, rows, ["Send it."]) == {}


def test_words_are_bounded_however_long_the_results_are() -> None:
    rows = [{"id": each, "k" * 900: each * 900} for each in "ab"]
    assert all(len(text) < 100 for text in described("id", ["a", "b"], rows, []).values())
    wide = [{"id": each} | {f"key{at}": each + "x" * 900 for at in range(500)} for each in "ab"]
    assert all(len(text) < 300 for text in described("id", ["a", "b"], wide, []).values())
    many = {f"key{number}": "x" * 900 for number in range(50)} | {"id": "a"}
    assert len(told("id", "a", [many])) < 300
    assert told("id", ["a"], [many]) == ""


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
    assert len(found) == 20 <= MOST_FORMS
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
