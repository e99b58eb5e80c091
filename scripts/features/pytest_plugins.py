"""Fixtures for pytest that come with a library: its packages say so in their entry points."""

from importlib.metadata import distribution

from scripts.features.common import Verdict, in_part, main, yes

PACKAGES = {
    "surecall": ("surecall",),
    "pydantic-ai": ("pydantic-ai-slim", "pydantic-evals"),
    "openai-agents": ("openai-agents",),
    "langgraph": ("langchain", "langchain-core", "langgraph"),
    "inspect": ("inspect-ai",),
    "litellm": ("litellm",),
}


def probed(name: str) -> dict[str, Verdict]:
    """Look for the entry point of pytest's plugins."""
    found = [
        f"{package}: {point.name}"
        for package in PACKAGES[name]
        for point in distribution(package).entry_points
        if point.group == "pytest11"
    ]
    return {"tests": yes(", ".join(found)) if found else in_part("no plugin for pytest")}


PROBES = dict.fromkeys(PACKAGES, probed)

if __name__ == "__main__":
    main(PROBES)
