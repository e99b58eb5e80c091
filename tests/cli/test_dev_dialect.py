# ruff: noqa: RUF001 (the wide bars are what models write)
"""Dialects from chat templates. The templates are short ones of our own, in each model's form."""

import json
from pathlib import Path
from typing import Final

import pytest

from surecall.cli.dev import (
    MAX_TEMPLATE,
    derive_dialect,
    known_row,
    read_template,
    render,
)
from surecall.values.errors import ConfigError
from surecall.values.types import JSON, ToolSpec
from surecall.wire.dialects import recover
from surecall.wire.dialects.writers import corpus_cases
from tests.support.commands import command_line

pytestmark = pytest.mark.processes


def loop(call: str, *, before: str = "", after: str = "", end: str = "<|im_end|>\n") -> str:
    """Return a template that writes each call of a message by `call`."""
    return (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        f"{{% if m.tool_calls %}}{before}{{% for c in m.tool_calls %}}{call}{{% endfor %}}{after}"
        f"{{% endif %}}{end}{{% endfor %}}"
    )


NAME: Final = "{{ c.function.name }}"
ARGUMENTS: Final = "{{ c.function.arguments | tojson }}"
ITEMS: Final = "{% for k, v in c.function.arguments.items() %}"
OBJECT: Final = f'{{"name": "{NAME}", "arguments": {ARGUMENTS}}}'
TEMPLATES: Final = {
    "hermes": (loop(f"\n<tool_call>\n{OBJECT}\n</tool_call>"), "A1"),
    "mistral": (
        loop(
            OBJECT.replace("}}}", '}}, "id": "{{ c.id }}"}')
            + "{% if not loop.last %}, {% endif %}",
            before="[TOOL_CALLS] [",
            after="]",
            end="</s>",
        ),
        "A7",
    ),
    "llama": (
        loop(
            "{% if m.tool_calls | length != 1 %}{{ raise_exception('one call at a time') }}"
            f'{{% endif %}}<|python_tag|>{{"name": "{NAME}", "parameters": {ARGUMENTS}}}',
            end="<|eom_id|>",
        ),
        "A9",
    ),
    "deepseek": (
        loop(
            f"<｜tool▁call▁begin｜>{NAME}<｜tool▁sep｜>{ARGUMENTS}<｜tool▁call▁end｜>",
            before="<｜tool▁calls▁begin｜>",
            after="<｜tool▁calls▁end｜>",
            end="<｜end▁of▁sentence｜>",
        ),
        "B2",
    ),
    "kimi": (
        loop(
            "<|tool_call_begin|>functions." + NAME + ":{{ loop.index0 }}"
            f"<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|>",
            before="<|tool_calls_section_begin|>",
            after="<|tool_calls_section_end|>",
        ),
        "B3",
    ),
    "qwen coder": (
        loop(
            f"\n<tool_call>\n<function={NAME}>\n{ITEMS}<parameter={{{{ k }}}}>\n{{{{ v }}}}\n"
            "</parameter>\n{% endfor %}</function>\n</tool_call>"
        ),
        "C1",
    ),
    "glm": (
        loop(
            f"\n<tool_call>{NAME}\n{ITEMS}<arg_key>{{{{ k }}}}</arg_key>\n"
            "<arg_value>{{ v }}</arg_value>\n{% endfor %}</tool_call>"
        ),
        "C9",
    ),
    "minimax": (
        loop(
            f'<invoke name="{NAME}">\n{ITEMS}<parameter name="{{{{ k }}}}">{{{{ v }}}}'
            "</parameter>\n{% endfor %}</invoke>\n",
            before="\n<minimax:tool_call>\n",
            after="</minimax:tool_call>",
        ),
        "C3",
    ),
    "gemma": (
        loop(
            f"<|tool_call>call:{NAME}{{{{ '{{' }}}}{ITEMS}"
            '{{ k }}:<|"|>{{ v }}<|"|>'
            "{% if not loop.last %},{% endif %}{% endfor %}}<tool_call|>",
            end="<turn|>",
        ),
        "B10",
    ),
    "harmony": (
        loop(
            f"<|start|>assistant<|channel|>commentary to=functions.{NAME} "
            f"<|constrain|>json<|message|>{ARGUMENTS}<|call|>",
            end="",
        ),
        "B5",
    ),
    "lfm": (
        loop(
            f'{NAME}({ITEMS}{{{{ k }}}}="{{{{ v }}}}"{{% if not loop.last %}}, {{% endif %}}'
            "{% endfor %}){% if not loop.last %}, {% endif %}",
            before="<|tool_call_start|>[",
            after="]<|tool_call_end|>",
        ),
        "D3",
    ),
    "arguments are text": (
        loop(
            f'<tool_call>\n{{"name": "{NAME}", "arguments": '
            "{{ c.function.arguments + '' }}}\n</tool_call>"
        ),
        "A1",
    ),
}


