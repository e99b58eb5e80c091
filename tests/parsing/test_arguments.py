"""Tests of `surecall.parsing.arguments`."""

import json
from typing import Any

import pytest

from surecall.parsing.arguments import (
    ParsedArguments,
    ParsedValue,
    parse_arguments,
    parse_json_value,
    refuse_truncated,
)
from surecall.parsing.budget import MAX_TEXT, MAX_VALUES
from surecall.values.errors import ErrorCode

# What models write into `arguments`: what is read, what is mended, what is refused


LIMIT = 200_000


def read(raw: object) -> ParsedArguments:
    return parse_arguments(raw, LIMIT)


def value(raw: object) -> object:
    arguments = read(raw)
    assert arguments.problem is None, arguments.problem
    return arguments.value


def reason(raw: object) -> str:
    arguments = read(raw)
    assert arguments.value is None
    assert arguments.repairs == ()
    assert arguments.problem is not None
    assert arguments.problem.code is ErrorCode.ARGUMENTS_JSON_PARSE_ERROR
    return str(arguments.problem.data["reason"])


def message(raw: object) -> str:
    problem = read(raw).problem
    assert problem is not None
    return problem.message


def assert_mended(raw: str, expected: object, *repairs: str) -> None:
    arguments = read(raw)
    assert arguments.problem is None
    # Compared as text, because 1, 1.0 and True are equal in Python and different in JSON.
    assert json.dumps(arguments.value) == json.dumps(expected)
    assert arguments.repairs == repairs


# --- accepted as it is


@pytest.mark.parametrize("raw", [None, "", " \n\t", {}, "{}", " {} "])
def test_nothing_means_no_arguments(raw: object) -> None:
    arguments = read(raw)

    assert (arguments.value, arguments.repairs, arguments.problem) == ({}, (), None)


def test_an_object_is_taken_as_it_is_and_measured_as_json() -> None:
    assert read({"city": "Köln", "n": [1, 2.5, None, True]}) == ParsedArguments(
        {"city": "Köln", "n": [1, 2.5, None, True]},
        len('{"city":"Köln","n":[1,2.5,null,true]}') + 1,
    )


def test_text_is_measured_in_bytes_after_trimming() -> None:
    assert read(' {"a": "ö"} ') == ParsedArguments({"a": "ö"}, 11)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"query":"what\'s the weather"}', id="apostrophe"),
        pytest.param('{"command":"true","n":"001","x":"None"}', id="words-in-strings"),
        pytest.param('{"code":"```json\\n{}\\n```"}', id="fence-in-a-value"),
        pytest.param('{"a":"&amp;&amp; \\\\n ,}"}', id="entities-and-escapes"),
        pytest.param('{"n":123456789012345678901234567890}', id="long-integer"),
        pytest.param('{"arguments":"{\\"a\\": 1}"}', id="nested-json-stays-text"),
    ],
)
def test_strict_json_is_never_touched(text: str) -> None:
    assert_mended(text, json.loads(text))


def test_a_key_that_says_the_same_twice_is_read_once() -> None:
    assert value('{"a": {"b": 1, "c": 2}, "a": {"c": 2, "b": 1}}') == {"a": {"b": 1, "c": 2}}


def test_an_escaped_surrogate_pair_is_one_character() -> None:
    assert_mended('{"a": "\\ud83c\\udf78"}', {"a": "\U0001f378"})


def test_an_escaped_surrogate_pair_is_one_character_after_other_repairs() -> None:
    assert_mended("{'a': '\\ud83c\\udf78'}", {"a": "\U0001f378"}, "python_literals")


# --- mended without loss


