"""The table of settings: each is described once."""

from typing import Any

import pytest

from surecall.eval.settings.fields import FIELDS, Settings, documentation


def test_the_table_describes_every_setting_once() -> None:
    flags = [flag for field in FIELDS.values() for flag in field.flags]
    variables = [name for field in FIELDS.values() for name in field.variables]

    assert tuple(sorted(FIELDS)) == tuple(sorted(Settings.__struct_fields__))
    assert len(flags) == len(set(flags))
    assert len(variables) == len(set(variables))
    assert len(documentation()) == len(FIELDS)


@pytest.mark.parametrize("field", FIELDS.values(), ids=lambda field: field.name)
def test_every_setting_but_the_key_has_a_flag_a_variable_and_a_sentence(field: Any) -> None:
    assert bool(field.flags) is (field.name != "api_key")
    assert field.own_variable.startswith("SURECALL_")
    assert field.help
    assert field.is_switch is (
        isinstance(field.default, bool) or field.name == "require_parameters"
    )
