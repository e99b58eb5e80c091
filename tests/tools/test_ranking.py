"""Tests of `surecall.tools.ranking`."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from surecall.tools.ranking import MAX_QUERY_CHARS, SEARCH_TOOL, ToolIndex, tool_index, words_of
from surecall.values.types import JSON, ToolSpec

_NO_PARAMETERS: JSON = {"type": "object", "properties": {}}


def spec(name: str, description: str = "", parameters: JSON = _NO_PARAMETERS) -> ToolSpec:
    return ToolSpec(name, description, parameters)


TOOLS = (
    spec("mail.send", "Send an email to a person."),
    spec("getUserInvoices", "List what a customer owes."),
    spec("weather-forecast", "Tell how warm it will be."),
    spec("stock_price", "Price of a share."),
)


def first(query: str, tools: tuple[ToolSpec, ...] = TOOLS) -> str:
    return ToolIndex(tools).rank(query, 1)[0]


def test_names_are_split_at_marks_and_at_capitals() -> None:
    assert list(words_of("getUserInvoice_by-id.v2 HTTPServer")) == [
        *("get", "user", "invoic", "by", "id", "v2"),
        *("http", "server"),
    ]


def test_words_in_other_forms_have_the_same_stem() -> None:
    for forms in ("query queries", "class class", "book books booking booked", "create creating"):
        assert len(set(words_of(forms))) == 1


def test_scripts_without_blanks_are_split_into_pairs() -> None:
    assert list(words_of("天気予報")) == ["天気", "気予", "予報"]
    assert list(words_of("天")) == ["天"]
    forecast = spec("w", "天気を取得する")
    assert first("東京の天気", (spec("x", "株価を見る"), forecast)) == "w"


def test_a_tool_is_found_by_its_name_and_by_its_description() -> None:
    assert first("the invoices of this user") == "getUserInvoices"
    assert first("Please send Ann an e-mail") == "mail.send"
    assert first("who owes us") == "getUserInvoices"


def test_a_tool_is_found_by_nested_parameters_and_their_descriptions() -> None:
    inner = {"type": "object", "properties": {"iban": {"description": "Number of the account"}}}
    listed = {"anyOf": [{"type": "array", "items": inner}, {"title": "Beneficiary"}]}
    pay = spec("pay", "", {"type": "object", "properties": {"to": listed, "odd": "not a schema"}})
    for words in ("iban", "number of accounts", "beneficiary", "odd"):
        assert first(words, (*TOOLS, pay)) == "pay"


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    many = tuple(spec(f"get_{at}", "Get it.") for at in range(20))
    assert first("get the parcel", (*many, spec("parcel"))) == "parcel"


def test_equally_relevant_tools_stay_in_order() -> None:
    alike = tuple(spec(f"read{mark}", "Read.") for mark in ("_a", "_b", "_c"))
    assert ToolIndex(alike).rank("read", 2) == ("read_a", "read_b")


def test_a_tool_that_shares_no_word_is_not_found() -> None:
    assert ToolIndex(TOOLS).rank("zebra", 10) == ()
    assert ToolIndex(TOOLS).rank("", 10) == ()
    assert ToolIndex(()).rank("zebra", 10) == ()
    assert ToolIndex((spec("_"),)).rank("zebra", 10) == ()


def test_a_long_query_is_judged_by_its_beginning_and_its_end() -> None:
    filler = "x " * MAX_QUERY_CHARS
    assert first(f"stock {filler}") == "stock_price"
    assert first(f"{filler} stock") == "stock_price"
    assert ToolIndex(TOOLS).rank(f"{filler} stock {filler}", 1) == ()


def test_a_long_description_is_judged_by_its_beginning() -> None:
    filler = "x " * 4_000
    assert first("needle", (*TOOLS, spec("long", f"needle {filler}"))) == "long"
    assert ToolIndex((spec("long", f"{filler} needle"),)).rank("needle", 1) == ()


def test_the_search_has_a_name_that_no_tool_has_in_any_spelling() -> None:
    assert ToolIndex(TOOLS).search_spec.name == SEARCH_TOOL
    taken = ToolIndex((spec("Search-Tools"), spec("search_tools_2")))
    assert taken.search_spec.name == "search_tools_3"
    assert taken.is_search("functions.search_tools_3")
    assert not taken.is_search("search_tools")


def test_the_search_is_recognized_in_any_spelling() -> None:
    index = ToolIndex(TOOLS)
    for asked in ("search_tools", " functions.Search-Tools", "search_tools<|channel|>json"):
        assert index.is_search(asked)
    assert not index.is_search("search_tool")


def test_the_same_list_has_the_same_index_and_the_same_selection() -> None:
    assert tool_index(TOOLS) is tool_index(TOOLS)
    assert tool_index((*TOOLS, TOOLS[0])[:-1]) is tool_index(TOOLS)
    assert tool_index(TOOLS[:-1]) is not tool_index(TOOLS)
    equal = tuple(spec(each.name, each.description) for each in TOOLS)
    assert tool_index(equal) is not tool_index(TOOLS)
    index = tool_index(TOOLS)
    chosen = index.select(("stock_price", "mail.send"))
    assert index.select(("stock_price", "mail.send")) is chosen
    assert [each.name for each in chosen] == [SEARCH_TOOL, "stock_price", "mail.send"]


def test_the_caches_of_an_index_are_bounded() -> None:
    index = ToolIndex(TOOLS)
    for at in range(1_100):
        index.rank(f"stock {at}", 1)
        index.select((TOOLS[at % 4].name,) * (1 + at // 4))
    assert len(index._ranked) < 1_100
    assert index.rank("stock 0", 1) == ("stock_price",)
    assert index.select(("stock_price",))[1].name == "stock_price"


def test_deep_schemas_are_read_without_recursion() -> None:
    deep: Any = {"description": "needle"}
    for _ in range(50_000):
        deep = [deep]
    assert first("needle", (*TOOLS, spec("deep", "", {"anyOf": deep}))) == "deep"


@given(st.text(), st.lists(st.tuples(st.text(max_size=12), st.text()), max_size=6))
def test_no_text_breaks_the_ranking(query: str, about: list[tuple[str, str]]) -> None:
    tools = tuple(spec(name, text) for name, text in about)
    found = ToolIndex(tools).rank(query, 3)
    assert found == ToolIndex(tools).rank(query, 3)
    assert len(found) <= 3
    assert set(found) <= {name for name, _ in about}
