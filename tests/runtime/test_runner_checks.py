"""Tests of `surecall.runtime.runner_checks`."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Unpack

import msgspec
import pytest

from surecall import (
    ConfigError,
    Conversation,
    Decision,
    OpenAICompatible,
    RunResult,
    SqliteStore,
    ToolCallingConfig,
    ToolDefinition,
    ToolLoopRunner,
    ToolRegistry,
    presets,
    tool,
)
from surecall.runtime.runner_checks import (
    ResumeOptions,
    RunOptions,
    TurnOptions,
    WatchOptions,
    check_keywords,
    check_parts,
    expand_keywords,
)
from surecall.testing import ScriptedModel, ScriptedProvider, calls, says
from surecall.values.types import ToolCall, ToolSpec

# Tests of `surecall.runtime.runner_checks`


# What a runner is given: what is accepted, and what is refused before anything is sent


def plain() -> str:
    """Do something."""
    return "done"


marked = tool(plain)
defined = ToolDefinition("plain", "Do something.", handler=plain)


def runner_of(*script: Any, **settings: Any) -> ToolLoopRunner:
    given: dict[str, Any] = {"client": ScriptedModel(*script), "model": "m"} | settings
    return ToolLoopRunner(**given)


def config_at(url: str, model: str = "m") -> ToolCallingConfig:
    return ToolLoopRunner(client=OpenAICompatible(url), model=model).config


def test_no_config_means_what_is_recommended_for_the_address_and_the_model() -> None:
    glm = "z-ai/glm-4.7"
    router = presets.resolve(provider="openrouter", model=glm)

    assert config_at("https://openrouter.ai/api", glm) == router
    assert config_at("http://localhost:11434") == presets.resolve(provider="ollama")
    assert config_at("http://127.0.0.1:8000") == presets.resolve() == runner_of().config
    assert router.endpoint.text_calls == "any"


def test_two_runners_share_nothing_that_can_be_changed() -> None:
    runner_of().config.request_overrides["seed"] = 1

    assert "seed" not in runner_of().config.request_overrides


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "https://openrouter.ai/api"])
@pytest.mark.parametrize(
    "config", [{"max_turns": 3}, ToolCallingConfig(max_turns=3)], ids=["mapping", "config"]
)
def test_a_partial_config_is_laid_over_what_is_recommended(url: str, config: Any) -> None:
    client = OpenAICompatible(url)
    runner = ToolLoopRunner(client=client, model="z-ai/glm-4.7", config=config)

    assert runner.config == config_at(url, "z-ai/glm-4.7").replace(max_turns=3)
    assert runner.config.explicit == {"max_turns"}


def test_only_raw_is_raw() -> None:
    assert runner_of(config=presets.raw()).config == presets.raw()
    assert runner_of(config={}).config == runner_of(config=ToolCallingConfig()).config
    assert runner_of(config={}).config == presets.resolve()


@pytest.mark.parametrize("word", ["tools", "registry"])
@pytest.mark.parametrize(
    "given",
    [plain, marked, defined, [plain], (marked,), {"name": "plain", "handler": plain}, [defined]],
)
def test_one_tool_or_many_may_be_given_under_either_name(word: str, given: Any) -> None:
    runner = runner_of(calls("plain"), says("ok"), **{word: given})
    (answer,) = asyncio.run(runner.run("Go.")).run.results

    assert answer.envelope["data"] == {"value": "done"}


def test_a_registry_may_be_given_under_either_name_but_not_under_both() -> None:
    registry = ToolRegistry(plain)

    assert runner_of(tools=registry)._registry is runner_of(registry=registry)._registry is registry
    with pytest.raises(ConfigError, match="pass only one of them"):
        runner_of(tools=[plain], registry=registry)


@pytest.mark.parametrize("given", ["get_weather", b"x", 5, object()])
def test_tools_that_are_none_are_refused_in_one_sentence(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"tools must be a list .* as in \[get_weather\]"):
        runner_of(tools=given)


def test_an_address_is_enough_of_a_client() -> None:
    with ScriptedProvider(says("Hello.")) as provider:
        runner = ToolLoopRunner(client=provider.url, model="m")
        answer = runner.run_sync("Hi.").assistant_text
        runner.close()

    assert answer == "Hello."
    assert isinstance(runner.client, OpenAICompatible)


@pytest.mark.parametrize(
    ("client", "sentence"),
    [
        (None, "not None"),
        (5, "not int"),
        (OpenAICompatible, "not the class OpenAICompatible"),
        (object(), "not object"),
        ("localhost:8000", "must start with http"),
        ("", "base_url is blank"),
    ],
)
def test_what_is_no_client_is_refused_and_told_what_to_write(client: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        ToolLoopRunner(client=client, model="m")
    assert "http://" in str(refused.value)


@pytest.mark.parametrize("name", ["", "  "])
def test_a_blank_model_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="model is blank"):
        ToolLoopRunner(client=ScriptedModel(), model=name)


def test_a_run_may_have_instructions_of_its_own() -> None:
    model = ScriptedModel(*[says("ok")] * 4)
    runner = ToolLoopRunner(client=model, model="m", system="Be brief.")
    asyncio.run(runner.run("Hi.", system="Be kind."))
    asyncio.run(runner.run("Hi.", system=""))
    runner.run_sync("Hi.", system="Be bold.")
    for _ in runner.stream_sync("Hi."):
        pass
    runner.close()

    first = [request["messages"][0]["content"] for request in model.requests]
    assert first == ["Be kind.", "Hi.", "Be bold.", "Be brief."]


def test_instructions_that_are_no_text_are_refused() -> None:
    with pytest.raises(ConfigError, match="system must be text, not list"):
        runner_of(system=["Be brief."])
    with pytest.raises(ConfigError, match="system must be text, not int"):
        runner_of().run_sync("Hi.", system=5)  # type: ignore[arg-type]  # on purpose


def test_a_keyword_that_no_run_has_is_refused_in_the_blocking_methods_too() -> None:
    runner = runner_of()
    for method in (runner.run_sync, runner.stream_sync):
        with pytest.raises(TypeError, match="max_turn"):
            method("Hi.", max_turn=3)  # type: ignore[call-arg]  # on purpose
    runner.close()


def test_the_blocking_methods_have_the_keywords_of_the_others() -> None:
    def keywords(method: Callable[..., Any]) -> object:
        return inspect.signature(method).parameters

    kind = ToolLoopRunner
    assert keywords(kind.run) == keywords(kind.run_sync) == keywords(kind.stream)
    assert keywords(kind.stream) == keywords(kind.stream_sync)
    assert keywords(kind.resume) == keywords(kind.resume_sync) == keywords(kind.stream_resumed)
    assert keywords(kind.stream_resumed) == keywords(kind.stream_resumed_sync)


class Visible:
    def visible(self, _tool: ToolSpec, _context: object) -> bool:
        return True


class Authorize:
    def authorize(self, _call: ToolCall, _context: object) -> Decision:
        return Decision("allow")


class Policy(Visible, Authorize):
    pass


class Awaited(Authorize):
    async def visible(self, _tool: ToolSpec, _context: object) -> bool:
        return False


class Curious(Visible):
    def authorize(self, _call: ToolCall, _context: object, _spec: ToolSpec) -> Decision:
        return Decision("allow")


class Forgetful(Visible):
    def authorize(self, _call: ToolCall) -> Decision:
        return Decision("allow")


class Hinted(Visible):
    def authorize(self, _call: ToolCall, _context: object, *, tool: ToolSpec) -> Decision:
        return Decision("allow" if tool.read_only else "deny")


class Obscure(Visible):
    authorize = max  # has no signature that anybody could read


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        (Curious(), "authorize gets a call and the context"),
        (Forgetful(), "authorize gets a call and the context"),
        (Visible(), "tool_policy has no method authorize: write `def authorize"),
        (Authorize(), "tool_policy has no method visible: write `def visible"),
        (object(), "tool_policy has no method visible"),
        (Policy, "tool_policy is the class Policy: pass an object of it"),
        (Awaited(), "visible is not awaited"),
    ],
)
def test_half_a_policy_is_refused_instead_of_an_empty_run(policy: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        runner_of(tool_policy=policy)


def test_a_whole_policy_is_accepted() -> None:
    for policy in (Policy(), Hinted(), Obscure()):
        assert runner_of(says("ok"), tool_policy=policy).run_sync("Hi.").assistant_text == "ok"


@pytest.mark.parametrize(
    ("of", "sentence"),
    [
        (lambda result: result.run.to_json(), "not bytes: parse bytes with Run.from_json"),
        (lambda _: None, "resume takes a Run, not None"),
        (
            lambda result: msgspec.structs.replace(result.run, start=9),
            "its start is 9, but it has",
        ),
        (
            lambda result: msgspec.structs.replace(result.run, start=-1),
            "its start is -1, but it has",
        ),
    ],
)
def test_what_is_not_a_run_cannot_go_on(of: Callable[[RunResult], Any], sentence: str) -> None:
    runner = runner_of(says("ok"))
    given = of(runner.run_sync("Hi."))
    with pytest.raises(ConfigError, match=sentence):
        runner.resume_sync(given)
    with pytest.raises(ConfigError, match=sentence):
        runner.stream_resumed(given)


# The user's words in parts: what is passed on, and what is refused before anything is sent


TEXT = {"type": "text", "text": "What is this?"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
ODD = [
    ("What is this?", "must be a mapping such as"),
    (b"PNG", "not bytes"),
    (7, "not int"),
    ({}, "has no type"),
    ({"type": ""}, "has no type"),
    ({"type": 3}, "has no type"),
    ({"type": "text"}, "has no text"),
    ({"type": "text", "text": ["a"]}, "has no text"),
    ({"type": "image_url"}, "has no image URL"),
    ({"type": "image_url", "image_url": "https://x/cat.png"}, "has no image URL"),
    ({"type": "image_url", "image_url": {"url": b"PNG"}}, "has no image URL"),
    (
        {"type": "image_url", "image_url": {"url": "cat.png"}},
        "the image URL 'cat.png': write https",
    ),
    ({"type": "image_url", "image_url": {"url": 1_000_000 * "A"}}, "the image URL 'AAA"),
]


@pytest.mark.parametrize(
    "parts", [[TEXT], [TEXT, IMAGE], [IMAGE], [SOUND], [{"type": "text", "text": ""}], []]
)
def test_parts_that_endpoints_take_are_passed_on(parts: list[Any]) -> None:
    check_parts(parts)


@pytest.mark.parametrize(("part", "told"), ODD)
def test_a_part_that_no_endpoint_takes_is_refused_in_one_sentence(part: Any, told: str) -> None:
    model = ScriptedModel(says("A cat."))
    with pytest.raises(ConfigError) as refused:
        ToolLoopRunner(client=model, model="m").run_sync([TEXT, part])

    sentence = str(refused.value)
    assert sentence.startswith("part 2 of the user text ")
    assert told in sentence
    assert len(sentence) < 250
    assert model.requests == []


# The keyword arguments of a run: each is named once, shown by `help()`, and no other is taken


WATCH = ["on_event", "context"]


@pytest.mark.parametrize(
    ("method", "names"),
    [
        (ToolLoopRunner.resume, ["run", "decisions", *WATCH]),
        (ToolLoopRunner.stream_resumed_sync, ["run", "decisions", *WATCH]),
        (Conversation.resume, ["decisions", *WATCH]),
        (Conversation.stream_resumed, ["decisions", *WATCH]),
    ],
)
def test_the_keywords_of_a_resumed_run_are_shown_one_by_one(
    method: Callable[..., Any], names: list[str]
) -> None:
    _, *parameters = inspect.signature(method).parameters.values()

    assert [each.name for each in parameters] == names
    assert all(each.kind is each.KEYWORD_ONLY for each in parameters if each.name in WATCH)
    assert all(each.default is None for each in parameters if each.name in WATCH)


def test_a_method_whose_keywords_are_shown_is_still_the_same() -> None:
    def method(name: str, **options: Unpack[WatchOptions]) -> str:
        return f"{name} {sorted(options)}"

    assert expand_keywords(method) is method
    assert method("a", context={}) == "a ['context']"


@pytest.mark.parametrize("kind", [WatchOptions, ResumeOptions, TurnOptions, RunOptions])
def test_a_keyword_is_taken_only_where_it_is_named(kind: type[WatchOptions]) -> None:
    check_keywords(dict.fromkeys(kind.__annotations__), kind)
    with pytest.raises(TypeError, match=r"contxt.*context"):
        check_keywords({"contxt": None}, kind)


def test_a_keyword_that_a_resumed_run_does_not_have_is_refused() -> None:
    runner = ToolLoopRunner(ScriptedModel(says("Hi.")), "m")
    run = runner.run_sync("Hi.").run
    chat = Conversation(runner, SqliteStore(":memory:"), "a")
    for blocking in (runner.resume_sync, runner.stream_resumed_sync):
        with pytest.raises(TypeError, match="system"):
            blocking(run, system="")  # type: ignore[call-arg]  # on purpose
    with pytest.raises(TypeError, match="system"):
        asyncio.run(runner.resume(run, system=""))  # type: ignore[call-arg]  # on purpose
    with pytest.raises(TypeError, match="system"):
        chat.resume_sync(system="")  # type: ignore[call-arg]  # on purpose
    runner.close()
