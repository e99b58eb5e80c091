"""Tools of a recording may have any schema: what is not one is passed over."""

from typing import Any

import pytest

from surecall.core.offer import plan
from surecall.core.state import Run
from surecall.settings.presets import raw
from surecall.values.types import ToolSpec, User
from tests.support.protocols import PROTOCOLS


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("properties", [[{}], ["a"], None, 7, "about a", {}])
def test_properties_that_are_none_are_passed_over(protocol: Any, properties: Any) -> None:
    spec = ToolSpec("odd", "Odd.", {"type": "object", "properties": properties})
    config = raw(call_protocol=protocol, choice_temperature=0.0)
    found = plan(Run("r", "m", config, (User("Go."),), tools=(spec,)))
    assert found.reminder == ""
    assert "temperature" not in found.options
