"""Reports as files: always a page, never half of one, and nothing outside of its place."""

import base64
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from surecall.eval.report.page.page_files import PAGE, load_report, write_report, write_report_at
from surecall.eval.storage.run_directories import DATABASE, StoreError
from surecall.eval.storage.store import Invocation, RunStore, open_for_reading, open_or_resume
from surecall.eval.storage.trial import Trial
from surecall.values.types import JSON
from tests.support.reports import SIMULATED, invocation
from tests.support.trials import CELL, EVENTS, SAME, TRACE, lines, series, trial


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunStore]:
    with open_or_resume(tmp_path / "base", SAME, invocation(CELL)) as store:
        yield store


def filled(store: RunStore, trials: list[Trial], trace: bytes | None = TRACE) -> RunStore:
    for each in trials:
        store.add(each, trace)
    return store


def data(page: Path) -> JSON:
    found = re.search('id="data">(.*?)</script>', page.read_text("utf-8"))
    assert found is not None
    decoded: JSON = json.loads(found[1])
    return decoded


def inline(page: Path) -> str:
    found = re.findall('id="block[0-9]+">([^<]*)<', page.read_text("utf-8"))
    return "".join(zlib.decompress(base64.b64decode(block)).decode() for block in found)


def test_a_page_holds_the_runs_and_their_traces(run: RunStore, tmp_path: Path) -> None:
    page = write_report(filled(run, series("..x"), lines(*EVENTS)), tmp_path / "out")

    assert page == tmp_path / "out" / PAGE
    assert data(page)["traces"]["kind"] == "inline"
    assert inline(page).count('"type":"run_start"') == 3
    assert [path.name for path in page.parent.iterdir()] == [PAGE]


def test_a_report_knows_where_it_comes_from(run: RunStore) -> None:
    origin = load_report(filled(run, series("..."))).origin

    assert (origin.name, origin.seed, origin.code) == (run.directory.name, 7, "1+abc")
    assert origin.command == "surecall eval"
    assert len(origin.config_hash) == 12
    assert origin.started.startswith("20")


def test_traces_that_do_not_fit_stand_beside_the_page(run: RunStore, tmp_path: Path) -> None:
    page = write_report(filled(run, series("..x")), tmp_path, max_bytes=10)
    (file,) = (tmp_path / "report_data").iterdir()

    assert data(page)["traces"] == {
        "kind": "bundle",
        "starts": [0],
        "note": "",
        "folder": "report_data",
    }
    assert re.fullmatch(r'surecallBlock\(0,"[A-Za-z0-9+/=]+"\);\n', file.read_text("utf-8"))
    assert inline(page) == ""


def test_what_an_earlier_report_left_behind_is_removed(run: RunStore, tmp_path: Path) -> None:
    filled(run, series("..x"))
    write_report(run, tmp_path, max_bytes=10)
    stale = tmp_path / "report_data" / "traces_99.js"
    mine = tmp_path / "report_data" / "notes.txt"
    stale.touch()
    mine.touch()
    write_report(run, tmp_path, max_bytes=10)

    assert sorted(path.name for path in mine.parent.iterdir()) == ["notes.txt", "traces_0.js"]
    write_report(run, tmp_path)
    assert list(mine.parent.iterdir()) == [mine]


def test_a_report_can_have_another_name(run: RunStore, tmp_path: Path) -> None:
    filled(run, series("..x"))

    assert write_report_at(run.directory, target=tmp_path / "x" / "mine.html").is_file()
    assert write_report_at(run.directory) == run.directory / PAGE


