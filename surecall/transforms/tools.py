"""Tool transforms: what some endpoints want to see in a tool definition."""

from surecall.family import Family
from surecall.types import JSON

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
