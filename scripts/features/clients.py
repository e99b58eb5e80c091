"""A model of each library that asks the scripted provider, as its documentation makes one."""

import tempfile
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from scripts.features.common import KEY, MODEL


def pydantic_ai_model(url: str) -> Any:
    """Return a chat model of pydantic-ai."""
    provider = import_module("pydantic_ai.providers.openai").OpenAIProvider
    chat = import_module("pydantic_ai.models.openai").OpenAIChatModel
    return chat(MODEL, provider=provider(openai_client=openai_client(url)))


def agents_model(url: str) -> Any:
    """Return a chat model of openai-agents."""
    chat = import_module("agents").OpenAIChatCompletionsModel
    return chat(model=MODEL, openai_client=openai_client(url))


def langchain_model(url: str) -> Any:
    """Return a chat model of langchain."""
    chat = import_module("langchain_openai").ChatOpenAI
    return chat(model=MODEL, base_url=f"{url}/v1", api_key=KEY, max_retries=0)


def inspect_model(url: str) -> Any:
    """Return a model of inspect."""
    get = import_module("inspect_ai.model").get_model
    return get(f"openai-api/loopback/{MODEL}", base_url=f"{url}/v1", api_key=KEY)


async def litellm_agent(url: str, prompt: str, tools: Sequence[Any], **more: Any) -> Any:
    """Run LiteLLM's own tool loop."""
    library = import_module("litellm")
    with tempfile.TemporaryDirectory() as folder:
        return await library.aagent(
            library.Harness.TOOL_LOOP,
            prompt,
            sandbox=library.sandbox.local(folder),
            model=f"openai/{MODEL}",
            api_base=f"{url}/v1",
            api_key=KEY,
            tools=tools,
            **more,
        )


def openai_client(url: str) -> Any:
    """Return a client of OpenAI's SDK that asks once."""
    sdk = import_module("openai")
    return sdk.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
