"""Presets: named functions from a config to a config. Composing them is calling them in turn.

A preset changes only what it is about. `raw` changes nothing; `baseline` is the default plus the
provider, and reads no calls from text; `production` does, adds what the catalog knows about the
model, and is what a runner uses when it is given no config.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, get_args

from surecall.settings.capabilities import PROVIDERS, canonical_provider, capabilities_for
from surecall.settings.catalog import ModelCatalog
from surecall.settings.config import (
    FAMILIES,
    REMIND,
    REQUIRE,
    ToolCallingConfig,
    ToolUseMode,
    check_options,
    deep_merge,
    names_in,
    union,
)
from surecall.values.errors import ConfigError
from surecall.values.family import Family, closest, unknown
from surecall.values.types import JSON

Strategy: TypeAlias = Literal[
    "raw", "baseline", "production", "contract", "guided", "guided_contract"
]

LOOKS_LIKE = 0.85
# Small models may write the same character for ever; a call or a short answer takes less than this.
MOST_TOKENS = 1024
# A sentence: enough to choose the right one of several, and no essay.
MOST_THOUGHT = 80
# What a strategy adds to production.
FURTHER: dict[Strategy, str] = {
    "guided": "small_model",
    "guided_contract": "small_model",
}
# The strategies under which a scenario's own contract is in force.
CONTRACTED: frozenset[Strategy] = frozenset({"contract", "guided_contract"})
PRESET: Family[ToolCallingConfig] = Family("preset")
RAW = ToolCallingConfig()

FAILED_GENERATION = "failed_generation_to_message"
BODIES = (
    "response_body_unwrapped",
    FAILED_GENERATION,
    "choice_delta_to_message",
    "choices_of_one_turn_joined",
)
# In this order: the list of calls first, then each call, then its arguments.
NORMALISERS = (
    "assistant_tool_calls_json_text_to_array",
    "assistant_function_call_to_tool_calls",
    "assistant_tool_calls_object_to_array",
    "assistant_content_call_parts_to_tool_calls",
    "assistant_tool_calls_flat_to_function",
    "assistant_tool_calls_parallel_expanded",
    "assistant_tool_calls_name_tags_to_arguments",
    "assistant_tool_calls_blank_dropped",
    "assistant_tool_calls_arguments_json_string_if_hash",
    "assistant_content_parts_to_text",
    "assistant_content_edges_trimmed",
)
BLANK_ARGUMENTS = "assistant_tool_calls_arguments_blank_to_empty_object"
CONTENT_NULL = "assistant_tool_calls_content_null_if_blank"
PLAIN_IDS = "call_ids_short_if_odd"
PLAIN_TEXT = "content_text_parts_to_text"
TAG_FALLBACK = "assistant_content_tool_call_tags_to_tool_calls"

# What a provider does not want to see in earlier turns. Everything else is the default.
PROVIDER_CHANGES: dict[str, JSON] = {
    "openai": {"echo_fields": ()},
    "mistral": {"echo_fields": (), "echo_call_fields": False},
    "gemini": {"name_tool_messages": True},
    "groq": {"echo_fields": ()},
    "fireworks": {"echo_fields": ("reasoning_content",)},
    "azure": {"echo_fields": ()},  # deepsense-ai/db-ally#95
    # Refuses `reasoning_content`, but takes back the field that it sends itself.
    "cerebras": {"echo_fields": ("reasoning",), "demand_by_name": False},  # QwenLM/qwen-code#11045
    "deepinfra": {"demand_by_name": False},  # BerriAI/litellm#4655
    "zai": {"demand_by_name": False},  # vectorize-io/hindsight#4246
    "ollama": {"demand_by_name": False},
    "lm_studio": {"demand_by_name": False},
}
# An unknown endpoint may be a gateway to Gemini, which refuses results without a name. Others take
# one: OpenAI's own examples used to send it.
UNKNOWN_CHANGES: JSON = {"name_tool_messages": True}
PROVIDER_WORKAROUNDS = {
    # Some hosts behind the router are Bedrock.
    "openrouter": "bedrock_compat",
    "bedrock": "anthropic_compat",  # earendil-works/pi#781
    "anthropic": "anthropic_compat",  # openai/openai-agents-python#1147
    "azure": "azure_compat",  # BerriAI/litellm#11392
    "moonshot": "moonshot_compat",  # theopenco/llmgateway#2093
    "sambanova": "sambanova_compat",  # musistudio/claude-code-router#965
    "zai": "bedrock_compat",  # earendil-works/pi#3365
    "minimax": "bedrock_compat",  # PTFOPlayer/TinyHarness#36
    "mistral": "mistral_compat",
    "deepseek": "deepseek_openrouter_compat",
    "gemini": "gemini_openrouter_compat",
    "llama_cpp": "llama_cpp_compat",
}


@PRESET.register
def default_tool_calling(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Read every common shape of a call, and ask for one call at a time."""
    return openai_compatible_reliability(config, parallel_tool_calls=_parallel(config))


