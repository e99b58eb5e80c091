"""How many providers of models a library knows by name, by address or by an API of their own."""

from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.features.common import Verdict, main, no, yes


def probed(name: str) -> dict[str, Verdict]:
    """Count them where the library lists them."""
    count = COUNTS[name]()
    one_api = no(f"{count} providers, all of them with chat completions")
    return {"providers": one_api if name == "surecall" else yes(f"{count} providers")}


def surecall() -> int:
    """Count the providers of the catalogue; all of them speak chat completions."""
    return len(import_module("surecall.settings.capabilities").ROWS)


def pydantic_ai() -> int:
    """Count the modules of providers."""
    folder = Path(str(import_module("pydantic_ai.providers").__file__)).parent
    return len([path for path in folder.glob("*.py") if not path.name.startswith("_")])


def langgraph() -> int:
    """Count what langchain makes a chat model of by name."""
    return len(import_module("langchain.chat_models.base")._BUILTIN_PROVIDERS)  # noqa: SLF001  # its list


def inspect() -> int:
    """Count the registered APIs of models."""
    find: Any = import_module("inspect_ai._util.registry").registry_find
    import_module("inspect_ai.model._providers.providers")
    return len(find(lambda info: info.type == "modelapi"))


def litellm() -> int:
    """Count its list."""
    return len(import_module("litellm").provider_list)


COUNTS = {
    "surecall": surecall,
    "pydantic-ai": pydantic_ai,
    "langgraph": langgraph,
    "inspect": inspect,
    "litellm": litellm,
}
PROBES = dict.fromkeys(COUNTS, probed)

if __name__ == "__main__":
    main(PROBES)
