"""A schema changed everywhere: each place where a schema may be, and nothing else."""

from surecall.parsing.schema_walk import is_untyped, rewritten


def test_untyped_schemas_are_found_wherever_a_schema_may_stand() -> None:
    deep = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {}}, "b": {"anyOf": [{"title": "x"}]}},
        "additionalProperties": {"description": "more"},
    }
    changed = rewritten(deep, lambda part: {"const": 1} if is_untyped(part) else part)

    assert changed == {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"const": 1}},
            "b": {"anyOf": [{"const": 1}]},
        },
        "additionalProperties": {"const": 1},
    }
