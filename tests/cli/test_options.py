"""Tests of `surecall.cli.options`."""

import json
import os
import re
import stat
from pathlib import Path

import pytest

from surecall.cli.options import (
    Consent,
    consent_file,
    load_consents,
    real_path,
    save_consents,
    trusted_origins,
)
from surecall.eval.settings.fields import FIELDS
from surecall.values.errors import ConfigError
from tests.support.commands import SMALL, Run
from tests.support.spec import proves

# Settings on the command line: each is an option, and mistakes are reported


@proves("I26")
def test_a_misspelt_mode_in_the_environment_is_an_error(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_TOOL_USE_MODE", "enforcd")
    code, _, err = run(*SMALL)

    assert code == 2
    assert "OPENROUTER_TOOL_USE_MODE" in err
    assert "enforced" in err


def test_a_misspelt_variable_is_a_warning_with_a_suggestion(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURECALL_TRIAL", "2")
    _, _, err = run(*SMALL, "-q")

    assert 'SURECALL_TRIAL is not a setting; did you mean "SURECALL_TRIALS"?' in err


def test_every_setting_is_an_option_in_a_group(run: Run) -> None:
    _, out, _ = run("eval", "--help-all")

    for title in (
        "Selection (join filters with commas, or repeat the option):",
        "Execution:",
        "Endpoint:",
        "Command options:",
    ):
        assert title in out
    assert "api-key" not in out


# A file of the working directory runs no Python, and writes nowhere else


EVIL = "from pathlib import Path\nPath('PWNED').touch()\n"
RECORDED = json.dumps({"messages": [{"role": "user", "content": "hi"}], "id": "said_hi"}) + "\n"
CONFINES_SMALL = ("eval", "-m", "sim/clean", "-n", "1", "-q")


@pytest.fixture(name="evil")
def evil_fixture(tmp_path: Path) -> Path:
    (tmp_path / "evil.py").write_text(EVIL)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "evil.py").write_text(EVIL)
    (tmp_path / "evil.jsonl").mkdir()
    (tmp_path / "evil.jsonl" / "evil.py").write_text(EVIL)
    (tmp_path / "link.jsonl").symlink_to("evil.py")
    return tmp_path / "PWNED"


FILES = [
    "evil.py",
    "evil.py::name",
    "more/",
    "./more",
    "./evil.py",
    "simple,evil.py",
    "evil.jsonl",
    "link.jsonl/../evil.py",
    " evil.py ",
]
SETTINGS = [
    ("surecall.toml", 'scenarios = "{}"'),
    ("surecall.toml", 'scenarios = ["{}"]'),
    ("pyproject.toml", '[tool.surecall]\nscenarios = "{}"'),
    (".env", "SURECALL_SCENARIOS={}"),
    (".env", "OPENROUTER_SCENARIOS={}"),
]
COMMANDS = [
    ("check", "--offline"),
    ("ls", "scenarios"),
    ("ls", "models"),
    CONFINES_SMALL,
    ("report", "--no-open"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command[:2]))
@pytest.mark.parametrize(("file", "text"), SETTINGS)
def test_no_command_runs_python_because_a_file_says_so(
    run: Run, evil: Path, command: tuple[str, ...], file: str, text: str
) -> None:
    Path(file).write_text(text.format("evil.py"))
    _, _, err = run(*command)

    assert not evil.exists()
    assert "evil.py, named in" in err
    assert "--scenario evil.py" in err


@pytest.mark.parametrize("token", FILES)
@pytest.mark.parametrize("place", ["file", "environment"])
def test_no_spelling_of_a_file_is_loaded(
    run: Run, evil: Path, token: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "file":
        Path("surecall.toml").write_text(f'scenarios = "{token}"')
    else:
        monkeypatch.setenv("SURECALL_SCENARIOS", token)
    code, out, err = run("ls", "scenarios")

    assert (code, evil.exists()) == (0, False)
    assert "not loaded" in err
    assert "happy_path" in out


@pytest.mark.usefixtures("evil")
def test_what_else_was_chosen_still_counts(run: Run) -> None:
    Path("surecall.toml").write_text('scenarios = "chat_only,evil.py"')

    assert run("ls", "scenarios")[1].count("\n") == 2  # the head, and the one


@pytest.mark.usefixtures("evil")
def test_an_evaluation_without_them_is_not_the_one_that_was_asked_for(run: Run) -> None:
    Path("surecall.toml").write_text('scenarios = "chat_only,evil.py"')
    code, _, err = run(*CONFINES_SMALL)

    assert code == 2
    assert "nothing was run, because evil.py was not loaded" in err


def test_the_command_line_may_name_python(run: Run, evil: Path) -> None:
    Path("surecall.toml").write_text('scenarios = "evil.py"')
    err = run("ls", "scenarios", "-s", "evil.py")[2]

    assert evil.exists()
    assert "not loaded" not in err


@pytest.mark.usefixtures("evil")
def test_recorded_requests_of_the_directory_are_data_and_may_be_named(run: Run) -> None:
    Path("mine.jsonl").write_text(RECORDED)
    Path("surecall.toml").write_text('scenarios = "mine.jsonl"')
    code, out, err = run("ls", "scenarios")

    assert code == 0
    assert "said_hi" in out
    assert "not loaded" not in err


@pytest.mark.usefixtures("evil")
@pytest.mark.parametrize("linked", [False, True])
def test_a_file_of_the_directory_does_not_name_data_from_elsewhere(
    run: Run, tmp_path_factory: pytest.TempPathFactory, *, linked: bool
) -> None:
    private = tmp_path_factory.mktemp("private") / "chats.jsonl"
    private.write_text(RECORDED)
    Path("chats.jsonl").symlink_to(private)
    Path("surecall.toml").write_text(f'scenarios = "{"chats.jsonl" if linked else private}"')

    assert "said_hi" not in run("ls", "scenarios")[1]


@pytest.mark.usefixtures("evil")
def test_the_environment_may_name_data_anywhere(
    run: Run, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path_factory.mktemp("private") / "chats.jsonl"
    private.write_text(RECORDED)
    monkeypatch.setenv("SURECALL_SCENARIOS", str(private))

    assert "said_hi" in run("ls", "scenarios")[1]


# Where files are written


@pytest.mark.usefixtures("evil")
@pytest.mark.parametrize("given", ["../outside", "/outside", "a/../../outside", "link", "link/in"])
@pytest.mark.parametrize(("file", "text"), [(f, t) for f, t in SETTINGS if "[" not in t[8:]])
def test_a_file_of_the_directory_does_not_decide_to_write_elsewhere(
    run: Run, given: str, file: str, text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    Path("link").symlink_to(outside)
    given = given.replace("/outside", str(outside)) if given.startswith("/") else given
    setting = text.replace("SCENARIOS", "OUTPUT_DIR").replace("scenarios", "output_dir")
    Path(file).write_text(setting.format(given))
    code, _, err = run(*CONFINES_SMALL)

    if "OPENROUTER" not in text:  # which is no variable of it
        assert code == 2
        assert "output_dir" in err.lower()
        assert "--runs" in err
    assert not list(outside.iterdir())


@pytest.mark.usefixtures("evil")
def test_a_folder_in_the_directory_may_be_named(run: Run) -> None:
    Path("surecall.toml").write_text('output_dir = "a/../results/here"')
    code, _, _ = run(*CONFINES_SMALL, "-s", "chat_only")

    assert code == 0
    assert Path("results/here/latest").is_file()


@pytest.mark.usefixtures("evil")
def test_the_usual_place_is_not_used_through_a_link(
    run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    Path(".surecall").symlink_to(outside)
    code, _, err = run(*CONFINES_SMALL)

    assert code == 2
    assert ".surecall: is a symbolic link" in err
    assert not list(outside.iterdir())
    assert run(*CONFINES_SMALL, "-s", "chat_only", "--runs", ".surecall")[0] == 0


@pytest.mark.usefixtures("evil")
def test_the_environment_and_the_command_line_may_name_any_place(
    run: Run, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    monkeypatch.setenv("SURECALL_OUTPUT_DIR", str(outside))

    assert run(*CONFINES_SMALL, "-s", "chat_only")[0] == 0
    assert (outside / "latest").is_file()


# Consents: kept in the user's own configuration, read only if nobody else can write them


ORIGIN = "http://127.0.0.1:18811"


@pytest.fixture(name="config")
def config_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "surecall" / "trust.json"


def test_without_a_file_nothing_is_trusted(config: Path) -> None:
    assert consent_file() == config
    assert load_consents() == ()


def test_what_is_kept_is_read_again_and_for_the_user_alone(config: Path, tmp_path: Path) -> None:
    save_consents([Consent(real_path(tmp_path), ORIGIN), Consent("/other", ORIGIN)])

    assert trusted_origins(tmp_path) == {ORIGIN}
    assert trusted_origins(tmp_path / "elsewhere") == frozenset()
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert stat.S_IMODE(config.parent.stat().st_mode) == 0o700


@pytest.mark.usefixtures("config")
def test_a_link_to_a_trusted_directory_is_that_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    save_consents([Consent(real_path(tmp_path / "real"), ORIGIN)])

    assert trusted_origins(tmp_path / "link") == {ORIGIN}


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize("given", ["", "config", "./config"])
def test_a_place_in_the_working_directory_is_not_the_users_own(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", given)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert consent_file() == tmp_path / ".config" / "surecall" / "trust.json"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_change_does_not_count(config: Path, mode: int) -> None:
    save_consents([Consent("/other", ORIGIN)])
    config.chmod(mode)

    with pytest.raises(ConfigError, match="chmod 600"):
        load_consents()


@pytest.mark.usefixtures("config")
def test_a_file_of_somebody_else_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    save_consents([Consent("/other", ORIGIN)])
    monkeypatch.setattr("os.geteuid", lambda: 4711)

    with pytest.raises(ConfigError, match="by another user"):
        load_consents()


@pytest.mark.usefixtures("config")
def test_where_nobody_has_a_number_the_owner_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    save_consents([Consent("/other", ORIGIN)])
    monkeypatch.delattr("os.geteuid")

    assert len(load_consents()) == 1


def test_a_link_in_place_of_the_file_is_not_followed(config: Path, tmp_path: Path) -> None:
    save_consents([Consent("/other", ORIGIN)])
    config.rename(tmp_path / "planted.json")
    config.symlink_to(tmp_path / "planted.json")

    with pytest.raises(ConfigError, match="symbolic link"):
        load_consents()


@pytest.mark.usefixtures("config")
def test_without_a_home_nothing_is_trusted_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", os.devnull)

    assert load_consents() == ()
    with pytest.raises(ConfigError, match="cannot use"):
        save_consents([Consent("/other", ORIGIN)])


@pytest.mark.usefixtures("config")
def test_a_user_who_is_unknown_has_trusted_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("no home directory")

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr(Path, "home", unknown)

    assert load_consents() == ()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"directory": "x"}]', "\x00"])
def test_a_damaged_file_is_said_to_be_one(config: Path, text: str) -> None:
    save_consents([])
    config.write_text(text)

    with pytest.raises(ConfigError, match="is invalid"):
        load_consents()


# The help of commands with many options


@pytest.mark.parametrize("name", ["check", "eval"])
def test_help_shows_the_usual_options_and_help_all_the_rest(run: Run, name: str) -> None:
    code, usual, err = run(name, "--help")
    code_all, everything, err_all = run(name, "--help-all")

    assert (code, code_all, err, err_all) == (0, 0, "", "")
    options = [
        re.findall(r"^  (?:-\w, )?(-[\w-]+)", text, re.MULTILINE) for text in (usual, everything)
    ]
    assert {"--model", "--base-url", "--help-all", "--help"} < {*options[0]} < {*options[1]}
    assert len(options[0]) == 12
    assert {field.flags[-1] for field in FIELDS.values() if field.flags} <= {*options[1]}


def test_options_that_help_does_not_show_work(run: Run) -> None:
    code, out, _ = run("check", "--offline", "--top-p", "0.5", "--json")

    assert code == 0
    assert {"name": "top_p", "value": "0.5", "source": "--top-p"} in json.loads(out)["settings"]


def test_every_command_keeps_runs_where_runs_says(run: Run) -> None:
    assert run(*CONFINES_SMALL, "-s", "chat_only", "--runs", "there")[0] == 0
    for words in (
        ("ls", "runs"),
        ("replay",),
        ("report", "--no-open"),
        ("compare", "latest", "latest"),
        ("merge", "latest", "--into", "merged"),
        ("check", "--offline"),
    ):
        code, _, err = run(*words, "--runs", "there")
        assert "there are no runs" not in err, words
        assert code in {0, 2} if words[0] == "compare" else code == 0, words
