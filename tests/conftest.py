"""Rules for every test: no network beyond this machine, and the same examples on every run.

pytest --clock-shift 1e7    read ten million seconds more on the monotonic clock
"""

import gc
import ipaddress
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import Any

import coverage
import pytest
from hypothesis import HealthCheck, settings

from tests.support.generated import SEED, TIMES
from tests.support.timing import VirtualClock, shifted, virtual_time

pytest_plugins = ("pytester", "surecall.testing.pytest_plugin")

# A machine that is busy makes examples slowly; that says nothing about the code.
PATIENT = settings(
    derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100
)
settings.register_profile("ci", PATIENT)
settings.register_profile("quick", PATIENT, max_examples=10)
settings.load_profile("ci")

# A shell starts background jobs with interrupts ignored, and children would inherit that: the
# tests that interrupt a program would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What the surroundings say about terminals is not what is tested: a build service sets CI, a person
# NO_COLOR, and what the tests start would inherit it.
for name in ("CI", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "LINES"):
    os.environ.pop(name, None)

# What one test teaches about a port must not reach another; tests of the store name a file.
os.environ["SURECALL_LESSONS"] = "off"

# Tests of no module in particular.
FROM_AFAR = tuple(
    f"tests/{folder}/" for folder in ("third_party", "journeys", "project", "proof", "properties")
)
BROWSER = "browser"
STARTING = (BROWSER, "processes")
CLOCK_SHIFT = "--clock-shift"
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        CLOCK_SHIFT,
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="shift the monotonic clock, as on a machine that was started long ago",
    )


def pytest_report_header() -> str:
    return f"generated properties: SURECALL_TEST_SEED={SEED}, SURECALL_TEST_CASES={TIMES:g}"


def pytest_configure(config: pytest.Config) -> None:
    shift = config.getoption(CLOCK_SHIFT)
    cleanup = ExitStack()
    if shift:
        cleanup.enter_context(shifted(shift))
    config.add_cleanup(cleanup.close)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep what is collected out of the garbage collector: all of it lives to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(name="virtual")
def virtual_fixture() -> Iterator[VirtualClock]:
    """Run event loops in virtual time: nothing waits, and what is due earlier comes earlier."""
    with virtual_time() as clock:
        yield clock


class ProcessForbidden(RuntimeError):
    """A test that is not marked for it tried to start a process."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Start processes in marked tests only, so that `make quick` can do without them."""

    def refuse(*_: object, **__: object) -> None:
        raise ProcessForbidden(f"mark {item.nodeid} with pytest.mark.processes")

    with pytest.MonkeyPatch.context() as patch:
        if not starts_processes(item):
            patch.setattr(subprocess.Popen, "__init__", refuse)
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Put what counts as coverage first; see `pytest_runtest_setup`.

    In both parts, what starts processes comes first: it takes long and mostly waits, and at the end
    everybody else would wait for it.
    """
    for item in items:
        if "window" in getattr(item, "fixturenames", ()):
            item.add_marker(BROWSER)
    yield
    items.sort(key=lambda item: (is_counted(item), starts_processes(item)), reverse=True)


def starts_processes(item: pytest.Item) -> bool:
    """Whether a test may start processes, browsers among them."""
    return any(map(item.get_closest_marker, STARTING))


def is_counted(item: pytest.Item) -> bool:
    """Whether a branch that only this test reaches is covered: not by chance, nor from afar."""
    is_generated = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    is_long = any(map(item.get_closest_marker, (BROWSER, "slow")))
    return not (is_generated or is_long or item.nodeid.startswith(FROM_AFAR))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """End the measuring of coverage with the last test that counts: others run three times faster.

    It ends for good, because threads that are alive then would not be measured again.
    """
    measuring = coverage.Coverage.current()
    if measuring is not None and not is_counted(item):
        measuring.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Tell of a missing browser at the end in one line, and not in one for each test."""
    report = yield
    if report.skipped and item.get_closest_marker(BROWSER):
        report.longrepr = ("tests/support/browser.py", None, report.longrepr[2])
    return report


# Not an OSError, or the code under test would take it for an endpoint that is down.
class NetworkForbidden(RuntimeError):
    """A test tried to leave the machine."""


def _is_local(family: int, address: Any) -> bool:
    if family == getattr(socket, "AF_UNIX", None):
        return True
    host = address[0]
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _guarded(connect: Callable[[socket.socket, Any], Any]) -> Callable[[socket.socket, Any], Any]:
    def guard(self: socket.socket, address: Any) -> Any:
        if not _is_local(self.family, address):
            raise NetworkForbidden(f"tests may connect to loopback only, not to {address!r}")
        return connect(self, address)

    return guard


@pytest.fixture(autouse=True, scope="session")
def _only_loopback() -> Iterator[None]:
    """Refuse connections that leave the machine, also those through a configured proxy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", _guarded(socket.socket.connect))
        patch.setattr(socket.socket, "connect_ex", _guarded(socket.socket.connect_ex))
        for name in PROXY_VARIABLES:
            patch.delenv(name, raising=False)
            patch.delenv(name.lower(), raising=False)
        yield
