"""`surecall ls`: what it lists, and how it fails."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.work import WORK
from surecall.eval.storage.run_directories import DATABASE
from surecall.eval.storage.trial import Cell
from surecall.settings.catalog import ModelCatalog, SamplingCatalog
from surecall.settings.presets import PRESET
from surecall.settings.providers import provider_table
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.personas.persona_catalog import PERSONAS, SHOWCASES
from tests.support.commands import HOSTILE, Run, one_line, stored
from tests.support.trials import series, trial

ROUTER = ("--base-url", "https://openrouter.ai/api")
OWN = ("--base-url", "http://127.0.0.1:1/v1")


def first_words(out: str) -> list[str]:
    return [line.split()[0] for line in out.splitlines()[1:]]


def test_without_a_key_the_models_are_named_by_what_they_do_and_called_simulated(run: Run) -> None:
    code, out, err = run("ls", "models")

    assert code == 0
    assert "built-in simulator" in err
    assert "-m 'sim/*'" in err
    listed = first_words(out)
    assert listed == ["sim/clean", *(persona.id for persona in SHOWCASES)]
    assert "recommended" not in out.splitlines()[0]


def test_a_filter_reaches_personas_that_are_not_listed(run: Run) -> None:
    code, out, err = run("ls", "models", "-m", "sim/clean,sim/lazy")

    assert (code, first_words(out)) == (0, ["sim/clean", "sim/lazy"])
    assert "lists them" not in err


def test_the_help_names_no_default_that_a_list_does_not_have(run: Run) -> None:
    _, out, _ = run("ls", "--help")

    assert "-m, --model FILTER" in out
    assert "stable" not in out


def test_columns_are_aligned(run: Run) -> None:
    _, out, _ = run("ls", "models")
    lines = out.splitlines()

    at = lines[0].index("summary")
    assert all(line[at - 2 : at] == "  " and line[at] != " " for line in lines)


def test_the_catalog_can_be_read_without_a_key(run: Run) -> None:
    code, out, err = run("ls", "models", *ROUTER, "--json")

    assert (code, err) == (0, "")
    models = json.loads(out)["models"]
    assert [model["model"] for model in models] == [
        model.id for model in ModelCatalog.builtin().models
    ]
    assert not any(model["simulated"] for model in models)
    assert {model["recommended"] for model in models} == {"yes", "conditional", "no"}


def test_an_endpoint_of_ones_own_has_the_models_that_one_names(run: Run) -> None:
    assert run("ls", "models", *OWN)[0] == 4
    code, out, _ = run("ls", "models", *OWN, "-m", "my-model", "--json")

    (model,) = json.loads(out)["models"]
    assert (code, model["model"], model["simulated"]) == (0, "my-model", False)


def test_a_filter_that_is_not_in_plain_sight_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_MODEL_FILTER", "sim/clean")
    _, out, err = run("ls", "models")

    assert first_words(out) == ["sim/clean"]
    assert 'only "sim/clean", from OPENROUTER_MODEL_FILTER\n' in err
    assert "only" not in run("ls", "models", "-m", "sim/lazy")[2]


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["modles"], 'did you mean "models"'),
        (["models", "-m", "sim/claen"], 'did you mean "sim/clean"'),
        (["profiles", "-p", "defalt"], 'did you mean "default"'),
        (["scenarios", "-s", "happy_pth"], 'did you mean "happy_path"'),
        (["scenarios", "-s", "missing.py"], "no scenario file 'missing.py'"),
        ([HOSTILE], "unknown list"),
        ([], "Missing argument"),
    ],
)
def test_a_slip_of_the_pen_is_one_line_and_exit_code_two(
    run: Run, arguments: list[str], meant: str
) -> None:
    code, out, err = run("ls", *arguments)

    assert (code, out) == (2, "")
    assert meant in one_line(err)


def test_profiles_come_with_their_options_and_can_be_picked_by_model(run: Run) -> None:
    _, out, _ = run("ls", "profiles", "--json")
    every = json.loads(out)["profiles"]
    assert [one["profile"] for one in every] == [
        profile.id for profile in SamplingCatalog.builtin().profiles
    ]
    _, out, _ = run("ls", "profiles", *ROUTER, "-m", "deepseek/deepseek-v3.2:nitro")
    assert "default" in first_words(out)
    assert "temperature=1.3 top_p=0.95" in out
    assert "grok" not in out


def test_endpoints_come_with_their_aliases_and_addresses(run: Run) -> None:
    code, out, err = run("ls", "endpoints")
    assert (code, first_words(out)) == (0, [*provider_table().by_name, "custom"])
    assert "--endpoint accepts each name" in err

    rows = {
        row["endpoint"]: row for row in json.loads(run("ls", "endpoints", "--json")[1])["endpoints"]
    }
    assert rows["moonshot"]["aliases"] == ["kimi", "moonshotai"]
    assert rows["moonshot"]["addresses"] == ["moonshot.ai", "moonshot.cn", "kimi.com"]
    assert rows["ollama"]["addresses"] == ["localhost:11434"]
    assert rows["custom"] == {"endpoint": "custom", "aliases": [], "addresses": []}


def test_scenarios_are_all_of_them_or_a_group_or_ones_own(run: Run, tmp_path: Path) -> None:
    assert first_words(run("ls", "scenarios")[1]) == [one.id for one in (*SCENARIOS, *WORK)]
    assert "chat_only" in run("ls", "scenarios", "-s", "simple")[1]
    own = 'from surecall.eval import scenario\n@scenario()\nasync def mine(run):\n "Hi."\n'
    (tmp_path / "mine.py").write_text(own)
    (mine,) = json.loads(run("ls", "scenarios", "-s", "mine.py", "--json")[1])["scenarios"]
    assert (mine["scenario"], mine["tools"], mine["summary"]) == ("mine", False, "Hi.")


def test_presets_and_faults_come_with_what_they_do(run: Run) -> None:
    presets = json.loads(run("ls", "presets", "--json")[1])["presets"]
    faults = json.loads(run("ls", "faults", "--json")[1])["faults"]

    assert [preset["preset"] for preset in presets] == list(PRESET.names)
    assert all(one["summary"] for one in (*presets, *faults))
    assert set(SHAPE_FAULTS) < {fault["fault"] for fault in faults}
    assert {fault["persona"] for fault in faults} < set(PERSONAS)
    assert len(run("ls", "faults")[1].splitlines()) == len(faults) + 1


def test_runs_are_listed_newest_first_with_their_rates(run: Run) -> None:
    older = stored([*series("..x"), *series("....", "chat_only")])
    newer = stored(series("...i", cell=Cell("real/model")), simulated=False)
    code, out, err = run("ls", "runs")

    assert (code, err) == (0, "")
    head, first, second = out.splitlines()
    assert head.split() == [
        *("begun", "run", "trials", "tool_pass", "strategy", "infra", "partial", "simulated"),
        "models",
    ]
    assert newer.name in first
    assert first.endswith(
        "  4       3/3 100.0% [43.9, 100.0]  production  1      no       no         real/model"
    )
    assert older.name in second
    assert second.endswith(
        "  7       2/3 66.7% [20.8, 93.9]    production  0      no       yes        maker/model"
    )


def test_the_rate_of_a_run_is_that_of_one_strategy_which_is_named(run: Run) -> None:
    raw, production = Cell("m", strategy="raw"), Cell("m", strategy="production")
    stored([*series("xxxx", cell=raw), *series("...x", cell=production)])

    (line,) = json.loads(run("ls", "runs", "--json")[1])["runs"]
    assert (line["trials"], line["strategy"]) == (8, "production")
    assert (line["tool_pass"]["k"], line["tool_pass"]["n"]) == (3, 4)


def test_a_run_that_measured_nothing_has_no_rate(run: Run) -> None:
    stored(series("ii"))

    (line,) = json.loads(run("ls", "runs", "--json")[1])["runs"]
    assert (line["trials"], line["infra"], line["tool_pass"]["rate"]) == (2, 2, None)
    assert datetime.fromisoformat(line["begun"]).tzinfo is not None
    told = run("ls", "runs")[1].splitlines()[1].split()
    assert told[-6:-1] == ["-", "production", "2", "no", "yes"]


def test_each_run_names_its_models(run: Run) -> None:
    stored([*series(".", cell=Cell("a/b")), *series(".", cell=Cell("c/d", strategy="raw"))])
    stored([*series(".", cell=Cell("a/b")), *series(".", cell=Cell("a/b", strategy="raw"))])
    newer, older = json.loads(run("ls", "runs", "--json")[1])["runs"]

    assert (newer["models"], older["models"]) == (["a/b"], ["a/b", "c/d"])
    assert run("ls", "runs")[1].splitlines()[2].endswith("  a/b, c/d")


def test_a_run_that_cannot_be_read_is_a_remark_and_the_others_are_listed(run: Run) -> None:
    good = stored([trial()])
    for name, data in ((f"2030-{HOSTILE}", b"not a database " * 99), ("2031", b"")):
        folder = good.parent / name
        folder.mkdir()
        (folder / DATABASE).write_bytes(data)
    code, out, err = run("ls", "runs")

    assert code == 0
    assert [good.name in line for line in out.splitlines()] == [False, True]
    assert err.count("\n") == 2
    assert "is damaged" in err
    assert "holds no run" in err


def test_a_run_that_lacks_planned_trials_is_marked(run: Run) -> None:
    stored(series("."), settings={"trials": 3})
    stored(series("..."), settings={"trials": 3})
    newer, older = json.loads(run("ls", "runs", "--json")[1])["runs"]

    assert (newer["partial"], older["partial"]) == (False, True)


def test_a_filter_that_is_given_twice_lists_both(run: Run) -> None:
    _, out, _ = run("ls", "scenarios", "-s", "happy_path", "-s", "chat_only", "--json")

    assert {row["scenario"] for row in json.loads(out)["scenarios"]} == {"happy_path", "chat_only"}


def test_no_runs_are_an_empty_list_and_a_remark(run: Run, tmp_path: Path) -> None:
    assert run("ls", "runs") == (0, "", "there are no runs in .surecall\n")
    code, out, _ = run("ls", "runs", "--json", "--runs", str(tmp_path / "elsewhere"))
    assert (code, json.loads(out)) == (0, {"schema_version": 1, "runs": []})


def test_a_wrong_setting_is_an_error_here_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURECALL_BASE_URL", "ftp://example")
    code, _, err = run("ls", "models")

    assert code == 2
    assert "SURECALL_BASE_URL" in one_line(err)
