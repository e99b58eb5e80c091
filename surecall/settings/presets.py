"""Presets: named functions that take a config and return a changed one. Compose them by nesting.

A preset never changes a field that you set. `resolve` returns the recommended settings for an
endpoint and model, overridden by yours; a runner calls it for every config that is not resolved
yet. The strategy `production` applies all provider settings and model workarounds; `baseline` omits
the model workarounds and calls written as text; `raw` repairs nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, get_args

from surecall.settings.capabilities import canonical_provider, capabilities_for
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
    BODY_TRANSFORMS,
    FAILED_GENERATION,
    FAMILIES,
    RESPONSE_NORMALIZERS,
)
from surecall.settings.overlay import deep_merge, overlay, split_names, union
from surecall.settings.providers import provider_table
from surecall.values.errors import ConfigError
from surecall.values.family import Family, closest_matches, unknown_name_message
from surecall.values.types import JSON

Strategy: TypeAlias = Literal[
    "raw", "baseline", "production", "contract", "guided", "guided_contract"
]

TYPO_SIMILARITY = 0.85
# Small models may repeat a character forever; a call or a short answer takes fewer tokens.
SMALL_MODEL_MAX_TOKENS = 1024
# One sentence: enough to choose among several values.
SMALL_MODEL_THOUGHT_CHARS = 80
# The presets that strategies add to `production`.
STRATEGY_PRESETS: dict[Strategy, str] = {
    "guided": "small_model",
    "guided_contract": "small_model",
}
# The strategies that enforce a scenario's contract.
CONTRACT_STRATEGIES: frozenset[Strategy] = frozenset({"contract", "guided_contract"})
PRESET: Family[ToolCallingConfig] = Family("preset")
DEFAULT = ToolCallingConfig()

CONTENT_NULL = "assistant_tool_calls_content_null_if_blank"
PLAIN_IDS = "call_ids_short_if_odd"
PLAIN_TEXT = "content_text_parts_to_text"
TAG_FALLBACK = "assistant_content_tool_call_tags_to_tool_calls"

# An unknown endpoint may be a gateway to Gemini, which rejects results without a name, so the
# default sends one. Known providers that do not need it get none.
KNOWN_PROVIDER_SETTINGS: JSON = {"name_tool_messages": False}
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
    """Parse all common call formats, and request one call at a time."""
    parallel = config.request_overrides.get("parallel_tool_calls", False)
    config = adjust(
        config, request_overrides=config.request_overrides | {"parallel_tool_calls": parallel}
    )
    return openai_compatible_reliability(config)


@PRESET.register
def deepseek_openrouter_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send `reasoning_content` with every tool-call turn, as DeepSeek's thinking mode requires."""
    name = "assistant_tool_calls_reasoning_content_empty_if_missing"
    return _with_message_transforms(config, name)


@PRESET.register
def gemini_openrouter_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Mark calls without a thought signature, so that Gemini accepts the history."""
    name = "assistant_tool_calls_signature_skip_validator_if_missing"
    return _with_message_transforms(config, name)


@PRESET.register
def bedrock_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send `null` instead of blank text beside calls, which Bedrock rejects."""
    return _with_message_transforms(config, CONTENT_NULL)


@PRESET.register
def anthropic_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send no blank text beside calls, and only plain ids, as Anthropic and Bedrock require."""
    return azure_compat(bedrock_compat(config))


@PRESET.register
def azure_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send only call ids of at most 40 letters, digits, `_`, and `-`, as Azure requires."""
    return _with_message_transforms(config, PLAIN_IDS)


@PRESET.register
def moonshot_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send reasoning with every call and schemas that Moonshot accepts; require no tool by name."""
    reasoning = "assistant_tool_calls_reasoning_content_space_if_blank"
    tools = union(config.endpoint.tool_transforms, ("openai_tools_types_into_any_of",))
    config = _with_message_transforms(config, reasoning, PLAIN_TEXT)
    return adjust(config, tool_transforms=tools, demand_by_name=False)


@PRESET.register
def sambanova_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send text instead of a list of text parts, which some SambaNova models reject."""
    return _with_message_transforms(config, PLAIN_TEXT)


