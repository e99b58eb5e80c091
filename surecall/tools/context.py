"""The run's context: values that an application passes to its own tools, hidden from the model.

    def cancel(order: int, context: Context) -> str: …        runner.run("…", context={"user": 7})

A parameter annotated `Context` is omitted from the schema, and the model cannot set it. A parameter
that looks like one but lacks the annotation would be exposed to the model, so it is rejected.
"""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from surecall.values.errors import ConfigError

CONTEXT_LIKE_NAMES = frozenset({"context", "ctx", "run_context"})


class Context(Mapping[str, Any]):
    """The `context` of a run, as a read-only mapping.

    The values are the application's own objects, not copies. The `repr` only shows the keys, so
    that values do not leak into messages or logs.
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


def check_context_parameter(parameter: inspect.Parameter, hint: Any, where: str) -> None:
    """Reject a parameter that uses `Context` in an unsupported way."""
    if not _mentions_context(hint):
        return
    write = f"write `{parameter.name}: Context`."
    if hint is not Context:
        raise ConfigError(f"{where} must be annotated with `Context` alone; {write}")
    if parameter.default is not parameter.empty:
        raise ConfigError(
            f"{where} has a default, but a context is always passed, empty if the run has none; "
            f"{write}"
        )
    if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
        raise ConfigError(f"{where} cannot be passed by name; {write}")


def check_context_name(name: str, where: str, alternative: str) -> None:
    """Reject a parameter with a context-like name; `alternative` is the advice for other uses."""
    if name in CONTEXT_LIKE_NAMES:
        raise ConfigError(
            f"{where}: for the run's context write `{name}: Context` (from surecall import "
            f"Context); {alternative}."
        )


def _mentions_context(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Context):
        return True
    return any(map(_mentions_context, get_args(hint)))
