"""What is in a library, and what is not: the names and words that the table gives as its reasons.

A cell with `names` holds if each of them can be imported. A cell with `words` holds if none of them
stands anywhere in the source of the library: nothing was found, which is less than a proof.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from scripts.features.common import Verdict, main
from scripts.features.table import TABLE, Cell

MODULES = {
    "surecall": ("surecall",),
    "pydantic-ai": ("pydantic_ai", "pydantic_evals"),
    "openai-agents": ("agents",),
    "langgraph": ("langchain", "langgraph"),
    "inspect": ("inspect_ai",),
    "litellm": ("litellm",),
}


def probed(library: str) -> dict[str, Verdict]:
    """Check every cell of a library that rests on names or words."""
    cells = {row.key: row.cells[library] for row in TABLE.rows}
    return {key: _checked(library, cell) for key, cell in cells.items() if cell.names or cell.words}


def _checked(library: str, cell: Cell) -> Verdict:
    missing = [name for name in cell.names if not _exists(name)]
    found = [f"{word} in {place}" for word in cell.words if (place := _place(library, word))]
    if missing or found:
        return Verdict("not shown", ", ".join([*(f"no {name}" for name in missing), *found]))
    return Verdict(cell.word, ", ".join([*cell.names, *(f"no {word!r}" for word in cell.words)]))


def _exists(name: str) -> bool:
    """Whether there is a module of that name, or a name in a module."""
    if _is_module(name):
        return True
    module, _, last = name.rpartition(".")
    while module and not _is_module(module):
        module, _, before = module.rpartition(".")
        last = f"{before}.{last}"
    found = import_module(module) if module else None
    for part in last.split("."):
        found = getattr(found, part, None)
    return found is not None


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:
        return False


def _place(library: str, word: str) -> str:
    """Return the first file of a library's source that has a word in it."""
    for module in MODULES[library]:
        spec = find_spec(module)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(folder).rglob("*.py")):
                if word in path.read_text("utf-8", errors="replace"):
                    return str(path.relative_to(Path(folder).parent))
    return ""


PROBES = dict.fromkeys(MODULES, probed)

if __name__ == "__main__":
    main(PROBES)
