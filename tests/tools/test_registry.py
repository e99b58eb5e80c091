"""What a registry offers: masks, limits, names, and the tools that must stay out of reach."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from surecall import presets
from surecall.parsing.names import fold_name
from surecall.runtime.dispatch import ToolDispatcher
from surecall.runtime.runner import ToolLoopRunner
from surecall.testing import Item, ScriptedModel, calls, calls_many, raw, says
from surecall.tools.registry import FilteredToolRegistry, ToolDefinition, ToolRegistry, tool
from surecall.values.decisions import Decision
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.types import JSON, ToolCall, ToolResult, ToolSpec
from tests.support.spec import proves


class Shop:
    """Two tools, one of them hidden, that note what they were asked."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        hidden = tool(exposed_to_model=False)(self.refund)
        self.registry = ToolRegistry([self.state_get, self.state_patch, hidden])

    def state_get(self) -> str:
        """Read the state."""
        self.ran.append("state_get")
        return "open"

    def state_patch(self) -> None:
        """Change the state."""
        self.ran.append("state_patch")

    def refund(self) -> None:
        """Give the money back."""
        self.ran.append("refund")

    def serve(self, *script: Item, **settings: Any) -> tuple[list[str], dict[str, ToolResult]]:
        """Return the tools that were sent, and the results by call id."""
        model = ScriptedModel(*script, says("done"))
        config = presets.raw(**settings)
        runner = ToolLoopRunner(client=model, model="m", registry=self.registry, config=config)
        result = asyncio.run(runner.run("go"))
        assert result.assistant_text == "done"
        sent = [item["function"]["name"] for item in model.requests[0].get("tools", ())]
        return sent, {answer.call_id: answer for answer in result.run.results}


# The mask


@proves("C33")
def test_a_hidden_tool_is_not_sent_and_calling_it_is_refused_while_the_run_goes_on() -> None:
    shop = Shop()
    sent, results = shop.serve(calls("refund", "a"))

    assert sent == ["state_get", "state_patch"]
    assert results["a"].error_codes == (ErrorCode.TOOL_NOT_ALLOWED,)
    assert not results["a"].executed
    assert "refund" not in results["a"].envelope["errors"][0]["message"].partition("Tools:")[2]
    assert shop.ran == []


@proves("C34")
def test_a_denied_tool_is_not_sent_and_fails_alone_while_its_sibling_runs() -> None:
    shop = Shop()
    both = calls_many(calls("state_patch", "a"), calls("state_get", "b"))
    sent, results = shop.serve(both, tool_denylist=("state_patch",))

    assert sent == ["state_get"]
    assert results["a"].error_codes == (ErrorCode.TOOL_NOT_ALLOWED,)
    assert results["b"].ok
    assert shop.ran == ["state_get"]


@proves("C35")
def test_a_name_on_both_lists_is_denied() -> None:
    shop = Shop()
    names = ("state_get", "state_patch")
    sent, results = shop.serve(
        calls("state_get", "a"), tool_allowlist=names, tool_denylist=("state_get",)
    )

    assert sent == ["state_patch"]
    assert not results["a"].ok
    assert shop.ran == []


@proves("C36")
def test_the_allow_list_bounds_what_is_sent_and_what_may_run() -> None:
    shop = Shop()
    both = calls_many(calls("state_patch", "a"), calls("state_get", "b"))
    sent, results = shop.serve(both, tool_allowlist=("state_get",))

    assert sent == ["state_get"]
    assert (results["a"].ok, results["b"].ok) == (False, True)
    assert shop.ran == ["state_get"]


@proves("I23")
def test_an_empty_allow_list_allows_nothing() -> None:
    shop = Shop()
    sent, results = shop.serve(says("done", tool_calls=[raw_call("state_get")]), tool_allowlist=())

    assert (sent, results) == ([], {})
    assert shop.ran == []
    mask = FilteredToolRegistry(shop.registry, [])
    assert (mask.definitions, mask.resolve("state_get")) == ((), None)


@pytest.mark.parametrize("key", ["tool_allowlist", "tool_denylist"])
def test_a_misspelt_mask_is_an_error_that_names_the_likely_tool(key: str) -> None:
    with pytest.raises(ConfigError, match=r"(?i)did you mean.*state_get"):
        Shop().serve(**{key: ("state_gte",)})


def test_an_allow_list_does_not_expose_a_hidden_tool() -> None:
    assert FilteredToolRegistry(Shop().registry, ["refund"]).definitions == ()


