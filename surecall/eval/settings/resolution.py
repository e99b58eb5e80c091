"""Resolves the effective settings of an evaluation, and where each of them came from.

    flag  >  SURECALL_*  >  OPENROUTER_*  >  surecall.toml or [tool.surecall]  >  preset  >  default

All sources are passed in. A blank variable is ignored, an invalid value is an error that names its
source, and an unknown variable is a warning.

With `--shard auto` or `auto/8`, the shard comes from the variables of a job scheduler:

    SLURM_ARRAY_TASK_ID      of a Slurm job array (sbatch --array=0-7), with the number of tasks
    JOB_COMPLETION_INDEX     of an indexed Kubernetes job, without the number

Invalid or inconsistent variables are an error: otherwise one shard would run twice, another never.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from surecall.eval.settings.endpoint import endpoint_address
from surecall.eval.settings.endpoint_keys import (
    ApiKey,
    EndpointAddress,
    SettingLocation,
    find_keys,
    select_key,
)
from surecall.eval.settings.fields import FIELDS, OWN_PREFIX, ROUTER_PREFIX, SettingField, Settings
from surecall.eval.settings.value_parsers import AUTO, Shard, parse_dotenv
from surecall.eval.settings.value_parsers import parse_shard as read_shard
from surecall.settings.connection import redact_url
from surecall.values.errors import ConfigError
from surecall.values.family import canonical_name, unknown_name_message
from surecall.values.types import JSON, Secret

_SLURM: Final = "SLURM_ARRAY_TASK_"
_SLURM_ID: Final = f"{_SLURM}ID"
_KUBERNETES_ID: Final = "JOB_COMPLETION_INDEX"
_SHARD_HINT: Final = "pass the shard explicitly, such as --shard 1/8"


def resolve_shard(value: Any, environ: Mapping[str, str]) -> Shard:
    """Return the shard; `auto` takes it from the scheduler, `auto/8` sets the number of shards."""
    word, slash, parts = str(value).partition("/")
    if word.strip().lower() != AUTO:
        return read_shard(value)
    count = read_shard(f"1/{parts}").count if slash else None
    given = {
        name: part_of(environ, count)
        for name, part_of in ((_SLURM_ID, _slurm_shard), (_KUBERNETES_ID, _kubernetes_shard))
        if name in environ
    }
    if not given:
        names = f"{_SLURM_ID} nor {_KUBERNETES_ID}"
        raise ConfigError(f"--shard auto found no scheduler: neither {names} is set; {_SHARD_HINT}")
    first, *others = given.values()
    if any(other != first for other in others):
        shards = ", ".join(
            f"{name} means {part.index}/{part.count}" for name, part in given.items()
        )
        raise ConfigError(f"two schedulers disagree about the shard: {shards}; {_SHARD_HINT}")
    return first


def _slurm_shard(environ: Mapping[str, str], count: int | None) -> Shard:
    """Return the shard of a Slurm job array, whose indices may have any start and step."""
    index, least = (_require_number(environ, f"{_SLURM}{name}") for name in ("ID", "MIN"))
    most, tasks = (_require_number(environ, f"{_SLURM}{name}") for name in ("MAX", "COUNT"))
    step = _require_number(environ, f"{_SLURM}STEP") if f"{_SLURM}STEP" in environ else 1
    if step < 1 or not least <= index <= most or (index - least) % step:
        raise ConfigError(
            f"{_SLURM_ID} is {index}, which is not in {least}-{most}:{step}; {_SHARD_HINT}"
        )
    if (most - least) // step + 1 != tasks:
        raise ConfigError(
            f"the job array has {tasks} tasks, but {least}-{most}:{step} has another number; use "
            f"one range of indices without gaps, such as --array=0-7, or {_SHARD_HINT}"
        )
    if count not in {None, tasks}:
        raise ConfigError(
            f"the job array has {tasks} tasks, not {count}; submit the whole array again (recorded "
            f"trials do not run again), or {_SHARD_HINT}"
        )
    return Shard((index - least) // step + 1, tasks)


def _kubernetes_shard(environ: Mapping[str, str], count: int | None) -> Shard:
    """Return the shard of an indexed Kubernetes job, whose index starts at zero."""
    index = _require_number(environ, _KUBERNETES_ID)
    if count is None:
        raise ConfigError(
            "Kubernetes does not set the number of shards; pass the job's completions, such as "
            "--shard auto/8"
        )
    if index >= count:
        raise ConfigError(
            f"{_KUBERNETES_ID} is {index} and starts at 0, so there are more than {count} shards; "
            "pass the job's completions after auto/"
        )
    return Shard(index + 1, count)


def _require_number(environ: Mapping[str, str], name: str) -> int:
    """Return the number in a scheduler's variable; raise if it is missing or invalid."""
    text = environ.get(name, "").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= len("4294967295")):
        shown = f'is "{text[:40]}", not a number' if text else "is not set"
        raise ConfigError(f"{name} {shown}; {_SHARD_HINT}")
    return int(text)


