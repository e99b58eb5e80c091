"""What pytest gives to tests of programs that use surecall; it is there wherever surecall is.

    scripted_model       makes a `ScriptedModel`: scripted_model(calls("add", a=1), says("1"))
    scripted_provider    makes a `ScriptedProvider` that serves until the test has ended
    simulator            a running `Simulator`
    replayed             replays a recorded trace, and returns its result: replayed("run.jsonl")
    recorded_model       makes a `ScriptedModel` that says what a model said in a recorded trace

    @pytest.mark.surecall_trace("run.jsonl")    replays the trace before the test itself

A test that uses any of these and fails shows the traces of its runs. `-p no:surecall` switches all
of it off. Every run of pytest loads this module, so surecall is imported where it is used.
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
    """An observer that keeps the events of a test's newest runs, for its report."""

    def __init__(self) -> None:
        self._count = 0
        self._newest: dict[str, tuple[int, list[Any]]] = {}

    def __call__(self, event: Any) -> None:
        """Keep the event."""
        if event.run_id not in self._newest:
            self._count += 1
            self._newest[event.run_id] = self._count, []
            for oldest in [*self._newest][:-_MAX_RUNS]:
                del self._newest[oldest]
        self._newest[event.run_id][1].append(event)

    def sections(self) -> list[tuple[str, str]]:
        """Write each run under its title; of a long one, its end."""
        from surecall import Trace  # noqa: PLC0415 - see the module's first lines

        shown = []
        for number, events in self._newest.values():
            lines = str(Trace(tuple(events))).splitlines()
            left_out = len(lines) - _MAX_LINES
            first = [f"… {left_out} lines …"] if left_out > 0 else []
            title = f"surecall: run {number} of {self._count}"
            shown.append((title, "\n".join(first + lines[-_MAX_LINES:])))
        return shown


_RUNS = pytest.StashKey[_Runs]()


def _runs_of(item: pytest.Item) -> _Runs:
    return item.stash.setdefault(_RUNS, _Runs())


def _loaded(item: pytest.Item, trace: "str | Path | Trace", run_id: str | None) -> "Trace":
    """Read a trace, and show it if the test fails."""
    from surecall import load_trace  # noqa: PLC0415 - see the module's first lines

    found = load_trace(item.path.parent / trace, run_id) if isinstance(trace, str | Path) else trace
    for event in found:
        _runs_of(item)(event)
    return found


@pytest.fixture
def _surecall_runs(request: pytest.FixtureRequest) -> Iterator[pytest.Item]:
    """Watch the runs of a test, so that its report can show them."""
    from surecall.runtime.trace import WATCHING  # noqa: PLC0415 - see the module's first lines

    runs = _runs_of(request.node)
    WATCHING.append(runs)
    yield request.node
    WATCHING.remove(runs)


@pytest.fixture
def scripted_model(_surecall_runs: pytest.Item) -> "type[ScriptedModel]":
    """Make a model that answers from a script, without a network."""
    from surecall.testing import ScriptedModel  # noqa: PLC0415 - see the module's first lines

    return ScriptedModel


@pytest.fixture
def scripted_provider(_surecall_runs: pytest.Item) -> "Iterator[Callable[..., ScriptedProvider]]":
    """Make a server on 127.0.0.1 that answers from a script until the test has ended."""
    from surecall.testing import ScriptedProvider  # noqa: PLC0415 - see the module's first lines

    with ExitStack() as cleanup:

        def serve(*script: "Item", **settings: Any) -> "ScriptedProvider":
            return cleanup.enter_context(ScriptedProvider(*script, **settings))

        yield serve


@pytest.fixture
def simulator(_surecall_runs: pytest.Item) -> "Iterator[Simulator]":
    """Run a provider that misbehaves on purpose until the test has ended."""
    from surecall.simulator import Simulator  # noqa: PLC0415 - see the module's first lines

    with Simulator(seed=1) as running:
        yield running


@pytest.fixture
def replayed(_surecall_runs: pytest.Item) -> "Callable[..., RunResult]":
    """Replay a recorded trace, offline, and return its result."""
    return partial(_replayed, _surecall_runs)


def _replayed(
    item: pytest.Item, trace: "str | Path | Trace", run_id: str | None = None
) -> "RunResult":
    from surecall import replay  # noqa: PLC0415 - see the module's first lines

    return replay(_loaded(item, trace, run_id))


@pytest.fixture
def recorded_model(_surecall_runs: pytest.Item) -> "Callable[..., ScriptedModel]":
    """Make a model that says what the model of a recorded trace said, whatever it is asked."""
    from surecall.testing import ScriptedModel, replies_of  # noqa: PLC0415 - see the first lines

    def recorded(trace: "str | Path | Trace", run_id: str | None = None) -> "ScriptedModel":
        return ScriptedModel(*replies_of(_loaded(_surecall_runs, trace, run_id)))

    return recorded


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(path, run_id=None): replay a recorded trace before the test, offline",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Replay the traces that a test is marked with."""
    for marker in item.iter_markers(_MARKER):
        _replay_marked(item, marker)


def _replay_marked(item: pytest.Item, marker: pytest.Mark) -> None:
    from surecall import SurecallError  # noqa: PLC0415 - see the module's first lines

    if len(marker.args) != 1:
        pytest.fail(f"{_MARKER} takes the path of one recorded trace", pytrace=False)
    try:
        _replayed(item, *marker.args, **marker.kwargs)
    except (OSError, SurecallError) as error:
        said = str(error)
    else:
        return
    pytest.fail(f"{_MARKER}: {marker.args[0]}: {said}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, Any]:
    """Show the traces of a test that failed; pytest keeps its items, but the runs may go."""
    report = yield
    if _RUNS in item.stash:
        if report.failed:
            report.sections += item.stash[_RUNS].sections()
        if call.when == "teardown":
            del item.stash[_RUNS]
    return report
