"""The contract: what must have succeeded before a final answer counts, as a value and in runs."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import ConfigError, ErrorCode, ToolCallingConfig, ToolLoopRunner, replay, tool
from surecall.core.outcome import RequestFailed, RunResult, ToolUseError
from surecall.settings.connection import RetryPolicy
from surecall.settings.contract import Contract, Need, describe_missing, json_contains
from surecall.settings.presets import raw
from surecall.testing import Item, ScriptedModel, calls, calls_many, failure, says
from surecall.values.decisions import Decision
from surecall.values.types import JSON, ToolCall, ToolSpec
from tests.support.generated import JSON_VALUES

BOOK, PAY, MAIL = Need("book"), Need("pay", {"currency": "EUR"}), Need("mail")
NO_TOOLS = failure(404, {"error": {"message": "No endpoints found that support tool use."}})


def made(*names: str, **arguments: Any) -> list[ToolCall]:
    return [ToolCall(f"c{place}", name, arguments) for place, name in enumerate(names)]


def test_a_name_alone_stands_for_a_need_without_conditions() -> None:
    assert Contract(all_of=("book",)) == Contract(all_of=(Need("book"),))
    assert Contract(all_of=("book",)).needs == (BOOK,)


def test_all_of_misses_each_of_its_tools_until_it_has_succeeded() -> None:
    contract = Contract(all_of=("book", "mail"))

    assert contract.missing([]) == ((BOOK,), (MAIL,))
    assert contract.missing(made("mail")) == ((BOOK,),)
    assert contract.missing(made("mail", "book")) == ()


def test_any_of_is_met_by_one_of_its_tools() -> None:
    contract = Contract(any_of=("book", "mail"))

    assert contract.missing(made("pay")) == ((BOOK, MAIL),)
    assert contract.missing(made("mail")) == ()
    assert contract.progress([]).next_tools == ("book", "mail")


def test_a_sequence_is_met_step_by_step_whatever_comes_between() -> None:
    contract = Contract(in_order=("book", "mail"))

    assert contract.missing(made("mail", "book")) == ((MAIL,),)
    assert contract.missing(made("book", "pay", "mail")) == ()
    assert contract.progress([]).next_tools == ("book",)
    assert contract.progress(made("book")).next_tools == ("mail",)


def test_a_step_that_is_named_twice_must_succeed_twice() -> None:
    contract = Contract(in_order=("book", "book"))

    assert contract.missing(made("book")) == ((BOOK,),)
    assert contract.missing(made("book", "book")) == ()


def test_the_parts_of_a_contract_add_up() -> None:
    contract = Contract(all_of=("a",), any_of=("b", "c"), in_order=("d", "e"))

    assert describe_missing(contract.missing([])) == "a, b or c, d, e"
    assert contract.progress([]).next_tools == ("a", "b", "c", "d")
    assert contract.progress(made("a", "b", "d")).next_tools == ("e",)


def test_a_need_can_name_arguments() -> None:
    contract = Contract(all_of=(PAY,))

    assert contract.missing(made("pay", currency="USD")) == ((PAY,),)
    assert contract.missing(made("pay", currency="EUR", sum=3)) == ()
    assert describe_missing(contract.missing([])) == 'pay with {"currency":"EUR"}'


@pytest.mark.parametrize(
    ("value", "wanted", "held"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": [True]}, {"a": [1]}, False),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True),
        ({"a": 1.0}, {"a": 1}, True),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {}, True),
        ([], {}, False),
    ],
)
def test_arguments_may_have_more_keys_and_must_otherwise_be_equal(
    value: Any, wanted: Any, *, held: bool
) -> None:
    assert json_contains(value, wanted) is held


@given(JSON_VALUES)
def test_every_value_holds_itself(value: Any) -> None:
    assert json_contains(value, value)


@given(st.dictionaries(st.text(max_size=3), JSON_VALUES, max_size=3), JSON_VALUES)
def test_more_keys_do_not_matter(value: JSON, more: Any) -> None:
    assert json_contains({"": 0} | value | {"another key": more}, value)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({}, "the contract is empty"),
        ({"all_of": ()}, "the contract is empty"),
        ({"all_of": "book"}, "must be a list of tools, not a string"),
        ({"any_of": (" ",)}, "contains a blank tool name"),
        ({"all_of": (3,)}, "all_of: Expected `str | object`"),
        ({"in_order": None}, "in_order: Expected `array`"),
        ({"all_of": ({"tol": "book"},)}, "unknown field `tol`"),
        ({"all_of": (Need("book", {"to": object()}),)}, "all_of: Encoding objects of type"),
        ({"all_of": ("\ud800",)}, "surrogates not allowed"),
    ],
)
def test_a_contract_that_cannot_be_meant_is_refused(parts: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence.replace("|", r"\|")):
        Contract(**parts)


def test_a_contract_is_plain_data_from_the_beginning() -> None:
    arguments = {"to": ("a", "b")}
    contract = Contract(all_of=(Need("mail", arguments), {"tool": "book"}))  # type: ignore[arg-type]  # as people write it
    arguments["to"] = ("c",)  # type: ignore[assignment]  # too late to matter

    assert contract.needs == (Need("mail", {"to": ["a", "b"]}), BOOK)
    assert contract.missing(made("mail", "book", to=["a", "b"])) == ()


CONTRACT = Contract(all_of=("a", PAY), any_of=("b",), in_order=("c", "d"), then_finalise=False)


def test_a_contract_survives_in_a_config_as_plain_data_and_as_json() -> None:
    config = raw(contract=CONTRACT)
    plain = config.to_mapping()

    assert ToolCallingConfig.from_mapping(plain) == config
    assert ToolCallingConfig.from_mapping(json.loads(json.dumps(plain))) == config
    assert msgspec.json.decode(msgspec.json.encode(config), type=ToolCallingConfig) == config


@pytest.mark.parametrize(
    "contract", [{"al_of": ["a"]}, {}, {"all_of": "a"}, 3, {"all_of": [{"tool": " "}]}]
)
def test_a_contract_that_is_misspelt_is_an_error_of_the_config(contract: Any) -> None:
    with pytest.raises(ConfigError, match="contract"):
        ToolCallingConfig.from_mapping({"contract": contract})


class Shop:
    """Tools that note what ran; `break_down` fails."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def book(self) -> str:
        """Book."""
        self.ran.append("book")
        return "booked"

    def pay(self, currency: str) -> str:
        """Pay."""
        self.ran.append(f"pay {currency}")
        return "paid"

    def break_down(self) -> None:
        """Fail."""
        raise RuntimeError("down")


