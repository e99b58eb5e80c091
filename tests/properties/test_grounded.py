"""A grounded value is always one that was seen, whatever the model makes up, in any protocol."""

import json
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from surecall import ToolRegistry
from surecall.core.guided.grounding import grounding_problem
from surecall.core.reply_parsing import resolve_call
from surecall.core.state import Run
from surecall.settings.presets import raw
from surecall.testing import says
from surecall.tools.registry import ToolDefinition
from surecall.values.types import Assistant, Message, ToolCall, ToolResult, ToolSpec, User
from tests.support.generated import Broken, check, dice, many
from tests.support.prompted_runs import FIND, ORDER, PROTOCOLS, Shop, ran, refund
from tests.support.replies import WEAK, reply_to, runnable

IDS = st.sampled_from(["O-7731", "O-77", "7731", "12345", "i-1", "i-2", "i-22", "lamp", "Ada", ""])
CALLS = st.one_of(
    st.just(FIND),
    st.builds(refund, IDS, IDS),
    st.builds(lambda one: ("track", {"order_id": one}), IDS),
    st.builds(lambda one: ("pay", {"amount": one}), st.sampled_from([20, 62.5, 7731, 2, 5])),
    st.just("Hm."),
)
TEXTS = st.sampled_from(["Refund Ada's lamp.", "Track O-77, then pay 5.", "Go."])


@given(st.lists(CALLS, max_size=7), TEXTS, st.sampled_from(PROTOCOLS))
def test_a_grounded_value_is_always_one_that_was_seen(
    decisions: list[Any], text: str, protocol: Any
) -> None:
    shop = Shop()
    result, _ = ran(shop, protocol, *decisions, text=text)

    shown = text
    for call, answer in result.run.answered_calls:
        if answer.executed and call.name in {"refund", "track", "pay"}:
            assert all(str(value) in shown for value in call.arguments.values())
            assert call.grounds.keys() == call.arguments.keys()
        shown += answer.content if answer.executed else ""
    known = json.dumps(ORDER)
    assert all(order in known and item in known for order, item in shop.refunded)


@given(st.lists(CALLS, max_size=4), st.sampled_from(PROTOCOLS))
def test_no_grounds_no_difference(decisions: list[Any], protocol: Any) -> None:
    _, requests = ran(Shop(), protocol, *decisions)
    if protocol == "native":
        offers = {json.dumps(request["tools"]) for request in requests}
        assert len(offers) == 1, "what is sent does not change with what was seen"


# Numbers: what was written, and whether a value is that number, exactly.

POST = ToolSpec("delete", "", {"type": "object", "properties": {"post": {}}}, grounded={"post": ()})
LOOK = ToolSpec("look", "", {"type": "object", "properties": {"query": {}}}, read_only=True)
PLACES = ("user", "text of a result", "value of a result")


class Written(NamedTuple):
    """A number as somebody wrote it, and what it says; None if that is ambiguous."""

    text: str
    number: Decimal | None


def written(rng: random.Random) -> Written:
    """Write a number in a way that people do, with few or many digits."""
    whole = str(rng.randrange(1, 10 ** rng.choice([1, 2, 3, 4, 6, 9, 16, 17, 19, 30])))
    part = "".join(rng.choices("0123456789", k=rng.choice([1, 2, 3, 4])))
    comma, point = rng.sample(",.", 2)
    groups = f"{int(whole):,}"
    match rng.randrange(6):
        case 0 | 1:
            return Written(whole, Decimal(whole))
        case 2:
            is_ambiguous = len(part) == 3 and len(whole) <= 3
            exact = None if is_ambiguous else Decimal(f"{whole}.{part}")
            return Written(f"{whole}.{part}", exact)
        case 3:
            return Written(f"{whole},{part}", None)
        case 4:
            mark = rng.choice([comma, "\xa0", "\u202f", "'", "_"])
            return Written(groups.replace(",", mark), None if "," in groups else Decimal(whole))
        case _:
            text = f"{groups.replace(',', comma)}{point}{part}"
            if "," not in groups:
                is_plain = point == "." and len(part) != 3
                return Written(text, Decimal(f"{whole}.{part}") if is_plain else None)
            return Written(text, Decimal(f"{whole}.{part}"))


def guesses(rng: random.Random, said: Written) -> Iterator[int | float]:
    """Return what a model may make of a number, most of it wrong."""
    digits = "".join(char for char in said.text if char.isdecimal())
    whole = int(digits)
    yield from (whole, whole + rng.choice([1, -1]), int(float(whole)), float(whole))
    yield from (int(part) for part in said.text.replace(".", ",").split(",") if part.isdecimal())
    if said.number is not None:
        yield int(said.number)
        yield float(said.number)


