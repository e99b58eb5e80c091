"""What a worker is sent once, before its first trial: the plan, its scenarios, how to run them.

Built-in scenarios travel by name. Scenarios from files travel as code, so the workers need not
have the files; those of installed packages need the package there. The key is never inside.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import cloudpickle
import msgspec

from surecall.eval.running.cluster.workshop import OpenClient
from surecall.eval.running.guarded_trial import RunTrial
from surecall.eval.running.matrix import Plan
from surecall.eval.scenarios.builtin import SCENARIOS
from surecall.eval.scenarios.plugins import MODULES
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.scenarios.work import WORK
from surecall.values.errors import ConfigError
from surecall.values.types import Secret

_BUILT_IN: Final = {scenario.id: scenario for scenario in (*SCENARIOS, *WORK)}


class Errand(msgspec.Struct, frozen=True):
    """What a worker is there for."""

    plan: Plan
    run_trial: RunTrial
    open_client: OpenClient


class _Parcel(msgspec.Struct, frozen=True):
    """An errand on its way: the errand without scenarios, and each of those by itself."""

    errand: Errand
    scenarios: tuple[tuple[str, bytes], ...]


def packed(errand: Errand) -> bytes:
    """Pack an errand, without the key; a `ConfigError` names a scenario that cannot travel."""
    plan = errand.plan
    settings = msgspec.structs.replace(plan.settings, api_key=None)
    bare = msgspec.structs.replace(plan, settings=settings, scenarios=())
    with _files_by_value():
        scenarios = tuple((each.id, _packed(each)) for each in plan.scenarios)
    parcel = _Parcel(msgspec.structs.replace(errand, plan=bare), scenarios)
    return bytes(cloudpickle.dumps(parcel))


def unpacked(data: bytes, key: Secret | None) -> Errand:
    """Unpack an errand in a worker; a `ConfigError` says what the worker lacks."""
    parcel: _Parcel = cloudpickle.loads(data)
    plan = parcel.errand.plan
    settings = msgspec.structs.replace(plan.settings, api_key=key)
    scenarios = tuple(_unpacked(name, data) for name, data in parcel.scenarios)
    plan = msgspec.structs.replace(plan, settings=settings, scenarios=scenarios)
    return msgspec.structs.replace(parcel.errand, plan=plan)


def _packed(scenario: Scenario) -> bytes:
    if _BUILT_IN.get(scenario.id) is scenario:
        return b""
    try:
        return bytes(cloudpickle.dumps(scenario))
    except Exception as error:
        raise ConfigError(
            f"scenario {scenario.id!r} cannot be sent to other processes ({error}); "
            "--engine local runs it in this one"
        ) from error


def _unpacked(name: str, data: bytes) -> Scenario:
    if not data:
        return _BUILT_IN[name]
    try:
        found: Scenario = cloudpickle.loads(data)
    except ImportError as error:
        raise ConfigError(
            f"scenario {name!r} needs something that the workers lack: {error}"
        ) from error
    return found


@contextmanager
def _files_by_value() -> Iterator[None]:
    """Let what scenario files define travel as code, not as a name that only we know."""
    modules = [module for name, module in sys.modules.items() if name.startswith(MODULES)]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
