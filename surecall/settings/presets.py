"""Presets: named functions from a config to a config. Compose them by calling them in turn.

A preset changes only what it is about, and never a field that you set. `resolve` returns the
recommended settings for an endpoint and model with yours on top; a runner calls it for every config
that is not resolved yet. The strategy `production` applies all that is known of the provider and
the model; `baseline` leaves out the model's workarounds and calls written as text; `raw` repairs
nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, get_args

from surecall.settings.capabilities import PROVIDERS, canonical_provider, capabilities_for
from surecall.settings.catalog import ModelCatalog
from surecall.settings.config import (
    REMIND,
    REQUIRE,
    ToolCallingConfig,
    ToolUseMode,
    adjust,
    all_settings,
    check_options,
    mark_resolved,
)
from surecall.settings.endpoint_profile import (
    BLANK_ARGUMENTS,
    BODIES,
    FAILED_GENERATION,
    FAMILIES,
    NORMALISERS,
)
from surecall.settings.overlay import deep_merge, names_in, overlay, union
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
DEFAULT = ToolCallingConfig()

CONTENT_NULL = "assistant_tool_calls_content_null_if_blank"
PLAIN_IDS = "call_ids_short_if_odd"
PLAIN_TEXT = "content_text_parts_to_text"
TAG_FALLBACK = "assistant_content_tool_call_tags_to_tool_calls"

# What a provider does not accept in earlier turns. Everything else is the default.
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
# An unknown endpoint may be a gateway to Gemini, which rejects results without a name, so the
# default sends one. Providers that are known and do not need it get none.
KNOWN_CHANGES: JSON = {"name_tool_messages": False}
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
# What `raw` turns off.
_NO_REPAIRS: JSON = {
    "final_ladder": (),
    "request_overrides": {},
    "text_calls": "off",
    "coerce_arguments": False,
    "calls_in_order": False,
    "name_tool_messages": False,
    "body_transforms": (),
    "response_transforms": (),
    "tool_call_transforms": (),
}


@PRESET.register
def default_tool_calling(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Parse every common shape of a call, and request one call at a time."""
    parallel = config.request_overrides.get("parallel_tool_calls", False)
    config = adjust(
        config, request_overrides=config.request_overrides | {"parallel_tool_calls": parallel}
    )
    return openai_compatible_reliability(config)


@PRESET.register
def deepseek_openrouter_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send `reasoning_content` with every tool-call turn, as DeepSeek's thinking mode demands."""
    name = "assistant_tool_calls_reasoning_content_empty_if_missing"
    return _with_message_transforms(config, name)


@PRESET.register
def gemini_openrouter_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Mark calls without a thought signature, so that Gemini does not refuse the history."""
    name = "assistant_tool_calls_signature_skip_validator_if_missing"
    return _with_message_transforms(config, name)


@PRESET.register
def bedrock_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send `null` for a blank text beside calls, which Bedrock refuses; others accept `null`."""
    return _with_message_transforms(config, CONTENT_NULL)


@PRESET.register
def anthropic_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send no blank text beside calls, and only plain ids, as Anthropic and Bedrock demand."""
    return azure_compat(bedrock_compat(config))


@PRESET.register
def azure_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send only call ids of at most 40 letters, digits, `_` and `-`: Azure counts them."""
    return _with_message_transforms(config, PLAIN_IDS)


@PRESET.register
def moonshot_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send reasoning with every call, Moonshot's flavour of schemas, and no demand by name."""
    reasoning = "assistant_tool_calls_reasoning_content_space_if_blank"
    tools = union(config.endpoint.tool_transforms, ("openai_tools_types_into_any_of",))
    config = _with_message_transforms(config, reasoning, PLAIN_TEXT)
    return adjust(config, tool_transforms=tools, demand_by_name=False)


@PRESET.register
def sambanova_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send text instead of a list of texts, which some of SambaNova's models do not take."""
    return _with_message_transforms(config, PLAIN_TEXT)