@PRESET.register
def deepseek_openrouter_compat(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Send `reasoning_content` with every tool-call turn, as DeepSeek's thinking mode demands."""
    name = "assistant_tool_calls_reasoning_content_empty_if_missing"
    return config.but(message_transforms=union(config.message_transforms, (name,)))


@PRESET.register
def gemini_openrouter_compat(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Mark calls without a thought signature, so that Gemini does not refuse the history."""
    name = "assistant_tool_calls_signature_skip_validator_if_missing"
    return config.but(message_transforms=union(config.message_transforms, (name,)))


@PRESET.register
def bedrock_compat(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Send `null` for a blank text beside calls, which Bedrock refuses; others accept `null`."""
    return config.but(message_transforms=union(config.message_transforms, (CONTENT_NULL,)))


@PRESET.register
def anthropic_compat(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Send no blank text beside calls, and only plain ids, as Anthropic and Bedrock demand."""
    return azure_compat(bedrock_compat(config))


@PRESET.register
def azure_compat(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Send only call ids of at most 40 letters, digits, `_` and `-`: Azure counts them."""
    return config.but(message_transforms=union(config.message_transforms, (PLAIN_IDS,)))


@PRESET.register
def moonshot_compat(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Send reasoning with every call, Moonshot's flavour of schemas, and no demand by name."""
    reasoning = "assistant_tool_calls_reasoning_content_space_if_blank"
    tools = union(config.tool_transforms, ("openai_tools_types_into_any_of",))
    messages = union(config.message_transforms, (reasoning, PLAIN_TEXT))
    return config.but(message_transforms=messages, tool_transforms=tools, demand_by_name=False)


@PRESET.register
def sambanova_compat(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Send text instead of a list of texts, which some of SambaNova's models do not take."""
    return config.but(message_transforms=union(config.message_transforms, (PLAIN_TEXT,)))


@PRESET.register
def mistral_compat(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Send short call ids and named tool messages, and no user message right after a tool's."""
    return config.but(short_call_ids=True, name_tool_messages=True, bridge_user_after_tool=True)


@PRESET.register
def llama_cpp_compat(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Send schemas that llama.cpp can read, and no demand by name, which it ignores."""
    transforms = union(config.tool_transforms, ("openai_tools_untyped_to_any_type",))
    return config.but(tool_transforms=transforms, demand_by_name=False)


@PRESET.register
def content_tag_tool_call_fallback(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Read calls from the text of models that cannot emit structured ones, in every dialect."""
    transforms = union(config.response_transforms, (TAG_FALLBACK,))
    return config.but(response_transforms=transforms, text_calls="any")


@PRESET.register
def decode_html_entities(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Read `&amp;` in arguments as `&`, for models that escape what they write (Grok)."""
    return config.but(decode_html_entities=True)


@PRESET.register
def stringify_containers(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Write an object as JSON text where the schema wants a string."""
    return config.but(stringify_containers=True)


@PRESET.register
def forced_continuation(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Answer an early answer with a reminder, then with the demand for a call."""
    return config.but(final_ladder=config.final_ladder or (REMIND, REQUIRE))


@PRESET.register
def guided_calls(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Bind every reply to a JSON schema of what is allowed now: a call, or the answer."""
    return config.but(call_protocol="guided")


@PRESET.register
def small_model(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Lead a small model by the hand: guided calls after a thought, reminders, replies that end."""
    config = guided_calls(forced_continuation(config))
    return config.but(
        block_repeated_success=True,
        guided_fit_check=True,
        guided_thought=config.guided_thought or MOST_THOUGHT,
        choice_temperature=0.0,
        closing_reminder=True,
        default_max_tokens=config.default_max_tokens or MOST_TOKENS,
    )


@PRESET.register
def tool_use_disabled(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Never send tools: the model is for chat only."""
    return config.but(tool_use_mode=ToolUseMode.DISABLED)


def openai_compatible_reliability(
    config: ToolCallingConfig = RAW,
    *,
    parallel_tool_calls: bool | None = None,
    enable_content_tag_fallback: bool = False,
) -> ToolCallingConfig:
    """Normalise replies and meet early answers; optionally read tags and ask for parallel calls."""
    overrides = dict(config.request_overrides)
    if parallel_tool_calls is not None:
        overrides["parallel_tool_calls"] = parallel_tool_calls
    config = config.but(
        coerce_arguments=True,
        text_calls="marked" if config.text_calls == "off" else config.text_calls,
        body_transforms=union(config.body_transforms, BODIES),
        response_transforms=union(config.response_transforms, NORMALISERS),
        tool_call_transforms=union(config.tool_call_transforms, (BLANK_ARGUMENTS,)),
        request_overrides=overrides,
    )
    config = forced_continuation(config)
    return content_tag_tool_call_fallback(config) if enable_content_tag_fallback else config


def _parallel(config: ToolCallingConfig) -> bool:
    return bool(config.request_overrides.get("parallel_tool_calls", False))


def provider_defaults(provider: str, config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Adapt to a provider, by any common spelling; an unknown one gets the safe defaults."""
    name = _known_or_new(canonical_provider(provider))
    config = openai_compatible_reliability(config, parallel_tool_calls=_parallel(config))
    if name in PROVIDER_WORKAROUNDS:
        config = PRESET[PROVIDER_WORKAROUNDS[name]](config)
    able = capabilities_for(name)
    if not able.parallel_tool_calls:
        unsupported = union(config.unsupported_options, ("parallel_tool_calls",))
        config = config.but(unsupported_options=unsupported)
    # A model that never hears of the rule, or need not obey it, is not told to repeat its calls.
    config = config.but(calls_in_order=config.calls_in_order or not able.one_call_on_request)
    unlisted = {} if name in PROVIDERS else UNKNOWN_CHANGES
    return config.but(**PROVIDER_CHANGES.get(name, unlisted))


def _known_or_new(name: str) -> str:
    """Refuse what looks like a typo; an unknown provider is accepted, and so is none."""
    known = not name or name in PROVIDERS
    if not known and (near := closest(name, PROVIDERS, 1, LOOKS_LIKE)):
        raise ConfigError(
            f'unknown provider "{name}"; did you mean "{near[0]}"? '
            'For an endpoint of your own, pass provider="custom".'
        )
    return name


def openrouter_routing(  # noqa: PLR0913  # the router's own fields, by keyword
    config: ToolCallingConfig = RAW,
    *,
    route: str | None = None,
    transforms: list[str] | None = None,
    provider_only: list[str] | None = None,
    provider_order: list[str] | None = None,
    provider_ignore: list[str] | None = None,
    require_parameters: bool = False,
) -> ToolCallingConfig:
    """Choose among OpenRouter's upstream providers, by name or by what they honour."""
    preferences = {
        "only": provider_only,
        "order": provider_order,
        "ignore": provider_ignore,
        "require_parameters": require_parameters,
    }
    chosen = {key: value for key, value in preferences.items() if value}
    routing: JSON = {"provider": chosen} if chosen else {}
    if route:
        routing["route"] = route
    if transforms is not None:
        routing["transforms"] = transforms
    return config.but(request_overrides=deep_merge(config.request_overrides, routing))


def without_text_calls(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Read no calls from text: not marked ones, nor those that a provider failed to read itself."""
    return config.but(
        text_calls="off",
        response_transforms=_without(config.response_transforms, TAG_FALLBACK),
        body_transforms=_without(config.body_transforms, FAILED_GENERATION),
    )


def _without(names: Iterable[str], left_out: str) -> tuple[str, ...]:
    return tuple(name for name in names if name != left_out)


def raw(config: ToolCallingConfig = RAW) -> ToolCallingConfig:
    """Return the bare config: arguments are read with some tolerance, and nothing else is repaired.

    A runner without a config uses `resolve`; this is how to ask for none of that.
    """
    return config


def tool_calling(config: ToolCallingConfig = RAW, **changes: Any) -> ToolCallingConfig:
    """Change any settings, and only those."""
    return config.but(**changes)


def resolve(
    *,
    provider: str = "",
    model: str = "",
    strategy: Strategy = "production",
    catalog: ModelCatalog | None = None,
    config: ToolCallingConfig = RAW,
) -> ToolCallingConfig:
    """Return the recommended config for a model at a provider, of which either may be unknown."""
    match strategy:
        case "raw":
            return raw(config)
        case "baseline":
            found = provider_defaults(provider, default_tool_calling(config))
            return without_text_calls(found) if config.text_calls == "off" else found
        case "production" | "contract" | "guided" | "guided_contract":
            config = provider_defaults(provider, default_tool_calling(config))
            for name in (catalog or ModelCatalog.builtin()).workarounds_for(model):
                config = PRESET[name](config)
            return PRESET[FURTHER[strategy]](config) if strategy in FURTHER else config
        case _:
            raise ConfigError(unknown("strategy", str(strategy), get_args(Strategy)))


_UNITED = (*FAMILIES, "tool_allowlist", "tool_denylist")


def merge(*mappings: Mapping[str, Any]) -> JSON:
    """Merge partial configurations in mapping form, left to right.

    Request overrides merge deeply, name lists unite (an explicit empty list clears), everything
    else is replaced. A null says nothing and changes nothing.
    """
    merged: JSON = {}
    for mapping in mappings:
        for key, value in mapping.items():
            if value is None:
                continue
            if key == "request_overrides":
                check_options(value, key)
                merged[key] = deep_merge(merged.get(key, {}), value)
            elif key in _UNITED:
                names = _names(key, value)
                merged[key] = list(union(merged.get(key, ()), names)) if names else []
            else:
                merged[key] = value
    return merged


def _names(key: str, value: Any) -> list[str]:
    if isinstance(value, str):
        return names_in(value)
    if isinstance(value, list | tuple):
        return list(value)
    raise ConfigError(f"{key} must be a list of names, not {type(value).__name__}")
