"""A proxy in a process of its own."""

import pytest

from proof.proxy_process import proxy_process
from surecall.testing import ScriptedProvider, says
from tests.support.proxy import asked, post, send


@pytest.mark.processes
def test_it_serves_and_says_what_it_takes() -> None:
    with (
        ScriptedProvider(says("Hi."), repeat=True) as provider,
        proxy_process(provider.url, api_key="sk-1234567890") as proxy,
    ):
        before = proxy.state()
        assert post(proxy.url, asked().body).status == 200
        assert send(proxy.url, "GET", proxy.page.removeprefix(proxy.url)).status == 200
        after = proxy.state()

    assert proxy.url.endswith(f":{proxy.port}")
    assert after.cpu_s > before.cpu_s
    assert after.peak_mib >= before.rss_mib > 10
    assert after.descriptors > 5
    assert after.tasks >= 1
