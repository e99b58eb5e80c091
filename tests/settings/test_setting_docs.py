"""The texts below the settings: every setting has one."""

import pytest

from surecall import EndpointProfile, ToolCallingConfig
from surecall.settings.setting_docs import setting_docs


def test_every_setting_is_explained_where_it_is_declared() -> None:
    for kind in (ToolCallingConfig, EndpointProfile):
        assert tuple(setting_docs(kind)) == kind.__struct_fields__


TEXTS = setting_docs(ToolCallingConfig) | setting_docs(EndpointProfile)


@pytest.mark.parametrize("name", TEXTS)
def test_an_explanation_is_a_line_that_ends_with_a_full_stop(name: str) -> None:
    sentence = TEXTS[name]

    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert "  " not in sentence
