"""The profile of an endpoint: the fields that presets set, and how turns are written."""

from surecall import EndpointProfile, ToolCallingConfig
from surecall.settings.endpoint_profile import FAMILIES
from surecall.values.types import JSON
from surecall.wire.chat_format import WireStyle


def test_policy_and_quirks_are_told_apart() -> None:
    policy = {*ToolCallingConfig.__struct_fields__}
    quirks = {*EndpointProfile.__struct_fields__}

    assert len(policy) <= 31
    assert not policy & quirks
    assert quirks >= FAMILIES.keys()


def test_the_wire_style_is_taken_from_the_settings() -> None:
    settings: JSON = {
        "keep_text_beside_calls": True,
        "echo_fields": ("reasoning",),
        "echo_call_fields": False,
        "withheld_fields": ("x",),
        "name_tool_messages": False,
    }

    assert EndpointProfile(**settings).wire_style == WireStyle(**settings)
