"""Whether a text retells a call: its name in call position, together with its arguments."""

import re

import pytest

from surecall.parsing.disguised_calls import is_retold
from surecall.parsing.quotations import name_pattern

PATH = [("path", "/srv/a.txt")]


def retells(
    text: str, *arguments: tuple[str, str], name: str = "read_file", size: int = 40
) -> bool:
    return is_retold([text], name_pattern(name), arguments or PATH, size)


@pytest.mark.parametrize(
    "text",
    [
        "read_file(path='/srv/a.txt')",
        'Read-File("/srv/a.txt")',
        '{"read_file": {"path": "/srv/a.txt"}}',
        '{"tool": "read_file", "path": "/srv/a.txt"}',
        "<tool>read_file</tool><args><path>/srv/a.txt</path></args>",
        "read_file <path>/srv/a.txt</path>",
        "$ read_file --path /srv/a.txt",
        "read_file path=/srv/a.txt",
        "read_file:\n  path: /srv/a.txt",
        "read_file, arguments: path: /srv/a.txt",
        'name: "read_file"\n12: path: /srv/a.txt',
        '{"path": "/srv/a.txt", "tool": "read_file"}',
        "function: read_file(path)\nread_file(path: /srv/a.txt)",
    ],
)
def test_a_name_that_is_called_with_its_arguments_retells_a_call(text: str) -> None:
    assert retells(text)
    assert not retells(text.replace("a.txt", "b.txt"))


@pytest.mark.parametrize(
    "text",
    [
        "read_file: /srv/a.txt: no such file",
        "Use read_file for /srv/a.txt.",
        "def read_file(path):\n/srv/a.txt: x",
        "read_file",
        "read_file path /srv/a.txt",
        "read_file - path: /srv/a.txt",
        'tools: ["read_file"], paths: ["/srv/a.txt"]',
        "name: read_file. /srv/a.txt",
        'tool: "read_file"\nid path',
        'tool: "read_file"\n1234567 path: /srv/a.txt',
    ],
)
def test_prose_and_data_do_not(text: str) -> None:
    assert not retells(text)


def test_all_arguments_are_needed() -> None:
    both = (("path", "/srv/a.txt"), ("n", "7"), ("mode", "null"), ("", "/srv/a.txt"))

    assert retells("read_file(path='/srv/a.txt', n=7, mode=None)", *both)
    assert (
        retells("read_file(n=7, path='/srv/a.txt (x)', path='/srv/a.txt', mode=null)", *both)
        is False
    )
    assert not retells("read_file(path='/srv/a.txt', n=8)", *both)
    assert not retells("read_file(path='/srv/a.txt')", *both)
    assert not retells("read_file()", ("", "--"))


def test_a_long_value_may_exceed_the_first_window() -> None:
    value = "all of it, at once; " * 90

    for text in (f"read_file(text: {value})", f'{{"text": "{value}", "tool": "read_file"}}'):
        assert retells(text, ("text", value), size=len(value))
        assert not retells(text.replace("once", "twice"), ("text", value), size=len(value))
    assert not retells(f"read_file(text: {value[:900]}", ("text", value), size=len(value))


def test_a_text_that_has_the_name_too_often_counts() -> None:
    busy = 'tool: "read_file" ' * 3_000
    other = re.compile("x")

    assert retells(busy)
    assert not retells(busy[:10_000])
    assert not is_retold(["read_file"], other, PATH, 9)
