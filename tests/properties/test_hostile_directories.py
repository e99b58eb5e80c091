"""A hostile directory: whatever is planted in it, the key of the environment stays at home."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import Run, command_line, stored
from tests.support.servers import Listener, listening
from tests.support.trials import key, passed

KEY, ROUTER_KEY = "sk-own-0123456789abcdef", "sk-or-v1-0123456789abcdef"
QUICK = ("-m", "my-model", "-n", "1", "-s", "chat_only", "-q")
AFTERWARDS = [
    ("replay", "latest/1"),
    ("replay",),
    ("report", "--no-open"),
    ("report", "--format", "html"),
    ("report", "-o", "."),
    ("ls", "runs"),
    ("ls", "models"),
    ("merge", "latest", "--into", "merged"),
    ("compare", "latest", "latest"),
]


@pytest.fixture(name="run")
def run_fixture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    run = command_line(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("SURECALL_API_KEY", KEY)
    monkeypatch.setenv("OPENROUTER_API_KEY", ROUTER_KEY)
    return run


@pytest.fixture(name="thief")
def thief_fixture() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


PLANTED = {
    "surecall.toml": 'base_url = "{url}"\n',
    "pyproject.toml": '[tool.surecall]\nbase_url = "{url}"\n',
    ".env": "SURECALL_BASE_URL={url}\n",
    ".env ": "OPENROUTER_BASE_URL='{url}' # ours\n",
}


@pytest.mark.parametrize("command", [("check", "-m", "my-model"), ("eval", *QUICK)])
@pytest.mark.parametrize("file", PLANTED)
@pytest.mark.parametrize("more", ["", "/v1", "/?a=b", "/x/../y"])
def test_a_planted_address_gets_no_key(
    run: Run, thief: Listener, command: tuple[str, ...], file: str, more: str
) -> None:
    Path(file.strip()).write_text(PLANTED[file].format(url=thief.url + more))
    _, out, err = run(*command)

    assert thief.keys == {None}
    assert "is not sent to " in err
    assert "key       not set" not in out  # it is set, and that is not where it goes


def test_a_planted_prefix_or_header_leads_nowhere_else(
    run: Run, thief: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening() as mine:
        monkeypatch.setenv("SURECALL_BASE_URL", mine.url)
        prefix = f"@{thief.url.removeprefix('http://')}/"
        settings = {
            "api_prefix": prefix,
            "x_title": "${SURECALL_API_KEY}",
            "endpoint": "openrouter",
        }
        lines = (f'{name} = "{value}"\n' for name, value in settings.items())
        Path("surecall.toml").write_text("".join(lines))
        run("check", "-m", "my-model")

    assert thief.heard == []
    assert mine.keys == {f"Bearer {KEY}"}
    assert KEY not in {knock.headers.get("x-title") for knock in mine.heard}


@pytest.mark.parametrize("command", [("check", "-m", "my-model"), ("eval", *QUICK)])
@pytest.mark.parametrize("file", PLANTED)
def test_a_planted_address_does_not_get_the_key_of_the_router_either(
    run: Run,
    thief: Listener,
    command: tuple[str, ...],
    file: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SURECALL_API_KEY")
    Path(file.strip()).write_text(PLANTED[file].format(url=thief.url))
    err = run(*command)[2]

    assert thief.keys == {None}
    assert "OPENROUTER_API_KEY is not sent" in err


@pytest.mark.parametrize("file", PLANTED)
def test_a_planted_address_does_not_redirect_the_pair_of_the_router(
    run: Run, thief: Listener, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SURECALL_API_KEY")
    Path(file.strip()).write_text(PLANTED[file].format(url=thief.url))
    with listening() as mine:
        monkeypatch.setenv("OPENROUTER_BASE_URL", mine.url)
        run("check", "-m", "my-model")

    assert thief.keys <= {None}
    assert mine.keys <= {f"Bearer {ROUTER_KEY}"}


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "SURECALL_PROXY"])
def test_a_planted_proxy_is_not_used(
    run: Run, thief: Listener, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    Path(".env").write_text(f"{name}={thief.url}\n")
    with listening() as mine:
        monkeypatch.setenv("SURECALL_BASE_URL", mine.url)
        run("check", "-m", "my-model")

    assert thief.heard == []
    assert mine.heard


@pytest.mark.parametrize("planted", [("config/surecall",), (".config/surecall",), ("surecall",)])
def test_a_planted_consent_does_not_count(
    run: Run,
    thief: Listener,
    planted: tuple[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    here = Path.cwd()
    folder = here / planted[0]
    folder.mkdir(parents=True)
    consent = f'[{{"directory": "{here}", "origin": "{thief.url}"}}]'
    (folder / "trust.json").write_text(consent)
    (here / ".env").write_text(f"XDG_CONFIG_HOME={folder.parent}\nHOME={here}\n")
    (here / "surecall.toml").write_text(f'base_url = "{thief.url}"')
    monkeypatch.setenv("XDG_CONFIG_HOME", folder.parent.relative_to(here).as_posix())
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    run("check", "-m", "my-model")

    assert thief.keys == {None}


def test_a_file_in_the_directory_above_is_not_read(
    run: Run, thief: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("surecall.toml").write_text(f'base_url = "{thief.url}"')
    Path("below").mkdir()
    monkeypatch.chdir("below")
    run("check", "--base-url", "sim")

    assert run("check", "--offline")[1].count(thief.url) == 0


@pytest.mark.parametrize("command", AFTERWARDS, ids=" ".join)
def test_a_planted_run_sends_nothing_anywhere(
    run: Run, thief: Listener, command: tuple[str, ...]
) -> None:
    address = {"base_url": thief.url, "seed": 0}
    stored([passed(key(1))], identity=address, settings=address | {"bar": 90.0}, simulated=False)
    run(*command)

    assert thief.heard == []


def test_a_planted_run_is_not_where_an_evaluation_goes(
    run: Run, thief: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = {"base_url": thief.url, "seed": 0}
    stored([passed(key(1))], identity=address, settings=address | {"bar": 90.0}, simulated=False)
    with listening() as mine:
        monkeypatch.setenv("SURECALL_BASE_URL", mine.url)
        run("eval", *QUICK)

    assert thief.heard == []
    assert mine.keys == {f"Bearer {KEY}"}
