"""Tool-call transforms: heal one raw call before its arguments are read."""

from surecall.values.family import Family
from surecall.values.types import JSON

TOOL_CALL: Family[JSON] = Family("tool call transform")


@TOOL_CALL.register
def assistant_tool_calls_arguments_blank_to_empty_object(call: JSON) -> JSON:
    """Read blank argument text as an empty object: models write it for tools without arguments."""
    match call:
        case {"function": {"arguments": str(text)} as function} if not text.strip():
            return call | {"function": function | {"arguments": "{}"}}
        case _:
            return call