def is_meant(said: Written, value: Any) -> bool:
    """Whether a value is the number that was written; a large float never is."""
    if said.number is None or (isinstance(value, float) and abs(value) >= 2**53):
        return False
    return float(said.number) == value if isinstance(value, float) else said.number == value


def shown(place: str, said: Written) -> tuple[Message, ...]:
    """Show a number to the model: in the user's words, or in what a tool returns."""
    if place == "user":
        return (User(f"Delete post {said.text}, please."),)
    text = json.dumps({"ok": True, "data": {"note": f"the id is {said.text}!"}})
    if place == "value of a result":
        text = f'{{"ok":true,"data":{{"post":{said.number}}}}}'
    return (
        User("Go."),
        Assistant("", (CALL,)),
        ToolResult("c1", "look", ok=True, content=text, executed=True),
    )


CALL = ToolCall("c1", "look", {"query": "x"})


def is_refused(value: Any, *messages: Message) -> bool:
    run = Run("r", "m", raw(), messages, 0, tools=(POST, LOOK))
    return grounding_problem(run, ToolCall("c2", "delete", {"post": value})) is not None


def test_a_number_is_seen_only_if_it_is_exactly_what_was_written() -> None:
    rng, broken, cases = dice("numbers"), [], 0
    for _ in range(many(700)):
        said, place = written(rng), rng.choice(PLACES)
        if said.number is None and place == "value of a result":
            continue
        for value in guesses(rng, said):
            cases += 1
            is_exact = is_meant(said, value)
            if place == "value of a result" and "." in str(said.number):  # it arrives as a float
                is_exact = float(str(said.number)) == value
                is_exact = is_exact and (isinstance(value, float) or value < 2**53)
            if is_refused(value, *shown(place, said)) is is_exact:
                broken.append(
                    Broken(place, said.text, f"{value!r} {'refused' if is_exact else 'accepted'}")
                )
    assert cases >= many(700) * 2
    check(broken, cases)


SPACES = (" ", "\xa0", "\u2002", "\u2009", "\u200a", "\u202f", "\u205f", "\u3000")


def test_a_number_whose_groups_have_spaces_between_them_is_no_number() -> None:
    rng, broken, cases = dice("spaces"), [], many(2_000)
    for _ in range(cases):
        count = rng.randint(1, 3)
        groups = [str(rng.randrange(1, 1000)), *(f"{rng.randrange(1000):03}" for _ in range(count))]
        text = rng.choice(SPACES).join(groups)
        asked = f"Pay {text}{rng.choice(['', '.', ',50', ' EUR'])}"
        values = {int("".join(groups)), *map(int, groups)}
        broken += [
            Broken("space", asked, f"{value} accepted")
            for value in values
            if not is_refused(value, User(asked))
        ]
    check(broken, cases)


def test_numbers_beside_each_other_are_numbers() -> None:
    rng, broken, cases = dice("beside"), [], many(2_000)
    for _ in range(cases):
        one, two = rng.randrange(1, 10**5), rng.choice([rng.randrange(1, 100), 10**4])
        asked = f"Pay {one} {two} times."
        broken += [
            Broken("beside", asked, f"{value} refused")
            for value in (one, two)
            if is_refused(value, User(asked))
        ]
    check(broken, cases)


def test_parts_of_what_the_user_said_are_not_glued_together() -> None:
    rng, broken, cases = dice("parts"), [], many(2_000)
    for _ in range(cases):
        one, two = rng.randrange(1, 10**4), rng.randrange(1, 10**4)
        parts = [{"type": "text", "text": text} for text in (f"Pay {one}", f"{two} EUR")]
        user = User(parts)
        glued = int(f"{one}{two}")
        wrong = [value for value in (one, two) if is_refused(value, user)]
        wrong += [] if is_refused(glued, user) else [glued]
        broken += [Broken("parts", str(parts), f"{value}") for value in wrong]
    check(broken, cases)


def test_a_float_never_stands_for_a_large_integer() -> None:
    schema = {"type": "object", "properties": {"post": {"type": "integer"}}}
    toolbox = ToolRegistry([ToolDefinition("delete", "", parameters=schema)])
    rng = dice("floats")
    for _ in range(many(2_000)):
        number = rng.randrange(2**53, 10 ** rng.choice([16, 17, 20, 30]))
        spelled = rng.choice([f"{number}.0", f"{number}.00", f"{number}e0"])
        arguments = rng.choice(['{"post": %s}', '{"post": "%s"}', "{post: %s,}"]) % spelled
        call = resolve_call("delete", arguments, raw(), toolbox)
        assert call.problem is not None or call.arguments["post"] == number, arguments


