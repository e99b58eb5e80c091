"""`surecall dev`: it lists its commands, and knows no others."""

from tests.support.commands import Run, one_line


def test_without_a_command_it_lists_its_commands(run: Run) -> None:
    code, out, err = run("dev")

    assert (code, err) == (0, "")
    assert "new-drift  Add a malformed reply to the test corpus." in out


def test_an_unknown_command_is_one_line(run: Run) -> None:
    code, out, err = run("dev", "nothing")

    assert (code, out) == (2, "")
    assert "No such command 'nothing'" in one_line(err)


def test_its_commands_have_the_short_help(run: Run) -> None:
    code, out, _ = run("dev", "new-drift", "-h")

    assert code == 0
    assert out.startswith("Usage: surecall dev new-drift [OPTIONS] REPLY.json")