@pytest.mark.parametrize(
    ("raw", "expected", "repairs"),
    [
        pytest.param("null", {}, ["null_arguments"], id="null"),
        pytest.param('\ufeff {"a":1}', {"a": 1}, ["byte_order_mark"], id="byte-order-mark"),
        pytest.param('```json\n{"a":1}\n```', {"a": 1}, ["code_fence"], id="fence"),
        pytest.param('```JSON {"a":1}```', {"a": 1}, ["code_fence"], id="fence-on-one-line"),
        pytest.param('```\n{"a":"`b` ```"}\n```', {"a": "`b` ```"}, ["code_fence"], id="plain"),
        pytest.param("```json\n```", {}, ["code_fence"], id="fence-around-nothing"),
        pytest.param("``````", {}, ["code_fence"], id="smallest-fence"),
        pytest.param('"{\\"a\\": 2}"', {"a": 2}, ["double_encoded"], id="double-encoded"),
        pytest.param(
            "{'a': True, 'b': [None, False, 1.5]}",
            {"a": True, "b": [None, False, 1.5]},
            ["python_literals"],
            id="python",
        ),
        pytest.param("{'a': 'x\\x41\\'\"'}", {"a": "xA'\""}, ["python_literals"], id="escapes"),
        pytest.param('{"a": "it\\\'s"}', {"a": "it's"}, ["python_literals"], id="apostrophe"),
        pytest.param('{"a": True}', {"a": True}, ["python_literals"], id="python-word"),
        pytest.param('{"a": "\u00a0 b",}', {"a": "\u00a0 b"}, ["trailing_commas"], id="nbsp"),
        pytest.param('{"a": [1, 2,], }', {"a": [1, 2]}, ["trailing_commas"], id="commas"),
        pytest.param('{"a": "x\ny\t"}', {"a": "x\ny\t"}, ["control_characters"], id="newline"),
        pytest.param('{"a": "x\\\ny"}', {"a": "x\\\ny"}, ["control_characters"], id="backslash"),
        pytest.param('{"a": "x\\\r\n"}', {"a": "x\\\r\n"}, ["control_characters"], id="crlf"),
        pytest.param(
            '{"r": \\n[2, 5]\\r\\t\\n}\\n', {"r": [2, 5]}, ["escaped_whitespace"], id="escaped"
        ),
        pytest.param('{"a":1}\n{"a": 1}', {"a": 1}, ["repeated_object"], id="repeated"),
        pytest.param(
            '{"a":1,"b":2}{"b":2,"a":1}', {"a": 1, "b": 2}, ["repeated_object"], id="reordered"
        ),
        pytest.param('{"a": "\\ud99c!"}', {"a": "\ufffd!"}, ["surrogates"], id="lone-surrogate"),
        pytest.param('{"\ud99c": "\udc00"}', {"\ufffd": "\ufffd"}, ["surrogates"], id="raw-lone"),
        pytest.param('{"a": "\ud83c\udf78"}', {"a": "\U0001f378"}, ["surrogates"], id="raw-pair"),
    ],
)
def test_a_known_slip_is_mended_and_named(raw: str, expected: object, repairs: list[str]) -> None:
    assert_mended(raw, expected, *repairs)


@pytest.mark.parametrize(
    ("raw", "expected", "repairs"),
    [
        pytest.param(
            '\ufeff```json\n{"a": 1,}\n```',
            {"a": 1},
            ["byte_order_mark", "code_fence", "trailing_commas"],
            id="fenced-with-comma",
        ),
        pytest.param(
            "```\n{'a': 'x\ny',}{'a': 'x\ny'}```",
            {"a": "x\ny"},
            [
                "code_fence",
                "python_literals",
                "control_characters",
                "trailing_commas",
                "repeated_object",
            ],
            id="everything-at-once",
        ),
        pytest.param(
            '"```json\\n{\\"a\\": 1,}\n```"',
            {"a": 1},
            ["control_characters", "double_encoded", "code_fence", "trailing_commas"],
            id="encoded-fence",
        ),
        pytest.param("```\nnull\n```", {}, ["code_fence", "null_arguments"], id="fenced-null"),
    ],
)
def test_lossless_repairs_combine(raw: str, expected: object, repairs: list[str]) -> None:
    assert_mended(raw, expected, *repairs)


def test_a_lone_surrogate_in_an_object_is_replaced_in_keys_and_values() -> None:
    arguments = read({"\ud800": ["a\udfff"]})

    assert arguments.value == {"\ufffd": ["a\ufffd"]}
    assert arguments.repairs == ("surrogates",)