DEFAULT: Final = "default"
FULL: Final = "full"
SAMPLING_FIELDS: Final = ("temperature", "top_p", "top_k", "min_p")

_FULL_PRESET: Final[JSON] = {
    "trials": 10,
    "model_filter": "all",
    "sampling_profile_filter": "default,recommended,conversation,creative,tool_calling",
    "scenarios": "all",
    "strategy_filter": "raw,baseline,production",
}
# A comparison of endpoints uses their first, unprocessed replies.
_REFERENCE_DEFAULTS: Final[JSON] = {"strategy_filter": "raw", "empty_response_retry_count": 0}
_LANGUAGE_VARIABLES: Final = frozenset(
    f"{ROUTER_PREFIX}LANGUAGE_POLICY_{what}" for what in ("FILTER", "MATRIX", "STRICT")
)
_ADAPTER_VARIABLE: Final = f"{ROUTER_PREFIX}HTTP_ADAPTER"
# The token of the proxy and the file of lessons are not settings of an evaluation.
_OTHER_VARIABLES: Final = (f"{OWN_PREFIX}PROXY_TOKEN", f"{OWN_PREFIX}LESSONS")
_KNOWN_VARIABLES: Final = {
    *(name for field in FIELDS.values() for name in field.variables),
    *_OTHER_VARIABLES,
}


class EffectiveSettings(msgspec.Struct, frozen=True):
    """The effective settings, where each came from, and warnings about them.

    `locations` has only the settings that were set. `secrets` are all API keys found, including
    those not sent; `key_warning` is the reason if the key for the URL is withheld. `skipped_files`
    are scenario files that were not loaded.
    """

    settings: Settings
    sources: dict[str, str]
    warnings: tuple[str, ...] = ()
    locations: dict[str, SettingLocation] = {}
    secrets: tuple[Secret, ...] = ()
    skipped_files: tuple[str, ...] = ()
    key_warning: str = ""

    def location(self, name: str) -> SettingLocation:
        """Return where a setting comes from."""
        return self.locations.get(name, SettingLocation.NOWHERE)


class _RawSetting(msgspec.Struct, frozen=True):
    """An unparsed value. A lower rank takes precedence."""

    value: Any
    source: str
    location: SettingLocation
    rank: int = 0


def resolve_settings(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    toml_text: str | None = None,
    pyproject_text: str | None = None,
    dotenv_text: str = "",
    trusted_origins: Collection[str] = (),
) -> EffectiveSettings:
    """Return the effective settings. `flags` maps setting names to values; None and () mean unset.

    `trusted_origins` are those to which a file of the directory may send a key; see `select_key`.
    """
    dotenv = parse_dotenv(dotenv_text)
    keys = find_keys(environ, dotenv)
    variables = _merge_variables(environ, dotenv)
    warnings = list(_variable_warnings({name: each.value for name, each in variables.items()}))
    layers = (
        _flag_settings(flags),
        _variable_settings(variables, lambda field: field.own_variable),
        _variable_settings(variables, lambda field: field.router_variable),
        _file_settings(toml_text, pyproject_text),
    )
    found: dict[str, _RawSetting] = {}
    for rank, layer in reversed(tuple(enumerate(layers))):
        found |= {name: msgspec.structs.replace(each, rank=rank) for name, each in layer}
    withheld = _resolve_key(found, keys, trusted_origins)
    values = {name: _parse_setting(FIELDS[name], each, environ) for name, each in found.items()}
    sources = dict.fromkeys(FIELDS, DEFAULT) | {name: each.source for name, each in found.items()}
    places = {name: each.location for name, each in found.items()}
    ranks = {name: each.rank for name, each in found.items()}
    _resolve_sampling(values, sources, ranks)
    _resolve_matrix(values, sources, ranks)
    _apply_reference_defaults(values, sources)
    warnings += _apply_preset(values, sources)
    _check_serving_flags(values, places)
    secrets = tuple(key.value for key in keys)
    return EffectiveSettings(
        Settings(**values), sources, tuple(warnings), places, secrets, key_warning=withheld
    )


