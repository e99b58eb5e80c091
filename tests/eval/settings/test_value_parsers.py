"""How people write settings: what each kind of value may look like, and what it may not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.settings import value_parsers as read
from surecall.eval.settings.value_parsers import Gate, Parser, Shard, parse_dotenv
from surecall.values.errors import ConfigError


def refusal(reader: Parser, value: Any) -> str:
    with pytest.raises(ConfigError) as problem:
        reader(value)
    return str(problem.value)


@pytest.mark.parametrize(
    ("reader", "written", "meant"),
    [
        pytest.param(read.parse_text, " a b ", "a b", id="text"),
        pytest.param(read.parse_filter, " a ,, !b ", "a,!b", id="filter"),
        pytest.param(read.parse_filter, ["a", " b "], "a,b", id="filter-list"),
        pytest.param(read.parse_names, ("a", ""), ("a",), id="names-tuple"),
        pytest.param(read.parse_allowlist, "a,b", ("a", "b"), id="allowlist"),
        pytest.param(read.parse_allowlist, "a,all", None, id="allowlist-all"),
        pytest.param(read.parse_transforms, "auto", None, id="transforms-auto"),
        pytest.param(read.parse_transforms, "Off", (), id="transforms-off"),
        pytest.param(read.parse_transforms, "middle-out", ("middle-out",), id="transforms"),
        pytest.param(read.parse_transforms, "none,other", ("none", "other"), id="transforms-two"),
        pytest.param(read.integer_parser(0), " 7 ", 7, id="whole-text"),
        pytest.param(read.integer_parser(0), 7.0, 7, id="whole-float"),
        pytest.param(read.number_parser(0, 1), "0.5", 0.5, id="number"),
        pytest.param(read.parse_positive, "2", 2.0, id="positive"),
        pytest.param(read.parse_timeout, "1.5", 1.5, id="seconds"),
        pytest.param(read.parse_timeout, "-1", None, id="no-limit"),
        pytest.param(read.parse_percent, "90 %", 90.0, id="percent"),
        pytest.param(read.parse_percent, 90, 90.0, id="percent-number"),
        pytest.param(read.parse_gate, "90", Gate(90.0), id="gate"),
        pytest.param(read.parse_gate, 87.5, Gate(87.5), id="gate-number"),
        pytest.param(read.parse_gate, "90:observed", Gate(90.0, observed=True), id="gate-observed"),
        pytest.param(read.parse_gate, "90:lower", Gate(90.0), id="gate-lower"),
        pytest.param(read.parse_count, "AUTO", "auto", id="auto"),
        pytest.param(read.parse_count, 3, 3, id="count"),
        pytest.param(read.parse_switch, "Yes", True, id="yes"),
        pytest.param(read.parse_switch, "0", False, id="no"),
        pytest.param(read.parse_switch, False, False, id="no-itself"),
        pytest.param(read.parse_verbosity, "2", 2, id="level"),
        pytest.param(read.parse_verbosity, 9, 2, id="level-high"),
        pytest.param(read.parse_verbosity, "true", 1, id="level-yes"),
        pytest.param(read.parse_verbosity, False, 0, id="level-no"),
        pytest.param(read.choice_parser("mode", ("on", "off")), " ON ", "on", id="choice"),
        pytest.param(read.parse_json_object, '{"top_k": 4}', {"top_k": 4}, id="json"),
        pytest.param(read.parse_json_object, {"top_k": 4}, {"top_k": 4}, id="table"),
        pytest.param(read.parse_shard, "2/4", Shard(2, 4), id="shard"),
        pytest.param(
            read.parse_address, "http://localhost:1/v1", "http://localhost:1/v1", id="url"
        ),
        pytest.param(read.parse_address, "Simulator", "sim", id="simulator"),
        pytest.param(read.parse_endpoint, " Llama.cpp ", "Llama.cpp", id="endpoint"),
        pytest.param(read.parse_endpoint, "kimi", "kimi", id="endpoint-alias"),
        pytest.param(read.parse_endpoint, "custom", "custom", id="endpoint-custom"),
        pytest.param(read.parse_endpoint, "Local", "Local", id="endpoint-local"),
        pytest.param(read.parse_endpoint, "", "", id="no-endpoint"),
        pytest.param(read.parse_provider, "LM Studio", "lm_studio", id="provider"),
        pytest.param(read.parse_engine, "Dask", "dask", id="engine"),
        pytest.param(read.parse_engine, "tls://Host:8786", "tls://host:8786", id="cluster"),
        pytest.param(
            read.parse_engine, "tcp://[::1]:8786", "tcp://[::1]:8786", id="cluster on IPv6"
        ),
        pytest.param(read.parse_prefix, "v1/", "/v1", id="prefix"),
        pytest.param(read.parse_prefix, "", "", id="no-prefix"),
    ],
)
def test_a_value_is_read_as_it_is_meant(reader: Parser, written: object, meant: object) -> None:
    assert reader(written) == meant


@pytest.mark.parametrize(
    ("reader", "written", "complaint"),
    [
        pytest.param(read.parse_text, 3, "must be text", id="text"),
        pytest.param(read.parse_names, 3, "must be a list of names", id="names"),
        pytest.param(read.parse_names, ["a", 3], "must be a list of names", id="names-mixed"),
        pytest.param(read.integer_parser(1), "0", "a whole number of at least 1", id="whole-low"),
        pytest.param(read.integer_parser(0, 5), "6", "a whole number from 0 to 5", id="whole-high"),
        pytest.param(read.integer_parser(0), 1.5, "a whole number", id="whole-fraction"),
        pytest.param(read.integer_parser(0), True, "a whole number", id="whole-bool"),
        pytest.param(read.integer_parser(0), float("inf"), "a whole number", id="whole-infinite"),
        pytest.param(read.number_parser(), "ten", 'a number, not "ten"', id="number"),
        pytest.param(read.number_parser(0, 1), "1.5", "a number from 0 to 1", id="number-high"),
        pytest.param(read.number_parser(0), "nan", "a number from 0", id="number-nan"),
        pytest.param(read.parse_positive, "0", "a number above zero", id="positive"),
        pytest.param(read.parse_percent, "101", "a percentage from 0 to 100", id="percent"),
        pytest.param(read.parse_gate, "90:guess", "90:observed", id="gate"),
        pytest.param(read.parse_count, "many", "or auto", id="auto"),
        pytest.param(read.parse_count, 0, "at least 1", id="count"),
        pytest.param(read.parse_switch, "maybe", "1 or 0", id="yes-no"),
        pytest.param(
            read.choice_parser("mode", ("enforced",)), "enforce", 'mean "enforced"', id="choice"
        ),
        pytest.param(read.parse_json_object, "{", "not valid JSON", id="json"),
        pytest.param(read.parse_json_object, "[]", "a JSON object", id="json-list"),
        pytest.param(
            read.parse_json_object, '{"model": "x"}', "cannot set model", id="json-reserved"
        ),
        pytest.param(read.parse_shard, "5/4", "such as 1/4", id="shard-high"),
        pytest.param(read.parse_shard, "4", "such as 1/4", id="shard-one"),
        pytest.param(read.parse_address, "localhost", "http://", id="address"),
        pytest.param(read.parse_endpoint, "olama", '"ollama"? Use custom for', id="endpoint-typo"),
        pytest.param(
            read.parse_endpoint, "nobody", '"custom". Use custom for', id="endpoint-unknown"
        ),
        pytest.param(read.parse_provider, "local", 'unknown endpoint "local"', id="provider-local"),
        pytest.param(read.parse_engine, "ray", "local, dask, or an address", id="engine"),
        pytest.param(read.parse_engine, "tcp://[::1:8786", "tls://host:8786", id="broken host"),
        pytest.param(read.parse_engine, "tcp://host:99999", "tls://host:8786", id="broken port"),
        pytest.param(read.parse_engine, "tcp://user@host:1", "tls://host:8786", id="user in it"),
        pytest.param(read.parse_engine, "tcp://host:1/x", "tls://host:8786", id="path in it"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(
    reader: Parser, written: object, complaint: str
) -> None:
    assert complaint in refusal(reader, written)


@pytest.mark.parametrize("written", ["sk-or-v1-0123456789", "x" * 41])
def test_what_may_be_a_key_is_not_repeated(written: str) -> None:
    assert written not in refusal(read.integer_parser(0), written)


def test_a_key_is_wrapped_and_a_broken_one_is_not_repeated() -> None:
    assert "secret-123" not in repr(read.parse_key(" secret-123 "))
    assert "two words" not in refusal(read.parse_key, "two words")


def test_a_dotenv_file_is_read_without_surprises() -> None:
    content = (
        "\ufeff# a comment\n"
        "A=1\n"
        "export B = two words # said aside\n"
        "C='quoted # and kept' # not kept\n"
        'D="$A"\n'
        "E=#nothing\n"
        "F='open\n"
        "no equals sign\n"
        "=no name\n"
        "A=2\n"
    )

    assert parse_dotenv(content) == {
        "A": "2",
        "B": "two words",
        "C": "quoted # and kept",
        "D": "$A",
        "E": "",
        "F": "'open",
    }


@given(st.text())
def test_any_text_is_a_dotenv_file(content: str) -> None:
    assert all(name for name in parse_dotenv(content))