@pytest.mark.parametrize("model", TEMPLATES)
def test_the_dialect_of_a_known_template_is_the_row_that_parses_it(model: str) -> None:
    template, row = TEMPLATES[model]

    assert known_row(derive_dialect(template)) == row


def test_a_new_dialect_has_its_marks_its_lines_and_cases_that_say_what_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.jinja"
    file.write_text(loop(f"⟦use {NAME} with {ARGUMENTS}⟧", before="⟪", after="⟫"), "utf-8")

    found = derive_dialect(file.read_text("utf-8"))
    run = command_line(tmp_path, monkeypatch, capsys)
    code, shown, _ = run("dev", "dialect", str(file), "--row", "B99", "--cases")

    assert code == 0
    assert (found.grammar, found.opener, found.closer, known_row(found)) == (
        "B",
        "⟪⟦use ",
        "⟧⟫",
        "",
    )
    assert "Opener('⟪⟦use', 'B99')," in shown
    assert "'B99': _name_first_writer('⟪⟦use ', ' with ', '⟧⟫')," in shown
    kinds = [case["kind"] for case in json.loads(shown[shown.index("[\n") :])]
    assert kinds == ["plain", "two calls", "text around", "truncated", "closer inside"]


def test_the_cases_of_a_known_dialect_are_parsed_as_they_say() -> None:
    tool = ToolSpec("qqtoolqq", "", {"properties": {"qqkeyqq": {"type": "string"}}})
    for case in corpus_cases(derive_dialect(TEMPLATES["hermes"][0]), "A1"):
        found = recover(case["text"], [tool])

        said: list[JSON] = [{"name": one.name, "arguments": one.arguments} for one in found.calls]
        assert said == case["calls"], case["kind"]
        assert all(one.truncated is case["truncated"] for one in found.calls)


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ messages", "not valid"),
        ("Hello.", "does not write calls"),
        ("{{ raise_exception('no') }}", "does not write calls"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "does not write calls"),
        ("{% for a in range(99999) %}{{ messages }}{% endfor %}", "does not write calls"),
        ("{{ 'a' * 9999999999 }}", "does not write calls"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "time"),
    ],
)
def test_a_hostile_template_is_refused_in_bounded_time_and_memory(template: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        derive_dialect(template)


def test_a_template_in_a_tokenizers_configuration_is_found() -> None:
    assert read_template(b'{"chat_template": "a"}') == "a"
    named = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    assert read_template(json.dumps({"chat_template": named}).encode()) == "b"
    assert read_template(b"{{ messages }}") == "{{ messages }}"
    for data in (b"{}", b"\xff", b"a" * (MAX_TEMPLATE + 1)):
        with pytest.raises(ConfigError):
            read_template(data)


def test_the_sandbox_renders_as_templates_expect() -> None:
    template = (
        "{{ strftime_now('%Y') }} {{ {'a': 'ä'} | tojson }}{% for m in messages %}x{% endfor %}"
    )

    assert render(template, [[], [{"role": "user"}]]) == {
        "texts": ['%Y {"a": "ä"}', '%Y {"a": "ä"}x']
    }