# The same call as text: as JSON, as almost-JSON, as Python, and with tags.
IN_TEXT: Final = (
    '<tool_call>{"name": "delete", "arguments": {"post": %s}}</tool_call>',
    '<tool_call>{"name": "delete", "arguments": {post: %s,}}</tool_call>',
    "<|python_tag|>delete(post=%s)",
    "[delete(post=%s)]",
    "<function=delete><parameter=post>%s</parameter></function>",
)


def test_a_number_with_a_fraction_never_becomes_an_integer() -> None:
    schema = {"type": "object", "properties": {"post": {"type": "integer"}}}
    toolbox = ToolRegistry([ToolDefinition("delete", "", parameters=schema)])
    rng = dice("fractions")
    for _ in range(many(2_000)):
        fraction = rng.choice([rng.choice("123456789"), "0" * rng.randint(1, 30) + "1", "9" * 25])
        number = f"{rng.randrange(10 ** rng.choice([1, 3, 9, 15, 16, 18]))}.{fraction}"
        spelled = rng.choice([number, f"-{number}", f"{number}e0", "1e-400"])
        arguments = rng.choice(['{"post": %s}', '{"post": "%s"}', "{post: %s,}"]) % spelled
        call = resolve_call("delete", arguments, raw(), toolbox)
        assert call.problem is not None, arguments
        for body in IN_TEXT:
            reply = reply_to(says(body % spelled), WEAK, toolbox)
            assert not runnable(reply), body % spelled


# Look-ups that give back what they were asked for.


def spellings(rng: random.Random, value: int) -> Any:
    text = rng.choice(
        [f"{value}", f"0{value}", f" {value}", f"#{value}", f"{value}.0", f"{value}!"]
    )
    return rng.choice([value, float(value), text])


def test_a_look_up_that_spells_its_input_in_another_way_shows_nothing() -> None:
    rng, broken = dice("echo"), []
    cases = many(2_000)
    for _ in range(cases):
        value = rng.randrange(10, 10**9)
        name = f"{rng.choice('OXZ')}-{value}"
        given, echoed, used = (
            (spellings(rng, value), spellings(rng, value), rng.choice([value, str(value)]))
            if rng.random() < 0.5
            else (name, rng.choice([name.lower(), name.replace("-", ""), f" {name} "]), name)
        )
        used = rng.choice([echoed, used])
        found = rng.choice([{"id": echoed}, {"note": f"looked for {echoed}, found it"}, [echoed]])
        content = json.dumps({"ok": True, "data": found})
        call = ToolCall("c1", "look", {"query": given})
        answer = ToolResult("c1", "look", ok=True, content=content, executed=True)
        if not is_refused(used, User("Go."), Assistant("", (call,)), answer):
            broken.append(Broken("echo", f"{given!r} gave {found!r}", f"{used!r} accepted"))
    check(broken, cases)


def test_a_look_up_that_spells_a_word_of_its_input_in_another_way_shows_nothing() -> None:
    rng, broken, cases = dice("echoed words"), [], many(2_000)
    words = ("Ada", "Lovelace", "M\xfcller", "Order", "Tor", "Nord-West", "x9", "O'Neil")
    for _ in range(cases):
        query = rng.sample(words, rng.randint(1, 3))
        spell = rng.choice([str.upper, str.lower, str.title, str.swapcase])
        echoed = spell(" ".join(query))
        found = rng.choice([f"No customer {echoed} found", {"name": echoed}, [*echoed.split()]])
        content = json.dumps({"ok": True, "data": found})
        call = ToolCall("c1", "look", {"query": " ".join(query)})
        answer = ToolResult("c1", "look", ok=True, content=content, executed=True)
        used = rng.choice([echoed, *echoed.split()])
        if not is_refused(used, User("Go."), Assistant("", (call,)), answer):
            broken.append(Broken("echo", f"{query} gave {found!r}", f"{used!r} accepted"))
    check(broken, cases)


def test_a_look_up_may_spell_what_the_user_named_in_another_way() -> None:
    call = ToolCall("c1", "look", {"query": "o-77"})
    found = '{"ok":true,"data":{"id":"O-77"}}'
    answer = ToolResult("c1", "look", ok=True, content=found, executed=True)

    assert not is_refused("O-77", User("Where is o-77?"), Assistant("", (call,)), answer)
    assert is_refused("O-77", User("Where is it?"), Assistant("", (call,)), answer)
