"""The pytest plugin, which is active wherever surecall is installed.

    scripted_model       creates a `ScriptedModel`: scripted_model(calls("add", a=1), says("1"))
    scripted_provider    creates a `ScriptedProvider` that runs until the end of the test
    simulator            a running `Simulator`
    replayed             replays a recorded trace, and returns its result: replayed("run.jsonl")
    recorded_model       creates a `ScriptedModel` that repeats the answers of a recorded trace

    @pytest.mark.surecall_trace("run.jsonl")    replays the trace before the test itself

A failing test that uses any of these shows the traces of its runs. `-p no:surecall` disables the
plugin. Every run of pytest loads this module, so surecall is imported inside functions.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from surecall import RunResult, Trace
    from surecall.simulator import Simulator
    from surecall.testing import Item, ScriptedModel, ScriptedProvider

_MARKER = "surecall_trace"
_MAX_RUNS = 5
_MAX_LINES = 100


class _Runs:
    """An observer that stores the events of a test's newest runs, for its report."""

    def __init__(self) -> None:
        self._count = 0
        self._newest: dict[str, tuple[int, list[Any]]] = {}

    def __call__(self, event: Any) -> None:
        """Store the event."""
        if event.run_id not in self._newest:
            self._count += 1
            self._newest[event.run_id] = self._count, []
            for oldest in [*self._newest][:-_MAX_RUNS]:
                del self._newest[oldest]
        self._newest[event.run_id][1].append(event)

    def sections(self) -> list[tuple[str, str]]:
        """Return title and text of each run; of a long one, only the end."""
        from surecall import Trace  # noqa: PLC0415 - see the module's first lines

        sections = []
        for number, events in self._newest.values():
            lines = str(Trace(tuple(events))).splitlines()
            left_out = len(lines) - _MAX_LINES
            first = [f"… {left_out} lines …"] if left_out > 0 else []
            title = f"surecall: run {number} of {self._count}"
            sections.append((title, "\n".join(first + lines[-_MAX_LINES:])))
        return sections


_RUNS_KEY = pytest.StashKey[_Runs]()


def _runs_of(item: pytest.Item) -> _Runs:
    """Return the recorder of a test's runs, created on first use."""
    return item.stash.setdefault(_RUNS_KEY, _Runs())


def _load_recorded(item: pytest.Item, trace: "str | Path | Trace", run_id: str | None) -> "Trace":
    """Load a trace, and show it if the test fails."""
    from surecall import load_trace  # noqa: PLC0415 - see the module's first lines

    loaded = (
        load_trace(item.path.parent / trace, run_id) if isinstance(trace, str | Path) else trace
    )
    for event in loaded:
        _runs_of(item)(event)
    return loaded


@pytest.fixture
def _surecall_runs(request: pytest.FixtureRequest) -> Iterator[pytest.Item]:
    """Record the runs of a test for its report."""
    from surecall.runtime.recording import GLOBAL_OBSERVERS  # noqa: PLC0415 - see the module's first lines

    runs = _runs_of(request.node)
    GLOBAL_OBSERVERS.append(runs)
    yield request.node
    GLOBAL_OBSERVERS.remove(runs)


@pytest.fixture
def scripted_model(_surecall_runs: pytest.Item) -> "type[ScriptedModel]":
    """Create a model that answers from a script, without a network."""
    from surecall.testing import ScriptedModel  # noqa: PLC0415 - see the module's first lines

    return ScriptedModel


@pytest.fixture
def scripted_provider(_surecall_runs: pytest.Item) -> "Iterator[Callable[..., ScriptedProvider]]":
    """Create a server on 127.0.0.1 that answers from a script until the end of the test."""
    from surecall.testing import ScriptedProvider  # noqa: PLC0415 - see the module's first lines

    with ExitStack() as cleanup:

        def serve(*script: "Item", **settings: Any) -> "ScriptedProvider":
            return cleanup.enter_context(ScriptedProvider(*script, **settings))

        yield serve


@pytest.fixture
def simulator(_surecall_runs: pytest.Item) -> "Iterator[Simulator]":
    """Run a misbehaving provider until the end of the test."""
    from surecall.simulator import Simulator  # noqa: PLC0415 - see the module's first lines

    with Simulator(seed=1) as running:
        yield running


@pytest.fixture
def replayed(_surecall_runs: pytest.Item) -> "Callable[..., RunResult]":
    """Replay a recorded trace offline, and return its result."""
    return partial(_replay_recorded, _surecall_runs)


def _replay_recorded(
    item: pytest.Item, trace: "str | Path | Trace", run_id: str | None = None
) -> "RunResult":
    from surecall import replay  # noqa: PLC0415 - see the module's first lines

    return replay(_load_recorded(item, trace, run_id))


@pytest.fixture
def recorded_model(_surecall_runs: pytest.Item) -> "Callable[..., ScriptedModel]":
    """Create a model that repeats the answers of a recorded trace, whatever the requests."""
    from surecall.testing import ScriptedModel, replies_of  # noqa: PLC0415 - see the first lines

    def build(trace: "str | Path | Trace", run_id: str | None = None) -> "ScriptedModel":
        return ScriptedModel(*replies_of(_load_recorded(_surecall_runs, trace, run_id)))

    return build


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(path, run_id=None): replay a recorded trace before the test, offline",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Replay the traces of a test's markers."""
    for marker in item.iter_markers(_MARKER):
        _replay_marked(item, marker)


def _replay_marked(item: pytest.Item, marker: pytest.Mark) -> None:
    from surecall import SurecallError  # noqa: PLC0415 - see the module's first lines

    if len(marker.args) != 1:
        pytest.fail(f"{_MARKER} takes one argument, the path of a trace", pytrace=False)
    try:
        _replay_recorded(item, *marker.args, **marker.kwargs)
    except (OSError, SurecallError) as error:
        message = str(error)
    else:
        return
    pytest.fail(f"{_MARKER}: {marker.args[0]}: {message}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, Any]:
    """Show the traces of a failed test, and release them after its teardown."""
    report = yield
    if _RUNS_KEY in item.stash:
        if report.failed:
            report.sections += item.stash[_RUNS_KEY].sections()
        if call.when == "teardown":
            del item.stash[_RUNS_KEY]
    return report
