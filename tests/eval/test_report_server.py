"""The live report's server: what it says, to whom, and what it never does."""

import asyncio
import html
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
import pytest

from surecall.eval.analysis.summary import summarize
from surecall.eval.report_server import LiveReport, ReportCache
from surecall.eval.storage.run_directories import DATABASE
from surecall.eval.storage.store import RunStore, open_or_resume
from surecall.eval.storage.trial import Cell, Key, Trial
from tests.support.hostile_texts import PAYLOADS
from tests.support.timing import PATIENCE_S, until
from tests.support.trials import SAME, TRACE, key, passed, spoiled


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with open_or_resume(tmp_path, SAME) as opened:
        opened.add(passed(key(1)), TRACE)
        yield opened


@pytest.fixture
def live(store: RunStore) -> Iterator[LiveReport]:
    with LiveReport(store.directory) as served:
        yield served


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(live: LiveReport, path: str = "", method: str = "GET", **headers: str) -> Answer:
    """Ask as given: no client mends the path. Of a header's name, `_` means `-`."""
    where = urlsplit(live.url)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection(where.netloc, timeout=PATIENCE_S)) as connection:
        connection.request(method, path if path.startswith("/") else where.path + path, None, sent)
        found = connection.getresponse()
        return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())


def of(which: Key) -> str:
    cell = msgspec.structs.asdict(which.cell)
    return "trace?" + urlencode({**cell, "scenario": which.scenario, "trial": which.trial})


def number_of_runs(answer: Answer) -> int:
    return len(answer.json["data"]["runs"]["cell"])


def test_the_page_is_served_at_an_address_that_cannot_be_guessed(live: LiveReport) -> None:
    page = ask(live)

    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "connect-src 'self'" in html.unescape(page.body.decode())
    assert len(urlsplit(live.url).path) > 20
    assert LiveReport(Path()).url == ""


def test_without_the_token_there_is_nothing(live: LiveReport) -> None:
    token = urlsplit(live.url).path.strip("/")
    others = ("/", "/data", "/trace", f"/{token[:-1]}/", f"/{token}x/", f"/{token.lower()}/data")

    assert {ask(live, path).status for path in others} == {404}


def test_two_servers_do_not_share_a_token(store: RunStore) -> None:
    with LiveReport(store.directory) as one, LiveReport(store.directory) as two:
        assert urlsplit(one.url).path != urlsplit(two.url).path
        assert ask(one, urlsplit(two.url).path).status == 404


def test_no_path_leads_out_of_the_report(live: LiveReport, store: RunStore) -> None:
    root = urlsplit(live.url).path
    (store.directory.parent.parent / "secret").write_text("secret")
    paths = [
        *("../secret", "../../secret", "%2e%2e/secret", "..%2fsecret", "..\\secret"),
        *("/etc/passwd", f"{root}/etc/passwd", f"{root}../../../../etc/passwd"),
        *(DATABASE, f"runs/{DATABASE}", ".", "data/", "data/../../secret", "%00", "page.css"),
    ]
    answers = [ask(live, path) for path in paths]

    assert [answer.status for answer in answers if answer.status not in {400, 404}] == []
    assert not any(b"secret" in answer.body or b"root:" in answer.body for answer in answers)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"])
def test_it_answers_nothing_but_get(live: LiveReport, method: str) -> None:
    assert {ask(live, path, method).status for path in ("", "data", "trace")} == {405}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "[::1]:1"])
def test_a_foreign_name_that_leads_to_this_machine_is_refused(live: LiveReport, host: str) -> None:
    port = urlsplit(live.url).port

    assert ask(live, "data", Host=host.format(port=port)).status == 403
    assert ask(live, "data", Host=f"localhost:{port}").status == 200


def test_a_script_of_another_site_is_refused(live: LiveReport) -> None:
    where = urlsplit(live.url)
    refused: list[dict[str, str]] = [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://{where.netloc}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"},
    ]
    assert {ask(live, "data", **headers).status for headers in refused} == {403}


def test_its_own_page_and_a_link_from_elsewhere_are_let_in(live: LiveReport) -> None:
    where = urlsplit(live.url)
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}

    assert ask(live, Origin=f"http://{where.netloc}", Sec_Fetch_Site="same-origin").status == 200
    assert ask(live, Sec_Fetch_Dest="document", **link).status == 200


def test_every_answer_forbids_caching_framing_and_guessing(live: LiveReport) -> None:
    for answer in (ask(live), ask(live, "data"), ask(live, "/"), ask(live, "", "POST")):
        assert answer.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers


def test_the_address_itself_may_run_nothing_but_the_page(live: LiveReport) -> None:
    assert "default-src 'none'" in ask(live, "data").headers["content-security-policy"]
    assert "default-src 'none'" in ask(live, "/").headers["content-security-policy"]


def test_news_come_once_and_again_when_a_trial_has_ended(store: RunStore, live: LiveReport) -> None:
    first = ask(live, "data?since=0")
    again = ask(live, f"data?since={first.json['number']}")
    store.add(passed(key(2)))
    second = news_after(live, first.json["number"])

    assert (number_of_runs(first), again.status, again.body) == (1, 204, b"")
    assert (number_of_runs(second), second.json["number"]) == (2, 2)


