"""`surecall trust`: shown first, asked for, and kept outside of the directory."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from surecall.cli.options import consent_file, load_consents
from tests.support.commands import Run
from tests.support.servers import Listener, listening

KEY = "sk-own-0123456789abcdef"
MODEL = ("-m", "my-model")


@pytest.fixture(name="listener")
def listener_fixture() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


def named(folder: Path, url: str) -> None:
    (folder / "surecall.toml").write_text(f'base_url = "{url}"\n')


@pytest.mark.parametrize("command", ["check", "eval"])
def test_the_key_goes_there_after_the_consent_and_not_before(
    run: Run,
    listener: Listener,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named(tmp_path, listener.url)
    monkeypatch.setenv("SURECALL_API_KEY", KEY)
    quickly = () if command == "check" else ("-n", "1", "-s", "chat_only", "-q")
    told = run(command, *MODEL, *quickly)[2]

    assert listener.keys == {None}
    assert (
        f"SURECALL_API_KEY is not sent to {listener.url}, the URL in surecall.toml: base_url"
        in told
    )

    code, out, _ = run("trust", "--yes")
    listener.heard.clear()
    run(command, *MODEL, *quickly, *(() if command == "check" else ("--fresh",)))

    assert code == 0
    assert f"surecall.toml: base_url names {listener.url}.\n" in out
    assert "not encrypted" in out
    assert listener.keys == {f"Bearer {KEY}"}
    assert not [path for path in tmp_path.rglob("*trust*") if path.is_file()]


def test_the_consent_is_for_this_directory_and_can_be_listed_and_taken_back(
    run: Run, tmp_path: Path
) -> None:
    named(tmp_path, "https://api.test/v1?key=a-secret-in-it")
    assert run("trust", "--list")[2].startswith("nothing is trusted")
    code, out, _ = run("trust", "-y")

    assert code == 0
    assert "a-secret" not in out
    assert "not encrypted" not in out
    assert "a-secret" not in consent_file().read_text()
    assert run("trust", "-y")[1].startswith("already trusted")
    assert str(tmp_path) in run("trust", "--list")[1]
    assert "https://api.test:443" in run("trust", "--list")[1]
    assert run("trust", "--remove", str(tmp_path / "other"))[0] == 4
    assert run("trust", "--remove")[:2] == (
        0,
        f"no longer trusted in {tmp_path}: https://api.test:443\n",
    )
    assert load_consents() == ()


def test_another_directory_keeps_its_consent(run: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        named(tmp_path / name, "https://api.test")
        assert run("trust", "-y", str(tmp_path / name))[0] == 0
    run("trust", "--remove", str(tmp_path / "one"))

    assert [each.directory for each in load_consents()] == [str(tmp_path / "two")]


@pytest.mark.parametrize("agrees", [False, True])
def test_the_user_is_asked_and_nothing_is_kept_without_a_yes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, agrees: bool
) -> None:
    named(tmp_path, "https://api.test")
    asked: list[str] = []

    def confirm(question: str) -> bool:
        asked.append(question)
        return agrees

    monkeypatch.setattr("click.confirm", confirm)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    code, out, err = run("trust")

    assert asked == ["Trust this address?"]
    assert "https://api.test:443" in out  # shown before
    assert (code, consent_file().exists()) == (0 if agrees else 1, agrees)
    assert ("no consent was stored" in err) is not agrees


def test_where_nobody_can_be_asked_nothing_is_kept(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named(tmp_path, "https://api.test")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))

    assert run("trust")[0] == 2
    assert not consent_file().exists()


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("", 4, "names an address"),
        ('base_url = "sim"', 4, "names an address"),
        ('base_url = "https://openrouter.ai/api"', 4, "needs no consent"),
        ('base_url = "https://xn--pple-43d.test"', 0, ""),
        ('base_url = "https://\\u0430pple.test"', 2, "ASCII form"),
        ('base_url = "https://me:pass@api.test"', 2, "user name or password"),
    ],
)
def test_what_cannot_be_trusted_is_told(
    run: Run, text: str, code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "surecall.toml").write_text(text)
    found, _, err = run("trust", "-y")

    assert found == code
    assert said in err


def test_the_key_that_belongs_to_the_address_is_named_and_goes_there_after_the_consent(
    run: Run, listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text(f"OPENROUTER_BASE_URL={listener.url}\n")
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    run("check", *MODEL)
    assert listener.keys == {None}

    assert (
        "will send your key (SURECALL_API_KEY or OPENROUTER_API_KEY) there" in run("trust", "-y")[1]
    )
    listener.heard.clear()
    run("check", *MODEL)
    assert listener.keys == {f"Bearer {KEY}"}


def test_the_environment_does_not_hide_what_the_file_names(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named(tmp_path, "https://api.test")
    monkeypatch.setenv("SURECALL_BASE_URL", "https://mine.test")

    assert "https://api.test:443" in run("trust", "-y")[1]