# --- refused


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        pytest.param([{"a": 1}], "not_an_object", id="list"),
        pytest.param(7, "not_an_object", id="number"),
        pytest.param(True, "not_an_object", id="boolean"),
        pytest.param("[]", "not_an_object", id="list-text"),
        pytest.param("1.5", "not_an_object", id="number-text"),
        pytest.param('"null"', "not_an_object", id="encoded-null"),
        pytest.param('""', "not_an_object", id="encoded-nothing"),
        pytest.param('" "', "not_an_object", id="encoded-blank"),
        pytest.param('"[1]"', "not_an_object", id="encoded-list"),
        pytest.param(json.dumps(json.dumps("{}")), "not_an_object", id="encoded-twice"),
        pytest.param('"```json\\n```"', "not_an_object", id="encoded-empty-fence"),
        pytest.param("{", "cut_off", id="brace"),
        pytest.param('{"a": "b', "cut_off", id="in-a-string"),
        pytest.param('{"a": "b\\"', "cut_off", id="after-an-escaped-quote"),
        pytest.param('{"a": tru', "cut_off", id="in-a-word"),
        pytest.param('{"a": [1, 2', "cut_off", id="in-a-list"),
        pytest.param('{"a": 1}{"a"', "cut_off", id="in-a-copy"),
        pytest.param('"{\\"a\\": 1', "cut_off", id="in-an-encoded-object"),
        pytest.param('"{\\"a\\": "', "cut_off", id="inside-an-encoded-object"),
        pytest.param('{"a": , "b": 1}', "missing_value", id="no-value"),
        pytest.param('{"a": }', "missing_value", id="no-last-value"),
        pytest.param('{"a": 1, "a": 2}', "duplicate_key", id="two-values"),
        pytest.param('{"a": 1, "a": true}', "duplicate_key", id="one-or-true"),
        pytest.param('{"x": {"a": 1, "a": 2,}}', "duplicate_key", id="two-values-mended"),
        pytest.param('{"\\ud800": 1, "\\ud801": 2}', "duplicate_key", id="alike-when-mended"),
        pytest.param({chr(0xD800): 1, chr(0xD801): 2}, "duplicate_key", id="object-alike"),
        pytest.param('{"a": 1}{"a": 2}', "several_objects", id="distinct"),
        pytest.param('{"a": 1}{"a": true}', "several_objects", id="distinct-by-type"),
        pytest.param('{}{"a": 1}', "several_objects", id="empty-first"),
        pytest.param('{"a": NaN}', "number", id="nan"),
        pytest.param('{"a": [-Infinity,]}', "number", id="infinity"),
        pytest.param('{"a": 1e999}', "number", id="overflow"),
        pytest.param('{"a": ' + "9" * 5000 + "}", "number", id="huge-integer"),
        pytest.param("{'a': -" + "9" * 641 + "}", "number", id="huge-negative-integer"),
        pytest.param({"a": 10**5000}, "number", id="huge-integer-object"),
        pytest.param({"a": -(10**640)}, "number", id="huge-negative-integer-object"),
        pytest.param({"a": float("nan")}, "number", id="nan-object"),
        pytest.param('{"a":' * 65 + "1" + "}" * 65, "too_deep", id="deep"),
        pytest.param('{"a":' + "[" * 64 + "]" * 64 + ",}", "too_deep", id="deep-lists"),
        pytest.param('{"a":' + "[" * 64 + "]" * 64 + "}", "too_deep", id="deep-lists-in-order"),
        pytest.param('{"a":' * 5000 + "1" + "}" * 5000, "too_deep", id="deeper-than-the-stack"),
        pytest.param("{'a':" * 5000 + "1" + "}" * 5000, "too_deep", id="deep-python"),
        pytest.param('{"p": "\\d+"}', "bad_escape", id="regular-expression"),
        pytest.param('{"p": "C:\\xab"}', "bad_escape", id="windows-path"),
        pytest.param("{'p': 'a\\/b'}", "bad_escape", id="slash-read-in-two-ways"),
        pytest.param("{'p': 'a\\\nb'}", "bad_escape", id="continuation-read-in-two-ways"),
        pytest.param("{'p': '\\x4'}", "unreadable", id="half-an-escape"),
        pytest.param("hello", "unreadable", id="prose"),
        pytest.param("None", "unreadable", id="python-nothing"),
        pytest.param("'{}'", "unreadable", id="python-string"),
        pytest.param("{'q': 'what's up'}", "unreadable", id="unescaped-apostrophe"),
        pytest.param('{"a": "x, "b": 1}', "unreadable", id="lost-quote"),
        pytest.param('{"a": 1} and more', "unreadable", id="text-behind"),
        pytest.param('{"a": 1}}', "unreadable", id="one-brace-too-many"),
        pytest.param('{"a": [1}', "unreadable", id="crossed-brackets"),
        pytest.param('"{}""{}"', "unreadable", id="two-strings"),
        pytest.param('{"a": [1 2]}', "unreadable", id="two-numbers-without-a-comma"),
        pytest.param('{"a": [1,,]}', "unreadable", id="two-commas"),
        pytest.param('{"a": [,]}', "unreadable", id="only-a-comma"),
        pytest.param('{"a": 01,}', "unreadable", id="octal"),
        pytest.param("{1: 2}", "unreadable", id="number-as-key"),
        pytest.param("{1: ,}", "unreadable", id="number-as-key-without-value"),
        pytest.param("{a 1}", "unreadable", id="bare-key-without-colon"),
        pytest.param("{a-b: 1}", "unreadable", id="bare-key-that-is-no-word"),
        pytest.param('{"a": b: 1}', "unreadable", id="bare-key-for-a-value"),
        pytest.param('{"a": undefined}', "unreadable", id="unknown-word"),
        pytest.param('{"a": (1, 2)}', "unreadable", id="tuple"),
        pytest.param("\\n\\n", "unreadable", id="only-escaped-blanks"),
        pytest.param('```json\n{"a": 1}', "unreadable", id="fence-left-open"),
        pytest.param('```python\n{"a": 1}\n```', "unreadable", id="other-label"),
        pytest.param("`" * 5, "unreadable", id="too-short-for-a-fence"),
        pytest.param(b"{}", "not_json", id="bytes"),
        pytest.param({1: 2}, "not_json", id="object-with-a-number-as-key"),
        pytest.param({"a": {1, 2}}, "not_json", id="object-with-a-set"),
    ],
)
def test_what_cannot_be_read_safely_is_refused_with_a_reason(raw: object, why: str) -> None:
    assert reason(raw) == why


