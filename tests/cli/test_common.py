"""What all commands share: messages that cannot act on a terminal, and where servers listen."""

import errno

import click
import pytest

from surecall.cli.common import WRONG_USAGE, cannot_listen, complain, note, say, with_address
from tests.support.commands import HOSTILE


def test_a_complaint_is_one_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert complain(f"bad\n  {HOSTILE}", WRONG_USAGE) == WRONG_USAGE
    out, err = capsys.readouterr()

    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("surecall: bad ")
    assert err.strip().isprintable()


def test_what_is_printed_keeps_its_lines_and_nothing_that_acts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say(f"one\n{HOSTILE}")
    note(HOSTILE)
    out, err = capsys.readouterr()

    assert out.startswith("one\n")
    assert all(line.isprintable() for line in (out + err).split("\n"))


@pytest.mark.parametrize(
    ("code", "host", "said"),
    [
        (errno.EADDRINUSE, "", "port 80 is taken; choose another one with --port"),
        (errno.EADDRINUSE, "::1", "port 80 on ::1 is taken; choose another one with --port"),
        (errno.EACCES, "", "cannot listen on port 80: denied"),
        (errno.EACCES, "::1", "cannot listen on ::1, port 80: denied"),
    ],
)
def test_why_nothing_can_be_served_is_one_sentence(code: int, host: str, said: str) -> None:
    assert cannot_listen(80, OSError(code, "denied"), host) == said


@pytest.mark.parametrize(
    ("arguments", "public"), [([], False), (["--public"], True), (["--anywhere"], True)]
)
def test_a_server_is_public_only_on_request_under_the_new_name_or_the_old(
    *, arguments: list[str], public: bool
) -> None:
    found = []

    @click.command()
    @with_address(7)
    def serve(*, host: str, port: int, public: bool) -> None:
        found.append((host, port, public))

    serve.main(arguments, standalone_mode=False)

    assert found == [("127.0.0.1", 7, public)]
    assert "--anywhere" not in serve.get_help(click.Context(serve))
    assert "--public" in serve.get_help(click.Context(serve))
