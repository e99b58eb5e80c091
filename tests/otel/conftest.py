"""What the tests of spans share."""

import pytest

from tests.support.telemetry import Kept


@pytest.fixture(name="kept")
def kept_fixture() -> Kept:
    return Kept()
