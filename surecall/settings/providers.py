"""The providers: their names and addresses, and in what an endpoint differs from a careful default.

Where each fact comes from is in `provider_sources`. What nobody has reported is not in a row.
"""

from typing import Final

import msgspec

from surecall.values.types import JSON


class Provider(msgspec.Struct, frozen=True):
    """One provider: its name, how else it is called, where it lives, what its endpoint takes.

    A domain stands for itself and all below it; `*` stands for the labels between the first one
    and a domain. `takes` holds fields of `Capabilities`: `parallel_tool_calls` is false where the
    request field of that name is known to be refused, `one_call_on_request` is true where one call
    is known to come if the field says so. Aliases are folded and joined.
    """

    name: str
    aliases: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    local_port: int = 0
    takes: JSON = {}


_NO_OBJECT: Final[JSON] = {"json_object": False}
_NO_FORMAT: Final[JSON] = {"json_object": False, "json_schema": False}
_HONOURED: Final[JSON] = {"one_call_on_request": True}
_SCHEMA: Final[JSON] = {"json_schema": True}

ROWS: Final = (
    Provider("openrouter", domains=("openrouter.ai",), takes=_SCHEMA | _HONOURED),
    Provider("openai", domains=("openai.com",), takes=_SCHEMA | _HONOURED),
    # Takes `json_object` only.
    Provider("deepseek", domains=("deepseek.com",)),
    Provider(
        "gemini",
        ("google", "googleaistudio"),
        ("googleapis.com",),
        takes=_SCHEMA | {"parallel_tool_calls": False},
    ),
    Provider("mistral", ("mistralai",), ("mistral.ai",), takes=_SCHEMA | _HONOURED),
    # Takes `json_schema` by model.
    Provider("groq", domains=("groq.com",), takes=_HONOURED),
    # Takes `json_schema` in another shape.
    Provider("together", ("togetherai",), ("together.xyz", "together.ai")),
    Provider("fireworks", ("fireworksai",), ("fireworks.ai",), takes=_SCHEMA),
    Provider("vllm", takes=_SCHEMA | _HONOURED),
    Provider("llama_cpp", takes=_SCHEMA | _HONOURED),
    # A local server is known by the port that it listens on by default. Ports that many servers
    # share (8000, 8080) say nothing.
    Provider("ollama", local_port=11434, takes=_SCHEMA),
    # Takes no form but `json_schema`.
    Provider("lm_studio", local_port=1234, takes=_SCHEMA | _NO_OBJECT),
    Provider("volcengine", ("ark", "volcano", "volcanoengine"), ("volces.com",), takes=_HONOURED),
    Provider(
        "bedrock",
        ("amazonbedrock", "awsbedrock"),
        (
            "bedrock-runtime.*.amazonaws.com",
            "bedrock-mantle.*.amazonaws.com",
            "bedrock-mantle.*.api.aws",
        ),
    ),
    # Takes `json_schema` by version of its interface.
    Provider(
        "azure",
        ("azureopenai", "azureaifoundry", "azurefoundry", "microsoftfoundry"),
        ("openai.azure.com", "services.ai.azure.com"),
    ),
    Provider("anthropic", ("claude",), ("anthropic.com",), takes=_NO_OBJECT | _HONOURED),
    Provider("xai", ("grok",), ("x.ai",), takes=_SCHEMA),
    # Takes `json_schema` only where every object is closed.
    Provider("cerebras", domains=("cerebras.ai",), takes={"parallel_tool_calls": False}),
    Provider("sambanova", ("sambanovacloud", "sambacloud"), ("sambanova.ai",), takes=_SCHEMA),
    Provider("nebius", ("nebiusai", "nebiusaistudio", "nebiustokenfactory"), ("nebius.com",)),
    # Takes `json_schema` by model.
    Provider("deepinfra", domains=("deepinfra.com",)),
    # Takes `json_schema` in its own flavour.
    Provider("moonshot", ("kimi", "moonshotai"), ("moonshot.ai", "moonshot.cn", "kimi.com")),
    Provider("zai", ("bigmodel", "glm", "zhipu", "zhipuai"), ("z.ai", "bigmodel.cn")),
    Provider(
        "minimax",
        ("minimaxai",),
        ("minimax.io", "minimaxi.com", "minimax.chat"),
        takes=_NO_OBJECT,
    ),
    # Takes `json_schema` by model.
    Provider(
        "dashscope",
        ("alibaba", "alibabacloud", "aliyun", "bailian", "qwencloud"),
        ("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com"),
    ),
)

# Prefixes of the model id with a colon appended, so that a whole name can be spelt as `name:`.
BY_OPENROUTER_MODEL: Final[dict[str, JSON]] = {
    "anthropic/": {"json_schema": False},
    "openai/": _NO_FORMAT,
    "minimax/": _NO_FORMAT,
    "minimax/minimax-m2-her:": {"tools": False},
}