def test_sixty_four_levels_are_not_too_deep() -> None:
    text = '{"a":' * 64 + "1" + "}" * 64

    assert value(text) == value(json.loads(text)) == value(text.replace("1}", "1,}"))
    assert reason({"a": json.loads(text)}) == "too_deep"


def test_lists_count_as_levels_too() -> None:
    text = '{"a":' + "[" * 63 + "]" * 63 + "}"

    assert value(text) == value(json.loads(text))


def test_an_integer_of_640_digits_is_still_a_number() -> None:
    number = 10**640 - 1

    assert value(f'{{"a": -{number}}}') == value({"a": -number}) == {"a": -number}


def test_sizes_are_known_for_what_is_refused() -> None:
    assert [read(raw).size for raw in ("{", "[1]", [1], 17)] == [1, 3, 3, 2]
    assert read(None).size == 0


# --- what the model is told


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ([1], "The arguments are a list, not a JSON object."),
        ("false", "The arguments are a boolean, not a JSON object."),
        ('{"a": "b', "Send the arguments again as one complete JSON object."),
        ('{"field": ,}', 'The key "field" has no value.'),
        ('{"a":1,"a":2}', 'The key "a" appears twice, with different values.'),
        ('{"a":1}{"a":2}', "Send one JSON object per call."),
        ("[" * 100_000, "nested too deeply"),
        ('{"p": "\\d"}', "Write each backslash in a string as two"),
        ("no json at all", "not valid JSON near `no json at all`."),
        ('{"a": NaN}', "NaN is not a finite number."),
    ],
)
def test_the_sentence_says_what_is_wrong_and_what_to_do(raw: object, sentence: str) -> None:
    assert sentence in message(raw)
    assert "Send" in message(raw) or "send" in message(raw)


def test_a_problem_names_the_key_in_its_data() -> None:
    problem = read('{"field": , "b": 1}').problem

    assert problem is not None
    assert problem.data == {"reason": "missing_value", "key": "field"}


@pytest.mark.parametrize(
    "raw",
    [
        "x" * 1000,
        '{"' + "x" * 1000 + '": ,}',
        '{"' + "x" * 1000 + '": 1, "' + "x" * 1000 + '": 2}',
        '{"a": ' + "1" * 500 + "e" + "9" * 500 + "}",
    ],
)
def test_at_most_eighty_characters_of_the_model_are_quoted(raw: str) -> None:
    assert max(message(raw).count(mark) for mark in "x19") in range(30, 81)


