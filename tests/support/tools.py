"""Tools that many tests hand to a runner."""

from surecall import tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(name="add")
def add_or_zero(a: int = 0, b: int = 0) -> int:
    """Add two numbers."""
    return a + b
