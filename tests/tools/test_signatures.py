"""What a function says of itself: its signature, its docstring, its type hints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.tools.signatures import parameter_texts, summary
from surecall.values.types import JSON

GOOGLE = """Find it.
Args:
    a: The city,
        spelled out.
    b (Literal["a:b"], optional): What: exactly.

    *c: The rest.
    silent:
    no colon here
Returns:
    nothing: at all."""
NUMPY = """Find it.

Parameters
----------
a : str
    The city,
    spelled out.
b, c : int
    Both.
silent

Returns
-------
nothing : None
    At all."""
SPHINX = "Find it.\n:param a: The city,\n  spelled out.\n:arg int b: B.\n:returns: c\n:param d"


@pytest.mark.parametrize(
    ("doc", "first", "texts"),
    [
        (GOOGLE, "Find it.", {"b": "What: exactly.", "c": "The rest."}),
        (NUMPY, "Find it.", {"b": "Both.", "c": "Both."}),
        (NUMPY[:80], "Find it.", {}),
        (SPHINX, "Find it.", {"b": "B."}),
    ],
)
def test_parameters_are_read_from_every_usual_layout(doc: str, first: str, texts: JSON) -> None:
    assert parameter_texts(doc) == {"a": "The city, spelled out.", **texts}
    assert summary(doc) == first


@pytest.mark.parametrize("doc", ["", "Args:\n  x: A.", "Parameters\n---\nx", ":param x: A."])
def test_a_docstring_that_opens_with_its_parameters_has_no_summary(doc: str) -> None:
    assert summary(doc) == ""


@given(st.text(alphabet=" \n:-*()aArgs", max_size=60))
def test_no_docstring_makes_the_reader_raise(doc: str) -> None:
    assert "\n" not in summary(doc)
    assert all(parameter_texts("Args:\n " + doc).values())
