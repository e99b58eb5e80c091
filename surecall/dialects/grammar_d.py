"""Grammar D: Python calls with literal arguments. Nothing is evaluated."""

from surecall.dialects.found import Draft, NotACall
from surecall.dialects.source import Source, properties
from surecall.dialects.values import read_call_arguments
from surecall.types import JSON, ToolSpec

_PRINT = "print("
_NAMESPACES = ("default_api.", "functions.")
_BUILT_IN = ".call"


def is_call(source: Source, at: int) -> bool:
    """Whether `name(` stands here."""
    name = source.name(at)
    return bool(name) and source.text.startswith("(", at + len(name))


def read_calls(source: Source, at: int) -> tuple[list[Draft], int]:
    """Read calls in a list, or one after another; the first one is known to begin here."""
    text = source.text
    calls: list[Draft] = []
    listed = text.startswith("[", at)
    at = source.blanks(at + 1) if listed else at
    end = at
    while is_call(source, at):
        try:
            call = _read_call(source, at)
        except NotACall:
            if not calls:
                raise
            break
        calls.append(call)
        end = call.end
        at = source.blanks(end)
        at = source.blanks(at + 1) if text.startswith(",", at) else at
    if listed and text.startswith("]", at):
        end = at + 1
    return calls, end


def _read_call(source: Source, at: int) -> Draft:
    start, printed = at, source.text.startswith(_PRINT, at)
    at = source.blanks(at + len(_PRINT)) if printed else at
    asked = source.name(at)
    spec = _tool(source, asked)
    if spec is None:
        raise NotACall(f"no tool is called {asked[:40]!r}", at)
    value = read_call_arguments(source, at + len(asked))
    named, unnamed = value.value
    end = source.blanks(value.end) + 1 if printed else value.end
    arguments = source.text[at:end] if value.twice else _in_order(spec, named, unnamed, end)
    return Draft(spec.name, arguments, start, min(end, len(source.text)), None, value.cut)


def _tool(source: Source, asked: str) -> ToolSpec | None:
    spec = source.tools.find(asked)
    for namespace in _NAMESPACES:
        spec = spec or source.tools.find(asked.removeprefix(namespace))
    return spec or source.tools.find(asked.removesuffix(_BUILT_IN))


def _in_order(spec: ToolSpec, named: JSON, unnamed: list[object], end: int) -> JSON:
    """Give arguments without a name the names of the schema, in its order."""
    match unnamed:
        case [dict() as whole] if not named and whole.keys() <= properties(spec).keys():
            return whole
    free = [name for name in properties(spec) if name not in named]
    if len(unnamed) > len(free):
        raise NotACall("more arguments than the tool has", end)
    return dict(zip(free, unnamed, strict=False)) | named
