"""The values everything is made of: secrets that stay secret, sums, and copies."""

from pathlib import Path

import msgspec
import pytest

from surecall.runtime.trace import JsonlSink
from surecall.runtime.transport import OpenAICompatible
from surecall.values.types import Secret
from tests.support.spec import proves

KEY = "sk-canary/47+11=ab/cdEF"


@proves("G5")
def test_a_secret_is_shown_in_no_way(tmp_path: Path) -> None:
    secret = Secret(KEY)
    assert KEY not in f"{secret}{secret!r}{[secret]}{vars(OpenAICompatible('http://h', secret))}"
    with pytest.raises(TypeError, match="not serialised"):
        secret.__reduce__()
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)
    assert (bool(secret), bool(Secret(""))) == (True, False)
    assert repr(JsonlSink(tmp_path, secret)).count("canary") == 0
