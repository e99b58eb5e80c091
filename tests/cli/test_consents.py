"""Consents: kept in the user's own configuration, read only if nobody else can write them."""

import os
import stat
from pathlib import Path

import pytest

from surecall.cli.consents import Consent, consent_file, consents, keep, real, trusted_in
from surecall.values.errors import ConfigError

ORIGIN = "http://127.0.0.1:18811"


@pytest.fixture(name="config", autouse=True)
def config_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "surecall" / "trust.json"


def test_without_a_file_nothing_is_trusted(config: Path) -> None:
    assert consent_file() == config
    assert consents() == ()


def test_what_is_kept_is_read_again_and_for_the_user_alone(config: Path, tmp_path: Path) -> None:
    keep([Consent(real(tmp_path), ORIGIN), Consent("/other", ORIGIN)])

    assert trusted_in(tmp_path) == {ORIGIN}
    assert trusted_in(tmp_path / "elsewhere") == frozenset()
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert stat.S_IMODE(config.parent.stat().st_mode) == 0o700


def test_a_link_to_a_trusted_directory_is_that_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    keep([Consent(real(tmp_path / "real"), ORIGIN)])

    assert trusted_in(tmp_path / "link") == {ORIGIN}


@pytest.mark.parametrize("given", ["", "config", "./config"])
def test_a_place_in_the_working_directory_is_not_the_users_own(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", given)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert consent_file() == tmp_path / ".config" / "surecall" / "trust.json"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_change_does_not_count(config: Path, mode: int) -> None:
    keep([Consent("/other", ORIGIN)])
    config.chmod(mode)

    with pytest.raises(ConfigError, match="chmod 600"):
        consents()


def test_a_file_of_somebody_else_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    keep([Consent("/other", ORIGIN)])
    monkeypatch.setattr("os.geteuid", lambda: 4711)

    with pytest.raises(ConfigError, match="by others"):
        consents()


def test_where_nobody_has_a_number_the_owner_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    keep([Consent("/other", ORIGIN)])
    monkeypatch.delattr("os.geteuid")

    assert len(consents()) == 1


def test_a_link_in_place_of_the_file_is_not_followed(config: Path, tmp_path: Path) -> None:
    keep([Consent("/other", ORIGIN)])
    config.rename(tmp_path / "planted.json")
    config.symlink_to(tmp_path / "planted.json")

    with pytest.raises(ConfigError, match="symbolic link"):
        consents()


def test_without_a_home_nothing_is_trusted_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", os.devnull)

    assert consents() == ()
    with pytest.raises(ConfigError, match="cannot use"):
        keep([Consent("/other", ORIGIN)])


def test_a_user_who_is_unknown_has_trusted_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("no home directory")

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr(Path, "home", unknown)

    assert consents() == ()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"directory": "x"}]', "\x00"])
def test_a_damaged_file_is_said_to_be_one(config: Path, text: str) -> None:
    keep([])
    config.write_text(text)

    with pytest.raises(ConfigError, match="cannot be read"):
        consents()
