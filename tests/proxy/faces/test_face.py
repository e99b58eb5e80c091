"""What all faces share: reading a request, writing an event."""

import pytest

from surecall.proxy.faces.face import Refused, event, request_of


def test_an_event_may_have_a_name() -> None:
    assert event({"a": 1}) == b'data: {"a":1}\n\n'
    assert event([], "ping") == b"event: ping\ndata: []\n\n"


def test_a_request_of_too_many_values_is_refused_before_it_is_read() -> None:
    with pytest.raises(Refused) as refused:
        request_of(b'{"a":[' + b"0," * 3_000_000 + b"0]}")
    assert refused.value.status == 413
