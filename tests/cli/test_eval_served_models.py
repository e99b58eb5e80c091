"""`surecall eval` without `-m` at an endpoint of unknown models."""

from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from surecall.cli.eval import model_ids
from surecall.runtime.transport import OpenAICompatible
from surecall.testing import ScriptedProvider, says
from tests.support.commands import HOSTILE, Run, one_line

SMALL = ("-s", "chat_only", "-n", "1")


class Lister(ScriptedProvider):
    """A provider that answers everything alike, and lists some models."""

    def __init__(self, listing: bytes, status: int = 200) -> None:
        super().__init__(says("Done."), repeat=True)
        self.listing, self.status = listing, status
        self.times_listed = 0

    async def _list_models(self, request: web.Request) -> web.StreamResponse:
        del request
        self.times_listed += 1
        return web.Response(body=self.listing, status=self.status)


def serving(*ids: str) -> Lister:
    return Lister(msgspec.json.encode({"data": [{"id": name} for name in ids]}))


def test_the_only_model_of_an_endpoint_is_evaluated(run: Run) -> None:
    with serving("maker/tiny:8b") as lister:
        code, _, err = run("eval", "--base-url", lister.url, *SMALL)

    assert code == 0
    assert f"{lister.url}/v1 serves one model: maker/tiny:8b" in err
    assert {request["model"] for request in lister.requests} == {"maker/tiny:8b"}


def test_several_models_are_listed_with_the_command_to_type(run: Run, tmp_path: Path) -> None:
    with serving("tiny", "large") as lister:
        code, out, err = run("eval", "--base-url", lister.url, *SMALL)

    *lines, last = err.splitlines()
    assert (code, out, lister.requests) == (2, "", [])
    assert lines == [f"{lister.url}/v1 serves 2 models:", "    tiny", "    large"]
    command = f"surecall eval --base-url {lister.url} -m tiny"
    assert last == f"surecall: no model is selected: run {command}"
    assert not (tmp_path / ".surecall").exists()


def test_an_address_from_the_environment_is_not_in_the_command(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving("tiny", "large") as lister:
        monkeypatch.setenv("SURECALL_BASE_URL", lister.url)
        err = run("eval", *SMALL)[2]

    assert err.splitlines()[-1].endswith(": run surecall eval -m tiny")


def test_a_long_list_is_shortened(run: Run) -> None:
    with serving(*(f"model-{number}" for number in range(99))) as lister:
        err = run("eval", "--base-url", lister.url, *SMALL)[2]

    assert err.count("\n") == 1 + 30 + 1 + 1
    assert "    … and 69 more\n" in err


@pytest.mark.parametrize(
    ("listing", "status", "reason"),
    [
        (b'{"data": []}', 200, "the list is empty"),
        (b"[]", 200, "the list is empty"),
        (b"<html>", 200, "the list is not JSON"),
        (b"", 404, "HTTP 404"),
    ],
)
def test_an_endpoint_that_lists_no_models_needs_an_id(
    run: Run, listing: bytes, status: int, reason: str
) -> None:
    with Lister(listing, status) as lister:
        code, _, err = run("eval", "--base-url", lister.url, *SMALL)

    assert code == 2
    assert f"{lister.url}/v1 lists none ({reason}): pass a model id with -m" in one_line(err)


def test_an_endpoint_that_cannot_be_reached_is_one_line(run: Run) -> None:
    code, _, err = run("eval", "--base-url", "http://127.0.0.1:1", *SMALL)

    assert code == 2
    assert "http://127.0.0.1:1/v1 lists none (" in one_line(err)


def test_an_endpoint_that_does_not_reply_is_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def time_out(_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(OpenAICompatible, "models", time_out)
    code, _, err = run("eval", "--base-url", "http://127.0.0.1:1", *SMALL)

    assert code == 2
    assert "lists none (no reply in 5 s)" in one_line(err)


@pytest.mark.parametrize("words", [("-m", "mine"), ("--base-url", "sim", "-m", "sim/clean")])
def test_a_model_that_is_chosen_is_not_looked_up(run: Run, words: tuple[str, ...]) -> None:
    with serving("tiny", "large") as lister:
        code, _, _ = run("eval", "--base-url", lister.url, *words, *SMALL, "-q")

    assert (code, lister.times_listed) == (0, 0)


def test_ids_that_no_filter_takes_literally_are_left_out() -> None:
    ids = ["a/b:c@d", "a,b", "a>b", "!a", "*", "all", "-m", "", HOSTILE, "$(x)", "a b", "a/b:c@d"]
    listing = {"data": [3, {}, {"id": None}, *({"id": each} for each in ids)]}

    assert model_ids(listing) == ["a/b:c@d"]
