"""The run's context: what an application hands to its own tools, past the model.

    def cancel(order: int, context: Context) -> str: …        runner.run("…", context={"user": 7})

A parameter annotated `Context` is left out of the schema, and the model cannot set it. What looks
like such a parameter but is not one would be asked of the model, so it is refused.
"""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from surecall.values.errors import ConfigError

LOOKALIKES = frozenset({"context", "ctx", "run_context"})


class Context(Mapping[str, Any]):
    """What was given to a run as `context`: a mapping that can be read, but not changed.

    The values are the application's own objects, not copies. Its `repr` names the keys alone, so
    that no value gets into a message or a log by accident.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<Context: {', '.join(map(str, self._values)) or 'empty'}>"


def check_parameter(one: inspect.Parameter, hint: Any, where: str) -> None:
    """Refuse a parameter that has to do with the context, but not in the one way that works."""
    if not _mentions_context(hint):
        return
    write = f"write `{one.name}: Context`."
    if hint is not Context:
        raise ConfigError(f"{where} is annotated with more than `Context`; {write}")
    if one.default is not one.empty:
        raise ConfigError(
            f"{where} has a default, but a tool always gets a context, an empty one if the run has "
            f"none; {write}"
        )
    if one.kind not in {one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY}:
        raise ConfigError(f"{where} cannot be passed by name; {write}")


def check_name(name: str, where: str, otherwise: str) -> None:
    """Refuse a parameter that is called like the context; `otherwise` it must be described."""
    if name in LOOKALIKES:
        raise ConfigError(
            f"{where}: for the run's context write `{name}: Context` (from surecall import "
            f"Context); {otherwise}."
        )


def _mentions_context(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Context):
        return True
    return any(map(_mentions_context, get_args(hint)))
