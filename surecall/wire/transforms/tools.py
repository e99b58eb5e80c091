"""Tool transforms: what some endpoints want to see in a tool definition."""

from surecall.parsing.schema_walk import ANY_TYPE, is_untyped, rewritten
from surecall.values.family import Family
from surecall.values.types import JSON

TOOL: Family[JSON] = Family("tool transform")


@TOOL.register
def openai_tools_strip_function_descriptions(tool: JSON) -> JSON:
    """Leave out the descriptions of functions, to save tokens; parameters keep theirs."""
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        return tool
    if "description" not in function:
        return tool
    rest = {key: value for key, value in function.items() if key != "description"}
    return tool | {"function": rest}


@TOOL.register
def openai_tools_untyped_to_any_type(tool: JSON) -> JSON:
    """Name all types where a schema names none; llama.cpp refuses the request otherwise."""
    function = tool.get("function")
    parameters = function.get("parameters") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(parameters, dict) or not parameters:
        return tool
    typed = rewritten(parameters, _typed)
    return tool if typed is parameters else tool | {"function": function | {"parameters": typed}}


def _typed(schema: JSON) -> JSON:
    return schema | {"type": list(ANY_TYPE)} if is_untyped(schema) else schema