def test_a_key_of_eighty_characters_is_quoted_whole() -> None:
    assert f'The key "{"x" * 80}" has no value.' in message('{"' + "x" * 80 + '": ,}')


# --- limits


@pytest.mark.parametrize("raw", ['{"a":"öö"}', '  {"a":"öö"}\n', {"a": "öö"}])
def test_the_limit_counts_bytes_and_includes_itself(raw: object) -> None:
    assert parse_arguments(raw, 12).value == {"a": "öö"}

    refused = parse_arguments(raw, 11)
    assert (refused.value, refused.size) == (None, 12)
    assert refused.problem is not None
    assert refused.problem.code is ErrorCode.ARGUMENTS_TOO_LARGE
    assert refused.problem.data == {"bytes": 12, "max_bytes": 11}
    assert "12 bytes and the limit is 11" in refused.problem.message


def test_a_fence_does_not_count_against_the_limit() -> None:
    assert parse_arguments('```json\n{"a":1}\n```', 7).value == {"a": 1}


@pytest.mark.parametrize("raw", ["[[[[[[", '{"a":', [1, 2, 3]])
def test_size_is_judged_before_shape(raw: object) -> None:
    problem = parse_arguments(raw, 4).problem

    assert problem is not None
    assert problem.code is ErrorCode.ARGUMENTS_TOO_LARGE


def test_a_reply_that_was_cut_off_makes_even_readable_arguments_unusable() -> None:
    cut = refuse_truncated(read('{"file_path": "x.py",}'))

    assert (cut.value, cut.size, cut.repairs) == (None, 22, ())
    assert cut.problem is not None
    assert cut.problem.code is ErrorCode.ARGUMENTS_TRUNCATED
    assert "cut off" in cut.problem.message
    assert "Send the call again, shorter." in cut.problem.message


# Answers that are to be JSON: what is read, what is repaired, and what is refused


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1, 2]", [1, 2]),
        ('"x"', "x"),
        ("5", 5),
        (" true \n", True),
        ("null", None),
        ("{}", {}),
    ],
)
def test_json_of_any_kind_is_read_as_it_is(text: str, value: Any) -> None:
    assert parse_json_value(text) == ParsedValue(value)


@pytest.mark.parametrize(
    ("text", "value", "repair"),
    [
        ('```json\n{"a": 1}\n```', {"a": 1}, "code_fence"),
        ("```\n[1]\n```", [1], "code_fence"),
        ("[1, 2,]", [1, 2], "trailing_commas"),
        ("{'a': True}", {"a": True}, "python_literals"),
        ("{a: 1}", {"a": 1}, "bare_keys"),
        ("\ufeff[1]", [1], "byte_order_mark"),
        ('{"a": 1}\n{"a": 1}', {"a": 1}, "repeated_object"),
        ('"\\ud83d"', "\ufffd", "surrogates"),
    ],
)
def test_a_slip_whose_cure_loses_nothing_is_repaired_and_named(
    text: str, value: Any, repair: str
) -> None:
    assert parse_json_value(text) == ParsedValue(value, repairs=(repair,))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is not one JSON value with nothing around it"),
        ("I cannot.", "it is not one JSON value with nothing around it (near `I cannot.`)"),
        ('{"a": 1', "it ends too early"),
        ('{"a": 1}{"a": 2}', "it holds several different JSON values"),
        ('{"a": 1, "a": 2}', 'the key "a" appears twice, with different values'),
        ('{"a": }', 'the key "a" has no value'),
        ('{"a": "\\q"}', "it has an invalid JSON escape"),
        ("[NaN]", "it has a number that is not finite, or too long"),
        ("[" * 65 + "]" * 65, "it is nested more than 64 levels deep"),
        ("1" * (MAX_TEXT + 1), "it is too large"),
        ("[" + "," * (MAX_VALUES + 1) + "]", "it is too large"),
    ],
)
def test_anything_else_is_refused_with_a_reason(text: str, problem: str) -> None:
    assert parse_json_value(text) == ParsedValue(problem=problem)


@pytest.mark.parametrize(
    "text",
    [
        'Here it is: {"a": 1}',
        '{"a": 1}\nThis is only an example.',
        'The file says:\n```json\n{"a": 1}\n```\nI did not follow it.',
        '```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```',
        "[1] [1]",
    ],
)
def test_words_around_a_value_are_never_dropped(text: str) -> None:
    assert parse_json_value(text).problem
