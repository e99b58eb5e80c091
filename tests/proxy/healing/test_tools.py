"""The tools of a request: judged where they can be, sent as they are, named as all take them."""

from surecall.proxy.healing.tools import Offer, name_of, offer_of
from tests.support.proxy import WEATHER, tool

ODD = tool("odd", parameters={"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}})


def test_a_function_is_judged_by_its_schema() -> None:
    offer = offer_of([WEATHER])
    found = offer.toolbox.resolve("get-weather")

    assert found is not None
    assert found.validate({}) != ()
    assert [spec.name for spec in offer.specs] == ["get_weather"]
    assert offer.sent == [WEATHER]


def test_what_cannot_be_judged_is_sent_and_takes_anything() -> None:
    search = {"type": "web_search"}
    offer = Offer([ODD, search, tool("free", description=None, parameters=None)])

    assert offer.sent[1] is search
    assert [spec.name for spec in offer.specs] == ["odd", "free"]
    for spec in offer.specs:
        found = offer.toolbox.resolve(spec.name)
        assert found is not None
        assert found.validate({"anything": [1]}) == ()


def test_names_that_many_refuse_are_sent_in_plain_letters() -> None:
    offer = Offer([tool("a.b"), tool("a_b"), tool("a.b"), WEATHER])

    assert offer.renamed == {"a.b": "a_b_2"}
    assert offer.given == {"a_b_2": "a.b"}
    assert [name_of(each) for each in offer.sent] == ["a_b_2", "a_b", "a_b_2", "get_weather"]


def test_names_that_are_too_much_alike_are_taken_exactly() -> None:
    offer = Offer([tool("a_b"), tool("a-b")])

    for name in ("a_b", "a-b"):
        found = offer.toolbox.resolve(name)
        assert found is not None
        assert found.name == name
    assert offer.toolbox.resolve("A_B") is None
    assert len(offer.specs) == 2


def test_the_same_list_is_prepared_once_unless_it_is_huge() -> None:
    assert offer_of([WEATHER]) is offer_of([WEATHER])
    huge = [tool("large", description="x" * 600_000)]
    assert offer_of(huge) is not offer_of(huge)
