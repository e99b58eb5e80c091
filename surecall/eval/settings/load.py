"""The effective settings of an evaluation, and where each of them came from.

    flag  >  SURECALL_*  >  OPENROUTER_*  >  surecall.toml or [tool.surecall]  >  preset  >  default

Everything is passed in, nothing is looked up here. A blank variable is ignored. An impossible
value is an error that names its place; an unknown variable is a warning.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from surecall.eval.settings.endpoint import address_of
from surecall.eval.settings.fields import FIELDS, OWN, ROUTER, Field, Settings
from surecall.eval.settings.keys import Address, Key, Place, key_for, keys_in
from surecall.eval.settings.parse import parse_dotenv
from surecall.eval.settings.schedulers import shard_from
from surecall.settings.connection import shown_url
from surecall.values.errors import ConfigError
from surecall.values.family import canonical, unknown
from surecall.values.types import JSON, Secret

DEFAULT: Final = "default"
FULL: Final = "full"
SAMPLING: Final = ("temperature", "top_p", "top_k", "min_p")

_FULL_PRESET: Final[JSON] = {
    "trials": 10,
    "model_filter": "all",
    "sampling_profile_filter": "default,recommended,conversation,creative,tool_calling",
    "scenarios": "all",
    "strategy_filter": "raw,baseline,production",
}
# What a comparison of endpoints is about: their replies as they come, the first ones.
_AS_IT_COMES: Final[JSON] = {"strategy_filter": "raw", "empty_response_retry_count": 0}
_OFF: Final = frozenset({"", "0", "off", "false", "no", "none"})
_LANGUAGE: Final = frozenset(
    f"{ROUTER}LANGUAGE_POLICY_{what}" for what in ("FILTER", "MATRIX", "STRICT")
)
_ADAPTER: Final = f"{ROUTER}HTTP_ADAPTER"
_COMPARED: Final = 64
_KNOWN: Final = {name for field in FIELDS.values() for name in field.variables}


class Effective(msgspec.Struct, frozen=True):
    """Settings, where each was found, and what the user should be told about them.

    `places` has only those that were set. `secrets` are all keys that were found, also those that
    are not sent; `withheld` says why, if one is not sent to the address that was given. `unloaded`
    names scenario files that were left out.
    """

    settings: Settings
    sources: dict[str, str]
    warnings: tuple[str, ...] = ()
    places: dict[str, Place] = {}
    secrets: tuple[Secret, ...] = ()
    unloaded: tuple[str, ...] = ()
    withheld: str = ""

    def place(self, name: str) -> Place:
        """Return where a setting was found."""
        return self.places.get(name, Place.NOWHERE)


class _Found(msgspec.Struct, frozen=True):
    """A value as it was written. Of two, the one of lower rank counts."""

    value: Any
    source: str
    place: Place
    rank: int


class _Variable(msgspec.Struct, frozen=True):
    """A variable, of the environment or in `.env`."""

    value: str
    source: str
    place: Place


def load(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    toml_text: str | None = None,
    pyproject_text: str | None = None,
    dotenv_text: str = "",
    trusted: Collection[str] = (),
) -> Effective:
    """Decide every setting. `flags` are by name of the setting; None and () mean: not given.

    `trusted` are the origins to which a file of the directory may send a key; see `keys.py`.
    """
    dotenv = parse_dotenv(dotenv_text)
    keys = keys_in(environ, dotenv)
    variables = _variables(environ, dotenv)
    warnings = list(_remarks({name: each.value for name, each in variables.items()}))
    layers = (
        _given_flags(flags),
        _given_variables(variables, lambda field: field.own_variable),
        _given_variables(variables, lambda field: field.router_variable),
        _given_in_file(toml_text, pyproject_text),
    )
    found: dict[str, _Found] = {}
    for rank, layer in reversed(tuple(enumerate(layers))):
        found |= {name: _Found(value, source, place, rank) for name, value, source, place in layer}
    withheld = _settle_key(found, keys, trusted)
    _settle_shard(found, environ)
    values = {name: _parsed(FIELDS[name], each) for name, each in found.items()}
    sources = dict.fromkeys(FIELDS, DEFAULT) | {name: each.source for name, each in found.items()}
    places = {name: each.place for name, each in found.items()}
    ranks = {name: each.rank for name, each in found.items()}
    _settle_sampling(values, sources, ranks)
    _settle_matrix(values, sources, ranks)
    _settle_reference(values, sources)
    warnings += _settle_preset(values, sources)
    _check_serving(values, places)
    secrets = tuple(key.value for key in keys)
    return Effective(
        Settings(**values), sources, tuple(warnings), places, secrets, withheld=withheld
    )


def public(settings: Settings) -> JSON:
    """Return all settings as plain data, without the key and what an address may hold of one."""
    shown = shown_url(settings.base_url)
    plain: JSON = msgspec.to_builtins(
        msgspec.structs.replace(settings, api_key=None, base_url=shown)
    )
    del plain["api_key"]
    return plain


def shaping(settings: Settings) -> JSON:
    """Return the settings that change the result of a trial: those of one run share them."""
    found = {name: value for name, value in public(settings).items() if FIELDS[name].shapes}
    return found | {"base_url": shown_url(address_of(settings))}


def llm_options(settings: Settings) -> JSON:
    """Return the options to lay over a profile; a setting of its own beats the JSON."""
    single = {name: getattr(settings, name) for name in SAMPLING}
    named = {name: value for name, value in single.items() if value is not None}
    return settings.llm_options_defaults | named


Given = Iterator[tuple[str, Any, str, Place]]


def _variables(environ: Mapping[str, str], dotenv: Mapping[str, str]) -> dict[str, _Variable]:
    """Put the two kinds of variables together: `.env` never overrides the environment."""
    files = {name: _Variable(dotenv[name], f"{name} in .env", Place.DOTENV) for name in dotenv}
    return files | {
        name: _Variable(value, name, Place.ENVIRONMENT) for name, value in environ.items()
    }


def _given_flags(flags: Mapping[str, Any]) -> Given:
    for name, value in flags.items():
        if name not in FIELDS or not FIELDS[name].flags:
            raise ConfigError(unknown("flag", name, (name for name in FIELDS if name != "api_key")))
        if value is not None and value != ():
            yield name, value, FIELDS[name].flags[-1], Place.COMMAND_LINE


def _given_variables(variables: Mapping[str, _Variable], named: Callable[[Field], str]) -> Given:
    for field in FIELDS.values():
        found = variables.get(named(field))
        if found is not None and (found.value.strip() or field.blank):
            yield field.name, found.value, found.source, found.place


def _given_in_file(toml_text: str | None, pyproject_text: str | None) -> Given:
    if toml_text is not None:
        place, table = "surecall.toml", _toml("surecall.toml", toml_text)
    else:
        place = "[tool.surecall] in pyproject.toml"
        tools = _toml("pyproject.toml", pyproject_text or "").get("tool", {})
        table = tools.get("surecall", {}) if isinstance(tools, dict) else {}
    if not isinstance(table, dict):
        raise ConfigError(f"{place}: must be a table of settings")
    for written, value in table.items():
        name = canonical(written)
        if name == "api_key":
            raise ConfigError(
                f"{place}: the key does not belong in a file that is shared; "
                f"put {OWN}API_KEY into the environment or into .env"
            )
        if name not in FIELDS:
            raise ConfigError(f"{place}: {unknown('setting', written, FIELDS)}")
        if value != "" or FIELDS[name].blank:
            yield name, value, f"{place}: {written}", Place.FILE


def _toml(place: str, text: str) -> JSON:
    # Loaded on demand: it costs milliseconds that `--help` should not pay.
    import tomllib  # noqa: PLC0415 - see above

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"{place}: not valid TOML: {problem}") from problem


def _parsed(field: Field, found: _Found) -> Any:
    try:
        return field.parse(found.value)
    except ConfigError as problem:
        # Not chained: the first error may hold the value, and that may be a key.
        raise ConfigError(f"{found.source}: {problem}") from None


def _settle_shard(found: dict[str, _Found], environ: Mapping[str, str]) -> None:
    """Ask the scheduler which part is meant, where that is left to it."""
    if "shard" in found:
        asked = found["shard"]
        try:
            part = shard_from(asked.value, environ)
        except ConfigError as problem:
            raise ConfigError(f"{asked.source}: {problem}") from None
        found["shard"] = msgspec.structs.replace(asked, value=f"{part.index}/{part.count}")


def _settle_sampling(values: JSON, sources: dict[str, str], ranks: dict[str, int]) -> None:
    """Drop a single value that a stronger place overrides inside its JSON."""
    for name in SAMPLING:
        inside = name in values.get("llm_options_defaults", {})
        if inside and name in values and ranks["llm_options_defaults"] < ranks[name]:
            del values[name]
            sources[name] = sources["llm_options_defaults"]


def _settle_matrix(values: JSON, sources: dict[str, str], ranks: dict[str, int]) -> None:
    """Let the matrix override the filter, unless the filter comes from a stronger place."""
    stronger = "strategy_filter" in ranks and ranks["strategy_filter"] < ranks.get(
        "strategy_matrix", -1
    )
    if values.get("strategy_matrix") and stronger:
        values["strategy_matrix"] = False
        sources["strategy_matrix"] = sources["strategy_filter"]


def _settle_key(found: dict[str, _Found], keys: tuple[Key, ...], trusted: Collection[str]) -> str:
    """Take the key that may go to the address, and leave out any other; say why, if so."""
    found.pop("api_key", None)
    base = found.get("base_url")
    address = Address()
    if base is not None:
        address = Address(_parsed(FIELDS["base_url"], base), base.place, base.source)
    key, told = key_for(address, keys, trusted)
    if key is not None:
        found["api_key"] = _Found(key.value.reveal(), key.source, key.place, 0)
    return told


def _settle_reference(values: JSON, sources: dict[str, str]) -> None:
    """Judge what endpoints themselves answer, and at once, unless something else is said."""
    if values.get("reference"):
        for name, value in _AS_IT_COMES.items():
            if name not in values:
                values[name], sources[name] = value, f"beside {sources['reference']}"


def _settle_preset(values: JSON, sources: dict[str, str]) -> list[str]:
    """Fill in what the preset says where nothing else did; return the warnings."""
    if not (values.get("full") or values.get("eval_preset")):
        return []
    asked = sources["eval_preset"] if values.get("eval_preset") else sources["full"]
    label = f"preset {FULL} ({asked})"
    values.update(full=True, eval_preset=FULL)
    for name, value in _FULL_PRESET.items():
        if name not in values:
            values[name], sources[name] = value, label
    if not values.get("strategy_matrix"):
        return []
    told = f"{sources['strategy_matrix']} has no effect beside the preset {FULL}"
    values["strategy_matrix"], sources["strategy_matrix"] = False, label
    return [told]


def _check_serving(values: JSON, places: Mapping[str, Place]) -> None:
    """Refuse a flag about serving a file where none is served: it would have no effect."""
    for name in ("threads", "context"):
        if places.get(name) is Place.COMMAND_LINE and not values.get("gguf"):
            flag = FIELDS[name].flags[-1]
            raise ConfigError(f"{flag} is about a model that is served here; name it with --gguf")


def _remarks(variables: Mapping[str, str]) -> Iterator[str]:
    """Warn about unknown variables; refuse those that would have changed the result."""
    for name, value in variables.items():
        if name in _LANGUAGE:
            if canonical(value) not in _OFF:
                raise ConfigError(
                    f"{name} is not supported: the language of answers is not measured; unset it"
                )
        elif name == _ADAPTER:
            if value.strip():
                yield f"{name} has no effect: there is only one HTTP client"
        elif name.startswith((OWN, ROUTER)) and name not in _KNOWN:
            yield f"{name} is not a setting{_meant(name)}"


def _meant(name: str) -> str:
    """Guess the variable that was meant, by what follows the prefix."""
    prefix = OWN if name.startswith(OWN) else ROUTER
    endings = {field.suffix: field for field in FIELDS.values()}
    near = get_close_matches(name.removeprefix(prefix)[:_COMPARED], endings, n=1)
    if not near:
        return ""
    field = endings[near[0]]
    same = prefix + field.suffix
    return f'; did you mean "{same if same in _KNOWN else field.own_variable}"?'
