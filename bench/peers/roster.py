"""Who takes part, in which environment, and which documented switches are on."""

import sys
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers.install import NODE, PLACE, version_of
from surecall.values.version import __version__

OURS: Final = "surecall"
_HERE: Final = Path(__file__).parent


class Peer(NamedTuple):
    """A client: what it is called, where it is installed, and what is switched on."""

    name: str
    title: str
    package: str
    environment: str
    switches: str

    @property
    def version(self) -> str:
        """The version that is installed; blank if it is not."""
        return __version__ if self.name == OURS else version_of(self.environment, self.package)

    @property
    def speaks_in_words(self) -> bool:
        """Whether it tells calls and results in words instead of fields."""
        return self.name == "smolagents"

    def command(self, form: str) -> list[str]:
        """Return what starts it."""
        if self.environment == NODE:
            return ["node", str(_HERE / "vercel.mjs"), str(PLACE / NODE), form]
        python = PLACE / self.environment / "bin" / "python"
        found = sys.executable if self.name == OURS else str(python)
        return [found, "-m", "bench.peers.client", self.name, form]


ROSTER: Final = (
    Peer(OURS, "surecall", OURS, "", "none: `ToolLoopRunner` as in the README"),
    Peer(
        "pydantic-ai",
        "pydantic-ai",
        "pydantic-ai-slim",
        "agents",
        "`Agent(retries=2)`, twice the default, for tools and output; the client's `max_retries=2`",
    ),
    Peer(
        "openai-agents",
        "openai-agents",
        "openai-agents",
        "agents",
        '`tool_not_found_behavior="return_error_to_model"`; `ModelRetrySettings` for network '
        "errors and passing statuses; the client's `max_retries=2`",
    ),
    Peer(
        "langchain",
        "LangChain",
        "langchain",
        "agents",
        "`ModelRetryMiddleware(max_retries=2)`; `ToolErrorMiddleware`, which sends every tool "
        "error to the model; the model's `max_retries=2`",
    ),
    Peer(
        "litellm",
        "LiteLLM",
        "litellm",
        "litellm",
        "`num_retries=2`, `drop_params=True`, `stream_chunk_builder`; the loop of `make demo`",
    ),
    Peer(
        "smolagents",
        "smolagents",
        "smolagents",
        "smolagents",
        "`ToolCallingAgent`, which parses calls from text if there are none; `max_steps=8`; the "
        "client's `max_retries=2`",
    ),
    Peer(
        "openai",
        "openai SDK",
        "openai",
        "agents",
        "the client's `max_retries=2`; the loop of `make demo`, which reports every call "
        "that it cannot run to the model",
    ),
    Peer(
        "vercel",
        "Vercel AI SDK",
        "ai",
        NODE,
        "`experimental_repairToolCall` with the documented re-prompt strategy; "
        "`stepCountIs(8)`; `maxRetries` 2",
    ),
)