def news_after(live: LiveReport, number: int) -> Answer:
    """Ask until there are news: a server that has just read a run rests a moment."""
    until(lambda: ask(live, f"data?since={number}").status != 204)
    return ask(live, f"data?since={number}")


def test_the_figures_are_those_of_the_summary(store: RunStore, live: LiveReport) -> None:
    for number in range(2, 6):
        store.add(passed(key(number)))
    store.add(Trial(key=key(6), status="failed", category="ASSERTION_FAILED"))
    tool = summarize(store.trials()).totals.tool

    assert (tool.k, tool.n) == (5, 6)
    assert b">5/6</td>" in ask(live).body


def test_a_result_that_replaces_a_spoiled_one_is_news(store: RunStore, live: LiveReport) -> None:
    store.add(spoiled(key(2)))
    before = ask(live, "data").json
    store.add(passed(key(2)))
    after = news_after(live, before["number"]).json

    assert before["data"]["runs"]["status"] == [0, 2]
    assert after["data"]["runs"]["status"] == [0, 0]


def test_it_goes_on_when_the_run_ends_and_when_it_is_resumed(tmp_path: Path) -> None:
    with open_or_resume(tmp_path, SAME) as store:
        store.add(passed(key(1)))
    with LiveReport(store.directory) as live:
        before = ask(live, "data")
        with open_or_resume(tmp_path, SAME) as resumed:
            assert resumed.directory == store.directory
            resumed.add(passed(key(2)))
        after = news_after(live, before.json["number"])
    assert (number_of_runs(before), number_of_runs(after)) == (1, 2)


def test_reading_leaves_no_trace_in_the_run(tmp_path: Path) -> None:
    with open_or_resume(tmp_path, SAME) as store:
        store.add(passed(key(1)), TRACE)
    before = {path.name: path.read_bytes() for path in store.directory.iterdir()}
    with LiveReport(store.directory) as live:
        for path in ("", "data", of(key(1))):
            assert ask(live, path).status == 200

    assert {path.name: path.read_bytes() for path in store.directory.iterdir()} == before


def test_one_run_comes_as_its_record_and_its_events(live: LiveReport) -> None:
    answer = ask(live, of(key(1)))
    record, *events = answer.body.splitlines(keepends=True)

    assert answer.headers["content-type"] == "application/jsonl; charset=utf-8"
    assert json.loads(record)["type"] == "trial"
    assert json.loads(record)["draft"] == {"foo": "bar"}
    assert b"".join(events) == TRACE


def test_a_run_without_events_has_its_record_all_the_same(
    store: RunStore, live: LiveReport
) -> None:
    store.add(passed(key(2)))

    assert ask(live, of(key(2))).body.count(b"\n") == 1


def test_a_run_that_is_not_there_and_a_question_that_is_none_are_refused(live: LiveReport) -> None:
    assert ask(live, of(key(9))).status == 404
    assert ask(live, "trace").status == 400
    assert ask(live, of(key(1)).replace("trial=1", "trial=one")).status == 400
    assert ask(live, of(key(1)).replace("trial=1", f"trial={10**30}")).status == 400


def test_runs_with_hostile_names_are_found_by_them(store: RunStore, live: LiveReport) -> None:
    cells = [Cell(text, text[::-1], "raw") for text in PAYLOADS]
    for cell in cells:
        store.add(passed(Key(cell, cell.model, 1)))
    for cell in cells[::9]:
        answer = ask(live, of(Key(cell, cell.model, 1)))
        assert json.loads(answer.body)["key"]["cell"]["model"] == cell.model


def test_a_run_that_cannot_be_read_is_an_answer_and_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"not a database, but long enough to look at")
    with LiveReport(tmp_path) as live:
        answers = [ask(live, path) for path in ("", "data", of(key(1)))]

    assert {answer.status for answer in answers} == {503}
    assert all(b"is damaged" in answer.body for answer in answers)


def test_a_run_that_vanishes_is_told_and_the_server_stays(
    store: RunStore, live: LiveReport
) -> None:
    assert ask(live).status == 200
    store.close()
    (store.directory / DATABASE).unlink()

    assert ask(live, of(key(1))).status == 503
    assert ask(live, "/").status == 404


def test_a_port_that_is_taken_is_an_error_at_once(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        live = LiveReport(tmp_path, port=other.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            asyncio.run(live.start())


def test_many_questions_at_once_are_answered_from_one_reading(store: RunStore) -> None:
    async def all_at_once() -> list[int]:
        newsroom = ReportCache(store.directory)
        editions = await asyncio.gather(*(newsroom.latest() for _ in range(20)))
        return [edition.number for edition in editions]

    assert asyncio.run(all_at_once()) == [1] * 20


def test_half_a_head_does_not_keep_a_connection(store: RunStore) -> None:
    with LiveReport(store.directory, head_s=0.05) as live:
        where = urlsplit(live.url)
        line = socket.create_connection((where.hostname or "", where.port or 0), PATIENCE_S)
        with closing(line):
            line.sendall(b"GET / HTTP/1.1\r\nHost: local")
            assert line.recv(1) == b""