def public_settings(settings: Settings) -> JSON:
    """Return all settings as plain data, without the API key and secrets in the URL."""
    shown = redact_url(settings.base_url)
    plain: JSON = msgspec.to_builtins(
        msgspec.structs.replace(settings, api_key=None, base_url=shown)
    )
    del plain["api_key"]
    return plain


def result_settings(settings: Settings) -> JSON:
    """Return the settings that affect the results of trials; all trials of a run share them."""
    found = {
        name: value for name, value in public_settings(settings).items() if FIELDS[name].shapes
    }
    return found | {"base_url": redact_url(endpoint_address(settings))}


def llm_options(settings: Settings) -> JSON:
    """Return the options that override a profile; single settings take precedence over the JSON."""
    single = {name: getattr(settings, name) for name in SAMPLING_FIELDS}
    named = {name: value for name, value in single.items() if value is not None}
    return settings.llm_options_defaults | named


RawSettings = Iterator[tuple[str, _RawSetting]]


def _merge_variables(
    environ: Mapping[str, str], dotenv: Mapping[str, str]
) -> dict[str, _RawSetting]:
    """Merge the variables; `.env` never overrides the environment."""
    files = {
        name: _RawSetting(dotenv[name], f"{name} in .env", SettingLocation.DOTENV)
        for name in dotenv
    }
    return files | {
        name: _RawSetting(environ[name], name, SettingLocation.ENVIRONMENT) for name in environ
    }


def _flag_settings(flags: Mapping[str, Any]) -> RawSettings:
    """Yield the settings from flags."""
    for name, value in flags.items():
        if name not in FIELDS or not FIELDS[name].flags:
            raise ConfigError(
                unknown_name_message("flag", name, (name for name in FIELDS if name != "api_key"))
            )
        if value is not None and value != ():
            yield name, _RawSetting(value, FIELDS[name].flags[-1], SettingLocation.COMMAND_LINE)


def _variable_settings(
    variables: Mapping[str, _RawSetting], variable_of: Callable[[SettingField], str]
) -> RawSettings:
    """Yield the settings from variables; `variable_of` returns the name of one."""
    for field in FIELDS.values():
        found = variables.get(variable_of(field))
        if found is not None and (found.value.strip() or field.blank):
            yield field.name, found


def _file_settings(toml_text: str | None, pyproject_text: str | None) -> RawSettings:
    """Yield the settings from surecall.toml, or else from pyproject.toml."""
    if toml_text is not None:
        place, table = "surecall.toml", _parse_toml("surecall.toml", toml_text)
    else:
        place = "[tool.surecall] in pyproject.toml"
        tools = _parse_toml("pyproject.toml", pyproject_text or "").get("tool", {})
        table = tools.get("surecall", {}) if isinstance(tools, dict) else {}
    if not isinstance(table, dict):
        raise ConfigError(f"{place}: must be a table of settings")
    for written, value in table.items():
        name = canonical_name(written)
        if name == "api_key":
            raise ConfigError(
                f"{place}: api_key is not allowed in a shared file; "
                f"set {OWN_PREFIX}API_KEY in the environment or in .env"
            )
        if name not in FIELDS:
            raise ConfigError(f"{place}: {unknown_name_message('setting', written, FIELDS)}")
        if value != "" or FIELDS[name].blank:
            yield name, _RawSetting(value, f"{place}: {written}", SettingLocation.FILE)


def _parse_toml(label: str, text: str) -> JSON:
    # Imported on demand to keep `--help` fast.
    import tomllib  # noqa: PLC0415 - see above

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"{label}: not valid TOML: {problem}") from problem


def _parse_setting(field: SettingField, raw: _RawSetting, environ: Mapping[str, str]) -> Any:
    """Parse a value; the shard may come from the scheduler."""
    try:
        if field.name == "shard":
            return resolve_shard(raw.value, environ)
        return field.parse(raw.value)
    except ConfigError as problem:
        # Not chained: the original error may contain the value, which may be a key.
        raise ConfigError(f"{raw.source}: {problem}") from None


