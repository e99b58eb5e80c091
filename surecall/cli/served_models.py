"""The models to offer for an endpoint that no catalog knows, from its list of models."""

import asyncio
import re
import shlex
from typing import Any, Final

import msgspec

from surecall.cli.console import INDENT, print_note
from surecall.cli.interrupts import run_until_interrupted
from surecall.cli.target import Target
from surecall.eval.settings.endpoint_keys import SettingLocation
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.resolution import DEFAULT, EffectiveSettings
from surecall.settings.catalog import EVERYTHING
from surecall.settings.connection import redact_url
from surecall.values.errors import ConfigError, ProviderError
from surecall.values.nesting import decode_json
from surecall.values.text import quantity

_HTTP_OK: Final = 200
_WAIT_S: Final = 5.0
_MAX_LISTED: Final = 30
# Ids that a filter selects literally; others, such as those with a comma, cannot be typed after -m.
_PLAIN_ID: Final = re.compile(r"[\w.][\w./:@+=-]{0,199}", re.ASCII)


def choose_served_model(effective: EffectiveSettings, target: Target) -> Settings:
    """Return the settings, with the endpoint's only model if the user chose none.

    If an unknown endpoint serves several models, list them and raise `ConfigError`.
    """
    endpoint = target.endpoint
    is_known = bool(target.library.models) or endpoint.is_simulated or endpoint.is_local
    if is_known or effective.sources["model_filter"] != DEFAULT:
        return effective.settings
    address = redact_url(target.client.base_url)
    ids, problem = run_until_interrupted(_fetch_model_ids(target))
    if not ids:
        raise ConfigError(
            f"no model is selected, and {address} lists none ({problem}): pass a model id with -m"
        )
    if len(ids) > 1:
        _print_models(address, ids)
        raise ConfigError(f"no model is selected: run {_example_command(effective, ids[0])}")
    print_note(f"{address} serves one model: {ids[0]}")
    return msgspec.structs.replace(effective.settings, model_filter=ids[0])


def _print_models(address: str, ids: list[str]) -> None:
    print_note(f"{address} serves {quantity(len(ids), 'model')}:")
    for name in ids[:_MAX_LISTED]:
        print_note(f"{INDENT}{name}")
    if len(ids) > _MAX_LISTED:
        print_note(f"{INDENT}… and {len(ids) - _MAX_LISTED} more")


def _example_command(effective: EffectiveSettings, name: str) -> str:
    """Return a command that selects the model; the address only if it is not set elsewhere."""
    words = ["surecall", "eval"]
    if effective.location("base_url") is SettingLocation.COMMAND_LINE:
        words += ["--base-url", redact_url(effective.settings.base_url)]
    return shlex.join([*words, "-m", name])


async def _fetch_model_ids(target: Target) -> tuple[list[str], str]:
    """Return the ids that the endpoint lists; if there are none, the reason."""
    try:
        async with asyncio.timeout(_WAIT_S):
            answer = await target.client.models()
    except TimeoutError:
        return [], f"no reply in {_WAIT_S:.0f} s"
    except ProviderError as error:
        return [], str(error.fault.message).rstrip(".")
    if answer.status != _HTTP_OK:
        return [], f"HTTP {answer.status}"
    try:
        ids = model_ids(decode_json(answer.body))
    except ValueError:
        return [], "the list is not JSON"
    return ids, "the list is empty"


def model_ids(listing: Any) -> list[str]:
    """Return the model ids in a list of models; those that cannot follow -m are left out."""
    models = listing.get("data") if isinstance(listing, dict) else None
    entries = models if isinstance(models, list) else ()
    names = [each.get("id") for each in entries if isinstance(each, dict)]
    return list(
        dict.fromkeys(
            name
            for name in names
            if isinstance(name, str)
            and _PLAIN_ID.fullmatch(name)
            and name.casefold() not in EVERYTHING
        )
    )
