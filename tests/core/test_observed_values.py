"""What a conversation has shown: words, values, and where they stand."""

import json
from typing import Any

import pytest

from surecall import (
    Contract,
    From,
    Need,
    ToolLoopRunner,
)
from surecall.core.observed_values import (
    decode_container,
    observed_values,
    returned_data,
    values_at_source,
)
from surecall.core.state import Run
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel
from surecall.values.types import Assistant, Message, ToolCall, ToolResult, ToolSpec, User
from tests.support.prompted_runs import FIND, ORDER, Shop, body, ran, refund


def test_a_history_counts_and_so_does_text_that_is_json() -> None:
    shop = Shop(json.dumps(ORDER))
    result, _ = ran(shop, "native", FIND)
    runner = ToolLoopRunner(
        client=ScriptedModel(body("native", refund("O-7731", "i-2")), body("native", "Done.")),
        model="m",
        tools=shop.tools(),
        config=raw(),
    )
    runner.run_sync("And the desk?", history=result.history)
    assert shop.refunded == [("O-7731", "i-2")]


def test_what_a_look_up_gives_back_is_no_news() -> None:
    shop = Shop()
    calls = [("find_order", {"customer": "Bob"}), ("track", {"order_id": "Bob"})]
    result, _ = ran(shop, "native", *calls, text="Go.")
    assert result.run.results[1].error_codes == ("ARGUMENT_NOT_SEEN",)

    shop.found = {"query": "X-1", "hits": []}
    calls = [("find_order", {"customer": "X-1"}), ("track", {"order_id": "X-1"})]
    result, _ = ran(shop, "native", *calls, text="Go.")
    assert result.run.results[1].error_codes == ("ARGUMENT_NOT_SEEN",)


def test_what_the_loop_said_itself_is_not_seen() -> None:
    contract = Contract(all_of=[Need("track", {"order_id": "O-1"})])
    decisions = ["Done.", ("track", {"order_id": "O-1"})]
    result, _ = ran(
        Shop(), "native", *decisions, text="Go.", contract=contract, final_ladder=("remind",)
    )
    assert "O-1" in str(result.run.messages[2])
    assert result.run.results[0].error_codes == ("ARGUMENT_NOT_SEEN",)


def result(content: str, *, ok: bool = True, **more: Any) -> ToolResult:
    return ToolResult("c1", "find", ok, content, executed=True, **more)


@pytest.mark.parametrize(
    ("content", "ok", "value"),
    [
        ('{"ok":true,"data":{"value":3}}', True, 3),
        ('{"ok":true,"data":{"value":"[1]"}}', True, [1]),
        ('{"ok":true,"data":{"a":1}}', True, {"a": 1}),
        ('{"ok":false,"data":{},"errors":[{"message":"no"},7]}', False, [["no"], {}]),
        ('{"other":1}', True, {"other": 1}),
        ("plain words", True, "plain words"),
    ],
)
def test_what_a_tool_returned_is_found_in_its_envelope(
    content: str, value: Any, *, ok: bool
) -> None:
    assert returned_data(result(content, ok=ok)) == value


def test_a_text_is_opened_only_if_it_is_the_json_of_something_with_parts() -> None:
    assert decode_container('{"a": 1}') == {"a": 1}
    assert decode_container("{broken") == "{broken"
    assert decode_container("7") == "7"
    assert decode_container(7) == 7


def run_of(*results: ToolResult) -> Run:
    calls = tuple(ToolCall(item.call_id, item.name, {}) for item in results)
    said: tuple[Message, ...] = (User("hi"), User("More.", nudge=True), Assistant("", calls))
    return Run("r", "m", raw(), (*said, *results))


def test_a_path_is_followed_in_results_that_succeeded() -> None:
    run = run_of(
        result('{"ok":true,"data":{"items":[{"id":1},{"id":2}]}}'),
        result('{"ok":true,"data":{"items":[{"id":2}]}}'),
        result('{"ok":false,"errors":[]}', ok=False),
    )
    assert values_at_source(run, From("find", "items[*].id")) == (1, 2)
    assert values_at_source(run, From("gone", "items[*].id")) == ()


def test_results_that_were_cut_are_known_as_such() -> None:
    run = run_of(
        result('{"ok":false,"errors":[],"data":{"preview":"x-1"}}', ok=False, replaced=True)
    )
    assert observed_values(run).truncated_tools == {"find"}
    assert observed_values(run).user_texts == ("hi",)
    assert [leaf.value for leaf in observed_values(run).values] == ["x-1"]


def test_true_and_false_are_no_values_to_be_seen() -> None:
    run = run_of(result('{"ok":true,"data":{"a":true,"b":null,"c":1.5}}'))
    assert [(leaf.key, leaf.value) for leaf in observed_values(run).values] == [("c", 1.5)]


def test_an_empty_text_is_not_seen() -> None:
    run = run_of(result('{"ok":true,"data":{"a":"","b":"x"}}'))
    assert [leaf.value for leaf in observed_values(run).values] == ["x"]


@pytest.mark.parametrize("query", ["order 666", 666, ["x", "item #666"]])
def test_a_word_of_what_a_look_up_was_asked_for_is_no_news(query: Any) -> None:
    call = ToolCall("c1", "find", {"query": query})
    found = ToolResult(
        "c1", "find", ok=True, content='{"ok":true,"data":{"id":666}}', executed=True
    )
    look = ToolSpec("find", "", {}, read_only=True)
    run = Run("r", "m", raw(), (User("Go."), Assistant("", (call,)), found), 0, tools=(look,))

    assert observed_values(run).values == ()