def test_trials_that_end_while_the_report_is_made_wait_for_the_next_one(
    run: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(run, series("x.x"))
    late = [(trial(number=0), None), *run.packed_trials(), (trial(number=9), None)]
    monkeypatch.setattr(RunStore, "packed_trials", lambda *_, **__: iter(late))
    page = write_report(run, tmp_path)

    assert re.findall('"trial":([0-9]+)}', inline(page)) == ["1", "2", "3"]


def test_an_unfinished_run_says_how_much_is_missing(run: RunStore) -> None:
    (notice,) = load_report(filled(run, series("."))).notices

    assert notice.startswith("Partial: 2 of 3 planned runs are not recorded.")
    assert load_report(filled(run, series("..."))).notices == ()


@pytest.mark.parametrize("settings", [{"trials": "some"}, {"shard": [1, 4]}])
def test_what_was_wanted_is_not_guessed(tmp_path: Path, settings: dict[str, object]) -> None:
    with open_or_resume(tmp_path, SAME, invocation(CELL, **settings)) as store:
        assert load_report(store).notices == ()


def test_a_run_that_has_just_begun_gives_a_page(run: RunStore, tmp_path: Path) -> None:
    page = write_report(run, tmp_path)

    assert "No run is recorded yet." in page.read_text("utf-8")
    assert data(page)["traces"]["kind"] == "none"


def test_a_simulated_model_has_the_workarounds_of_the_model_it_imitates(tmp_path: Path) -> None:
    with open_or_resume(tmp_path, SAME, invocation(SIMULATED)) as store:
        report = load_report(filled(store, series("...", cell=SIMULATED)))

    assert report.simulated
    assert report.advice[0].workarounds == ("content_tag_tool_call_fallback",)


def test_an_older_store_that_does_not_say_what_is_imitated_still_opens(tmp_path: Path) -> None:
    made = invocation(SIMULATED)
    for column in made.config["sheet"]["columns"]:
        del column["imitates"]
    with open_or_resume(tmp_path, SAME, made) as store:
        report = load_report(filled(store, series("...", cell=SIMULATED)))

    assert report.simulated
    assert report.notices == ()
    assert (report.advice[0].model, report.advice[0].workarounds) == (SIMULATED.model, ())


@pytest.mark.parametrize(
    ("settings", "provider"),
    [
        ({"base_url": "https://api.mistral.ai"}, "mistral"),
        ({"base_url": "http://localhost:1", "endpoint": "groq"}, "groq"),
        ({"base_url": "http://localhost:1", "endpoint": "Nobody knows"}, "nobody_knows"),
        ({}, "openrouter"),
    ],
)
def test_presets_are_those_of_the_endpoint(
    tmp_path: Path, settings: dict[str, object], provider: str
) -> None:
    with open_or_resume(tmp_path, SAME, invocation(CELL, **settings)) as store:
        report = load_report(filled(store, series("...")))

    assert f'provider="{provider}"' in report.advice[0].snippet


def test_a_run_without_a_plan_is_still_reported(tmp_path: Path) -> None:
    with open_or_resume(tmp_path, SAME) as store:
        report = load_report(filled(store, series("..x")))

    assert (report.headline.tool.k, report.headline.tool.n, report.notices) == (2, 3, ())


def test_a_plan_that_cannot_be_read_is_said_to_be_so(tmp_path: Path) -> None:
    with open_or_resume(tmp_path, SAME, Invocation(config={"sheet": {"columns": 1}})) as store:
        report = load_report(filled(store, series("..x")))

    assert report.headline.tool.n == 3
    assert "is invalid" in report.notices[0]


def changed(store: RunStore, statement: str) -> None:
    with store._connection as connection:
        connection.execute(statement)


def test_settings_that_are_gone_leave_the_figures(run: RunStore) -> None:
    filled(run, series("..x"))
    changed(run, "DELETE FROM meta")
    report = load_report(run)

    assert report.headline.tool.n == 3
    assert report.notices == ("The plan and settings of this run could not be read.",)


def test_a_damaged_trial_leaves_those_before_it(run: RunStore, tmp_path: Path) -> None:
    filled(run, series("..x"))
    changed(run, "UPDATE trials SET record = '{' WHERE trial = 2")
    page = write_report(run, tmp_path)
    text = page.read_text("utf-8")

    assert "Some results are missing" in text
    assert "1/1" in text
    assert "is damaged" in data(page)["traces"]["note"]


def test_a_damaged_trace_harms_no_other(run: RunStore, tmp_path: Path) -> None:
    filled(run, series("..x"))
    changed(run, "UPDATE traces SET lines = x'00' WHERE trial_id = 2")

    found = inline(write_report(run, tmp_path))
    assert (found.count('"type":"damaged"'), found.count('"type":"final"')) == (1, 2)


def test_a_file_that_is_no_store_still_gives_a_page_that_says_so(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"this was a database once" * 99)
    page = write_report_at(tmp_path)

    assert "is damaged" in page.read_text("utf-8")
    assert "No run is recorded yet." in page.read_text("utf-8")


def test_a_place_that_cannot_be_written_is_one_clear_error(run: RunStore, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreError, match="cannot use"):
        write_report(filled(run, series(".")), tmp_path / "file")
    with pytest.raises(StoreError, match="cannot use"):
        write_report(run, tmp_path / "file", max_bytes=1)


def test_a_run_is_reported_while_it_is_written(run: RunStore) -> None:
    filled(run, series(".."))

    with open_for_reading(run.directory) as reader:
        assert load_report(reader).totals.trials == 2
        filled(run, series("...")[2:])
        assert load_report(reader).totals.trials == 3
