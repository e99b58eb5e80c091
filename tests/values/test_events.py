"""Events: each kind can be written and read, and is named after its tag."""

from typing import get_args

import msgspec

from surecall.values.events import Event
from tests.support.telemetry import every_event


def test_every_event_can_be_written_and_read() -> None:
    for event in every_event("x"):
        assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


def test_an_event_is_named_after_its_tag() -> None:
    names = {kind.__struct_config__.tag: kind.__name__ for kind in get_args(Event)}
    # Its tag is kept for traces that exist; what was refused is a request.
    assert names.pop("run_refused") == "RequestRefusedEvent"

    for tag, name in names.items():
        assert name == "".join(word.capitalize() for word in str(tag).split("_")) + "Event"
