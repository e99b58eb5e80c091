"""Reading arguments: what holds for every object, every text and every size."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from surecall.parsing.arguments import ParsedArguments, parse_arguments
from tests.support.timing import LINEAR, growth

LIMIT = 200_000
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)


def trees(text: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    return st.recursive(
        SCALARS | text, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=12
    )


def objects(text: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(text, trees(text), max_size=5)


OBJECTS = objects(st.text())
# Without a backslash or a quote, every escape in the rendered text is one of a control character.
LINES = objects(st.text(alphabet="ab é`\n\t\r"))
# Python spells these without an escape that JSON does not know.
PRINTABLE = objects(st.text(alphabet="ab é'\"`\\\n\t"))
# Half-right JSON comes out of this far more often than out of any text.
ALMOST_JSON = st.lists(
    st.sampled_from(
        [
            *"{}[]:,\"'\\`1-nux \n\ud800",
            "```",
            "null",
            "True",
            "NaN",
            '"a"',
            '"a":',
            "\\u",
            "\\ud800",
        ]
    )
).map("".join)
BROKEN_TREES = st.recursive(
    SCALARS
    | st.floats()
    | st.text(st.characters(categories=["L", "Cs"]))
    | st.binary()
    | st.integers(4_000, 5_000).map(lambda digits: 10**digits),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.dictionaries(st.text(st.characters(categories=["L", "Cs"])) | st.integers(), inner)
    ),
)


def assert_reads(raw: object, expected: object, *allowed: str) -> None:
    arguments = parse_arguments(raw, LIMIT)
    assert arguments.problem is None
    # Compared as text, because 1, 1.0 and True are equal in Python and different in JSON.
    assert json.dumps(arguments.value) == json.dumps(expected)
    assert set(arguments.repairs) <= set(allowed)


def assert_is_a_verdict(arguments: ParsedArguments) -> None:
    assert (arguments.value is None) == (arguments.problem is not None)
    assert arguments.problem is None or arguments.repairs == ()
    # Whatever was accepted can be sent on.
    json.dumps(arguments.value, allow_nan=False, ensure_ascii=False).encode()


def with_trailing_commas(tree: object) -> str:
    match tree:
        case dict() if tree:
            members = (f"{json.dumps(k)}: {with_trailing_commas(v)}," for k, v in tree.items())
            return "{" + " ".join(members) + "}"
        case list() if tree:
            return "[" + "".join(f"{with_trailing_commas(item)}, " for item in tree) + "]"
        case _:
            return json.dumps(tree)


@given(OBJECTS, st.sampled_from([None, 2, "\t"]))
def test_every_object_comes_back_unchanged(
    tree: dict[str, object], indent: int | str | None
) -> None:
    assert_reads(json.dumps(tree, indent=indent), tree)
    assert_reads(json.dumps(tree, indent=indent, ensure_ascii=False), tree)
    assert_reads(tree, tree)


@given(st.text() | ALMOST_JSON | st.text(st.characters()))
@example("\ud800")
@example("\\")
def test_no_text_makes_the_reader_raise(text: str) -> None:
    for raw in (text, "{" + text, '{"a": ' + text + "}", f"```{text}```", json.dumps(text)):
        assert_is_a_verdict(parse_arguments(raw, LIMIT))


@given(BROKEN_TREES)
def test_no_value_makes_the_reader_raise(tree: object) -> None:
    assert_is_a_verdict(parse_arguments(tree, LIMIT))
    assert_is_a_verdict(parse_arguments({"a": tree}, LIMIT))


@given(OBJECTS, st.sampled_from(["```json\n{}\n```", "```JSON {}```", " ```\n{}```\n", "```{}```"]))
def test_a_fence_around_an_object_changes_nothing(tree: dict[str, object], fence: str) -> None:
    assert_reads(fence.replace("{}", json.dumps(tree)), tree, "code_fence")


@given(OBJECTS)
def test_one_extra_encoding_changes_nothing(tree: dict[str, object]) -> None:
    assert_reads(json.dumps(json.dumps(tree)), tree, "double_encoded")


@given(OBJECTS)
def test_trailing_commas_change_nothing(tree: dict[str, object]) -> None:
    assert_reads(with_trailing_commas(tree), tree, "trailing_commas")
    assert_reads(f"```\n{with_trailing_commas(tree)}\n```", tree, "code_fence", "trailing_commas")


@given(LINES)
def test_raw_control_characters_change_nothing(tree: dict[str, object]) -> None:
    text = json.dumps(tree)
    for escape, character in (("\\n", "\n"), ("\\t", "\t"), ("\\r", "\r")):
        text = text.replace(escape, character)

    assert_reads(text, tree, "control_characters")


@given(PRINTABLE)
def test_an_object_spelt_by_python_reads_like_one_spelt_in_json(tree: dict[str, object]) -> None:
    assert_reads(repr(tree), tree, "python_literals")


@given(OBJECTS, st.integers(2, 4), st.sampled_from(["", "\n", " ", "\\n"]))
def test_copies_of_one_object_are_one_object(
    tree: dict[str, object], copies: int, between: str
) -> None:
    text = between.join([json.dumps(tree)] * copies)

    assert_reads(text, tree, "repeated_object", "escaped_whitespace")


@given(OBJECTS, OBJECTS)
def test_different_objects_in_one_call_are_refused(
    one: dict[str, object], other: dict[str, object]
) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

    arguments = parse_arguments(json.dumps(one) + json.dumps(other), LIMIT)
    assert (arguments.problem is None) == same


@given(OBJECTS, st.data())
def test_an_object_that_was_cut_anywhere_is_never_usable(
    tree: dict[str, object], data: st.DataObject
) -> None:
    for text in (json.dumps(tree), with_trailing_commas(tree), json.dumps(json.dumps(tree))):
        cut = data.draw(st.integers(1, len(text) - 1))
        problem = parse_arguments(text[:cut], LIMIT).problem
        assert problem is not None
        assert problem.data == {"reason": "cut_off"}


@pytest.mark.parametrize("start", ["", '{"a":[', '{"a":"'])
@pytest.mark.parametrize("unit", ["[", '{"a":', '"', "\\", ",", "`", "'", '\\"', "9", " "])
def test_noise_is_judged_in_steps_in_proportion_to_it(start: str, unit: str) -> None:
    assert growth_of(start, unit) < LINEAR
    parse_arguments(start + unit * (1_000_000 // len(unit)), 2_000_000)


@pytest.mark.parametrize("start", ["", '{"a":[', "{"])
@pytest.mark.parametrize("unit", ["{}", "1,", '"a":1,', "True,", "\\n", "'a',"])
def test_tokens_are_judged_in_steps_in_proportion_to_them(start: str, unit: str) -> None:
    assert growth_of(start, unit) < LINEAR


def growth_of(start: str, unit: str) -> float:
    return growth(lambda size: parse_arguments(start + unit * (size // len(unit)), LIMIT), 10_000)
