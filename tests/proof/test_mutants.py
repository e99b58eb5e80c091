"""Mistakes are found in a source, one for each place, and made one at a time."""

import ast

import pytest

from proof.mutants import mutants, mutated


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("a < b", ["a <= b"]),
        ("a is not b", ["a is b"]),
        ("a in b < c", ["a not in b < c"]),
        ("a and b", ["a or b"]),
        ("a - 1", ["a + 1", "a - 2"]),
        ("x = True", ["x = False"]),
        ("LIMIT = 32 * 1024", []),
        ("def f(x=3, y=True): ...", ["def f(x=3, y=False):\n    ..."]),
        ("x = 'text'", []),
        ("if a:\n    b()", ["if not a:\n    b()", "if a:\n    pass"]),
        ("def f() -> int:\n    return g", ["def f() -> int:\n    return None"]),
        ("def f():\n    return None", []),
        ("def f():\n    return False", ["def f():\n    return True"]),
        ("raise X", ["pass"]),
        ("x += y", ["pass"]),
        ("while a:\n    break", ["while not a:\n    break", "while a:\n    continue"]),
        ("class A(B, frozen=True):\n    x: list[1]", []),
        ("if TYPE_CHECKING:\n    x = 1", []),
        ("@overload\ndef f(x=1): ...", []),
    ],
)
def test_each_place_has_its_mistake(source: str, made: list[str]) -> None:
    count = len(mutants(ast.parse(source)))
    assert [ast.unparse(mutated(source, number)) for number in range(count)] == made


def test_a_mutant_says_where_and_what_it_is() -> None:
    (mutant,) = mutants(ast.parse("a\nb == c"))
    assert (mutant.line, mutant.text) == (2, "Eq to NotEq")