def runner(model: ScriptedModel, shop: Shop, **settings: Any) -> ToolLoopRunner:
    hidden = settings.pop("hidden", None)
    return ToolLoopRunner(
        client=model,
        model="m",
        registry=[shop.book, shop.pay, shop.break_down],
        config=raw(**settings),
        retry=RetryPolicy(attempts=1),
        tool_policy=None if hidden is None else Hiding(hidden),
    )


class Hiding:
    """A policy that does not show one tool."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visible(self, tool: ToolSpec, context: Mapping[str, Any]) -> bool:  # noqa: ARG002  # a policy's signature
        return tool.name != self.name

    def authorize(self, call: ToolCall, context: Mapping[str, Any]) -> Decision:  # noqa: ARG002  # a policy's signature
        return Decision("allow")


def ran(*script: Item, **settings: Any) -> tuple[RunResult, ScriptedModel]:
    model = ScriptedModel(*script)
    return asyncio.run(runner(model, Shop(), **settings).run("Go.")), model


def fails(*script: Item, requests: int, **settings: Any) -> ToolUseError:
    model = ScriptedModel(*script)
    with pytest.raises(ToolUseError) as failed:
        asyncio.run(runner(model, Shop(), **settings).run("Go."))
    assert len(model.requests) == requests
    return failed.value


BOOKED = Contract(all_of=("book",))


def test_an_answer_counts_once_the_contract_is_met() -> None:
    result, _ = ran(calls("book"), says("Done."), contract=BOOKED)

    assert (result.assistant_text, result.stop_reason, result.false_finals) == ("Done.", "final", 0)


def test_an_answer_before_that_fails_the_run_and_says_what_is_missing() -> None:
    failed = fails(says("Done."), requests=1, contract=Contract(all_of=("book", PAY)))

    assert failed.code is ErrorCode.CONTRACT_UNMET
    assert 'still missing book, pay with {"currency":"EUR"}' in str(failed)
    assert failed.details["missing"] == [["book"], ['pay with {"currency":"EUR"}']]
    assert failed.result.assistant_text == "Done."
    assert failed.result.false_finals == 1


def test_what_failed_is_told_beside_what_is_missing() -> None:
    failed = fails(calls("break_down"), says("Done."), requests=2, contract=BOOKED)

    assert failed.details["failed_tools"] == ["break_down"]
    assert failed.details["missing"] == [["book"]]


def test_a_contract_holds_beside_the_rules_of_an_enforced_run() -> None:
    script = (calls_many(calls("book"), calls("break_down")), says("Done."))
    contract = Contract(all_of=("book",), then_finalise=False)

    failed = fails(*script, requests=2, contract=contract, tool_use_mode="enforced")
    assert failed.code is ErrorCode.GAVE_UP
    assert ran(*script, contract=contract)[0].assistant_text == "Done."


def test_a_call_that_failed_meets_no_need() -> None:
    contract = Contract(all_of=("break_down",))

    assert fails(calls("break_down"), says("Done."), requests=2, contract=contract).details[
        "missing"
    ] == [["break_down"]]


def test_calls_of_an_earlier_run_meet_no_need() -> None:
    first, _ = ran(calls("book"), says("Done."), contract=BOOKED)
    model = ScriptedModel(says("Done."))

    with pytest.raises(ToolUseError):
        runner(model, Shop(), contract=BOOKED).run_sync("Again.", history=first.history)


def test_once_it_is_met_no_tools_are_on_offer() -> None:
    _, model = ran(calls("book"), says("Done."), contract=BOOKED)

    assert ["tools" in request for request in model.requests] == [True, False]


def test_tools_can_be_forbidden_in_place_of_being_left_out() -> None:
    style = {"tools_off_style": "tool_choice_none"}
    _, model = ran(calls("book"), says("Done."), contract=BOOKED, **style)

    assert [request["tool_choice"] for request in model.requests] == ["auto", "none"]


def test_calls_that_come_after_that_do_not_run() -> None:
    result, _ = ran(calls("book"), calls("pay", currency="EUR"), says("Done."), contract=BOOKED)

    assert [item.name for item in result.run.results] == ["book"]
    assert result.assistant_text == "Done."


def test_tools_stay_on_offer_where_the_contract_says_so() -> None:
    contract = Contract(all_of=("book",), then_finalise=False)
    script = (calls("book"), calls("pay", currency="EUR"), says("Done."))
    result, _ = ran(*script, contract=contract)

    assert [item.name for item in result.run.results] == ["book", "pay"]


@pytest.mark.parametrize(
    "settings",
    [
        {"contract": Contract(all_of=("bok",))},
        {"contract": Contract(any_of=("bok", "pai"))},
        {"contract": Contract(any_of=("bok", "pay"))},
    ],
)
def test_a_tool_that_there_is_not_is_an_error_before_the_first_request(settings: Any) -> None:
    with pytest.raises(ConfigError, match='contract: unknown tool "bok"'):
        runner(ScriptedModel(), Shop(), **settings)


def test_a_tool_that_is_masked_is_an_error_before_the_first_request() -> None:
    with pytest.raises(ConfigError, match="tools that it needs are masked: book"):
        runner(ScriptedModel(), Shop(), contract=BOOKED, tool_denylist=("book",))


def test_a_tool_that_a_policy_hides_fails_the_run_without_a_request() -> None:
    failed = fails(requests=0, contract=BOOKED, hidden="book")

    assert failed.code is ErrorCode.CONTRACT_UNMET
    assert "not available: book" in str(failed)


def test_one_of_several_tools_may_be_hidden() -> None:
    contract = Contract(any_of=("book", PAY))
    result, _ = ran(calls("pay", currency="EUR"), says("Ok."), contract=contract, hidden="book")

    assert result.assistant_text == "Ok."


def test_without_tools_no_contract_can_be_met() -> None:
    failed = fails(requests=0, contract=BOOKED, tool_use_mode="disabled")

    assert failed.code is ErrorCode.CONTRACT_UNMET


def test_a_route_without_tools_cannot_meet_a_contract_and_is_not_asked_again() -> None:
    model = ScriptedModel(NO_TOOLS)
    with pytest.raises(RequestFailed) as failed:
        runner(model, Shop(), contract=BOOKED, fallback_retry_count=2).run_sync("Go.")

    assert failed.value.code is ErrorCode.NO_TOOL_USE_ENDPOINT
    assert len(model.requests) == 1


def test_what_is_done_needs_no_tool_any_more_when_a_run_is_resumed() -> None:
    with pytest.raises(RequestFailed) as failed:
        ran(calls("book"), failure(401), contract=BOOKED)
    model = ScriptedModel(says("Done."))

    again = runner(model, Shop(), contract=BOOKED, hidden="book")
    assert again.resume_sync(failed.value.result.run).assistant_text == "Done."


def test_a_contract_travels_in_a_trace_and_is_judged_again_in_a_replay() -> None:
    failed = fails(says("Done."), requests=1, contract=Contract(in_order=("book", PAY)))
    result = failed.result

    assert replay(result.trace).run == result.run
    assert result.trace[0].config["contract"]["in_order"][1]["tool"] == "pay"  # type: ignore[union-attr]  # the first event is the start


def test_a_need_is_met_by_the_arguments_that_the_tool_got() -> None:
    @tool
    def price(amount: int) -> int:
        """Set a price."""
        return amount

    needed = Contract(all_of=(Need("price", {"amount": 3}),))
    config = raw(contract=needed, coerce_arguments=True)
    model = ScriptedModel(calls("price", amount="3"), says("Done."))

    run = ToolLoopRunner(client=model, model="m", registry=[price], config=config).run_sync("Go.")
    assert run.assistant_text == "Done."
