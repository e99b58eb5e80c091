"""A file of the working directory runs no Python, and writes nowhere else."""

import json
from pathlib import Path

import pytest

from tests.support.commands import Run

EVIL = "from pathlib import Path\nPath('PWNED').touch()\n"
RECORDED = json.dumps({"messages": [{"role": "user", "content": "hi"}], "id": "said_hi"}) + "\n"
SMALL = ("eval", "-m", "sim/clean", "-n", "1", "-q")


@pytest.fixture(name="evil", autouse=True)
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
COMMANDS = [("check", "--offline"), ("ls", "scenarios"), ("ls", "models"), SMALL, ("view",)]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command[:2]))
@pytest.mark.parametrize(("file", "text"), SETTINGS)
def test_no_command_runs_python_because_a_file_says_so(
    run: Run, evil: Path, command: tuple[str, ...], file: str, text: str
) -> None:
    Path(file).write_text(text.format("evil.py"))
    _, _, err = run(*command)

    assert not evil.exists()
    assert "evil.py, which was not loaded" in err
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


def test_what_else_was_chosen_still_counts(run: Run) -> None:
    Path("surecall.toml").write_text('scenarios = "chat_only,evil.py"')

    assert run("ls", "scenarios")[1].count("\n") == 2  # the head, and the one


def test_an_evaluation_without_them_is_not_the_one_that_was_asked_for(run: Run) -> None:
    Path("surecall.toml").write_text('scenarios = "chat_only,evil.py"')
    code, _, err = run(*SMALL)

    assert code == 2
    assert "nothing was run without evil.py" in err


def test_the_command_line_may_name_python(run: Run, evil: Path) -> None:
    Path("surecall.toml").write_text('scenarios = "evil.py"')
    err = run("ls", "scenarios", "-s", "evil.py")[2]

    assert evil.exists()
    assert "not loaded" not in err


def test_recorded_requests_of_the_directory_are_data_and_may_be_named(run: Run) -> None:
    Path("mine.jsonl").write_text(RECORDED)
    Path("surecall.toml").write_text('scenarios = "mine.jsonl"')
    code, out, err = run("ls", "scenarios")

    assert code == 0
    assert "said_hi" in out
    assert "not loaded" not in err


@pytest.mark.parametrize("linked", [False, True])
def test_a_file_of_the_directory_does_not_name_data_from_elsewhere(
    run: Run, tmp_path_factory: pytest.TempPathFactory, *, linked: bool
) -> None:
    private = tmp_path_factory.mktemp("private") / "chats.jsonl"
    private.write_text(RECORDED)
    Path("chats.jsonl").symlink_to(private)
    Path("surecall.toml").write_text(f'scenarios = "{"chats.jsonl" if linked else private}"')

    assert "said_hi" not in run("ls", "scenarios")[1]


def test_the_environment_may_name_data_anywhere(
    run: Run, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path_factory.mktemp("private") / "chats.jsonl"
    private.write_text(RECORDED)
    monkeypatch.setenv("SURECALL_SCENARIOS", str(private))

    assert "said_hi" in run("ls", "scenarios")[1]


# Where files are written


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
    code, _, err = run(*SMALL)

    if "OPENROUTER" not in text:  # which is no variable of it
        assert code == 2
        assert "output_dir" in err.lower()
        assert "--output" in err
    assert not list(outside.iterdir())


def test_a_folder_in_the_directory_may_be_named(run: Run) -> None:
    Path("surecall.toml").write_text('output_dir = "a/../results/here"')
    code, _, _ = run(*SMALL, "-s", "chat_only")

    assert code == 0
    assert Path("results/here/latest").is_file()


def test_the_usual_place_is_not_used_through_a_link(
    run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    Path(".surecall").symlink_to(outside)
    code, _, err = run(*SMALL)

    assert code == 2
    assert ".surecall: is a symbolic link" in err
    assert not list(outside.iterdir())
    assert run(*SMALL, "-s", "chat_only", "-o", ".surecall")[0] == 0


def test_the_environment_and_the_command_line_may_name_any_place(
    run: Run, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    monkeypatch.setenv("SURECALL_OUTPUT_DIR", str(outside))

    assert run(*SMALL, "-s", "chat_only")[0] == 0
    assert (outside / "latest").is_file()
