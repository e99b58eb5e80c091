"""Capabilities: one name per provider, careful defaults, and the token budget."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.settings.capabilities import (
    CUSTOM,
    Capabilities,
    budget_problem,
    canonical_provider,
    capabilities_for,
    estimate_tokens,
    provider_for_url,
    require_provider,
)
from surecall.settings.providers import provider_table
from surecall.values.errors import ConfigError
from tests.support.spec import proves


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        *((name, name) for name in provider_table().by_name),
        ("Open-Router", "openrouter"),
        ("open_router", "openrouter"),
        (" Open Router ", "openrouter"),
        ("volcano", "volcengine"),
        ("volcanoengine", "volcengine"),
        ("volcano_engine", "volcengine"),
        ("Volcano Engine", "volcengine"),
        ("ark", "volcengine"),
        ("llama.cpp", "llama_cpp"),
        ("LlamaCpp", "llama_cpp"),
        ("lm-studio", "lm_studio"),
        ("LMStudio", "lm_studio"),
        ("together_ai", "together"),
        ("togetherai", "together"),
        ("Together.AI", "together"),
        ("fireworks_ai", "fireworks"),
        ("Amazon Bedrock", "bedrock"),
        ("aws-bedrock", "bedrock"),
        ("google", "gemini"),
        ("Google AI Studio", "gemini"),
        ("mistralai", "mistral"),
        ("vLLM", "vllm"),
        ("Azure OpenAI", "azure"),
        ("azure-ai-foundry", "azure"),
        ("Claude", "anthropic"),
        ("x.ai", "xai"),
        ("Grok", "xai"),
        ("SambaNova Cloud", "sambanova"),
        ("Nebius Token Factory", "nebius"),
        ("Deep Infra", "deepinfra"),
        ("Moonshot AI", "moonshot"),
        ("kimi", "moonshot"),
        ("Z.AI", "zai"),
        ("Zhipu AI", "zai"),
        ("MiniMax", "minimax"),
        ("Alibaba Cloud", "dashscope"),
        ("Bailian", "dashscope"),
    ],
)
@proves("C114")
def test_a_provider_has_one_name_and_many_spellings(spelling: str, name: str) -> None:
    assert canonical_provider(spelling) == name


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        *((name, name) for name in provider_table().by_name),
        *((alias, row.name) for row in provider_table().rows for alias in row.aliases),
        ("Open-Router", "openrouter"),
        ("llama.cpp", "llama_cpp"),
        (" Custom ", CUSTOM),
    ],
)
def test_every_name_and_alias_of_a_provider_may_be_required(spelling: str, name: str) -> None:
    assert require_provider(spelling) == name


@pytest.mark.parametrize(
    ("typo", "said"),
    [
        ("openruter", 'unknown endpoint "openruter"; did you mean "openrouter"'),
        ("zhipuia", 'did you mean "zhipuai"'),
        ("custm", 'did you mean "custom"'),
        ("nobody", 'unknown endpoint "nobody"; known: "openrouter", "openai", '),
        ("", 'unknown endpoint ""; known: '),
    ],
)
def test_an_unknown_name_that_is_required_is_refused_with_suggestions(typo: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        require_provider(typo)


def test_an_unknown_provider_comes_back_folded() -> None:
    assert canonical_provider("My-Own.Server  2") == "my_own_server_2"
    assert canonical_provider("") == ""


@given(st.text())
def test_folding_a_provider_twice_changes_nothing(name: str) -> None:
    assert canonical_provider(canonical_provider(name)) == canonical_provider(name)


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.openai.com", "openai"),
        ("https://API.Mistral.AI/v1", "mistral"),
        ("https://api.groq.com/openai", "groq"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://api.cerebras.ai", "cerebras"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini"),
        ("https://mine.openai.azure.com/openai/v1", "azure"),
        ("https://mine.services.ai.azure.com/models", "azure"),
        ("https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1", "bedrock"),
        ("https://bedrock-mantle.us-east-1.api.aws/v1", "bedrock"),
        ("https://bedrock-mantle.us-east-1.amazonaws.com/v1", "bedrock"),
        ("https://api.anthropic.com/v1", "anthropic"),
        ("https://api.x.ai/v1", "xai"),
        ("https://api.sambanova.ai/v1", "sambanova"),
        ("https://api.tokenfactory.nebius.com/v1", "nebius"),
        ("https://api.studio.nebius.com/v1", "nebius"),
        ("https://api.deepinfra.com/v1/openai", "deepinfra"),
        ("https://api.moonshot.ai/v1", "moonshot"),
        ("https://api.moonshot.cn/v1", "moonshot"),
        ("https://api.kimi.com/coding/v1", "moonshot"),
        ("https://api.z.ai/api/paas/v4", "zai"),
        ("https://open.bigmodel.cn/api/paas/v4", "zai"),
        ("https://api.minimax.io/v1", "minimax"),
        ("https://api.minimaxi.com/v1", "minimax"),
        ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "dashscope"),
        ("https://cn-hongkong.dashscope.aliyuncs.com/compatible-mode/v1", "dashscope"),
        ("https://mine.eu-west-1.elb.amazonaws.com/v1", ""),
        ("https://mine.oss.aliyuncs.com", ""),
        ("https://mine.azure.com", ""),
        ("https://box.ai", ""),
        ("http://localhost:11434", "ollama"),
        ("http://127.0.0.1:1234/v1", "lm_studio"),
        ("http://[::1]:11434", "ollama"),
        ("http://127.0.0.1:8000", ""),
        ("http://localhost", ""),
        ("http://example.org:11434", ""),
        ("https://openrouter.ai.example.org", ""),
        ("https://notopenai.com", ""),
        ("https://openai.com:port", ""),
        ("http://[::1", ""),
        ("", ""),
    ],
)
def test_an_address_tells_the_provider_or_nothing(url: str, provider: str) -> None:
    assert provider_for_url(url) == provider


@given(st.text())
def test_no_address_makes_it_raise(url: str) -> None:
    assert provider_for_url(url) in {"", *provider_table().by_name}


def test_an_unknown_provider_is_trusted_with_little() -> None:
    careful = Capabilities(
        tools=True,
        json_object=True,
        json_schema=False,
        streaming=True,
        parallel_tool_calls=True,
        one_call_on_request=False,
        context_window_tokens=None,
        reserved_response_tokens=0,
    )

    assert capabilities_for("acme") == careful == Capabilities()


@pytest.mark.parametrize(
    ("provider", "formats", "flag"),
    [
        ("openrouter", "object schema", "honoured"),
        ("openai", "object schema", "honoured"),
        ("deepseek", "object", "sent"),
        ("gemini", "object schema", "refused"),
        ("mistral", "object schema", "honoured"),
        ("groq", "object", "honoured"),
        ("together", "object", "sent"),
        ("bedrock", "object", "sent"),
        ("fireworks", "object schema", "sent"),
        ("vllm", "object schema", "honoured"),
        ("llama_cpp", "object schema", "honoured"),
        ("ollama", "object schema", "sent"),
        ("lm_studio", "schema", "sent"),
        ("volcengine", "object", "honoured"),
        ("cerebras", "object", "refused"),
        ("azure", "object", "sent"),
        ("anthropic", "", "honoured"),
        ("xai", "object schema", "sent"),
        ("sambanova", "object schema", "sent"),
        ("nebius", "object", "sent"),
        ("deepinfra", "object", "sent"),
        ("moonshot", "object", "sent"),
        ("zai", "object", "sent"),
        ("minimax", "", "sent"),
        ("dashscope", "object", "sent"),
    ],
)
@proves("C114")
def test_a_known_provider_can_do_what_the_table_says(
    provider: str, formats: str, flag: str
) -> None:
    able = capabilities_for(provider)

    assert able.tools
    assert able.streaming
    assert able.json_object is ("object" in formats)
    assert able.json_schema is ("schema" in formats)
    assert able.parallel_tool_calls is (flag != "refused")
    assert able.one_call_on_request is (flag == "honoured")


@pytest.mark.parametrize("provider", ["openrouter", "Open-Router", "open router"])
@pytest.mark.parametrize(
    ("model", "formats", "tools"),
    [
        ("openai/gpt-5.2:nitro", "", True),
        ("anthropic/claude-opus-4.6", "object", True),
        ("Anthropic/Claude", "object", True),
        ("google/gemini-2.5-flash:nitro", "object schema", True),
        ("minimax/minimax-m2.1:nitro", "", True),
        ("minimax/minimax-m2-her", "", False),
        ("minimax/minimax-m2-her:free", "", False),
        ("minimax/minimax-m2-hermes", "", True),
    ],
)
@proves("C114")
def test_a_routed_model_may_be_able_to_do_less(
    provider: str, model: str, formats: str, *, tools: bool
) -> None:
    able = capabilities_for(provider, model)

    assert able.tools is tools
    assert able.json_object is ("object" in formats)
    assert able.json_schema is ("schema" in formats)
    assert able.parallel_tool_calls


def test_the_exceptions_of_a_router_are_not_those_of_a_provider() -> None:
    assert capabilities_for("openai", "openai/gpt-5.2").json_schema


def test_an_override_replaces_what_the_table_says_and_leaves_no_trace() -> None:
    able = capabilities_for("openrouter", "openai/x", json_schema=True, context_window_tokens=10)

    assert able.json_schema
    assert not able.json_object
    assert able.context_window_tokens == 10
    assert not capabilities_for("openrouter", "openai/x").json_schema
    assert capabilities_for("openai", parallel_tool_calls=False) != capabilities_for("openai")
    assert capabilities_for("openai").parallel_tool_calls


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        pytest.param({"tool": True}, "capabilities of acme: .*unknown field `tool`", id="name"),
        pytest.param({"tools": "false"}, "Expected `bool`, got `str`", id="text"),
        pytest.param({"context_window_tokens": 1.5}, "got `float`", id="number"),
        pytest.param({"context_window_tokens": 0}, "must be at least 1", id="no-window"),
        pytest.param({"reserved_response_tokens": -1}, "cannot be negative", id="negative"),
        pytest.param(
            {"context_window_tokens": 10, "reserved_response_tokens": 11},
            r"reserved_response_tokens \(11\) exceeds context_window_tokens \(10\)",
            id="reserve-beyond-window",
        ),
    ],
)
def test_a_bad_override_is_refused(overrides: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        capabilities_for("acme", "", **overrides)


def test_a_reserve_beyond_the_window_is_refused_however_it_is_built() -> None:
    with pytest.raises(ConfigError, match="exceeds"):
        Capabilities(context_window_tokens=5, reserved_response_tokens=6)


def test_the_narrowest_window_holds_one_token() -> None:
    narrowest = Capabilities(context_window_tokens=1)

    assert budget_problem(1, narrowest) is None
    assert budget_problem(2, narrowest) is not None
    assert narrowest.__struct_config__.frozen


def test_the_reserve_may_fill_the_window_or_stand_alone() -> None:
    full = Capabilities(context_window_tokens=5, reserved_response_tokens=5)

    assert budget_problem(0, full) is None
    assert budget_problem(1, full) is not None
    assert budget_problem(10**9, Capabilities(reserved_response_tokens=5)) is None


@proves("C115")
def test_a_prompt_beyond_the_window_is_described_in_a_sentence() -> None:
    narrow = Capabilities(context_window_tokens=10, reserved_response_tokens=2)

    assert budget_problem(8, narrow) is None
    assert budget_problem(50, narrow) == (
        "The prompt takes about 50 tokens, but only 8 fit: "
        "the context window has 10 tokens, of which 2 are reserved for the answer."
    )


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("a" * 400, 100), ("€€", 2), ("\ud800", 1)],
)
def test_four_bytes_are_counted_as_a_token(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens
