"""Details of reasoning: texts grow, everything else stays as it came, and both are paid for."""

from surecall.parsing.budget import Budget
from surecall.parsing.reasoning_details import Details
from surecall.values.types import JSON


def read(*raw: object, budget: Budget | None = None) -> tuple[str, list[JSON]]:
    details = Details(budget or Budget())
    added = "".join(details.add(each) for each in raw)
    return added, details.render()


def test_a_text_grows_until_it_is_signed_and_then_another_begins() -> None:
    first = {"type": "reasoning.text", "index": 0}
    added, details = read(
        first | {"text": "a"},
        first | {"text": "b"},
        first | {"signature": "s"},
        first | {"text": "c"},
        "no detail",
    )

    assert added == "abc"
    assert details == [first | {"text": "ab", "signature": "s"}, first | {"text": "c"}]


def test_what_differs_from_before_is_spent_and_what_repeats_it_is_not() -> None:
    once, often = Budget(max_bytes=60), Budget(max_bytes=60)
    read(*[{"type": "t", "format": "x" * 20}] * 100, budget=once)
    read(*[{"type": "t", f"key {number}": "x"} for number in range(100)], budget=often)

    assert (once.spent, often.spent) == (False, True)