def _resolve_sampling(values: JSON, sources: dict[str, str], ranks: dict[str, int]) -> None:
    """Drop a sampling setting that JSON options from a source with precedence override."""
    for name in SAMPLING_FIELDS:
        inside = name in values.get("llm_options_defaults", {})
        if inside and name in values and ranks["llm_options_defaults"] < ranks[name]:
            del values[name]
            sources[name] = sources["llm_options_defaults"]


def _resolve_matrix(values: JSON, sources: dict[str, str], ranks: dict[str, int]) -> None:
    """Let the strategy matrix override the filter, unless the filter's source has precedence."""
    stronger = "strategy_filter" in ranks and ranks["strategy_filter"] < ranks.get(
        "strategy_matrix", -1
    )
    if values.get("strategy_matrix") and stronger:
        values["strategy_matrix"] = False
        sources["strategy_matrix"] = sources["strategy_filter"]


def _resolve_key(
    raw_settings: dict[str, _RawSetting], keys: tuple[ApiKey, ...], trusted_origins: Collection[str]
) -> str:
    """Set the key that may be sent to the URL, if any; return the reason if one is withheld."""
    raw_settings.pop("api_key", None)
    base = raw_settings.get("base_url")
    address = EndpointAddress()
    if base is not None:
        address = EndpointAddress(
            _parse_setting(FIELDS["base_url"], base, {}), base.location, base.source
        )
    key, warning = select_key(address, keys, trusted_origins)
    if key is not None:
        raw_settings["api_key"] = _RawSetting(key.value.reveal(), key.source, key.location, 0)
    return warning


def _apply_reference_defaults(values: JSON, sources: dict[str, str]) -> None:
    """Set the defaults of a comparison of endpoints: raw replies, without retries."""
    if values.get("reference"):
        for name, value in _REFERENCE_DEFAULTS.items():
            if name not in values:
                values[name], sources[name] = value, f"with {sources['reference']}"


def _apply_preset(values: JSON, sources: dict[str, str]) -> list[str]:
    """Apply the preset to settings that are not set; return the warnings."""
    if not (values.get("full") or values.get("eval_preset")):
        return []
    source = sources["eval_preset"] if values.get("eval_preset") else sources["full"]
    label = f"preset {FULL} ({source})"
    values.update(full=True, eval_preset=FULL)
    for name, value in _FULL_PRESET.items():
        if name not in values:
            values[name], sources[name] = value, label
    if not values.get("strategy_matrix"):
        return []
    warning = f"{sources['strategy_matrix']} has no effect with the preset {FULL}"
    values["strategy_matrix"], sources["strategy_matrix"] = False, label
    return [warning]


def _check_serving_flags(values: JSON, places: Mapping[str, SettingLocation]) -> None:
    """Raise `ConfigError` for a flag about serving a file when no file is served."""
    for name in ("threads", "context"):
        if places.get(name) is SettingLocation.COMMAND_LINE and not values.get("gguf"):
            flag = FIELDS[name].flags[-1]
            raise ConfigError(f"{flag} has no effect without --gguf: pass --gguf or remove {flag}")


def _variable_warnings(variables: Mapping[str, str]) -> Iterator[str]:
    """Warn about unknown variables; raise `ConfigError` for those that would affect results."""
    for name, value in variables.items():
        if name in _LANGUAGE_VARIABLES:
            if canonical_name(value) not in {"", "0", "off", "false", "no", "none"}:
                raise ConfigError(
                    f"{name} is not supported: surecall does not measure the language of answers; "
                    "unset it"
                )
        elif name == _ADAPTER_VARIABLE:
            if value.strip():
                yield f"{name} has no effect: there is only one HTTP client"
        elif name.startswith((OWN_PREFIX, ROUTER_PREFIX)) and name not in _KNOWN_VARIABLES:
            yield f"{name} is not a setting{_suggest_variable(name)}"


def _suggest_variable(name: str) -> str:
    """Return a suggestion for an unknown variable, by its name after the prefix."""
    prefix = OWN_PREFIX if name.startswith(OWN_PREFIX) else ROUTER_PREFIX
    endings = {field.suffix: field for field in FIELDS.values()}
    near = get_close_matches(name.removeprefix(prefix)[:64], endings, n=1)
    if not near:
        return ""
    field = endings[near[0]]
    same = prefix + field.suffix
    return f'; did you mean "{same if same in _KNOWN_VARIABLES else field.own_variable}"?'
