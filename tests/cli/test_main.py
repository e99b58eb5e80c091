"""The command line: what it prints, and how it fails."""

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import surecall
from surecall import cli
from surecall.cli import sim
from tests.support.commands import STRICT_SURECALL
from tests.support.project_files import ROOT
from tests.support.timing import PATIENCE_S


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STRICT_SURECALL, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_without_a_command_and_with_help_it_says_what_it_can_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (cli.main([]), cli.main(["--help"])) == (0, 0)
    assert capsys.readouterr().out.count("Run a simulated provider that misbehaves") == 2


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"surecall {surecall.__version__}\n"


def test_it_is_the_script_of_the_project_and_the_main_of_the_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["scripts"] == {"surecall": "surecall.cli:main"}
    monkeypatch.setattr(sys, "argv", ["surecall", "--version"])
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    # Finders of pytest take over the modules of a plugin's package, and cannot be run.
    finders = [it for it in sys.meta_path if "pytest" not in type(it).__module__]
    monkeypatch.setattr(sys, "meta_path", finders)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("surecall", run_name="__main__")
    assert (ended.value.code, capsys.readouterr().err) == (0, "")
    assert "" not in sys.path[:1]  # modules of the working directory are not looked for


@pytest.mark.processes
def test_a_module_of_the_working_directory_is_not_taken_for_a_dependency(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit(99)\n")
    command = [sys.executable, "-m", "surecall", "--version"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)

    assert ran.returncode == 0


def test_the_help_lists_every_command_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    _, *groups = capsys.readouterr().out.split("\n\n")[2:]
    found = [re.findall(r"^  ?(\w+)", group.strip(), re.MULTILINE) for group in groups]
    titles = [group.partition(":")[0] for group in groups]

    assert titles == ["Run", "Inspect", "Develop"]
    assert found == [list(group) for group in cli.COMMAND_GROUPS.values()]


def test_the_list_of_commands_says_what_the_commands_say() -> None:
    context = click.Context(cli.cli)
    for name, sentence in cli.COMMANDS.items():
        command = cli.cli.get_command(context, name)
        assert command is not None
        assert command.help is not None
        assert " ".join(command.help.split("\n\n")[0].split()) == sentence


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_the_short_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "-h"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: surecall {name} ")


@pytest.mark.processes
def test_help_loads_neither_the_simulator_nor_an_http_library() -> None:
    code = (
        "import sys, surecall.cli; surecall.cli.main(['--help']);"
        "print([name for name in ('aiohttp', 'surecall.simulator.server') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["sim", "--seed", "abc"],
            "Invalid value for '--seed': 'abc' is not a valid whole number.",
        ),
        (["sim", "--seed", "-1"], "Invalid value for '--seed'"),
        (["sim", "--port", "99999"], "Invalid value for '--port'"),
        (["sim", "--port", "http"], "Invalid value for '--port'"),
        (["sim", "--persona-default", "sim/cleanx"], 'did you mean "sim/clean"'),
        (["sim", "--persona-default", "\x1b[31mred"], "unknown persona"),
        (["sim", "--host", "192.0.2.1"], "192.0.2.1 is not loopback: add --public"),
        (["sim", "extra"], "unexpected extra argument"),
        (["simm"], "Did you mean 'sim'?"),
        (["view"], "`surecall view` is now `surecall report`"),
        (["view", "latest", "--live"], "`surecall view` is now `surecall report`"),
        (["export", "-h"], "`surecall export` is now `surecall report --format`"),
        (["new-drift", "x.json"], "`surecall new-drift` is now `surecall dev new-drift`"),
        (["eval", "-o", "there"], "No such option"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_two(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("surecall: ")
    assert message in err
    assert err.strip().isprintable()


@pytest.mark.processes
def test_a_reader_that_goes_away_is_no_traceback() -> None:
    with subprocess.Popen(
        [*STRICT_SURECALL, "sim", "--list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as listing:
        assert listing.stdout is not None
        assert listing.stderr is not None
        listing.stdout.close()
        err = listing.stderr.read()
    assert (listing.returncode, err) == (1, "")


@pytest.mark.usefixtures("capfd")
@pytest.mark.parametrize(("problem", "code"), [(KeyboardInterrupt, 130), (BrokenPipeError, 1)])
def test_what_ends_a_command_from_outside_is_an_exit_code(
    problem: type[BaseException], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(_: str) -> int:
        raise problem

    monkeypatch.setattr(sim, "_list_personas", ended)
    assert cli.main(["sim", "--list"]) == code


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), None])
def test_a_signal_while_a_class_is_created_is_an_exit_code(
    cause: BaseException | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(_: str) -> int:
        raise RuntimeError("Error calling __set_name__") from cause

    monkeypatch.setattr(sim, "_list_personas", ended)
    if cause is None:
        with pytest.raises(RuntimeError):
            cli.main(["sim", "--list"])
    else:
        assert cli.main(["sim", "--list"]) == 130


@pytest.mark.processes
def test_bad_input_ends_a_real_process_in_the_same_way() -> None:
    ran = run("sim", "--seed", "abc")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
