"""`surecall check`: what is set and where, and whether the endpoint does what it should.

The request is made as an evaluation would make it: same presets, same options, one small tool. If
it is answered, the endpoint is asked once more in each call protocol, to see which it honours.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import click
import msgspec

from surecall.cli.common import INCOMPLETE, WRONG_USAGE, complain, note, say
from surecall.cli.listing import count, json_line, say_columns, say_document
from surecall.cli.options import GroupedCommand, settled, with_settings
from surecall.cli.target import SIMULATED, Target, open_target
from surecall.core.outcome import RunFailed
from surecall.eval.running.cells import PlannedCell, split_strategy
from surecall.eval.running.matrix import Plan, plan
from surecall.eval.running.probe import ASKED, PROTOCOLS, Probe, echo, probe_all
from surecall.eval.scenarios.plugins import choose, installed
from surecall.eval.settings.endpoint import limits_of
from surecall.eval.settings.fields import FIELDS
from surecall.eval.settings.load import DEFAULT, Effective
from surecall.runtime.redaction import Redactor
from surecall.runtime.runner import ToolLoopRunner
from surecall.runtime.transport import Client, proxy_for
from surecall.settings.catalog import ModelCatalog
from surecall.settings.config import ToolCallingConfig, ToolUseMode, all_settings
from surecall.settings.connection import ENDPOINT, RetryPolicy, secrets_in, shown_url
from surecall.settings.presets import origins
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.events import LlmRequestEndEvent
from surecall.values.types import JSON, Secret

_LONGEST_S: Final = 30.0
_TURNS: Final = 4
# Errors that the settings cause; any other may be gone the next time.
_SETTINGS_AT_FAULT: Final = frozenset(
    {
        ErrorCode.AUTH,
        ErrorCode.BAD_REQUEST,
        ErrorCode.DECODE_ERROR,
        ErrorCode.FORBIDDEN,
        ErrorCode.NOT_FOUND,
        ErrorCode.NO_TOOL_USE_ENDPOINT,
        ErrorCode.PAYMENT_REQUIRED,
        ErrorCode.UNPROCESSABLE,
    }
)
# The origin of a run setting that an evaluation sets, be it by its own settings or by default.
_OWN: Final = "evaluation"
Setting: TypeAlias = tuple[str, str, str]


class Finding(msgspec.Struct, frozen=True):
    """The outcome of the request. `problem` is blank when the endpoint answered.

    `heard` says that it answered at all, even if too slowly. `protocols` are the outcomes of the
    other requests, one for each call protocol; none without tools.
    """

    model: str
    said: str = ""
    problem: str = ""
    fault: Fault | None = None
    code: int = 0
    heard: bool = True
    protocols: tuple[Probe, ...] = ()


@click.command(cls=GroupedCommand)
@with_settings()
@click.option("--offline", is_flag=True, help="Send nothing.")
@click.option("-v", "--all", "everything", is_flag=True, help="Also show defaults and presets.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(*, offline: bool, everything: bool, as_json: bool, **flags: Any) -> int:
    """Show the settings in effect, and try the endpoint with one small request.

    Shows where each setting comes from, and which address will be called. The first of the
    selected models gets a small tool to call, then once more in each of the three ways to ask for
    a call (`native`, `guided`, `prompted`), to see which of them the endpoint honours. The key is
    never shown.
    """
    effective = settled(flags, sends=True)
    rows = list(_settings(effective, everything=everything))
    if not as_json and rows:
        say_columns(("setting", "value", "from"), rows)
        say("")
    with open_target(effective.settings) as target:
        where = _where(effective, target)
        if target.endpoint.simulated:
            note(SIMULATED)
        if not as_json:
            say_columns(("endpoint", where["url"]), [(name, where[name]) for name in _SHOWN])
        planned = plan(
            effective.settings,
            choose(effective.settings.scenarios, installed()),
            target.library,
            target.endpoint,
        )
        config = _config(planned.cells[0], target.library.catalog, _redactor(effective))
        if not as_json:
            say_columns(("selected", _selected(planned)), ())
            if everything:
                say("")
                columns = [(name, source, value) for name, value, source in config]
                say_columns(("run setting", "from", "value"), columns)
        patience = _patience(effective)
        finding = (
            None if offline else asyncio.run(_found(planned.cells[0], target.client, patience))
        )
    if as_json:
        say_document(_document(rows, where, planned, finding) | {"config": _named_rows(config)})
    return _told(finding, _named(where, effective), as_json=as_json)


def _config(cell: PlannedCell, catalog: ModelCatalog, cleaned: Redactor) -> list[Setting]:
    """Return the settings that the runs of a cell have, and where each comes from."""
    strategy: Any = split_strategy(cell.cell.strategy)[0]
    model = cell.model
    known = origins(
        provider=model.provider, model=model.subject, strategy=strategy, catalog=catalog
    )
    usual, values = all_settings(ToolCallingConfig()), all_settings(cell.config)
    sources = {name: DEFAULT if values[name] == usual[name] else _OWN for name in values} | known
    return [(name, cleaned.text(_value_text(values[name])), sources[name]) for name in values]


def _value_text(value: Any) -> str:
    """Write a value so that a terminal can break a long list between its items."""
    return ", ".join(value) if value and isinstance(value, list | tuple) else json_line(value)


_SHOWN: Final = ("provider", "key", "proxy")


def _settings(effective: Effective, *, everything: bool) -> Iterator[Setting]:
    cleaned = _redactor(effective)
    for name in FIELDS:
        source = effective.sources[name]
        if everything or source != DEFAULT:
            value = getattr(effective.settings, name)
            yield name, cleaned.text(_words(name, value)), source


def _redactor(effective: Effective) -> Redactor:
    query = urlsplit(effective.settings.base_url).query
    return Redactor((*effective.secrets, *secrets_in(query)))


def _words(name: str, value: Any) -> str:
    if name == "api_key":
        return _key_words(value)
    text = shown_url(value) if name == "base_url" else value
    return text if isinstance(text, str) and text else json_line(text)


def _key_words(key: Secret | None) -> str:
    return "not set" if key is None else f"set, {count(len(key.reveal()), 'character')}"


def _where(effective: Effective, target: Target) -> dict[str, str]:
    withheld = effective.secrets and effective.settings.api_key is None
    simulated = target.endpoint.simulated
    url = target.client.url(ENDPOINT)
    return {
        "url": "the simulator, in this process" if simulated else shown_url(url),
        "provider": target.endpoint.provider,
        "key": "not sent there" if withheld else _key_words(effective.settings.api_key),
        "proxy": "none" if simulated else _proxy(url),
    }


def _proxy(url: str) -> str:
    """Say which proxy is used for an address, without its password."""
    proxy = proxy_for(urlsplit(url))
    return "none" if proxy is None else urlsplit(proxy).netloc.rpartition("@")[2] or "set"


def _selected(planned: Plan) -> str:
    models = {each.model.id for each in planned.cells}
    return ", ".join(
        (
            count(len(models), "model"),
            count(len(planned.cells), "cell"),
            count(len(planned.scenarios), "scenario"),
        )
    )


class _Patience(msgspec.Struct, frozen=True):
    """How long to wait: for the first conversation, and for the requests in all protocols."""

    talk_s: float
    probes_s: float


def _patience(effective: Effective) -> _Patience:
    """Wait a moment; or, where a limit was set or the model is served here, so long per request."""
    settings = effective.settings
    if effective.sources["client_timeout"] == DEFAULT and not settings.gguf:
        return _Patience(_LONGEST_S, _LONGEST_S)
    request_s = limits_of(settings).total_s
    return _Patience(request_s * _TURNS, request_s * len(PROTOCOLS))


async def _found(planned: PlannedCell, client: Client, patience: _Patience) -> Finding:
    """Try the endpoint; if it answers and tools are on, try it in each protocol as well."""
    finding = await _tried(planned, client, patience.talk_s)
    if not finding.heard or planned.without_tools:
        return finding
    probes = await probe_all(planned, client, patience.probes_s)
    return msgspec.structs.replace(finding, protocols=probes)


async def _tried(planned: PlannedCell, client: Client, longest_s: float) -> Finding:
    """Ask the model to call a tool; report whether it does, but judge only the endpoint."""
    config = planned.config.replace(tool_allowlist=None, max_turns=_TURNS, run_deadline_s=longest_s)
    if config.tool_use_mode is not ToolUseMode.DISABLED:
        config = config.replace(tool_use_mode=ToolUseMode.RELAXED)
    runner = ToolLoopRunner(
        client=client,
        model=planned.model.asked,
        registry=[echo],
        config=config,
        llm_options_defaults=planned.options,
        retry=RetryPolicy(attempts=1),
    )
    began = time.perf_counter()
    try:
        result = await runner.run(ASKED)
    except RunFailed as failure:
        return _failed(planned.model.id, failure)
    elapsed = f"{time.perf_counter() - began:.1f} s"
    called = "called the tool and answered" if result.run.called else "answered without a call"
    return Finding(planned.model.id, f"{planned.model.id} {called}, in {elapsed}")


def _failed(model: str, failure: RunFailed) -> Finding:
    if not isinstance(failure, ProviderError):
        late = failure.code is ErrorCode.DEADLINE_EXCEEDED
        said = "" if late else f"the endpoint answers, but {model} does not finish: {failure}"
        heard = any(isinstance(event, LlmRequestEndEvent) for event in failure.result.trace)
        problem, code = (str(failure), INCOMPLETE) if late else ("", 0)
        return Finding(model, said, problem, code=code, heard=heard)
    fault = failure.fault
    code = WRONG_USAGE if fault.code in _SETTINGS_AT_FAULT else INCOMPLETE
    return Finding(model, problem=str(fault), fault=fault, code=code, heard=False)


def _told(finding: Finding | None, where: str, *, as_json: bool) -> int:
    if finding is None:
        note("nothing was sent")
        return 0
    if not as_json:
        if not finding.problem:
            say(f"\nok: {finding.said}")
        if finding.protocols:
            say("")
            rows = [(each.protocol, " ".join(each.said.split())) for each in finding.protocols]
            say_columns(("asked for a call", "what came"), rows)
    if finding.problem:
        return complain(f"{finding.model} at {where}: {finding.problem}", finding.code)
    return 0


def _named(where: dict[str, str], effective: Effective) -> str:
    """Name an address, and the key that goes there by where it comes from."""
    key = "no key" if effective.settings.api_key is None else effective.sources["api_key"]
    return f"{where['url']} ({key})"


def _named_rows(rows: list[Setting]) -> list[JSON]:
    return [dict(zip(("name", "value", "source"), row, strict=True)) for row in rows]


def _document(
    rows: list[Setting], where: dict[str, str], planned: Plan, finding: Finding | None
) -> JSON:
    return {
        "settings": _named_rows(rows),
        "endpoint": where | {"simulated": planned.cells[0].model.simulated},
        "selected": {
            "models": list(dict.fromkeys(each.model.id for each in planned.cells)),
            "scenarios": [scenario.id for scenario in planned.scenarios],
        },
        "request": None
        if finding is None
        else {
            "ok": not finding.problem,
            "model": finding.model,
            "said": finding.said,
            "problem": finding.problem or None,
            "fault": finding.fault,
        },
        "protocols": None
        if finding is None or not finding.protocols
        else [msgspec.structs.asdict(probe) for probe in finding.protocols],
    }