@PRESET.register
def mistral_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send short call ids and named tool messages, and no user message right after a tool's."""
    return adjust(config, short_call_ids=True, name_tool_messages=True, bridge_user_after_tool=True)


@PRESET.register
def llama_cpp_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send schemas that llama.cpp can read, and no demand by name, which it ignores."""
    transforms = union(config.endpoint.tool_transforms, ("openai_tools_untyped_to_any_type",))
    return adjust(config, tool_transforms=transforms, demand_by_name=False)


@PRESET.register
def content_tag_tool_call_fallback(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Read calls from the text of models that cannot emit structured ones, in every dialect."""
    transforms = union(config.endpoint.response_transforms, (TAG_FALLBACK,))
    return adjust(config, response_transforms=transforms, text_calls="any")


@PRESET.register
def decode_html_entities(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Read `&amp;` in arguments as `&`, for models that escape what they write (Grok)."""
    return adjust(config, decode_html_entities=True)


@PRESET.register
def stringify_containers(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Write an object as JSON text where the schema wants a string."""
    return adjust(config, stringify_containers=True)


@PRESET.register
def forced_continuation(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Answer an early answer with a reminder, then with the demand for a call."""
    return adjust(config, final_ladder=config.final_ladder or (REMIND, REQUIRE))


@PRESET.register
def guided_calls(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Bind every reply to a JSON schema of what is allowed now: a call, or the answer."""
    return adjust(config, call_protocol="guided")


@PRESET.register
def small_model(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Lead a small model by the hand: guided calls after a thought, reminders, replies that end."""
    config = guided_calls(forced_continuation(config))
    return adjust(
        config,
        block_repeated_success=True,
        guided_fit_check=True,
        guided_thought=config.endpoint.guided_thought or MOST_THOUGHT,
        choice_temperature=0.0,
        closing_reminder=True,
        default_max_tokens=config.endpoint.default_max_tokens or MOST_TOKENS,
    )


@PRESET.register
def tool_use_disabled(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Never send tools: the model is for chat only."""
    return adjust(config, tool_use_mode=ToolUseMode.DISABLED)


def openai_compatible_reliability(
    config: ToolCallingConfig = DEFAULT,
    *,
    parallel_tool_calls: bool | None = None,
    enable_content_tag_fallback: bool = False,
) -> ToolCallingConfig:
    """Normalize replies and handle premature answers; optionally parse tags, set parallel calls."""
    if parallel_tool_calls is not None:
        wish = {"parallel_tool_calls": parallel_tool_calls}
        config = config.replace(request_overrides=config.request_overrides | wish)
    if config.endpoint.text_calls == "off":
        config = adjust(config, text_calls="marked")
    config = adjust(
        config,
        coerce_arguments=True,
        body_transforms=union(config.endpoint.body_transforms, BODIES),
        response_transforms=union(config.endpoint.response_transforms, NORMALISERS),
        tool_call_transforms=union(config.endpoint.tool_call_transforms, (BLANK_ARGUMENTS,)),
    )
    config = forced_continuation(config)
    return content_tag_tool_call_fallback(config) if enable_content_tag_fallback else config


def provider_defaults(provider: str, config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Adapt to a provider, by any common spelling; an unknown one gets the defaults."""
    name = _known_or_new(canonical_provider(provider))
    config = default_tool_calling(config)
    if name not in PROVIDERS:
        return config
    able = capabilities_for(name)
    # A model that never hears of the rule, or need not obey it, is not told to repeat its calls.
    config = adjust(config, **KNOWN_CHANGES, calls_in_order=not able.one_call_on_request)
    if name in PROVIDER_WORKAROUNDS:
        config = PRESET[PROVIDER_WORKAROUNDS[name]](config)
    if not able.parallel_tool_calls:
        unsupported = union(config.endpoint.unsupported_options, ("parallel_tool_calls",))
        config = adjust(config, unsupported_options=unsupported)
    return adjust(config, **PROVIDER_CHANGES.get(name, {}))


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
    config: ToolCallingConfig = DEFAULT,
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
    if not routing:
        return config
    return config.replace(request_overrides=deep_merge(config.request_overrides, routing))


def without_text_calls(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Read no calls from text: not marked ones, nor those that a provider failed to read itself."""
    return adjust(
        config,
        text_calls="off",
        response_transforms=_without(config.endpoint.response_transforms, TAG_FALLBACK),
        body_transforms=_without(config.endpoint.body_transforms, FAILED_GENERATION),
    )


def _with_message_transforms(config: ToolCallingConfig, *names: str) -> ToolCallingConfig:
    transforms = union(config.endpoint.message_transforms, names)
    return adjust(config, message_transforms=transforms)


def _without(names: Iterable[str], left_out: str) -> tuple[str, ...]:
    return tuple(name for name in names if name != left_out)


def raw(config: ToolCallingConfig = DEFAULT, **changes: Any) -> ToolCallingConfig:
    """Return a config that repairs nothing beyond arguments that are almost JSON.

    A runner uses it unchanged. `changes` are fields to set.
    """
    return mark_resolved(adjust(config, **_NO_REPAIRS)).replace(**changes)


def tool_calling(config: ToolCallingConfig = DEFAULT, **changes: Any) -> ToolCallingConfig:
    """Change any settings, and only those."""
    return config.replace(**changes)


def resolve(
    *,
    provider: str = "",
    model: str = "",
    strategy: Strategy = "production",
    catalog: ModelCatalog | None = None,
    config: ToolCallingConfig = DEFAULT,
) -> ToolCallingConfig:
    """Return the recommended config for a model at a provider, with the given one laid over it.

    Provider and model may be unknown. A runner uses the result unchanged, and a config that is
    resolved already comes back unchanged.
    """
    if config.is_resolved:
        return config
    *_, (_, resolved) = _stages(provider, model, strategy, catalog, config)
    # Without a place to be resolved for, it is still open to what a runner knows of its own.
    is_final = provider or model or strategy != "production"
    return mark_resolved(resolved) if is_final else resolved


def origins(
    *,
    provider: str = "",
    model: str = "",
    strategy: Strategy = "production",
    catalog: ModelCatalog | None = None,
    config: ToolCallingConfig = DEFAULT,
) -> dict[str, str]:
    """Return where `resolve` takes each setting from that you set or that is not the default."""
    sources: dict[str, str] = {}
    before = all_settings(DEFAULT)
    for source, stage in _stages(provider, model, strategy, catalog, config):
        after = all_settings(stage)
        sources |= {name: source for name in after if after[name] != before[name]}
        before = after
    return sources | dict.fromkeys(config.explicit, "config")


def _stages(
    provider: str,
    model: str,
    strategy: Strategy,
    catalog: ModelCatalog | None,
    config: ToolCallingConfig,
) -> Iterator[tuple[str, ToolCallingConfig]]:
    """Yield the config after each step of `resolve`, with what the step is."""
    if strategy not in get_args(Strategy):
        raise ConfigError(unknown("strategy", str(strategy), get_args(Strategy)))
    if strategy == "raw":
        yield "strategy raw", raw(config)
        return
    base = provider_defaults(provider)
    yield f"provider {canonical_provider(provider)}", base
    if strategy == "baseline":
        base = without_text_calls(base)
        yield "strategy baseline", base
    else:
        for name in (catalog or ModelCatalog.builtin()).workarounds_for(model):
            base = PRESET[name](base)
            yield f"model workaround {name}", base
    config = overlay(base, config)
    yield "config", config
    if strategy in FURTHER:
        yield f"strategy {strategy}", PRESET[FURTHER[strategy]](config)


RAW = raw()
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