@proves("C41")
@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"max_tool_definitions_count": 1}, "max_tool_definitions_count"),
        ({"max_tool_definitions_bytes": 100}, "max_tool_definitions_bytes"),
    ],
)
def test_too_many_tools_or_too_large_ones_are_refused_by_key(settings: JSON, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        Shop().serve(**settings)


@proves("C41")
def test_masks_and_hiding_count_before_the_limits() -> None:
    sent, _ = Shop().serve(max_tool_definitions_count=2)
    assert sent == ["state_get", "state_patch"]

    limits = {"max_tool_definitions_count": 1, "max_tool_definitions_bytes": 150}
    sent, _ = Shop().serve(tool_denylist=("state_patch",), **limits)
    assert sent == ["state_get"]


def test_the_limits_are_128_tools_and_200_000_bytes() -> None:
    many = [ToolDefinition(f"t{number}", handler=lambda: 1) for number in range(129)]
    large = ToolDefinition("t", "x" * 200_000, handler=lambda: 1)
    for tools, key in ((many, "count=128"), ([large], "bytes=200000")):
        with pytest.raises(ConfigError, match=key):
            ToolLoopRunner(client=ScriptedModel(), model="m", registry=ToolRegistry(tools))


# Names


@proves("C40")
@pytest.mark.parametrize("asked", ["state.get", "State-Get", " state_get ", "functions.state_get"])
def test_a_spelling_that_means_one_tool_resolves_to_its_registered_name(asked: str) -> None:
    shop = Shop()
    _, results = shop.serve(calls(asked, "a"))

    assert results["a"].envelope["tool_name"] == "state_get"
    assert shop.ran == ["state_get"]


def test_the_exact_name_comes_before_a_spelling_of_it() -> None:
    registry = ToolRegistry([ToolDefinition("functions_get"), ToolDefinition("get")])

    assert registry.resolve("functions_get") is registry.definitions[0]
    assert registry.resolve("functions.get") is registry.definitions[1]


@pytest.mark.parametrize("other", ["state_get", "State_Get", "state-get"])
def test_two_tools_that_would_answer_to_one_name_are_refused(other: str) -> None:
    with pytest.raises(ConfigError, match="conflicting tool names"):
        ToolRegistry([ToolDefinition("state_get"), ToolDefinition(other)])


# Out of reach

Mutator = Callable[[str], str]
HARMLESS: list[Mutator] = [
    str,
    str.upper,
    str.title,
    lambda name: name.replace("_", "."),
    lambda name: name.replace("_", "-"),
    lambda name: f"functions.{name}",
    lambda name: f"default_api:{name}",
    lambda name: f"{name}<|channel|>commentary",
    lambda name: f"{name}<|tool_call_end|>",
    lambda name: f" {name}\n",
]
# A call that has the form of one may have these; in text they may as well be part of a sentence.
AROUND: list[Mutator] = [
    lambda name: f"{name}:0",
    lambda name: f"functions.{name}:12",
    lambda name: f"{name}()",
    lambda name: f"`{name}`",
    lambda name: f"{name}[ARGS]",
    lambda name: f"[TOOL_CALLS]{name}",
    lambda name: f"{name}\n<tool_sep>",
    lambda name: f"commentary to=functions.{name} <|constrain|>json",
]
HOSTILE: list[Mutator] = [
    lambda name: name.replace("k", "\u212a"),  # the Kelvin sign
    lambda name: name.replace("s", "\u017f"),  # a long s
    lambda name: "".join(chr(ord(mark) + 0xFEE0) for mark in name),  # full width
    "\u200b".join,
    lambda name: f"\ufeff{name}",
    lambda name: f"\u00a0{name}\u2003",
    lambda name: f"{name}\0",
    lambda name: f"\0{name}",
    lambda name: f"{name}\0_safe",
    lambda name: f"tool:{name}",
    lambda name: f"functions.functions.{name}",
    lambda name: f"{name}\ud800",
    lambda name: name[::-1],
    lambda name: f"{name}, safe",
    lambda name: f"{name}(x)",
    lambda name: f"{name}<path>",
    lambda name: f"<|channel|>{name}",
    lambda name: f'{name}<|message|>{{"x": 1}}',
    lambda name: f"{name}<|channel|>safe",
    lambda name: f"commentary {name} to=safe2",
]
ENTRIES: dict[str, Callable[[str], JSON]] = {
    "tool_calls": lambda name: says(None, tool_calls=[raw_call(name)]),
    "object": lambda name: says(None, tool_calls=raw_call(name)),
    "function_call": lambda name: says(None, function_call={"name": name, "arguments": "{}"}),
    "tag": lambda name: says(f"<tool_call>{json.dumps({'name': name})}</tool_call>"),
    "bare tag": lambda name: says(f"<tool_call>{name} {{}}</tool_call>"),
}


def raw_call(name: str) -> JSON:
    return {"id": "a", "type": "function", "function": {"name": name, "arguments": "{}"}}


class Hide:
    """A policy that lets one tool be seen and called by nobody."""

    def __init__(self, name: str) -> None:
        self._name = name

    def visible(self, tool: ToolSpec, context: Mapping[str, Any]) -> bool:
        del context
        return tool.name != self._name

    def authorize(self, call: ToolCall, context: Mapping[str, Any]) -> Decision:
        del call, context
        return Decision("allow")


def runs_of(name: str, asked: str, way: str) -> list[str]:
    """Ask for a tool on every entry path; return the paths on which it ran."""
    ran: list[str] = []
    path = ""
    danger = ToolDefinition(
        name, handler=lambda: ran.append(path), exposed_to_model=way != "hidden"
    )
    registry = ToolRegistry([danger, ToolDefinition("safe", handler=lambda: 1)])
    config = presets.content_tag_tool_call_fallback(presets.default_tool_calling())
    config = config.replace(
        tool_denylist=(name,) if way == "denied" else (),
        tool_allowlist=("safe",) if way == "not allowed" else None,
    )
    policy = Hide(name) if way == "policy" else None
    for path, entry in ENTRIES.items():  # noqa: B007  # the handler notes it
        body = json.dumps(entry(asked)).encode()  # escapes what UTF-8 cannot carry
        model = ScriptedModel(raw(body), says("done"))
        runner = ToolLoopRunner(
            client=model, model="m", registry=registry, config=config, tool_policy=policy
        )
        asyncio.run(runner.run("go"))
    path = "execute"
    mask = FilteredToolRegistry(registry, None if way == "open" else ["safe"])
    asyncio.run(ToolDispatcher(mask, config).execute(asked, {}))
    return ran


@pytest.mark.parametrize("number", range(len(HARMLESS)))
def test_a_tool_that_is_not_denied_runs_on_every_path_under_a_harmless_spelling(
    number: int,
) -> None:
    ran = runs_of("ask_desk", HARMLESS[number]("ask_desk"), "open")
    # A bare tag holds a plain name only; with anything else in it, it stays text.
    assert {*ran} | {"bare tag"} == {*ENTRIES, "execute", "bare tag"}


@pytest.mark.parametrize("number", range(len(AROUND)))
def test_a_native_call_runs_whatever_is_around_its_name_and_says_nothing(number: int) -> None:
    ran = runs_of("ask_desk", AROUND[number]("ask_desk"), "open")
    assert {*ran} >= {"tool_calls", "object", "function_call", "execute"}


NAMES = st.one_of(
    st.sampled_from(["ask_desk", "kiss", "K", "-", "_", "tool", "functions", "delete-all_files"]),
    st.text("abkKsS019_-", min_size=1, max_size=12),
).filter(lambda name: fold_name(name) != "safe")


@proves("G10")
@given(
    NAMES,
    st.lists(st.sampled_from([*HARMLESS, *AROUND, *HOSTILE]), max_size=3),
    st.sampled_from(["denied", "not allowed", "hidden", "policy"]),
)
@example("ask_desk", [], "denied")
def test_a_denied_tool_never_runs_under_any_spelling_on_any_path(
    name: str, mutators: list[Mutator], way: str
) -> None:
    asked = name
    for mutate in mutators:
        asked = mutate(asked)
    assert runs_of(name, asked, way) == []


@proves("G10")
@pytest.mark.parametrize("mutate", HOSTILE)
def test_a_spelling_beyond_ascii_or_with_noise_reaches_no_tool_at_all(mutate: Mutator) -> None:
    asked = mutate("ask_desk").strip()
    registry = ToolRegistry([ToolDefinition("ask_desk"), ToolDefinition("safe")])
    assert registry.resolve(asked) is None or asked == "ask_desk"


@pytest.mark.parametrize("given", ["refund", b"refund", 5, None])
def test_what_is_no_list_of_tools_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"tools must be a list of functions .* \[get_weather\]"):
        ToolRegistry(given)