@PRESET.register
def mistral_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send short call ids and named tool messages, and no user message after a tool message."""
    return adjust(config, short_call_ids=True, name_tool_messages=True, bridge_user_after_tool=True)


@PRESET.register
def llama_cpp_compat(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Send schemas that llama.cpp can parse; require no tool by name, which it ignores."""
    transforms = union(config.endpoint.tool_transforms, ("openai_tools_untyped_to_any_type",))
    return adjust(config, tool_transforms=transforms, demand_by_name=False)


@PRESET.register
def content_tag_tool_call_fallback(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Parse calls in every dialect from the text of models that cannot make native ones."""
    transforms = union(config.endpoint.response_transforms, (TAG_FALLBACK,))
    return adjust(config, response_transforms=transforms, text_calls="any")


@PRESET.register
def decode_html_entities(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Decode HTML entities in arguments, such as `&amp;`, for models that escape them (Grok)."""
    return adjust(config, decode_html_entities=True)


@PRESET.register
def stringify_containers(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Write an object or a list as JSON text where the schema requires a string."""
    return adjust(config, stringify_containers=True)


@PRESET.register
def forced_continuation(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Respond to a premature answer with a reminder, then with a required call."""
    return adjust(config, final_ladder=config.final_ladder or (REMIND, REQUIRE))


@PRESET.register
def guided_calls(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Constrain every reply to a JSON schema of what is allowed now: a call or the answer."""
    return adjust(config, call_protocol="guided")


@PRESET.register
def small_model(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Help small models: guided calls after a thought, reminders, and limited replies."""
    config = guided_calls(forced_continuation(config))
    return adjust(
        config,
        block_repeated_success=True,
        guided_fit_check=True,
        guided_thought=config.endpoint.guided_thought or SMALL_MODEL_THOUGHT_CHARS,
        choice_temperature=0.0,
        closing_reminder=True,
        default_max_tokens=config.endpoint.default_max_tokens or SMALL_MODEL_MAX_TOKENS,
    )


@PRESET.register
def tool_use_disabled(config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Never send tools, for chat-only models."""
    return adjust(config, tool_use_mode=ToolUseMode.DISABLED)


def openai_compatible_reliability(
    config: ToolCallingConfig = DEFAULT,
    *,
    parallel_tool_calls: bool | None = None,
    enable_content_tag_fallback: bool = False,
) -> ToolCallingConfig:
    """Normalize replies and re-prompt after premature answers; optionally parse tagged calls."""
    if parallel_tool_calls is not None:
        override = {"parallel_tool_calls": parallel_tool_calls}
        config = config.replace(request_overrides=config.request_overrides | override)
    if config.endpoint.text_calls == "off":
        config = adjust(config, text_calls="marked")
    config = adjust(
        config,
        coerce_arguments=True,
        body_transforms=union(config.endpoint.body_transforms, BODY_TRANSFORMS),
        response_transforms=union(config.endpoint.response_transforms, RESPONSE_NORMALIZERS),
        tool_call_transforms=union(config.endpoint.tool_call_transforms, (BLANK_ARGUMENTS,)),
    )
    config = forced_continuation(config)
    return content_tag_tool_call_fallback(config) if enable_content_tag_fallback else config


def provider_defaults(provider: str, config: ToolCallingConfig = DEFAULT) -> ToolCallingConfig:
    """Apply a provider's settings, by any common name; an unknown one gets the defaults."""
    name = _check_provider(canonical_provider(provider))
    config = default_tool_calling(config)
    row = provider_table().by_name.get(name)
    if row is None:
        return config
    capabilities = capabilities_for(name)
    # Do not blame the model for several calls where the provider does not enforce a single one.
    config = adjust(
        config, **KNOWN_PROVIDER_SETTINGS, calls_in_order=not capabilities.one_call_on_request
    )
    config = adjust(config, **row.settings)
    if row.workaround:
        config = PRESET[row.workaround](config)
    if not capabilities.parallel_tool_calls:
        unsupported = union(config.endpoint.unsupported_options, ("parallel_tool_calls",))
        config = adjust(config, unsupported_options=unsupported)
    return config


def _check_provider(name: str) -> str:
    """Return the provider's name; one that looks like a typo is an error."""
    known = not name or name in provider_table().by_name
    if not known and (near := closest_matches(name, provider_table().by_name, 1, TYPO_SIMILARITY)):
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
    """Restrict OpenRouter's upstream providers, by name or by supported parameters."""
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
    """Parse no calls from text, including output that the provider failed to parse."""
    return adjust(
        config,
        text_calls="off",
        response_transforms=_without(config.endpoint.response_transforms, TAG_FALLBACK),
        body_transforms=_without(config.endpoint.body_transforms, FAILED_GENERATION),
    )


def _with_message_transforms(config: ToolCallingConfig, *names: str) -> ToolCallingConfig:
    transforms = union(config.endpoint.message_transforms, names)
    return adjust(config, message_transforms=transforms)


def _without(names: Iterable[str], excluded: str) -> tuple[str, ...]:
    return tuple(name for name in names if name != excluded)


def raw(config: ToolCallingConfig = DEFAULT, **changes: Any) -> ToolCallingConfig:
    """Return a config that repairs only malformed JSON in arguments.

    A runner uses it unchanged. `changes` are fields to set.
    """
    return mark_resolved(adjust(config, **_NO_REPAIRS)).replace(**changes)


def tool_calling(config: ToolCallingConfig = DEFAULT, **changes: Any) -> ToolCallingConfig:
    """Return the config with some fields set."""
    return config.replace(**changes)


def resolve(
    *,
    provider: str = "",
    model: str = "",
    strategy: Strategy = "production",
    catalog: ModelCatalog | None = None,
    config: ToolCallingConfig = DEFAULT,
) -> ToolCallingConfig:
    """Return the recommended config for a model at a provider, overridden by the given one.

    Provider and model may be unknown. A runner uses the result unchanged. A resolved config is
    returned unchanged.
    """
    if config.is_resolved:
        return config
    *_, (_, resolved) = _stages(provider, model, strategy, catalog, config)
    # Without a provider, model, or strategy, a runner may still resolve it for its own.
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
    """Return the source of each setting in `resolve` that is set or differs from the default."""
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
    """Yield the name of each step of `resolve` with the config after it."""
    if strategy not in get_args(Strategy):
        raise ConfigError(unknown_name_message("strategy", str(strategy), get_args(Strategy)))
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
    if strategy in STRATEGY_PRESETS:
        yield f"strategy {strategy}", PRESET[STRATEGY_PRESETS[strategy]](config)


RAW = raw()
_UNITED_LISTS = (*FAMILIES, "tool_allowlist", "tool_denylist")


def merge(*mappings: Mapping[str, Any]) -> JSON:
    """Merge partial configurations in mapping form, left to right.

    Request overrides merge deeply, lists of names unite (an empty list clears), all other values
    are replaced. A null changes nothing.
    """
    merged: JSON = {}
    for mapping in mappings:
        for key, value in mapping.items():
            if value is None:
                continue
            if key == "request_overrides":
                check_options(value, key)
                merged[key] = deep_merge(merged.get(key, {}), value)
            elif key in _UNITED_LISTS:
                names = _require_name_list(key, value)
                merged[key] = list(union(merged.get(key, ()), names)) if names else []
            else:
                merged[key] = value
    return merged


def _require_name_list(key: str, value: Any) -> list[str]:
    """Return a list of names, or comma-separated text as one; raise for other types."""
    if isinstance(value, str):
        return split_names(value)
    if isinstance(value, list | tuple):
        return list(value)
    raise ConfigError(f"{key} must be a list of names, not {type(value).__name__}")
