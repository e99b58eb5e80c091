"""What public issues and documents say of the providers, and where.

The rows of `providers`, the presets and the strict profiles of the simulator follow from this. A
run does not import it; the reference prints it. A source is an issue or a pull request as
`owner/repository#number`, a file of a repository, or the title of a document.
"""

from typing import Final

import msgspec


class Known(msgspec.Struct, frozen=True):
    """One fact about an endpoint, and who says so."""

    says: str
    sources: tuple[str, ...]


def _known(says: str, *sources: str) -> Known:
    return Known(says, sources)


KNOWN: Final[dict[str, tuple[Known, ...]]] = {
    "openrouter": (
        _known("Some hosts behind it refuse a blank text beside calls.", "vercel/ai#14888"),
        _known("An option that a host does not know is ignored.", "OpenRouter: Provider Routing"),
    ),
    "openai": (
        _known("Refuses an illegal name, also in the history.", "NousResearch/hermes-agent#51958"),
        _known("Some reasoning models refuse `parallel_tool_calls`.", "evalstate/fast-agent#279"),
    ),
    "deepseek": (
        _known(
            "While it thinks, it wants `reasoning_content` back; an empty one counts.",
            "router-for-me/CLIProxyAPI#2999",
            "theopenco/llmgateway#2093",
            "DeepSeek: Thinking Mode",
        ),
        _known("While it thinks, it refuses a forced tool.", "cloudwego/eino#994"),
    ),
    "gemini": (
        _known("Wants its thought signature back on the call.", "Gitlawb/openclaude#67"),
        _known("Wants the tool's name with each result.", "vectorize-io/hindsight#187"),
        _known(
            "Refuses unknown options. The body of an error is a list.",
            "jackmpcollins/magentic#382",
            "MinLL/SkyrimNet-GamePlugin#77",
        ),
    ),
    "mistral": (
        _known("Takes ids of nine letters and digits only.", "langchain-ai/langchain#24668"),
        _known("Refuses undocumented message fields.", "BerriAI/litellm#30835"),
    ),
    "groq": (
        _known(
            "Refuses undocumented message fields.",
            "NousResearch/hermes-agent#11089",
            "janhq/jan#8136",
        ),
        _known("Answers a call it cannot read with 400.", "huggingface/smolagents#1119"),
    ),
    "fireworks": (_known("Refuses `reasoning_details`.", "NousResearch/hermes-agent#64296"),),
    "ollama": (_known("Refuses `content: null`.", "SAIL-Research-Lab/cheetahclaws#72"),),
    "bedrock": (
        _known(
            "Refuses a blank text beside calls; `null` is taken.",
            "vercel/ai#14888",
            "anomalyco/opencode#15715",
        ),
        _known(
            "Refuses ids of more than 64 characters, or of others than letters, digits, `_`, `-`.",
            "earendil-works/pi#781",
            "RooCodeInc/Roo-Code#10990",
            "BerriAI/litellm#34292",
        ),
        _known("Wants the results of all calls of a turn together.", "agno-agi/agno#6242"),
        _known("Refuses `frequency_penalty`.", "brainlid/langchain#356"),
    ),
    "azure": (
        _known(
            "Refuses ids of more than 40 characters.",
            "BerriAI/litellm#11392",
            "Azure/azure-dev#7324",
            "Helicone/helicone#5575",
        ),
        _known("Refuses undocumented message fields.", "deepsense-ai/db-ally#95"),
        _known("Wants `content` to be there.", "microsoft/FLAML#1232"),
        _known(
            "Old versions of its interface and some reasoning models refuse `parallel_tool_calls`.",
            "Azure/azure-rest-api-specs#29545",
            "UKGovernmentBEIS/inspect_ai#1460",
        ),
        _known("Takes `json_schema` since version 2024-08-01.", "ax-llm/ax#473"),
    ),
    "anthropic": (
        _known(
            "Its OpenAI endpoint obeys `parallel_tool_calls` and ignores `response_format`, "
            "`strict` and the `name` of messages.",
            "Anthropic: OpenAI SDK compatibility",
        ),
        _known(
            "Takes ids of letters, digits, `_` and `-` only.",
            "openai/openai-agents-python#1147",
            "maximhq/bifrost#5097",
        ),
        _known("Wants ids unique in the whole conversation.", "BerriAI/litellm#23510"),
        _known(
            "Refuses a blank text, also beside calls.",
            "BiFangKNT/mtga#68",
            "anthropics/claude-code#62396",
        ),
    ),
    "xai": (
        _known(
            "Refuses `content: null` beside calls; an empty text is taken. The body of an error "
            "is `code` and `error`, both texts.",
            "langchain-ai/langchain#34140",
            "charmbracelet/crush#964",
        ),
        _known("Takes every `tool_choice`, at most 200 tools.", "xAI: Function Calling"),
        _known("Takes `json_schema`.", "ReqLLM: ReqLLM.Providers.XAI"),
        _known(
            "Has an option against parallel calls; no report says whether it is obeyed.",
            "vercel/ai#9694",
        ),
        _known("Refuses penalties.", "yym68686/uni-api#105", "miaoxworld/NativeTavern#83"),
        _known("Its models may escape arguments as HTML.", "openclaw/openclaw#35276"),
    ),
    "cerebras": (
        _known(
            "Refuses `reasoning_content` and takes `reasoning`, its own field. The body of an "
            "error is flat.",
            "QwenLM/qwen-code#11045",
            "proxysoul/Empryo#209",
            "Kilo-Org/kilocode#10375",
        ),
        _known("Refuses `parallel_tool_calls`.", "agno-agi/agno#4508", "ReqLLM: Cerebras"),
        _known("Knows no named tool.", "ReqLLM: Cerebras"),
        _known(
            "Takes `json_schema` where every object is closed, without `minItems`.",
            "agno-agi/agno#6013",
            "musistudio/claude-code-router#708",
        ),
    ),
    "sambanova": (
        _known("Some models refuse a list as `content`.", "musistudio/claude-code-router#965"),
        _known(
            "Takes every `tool_choice`, `json_object` and `json_schema`.",
            "SambaNova: Function Calling & JSON Mode in SambaNova Cloud",
        ),
        _known(
            "Has an option against parallel calls; no report says whether it is obeyed.",
            "sambanova/sambanova-ai-provider: src/sambanova-chat-settings.ts",
        ),
    ),
    "nebius": (
        _known(
            "Takes `reasoning_content`, `stream_options` and `strict`, but no role `developer`.",
            "PrimeIntellect-ai/prime-agent#715",
            "can1357/oh-my-pi#10899",
        ),
        _known("Takes `json_object`.", "LiteLLM: Nebius AI Studio"),
        _known("Its older host still answers.", "andrewyng/openworker#193"),
    ),
    "deepinfra": (
        _known("Knows no named tool.", "BerriAI/litellm#4655"),
        _known("Takes `json_object`.", "DeepInfra: JSON Mode"),
        _known("Takes `json_schema` for some models.", "truefoundry/models#1300"),
        _known("Answers 405 where a model has no tools.", "truefoundry/models#944"),
    ),
    "moonshot": (
        _known(
            "While it thinks, it wants `reasoning_content` beside calls; an empty one counts as "
            "missing, a space does not.",
            "theopenco/llmgateway#2093",
            "earendil-works/pi#4179",
            "looplj/axonhub#686",
        ),
        _known(
            "While it thinks, it refuses a named tool, and all but K3 refuse `required`.",
            "UKGovernmentBEIS/inspect_ai#5152",
            "AstrBotDevs/AstrBot#7805",
            "can1357/oh-my-pi#1077",
        ),
        _known(
            "Wants a type in every schema, within `anyOf` and not beside it; the root stays an "
            "object.",
            "earendil-works/pi#4138",
            "MoonshotAI/kimi-cli#2531",
            "vercel/ai#18921",
            "14790897/MiqroForge-Desktop#1165",
            "MoonshotAI/walle: docs/mfjs-spec.md",
        ),
        _known(
            "Refuses an empty turn without calls; beside calls an empty text is taken.",
            "AstrBotDevs/AstrBot#7200",
            "BerriAI/litellm#42186",
        ),
        _known("Its models want their own ids kept.", "vybestack/llxprt-code#713"),
    ),
    "zai": (
        _known(
            "Refuses any `tool_choice` but `auto`.",
            "vectorize-io/hindsight#4246",
            "AgentScope Java: GLM",
        ),
        _known("Others saw it take `required`.", "harn-vm: 98-zai.toml"),
        _known("Wants at least one message of a user.", "anomalyco/opencode#2557"),
        _known(
            "Refuses a blank text beside calls, at times.",
            "earendil-works/pi#3365",
            "anomalyco/opencode#22209",
        ),
        _known("Wants its thoughts back with the results.", "Z.AI: Thinking Mode"),
        _known("Knows `json_object` and no `name` of messages.", "AgentScope Java: GLM"),
    ),
    "minimax": (
        _known(
            "Refuses a blank text beside calls; `null` is taken.",
            "PTFOPlayer/TinyHarness#36",
            "earendil-works/pi#3365",
        ),
        _known("Refuses a tool without `parameters`.", "QwenLM/qwen-code#11834"),
        _known(
            "Refuses results that do not match the calls, and arguments that are not JSON.",
            "MiniMax-AI/MiniMax-M2#76",
            "HKUDS/nanobot#2373",
        ),
        _known(
            "Documents neither `response_format` nor `tool_choice` nor `parallel_tool_calls`.",
            "AgentScope Java: MiniMax",
        ),
        _known("Wants its thoughts back with the calls.", "MiniMax: Compatible OpenAI API"),
    ),
    "dashscope": (
        _known(
            "While it thinks, it refuses a forced tool.",
            "cloudwego/eino#994",
            "QwenLM/qwen-code#7659",
            "agentscope-ai/agentscope#1608",
        ),
        _known(
            "Takes a form only where a message has the word JSON.",
            "agno-agi/agno#5317",
            "plastic-labs/honcho#663",
        ),
        _known(
            "Takes `json_schema` for some models.",
            "langchain4j/langchain4j#4111",
            "Instructor for PHP: Qwen",
        ),
        _known("Sends several calls only on request.", "lobehub/lobehub#5584"),
        _known("Knows no role `developer`.", "apmantza/pi-free#45"),
        _known("Refuses arguments that are not JSON.", "HKUDS/nanobot#2469"),
    ),
}
