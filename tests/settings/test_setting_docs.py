"""The sentences below the settings: every setting has one, and it is one."""

import pytest

from surecall import ToolCallingConfig
from surecall.settings.setting_docs import setting_docs


def test_every_setting_is_explained_where_it_is_declared() -> None:
    assert tuple(setting_docs()) == ToolCallingConfig.__struct_fields__


@pytest.mark.parametrize("name", ToolCallingConfig.__struct_fields__)
def test_an_explanation_is_a_line_that_ends_with_a_full_stop(name: str) -> None:
    sentence = setting_docs()[name]

    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert "  " not in sentence
