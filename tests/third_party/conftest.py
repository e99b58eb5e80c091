"""Servers that others wrote: each is started once, when the first test asks for it."""

import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.commands import run_fixture
from tests.support.servers import FILES, Foreign, free_port, program, running, script

__all__ = ["run_fixture"]

_LITELLM = """
model_list:
  - model_name: scripted
    litellm_params: &behind
      {{model: openai/gpt-4o, api_base: "{scripted}/v1", api_key: sk-none, max_retries: 0}}
  - model_name: bent
    litellm_params: {{<<: *behind, api_base: "{bent}/openai"}}
router_settings: {{num_retries: 0, disable_cooldowns: true}}
"""


@pytest.fixture(name="llmock", scope="session")
def llmock_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    """Start llmock: scripts, faults and a verdict on the client, all over HTTP."""
    port, folder = free_port(), tmp_path_factory.mktemp("llmock")
    with running(folder, port, program("llmock"), "serve", "--port", str(port)) as url:
        yield Foreign(url)


@pytest.fixture(name="fakellm", scope="session")
def fakellm_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    """Start fakellm: rules in a file."""
    port, folder = free_port(), tmp_path_factory.mktemp("fakellm")
    options = ("--port", str(port), "--config", str(FILES / "fakellm.yaml"))
    with running(folder, port, program("fakellm"), "serve", *options) as url:
        yield Foreign(url)


@pytest.fixture(name="ai_mock", scope="session")
def ai_mock_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    """Start ai-mock, whose calls are bent: objects as arguments, fragments without an index."""
    port, folder = free_port(), tmp_path_factory.mktemp("ai_mock")
    # What its own command starts, and would leave behind. Its file has results as they are sent.
    command = (program("uvicorn"), "mockai.server:app", "--port", str(port))
    told = {"MOCKAI_RESPONSES": str(FILES / "ai_mock.json"), "MOCKAI_EMBEDDING_SIZE": "8"}
    with running(folder, port, *command, variables=told) as url:
        yield Foreign(url, prefix="/openai")


@pytest.fixture(name="aimock", scope="session")
def aimock_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    """Start aimock: replies in a file, by what was sent before."""
    with _aimock(tmp_path_factory.mktemp("aimock")) as url:
        yield Foreign(url)


@pytest.fixture(name="told_aimock", scope="session")
def told_aimock_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    """Start aimock once more, for tests that tell it other replies, and to fail."""
    with _aimock(tmp_path_factory.mktemp("told_aimock")) as url:
        yield Foreign(url)


def _aimock(folder: Path) -> AbstractContextManager[str]:
    port = free_port()
    options = ("-p", str(port), "-f", str(FILES / "aimock.json"))
    return running(folder, port, *script("@copilotkit/aimock/dist/cli.js"), *options)


@pytest.fixture(name="mock_openai_api", scope="session")
def mock_openai_api_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    """Start mock-openai-api: fixed conversations; plain, it makes the same call for ever."""
    port, folder = free_port(), tmp_path_factory.mktemp("mock_openai_api")
    options = ("-H", "127.0.0.1", "-p", str(port))
    with running(folder, port, *script("mock-openai-api/dist/cli.js"), *options) as url:
        yield Foreign(url, model="gpt-4-mock")


@pytest.fixture(name="litellm", scope="session")
def litellm_fixture(
    tmp_path_factory: pytest.TempPathFactory, llmock: Foreign, ai_mock: Foreign
) -> Iterator[Foreign]:
    """Start LiteLLM's proxy, in front of two of the others."""
    port, folder = free_port(), tmp_path_factory.mktemp("litellm")
    config = folder / "config.yaml"
    config.write_text(_LITELLM.format(scripted=llmock.url, bent=ai_mock.url), "utf-8")
    options = ("--host", "127.0.0.1", "--port", str(port), "--config", str(config))
    key = f"sk-{secrets.token_hex(32)}"
    # Its own copy of a table of prices, in place of the one that it would fetch.
    told = {"LITELLM_MASTER_KEY": key, "LITELLM_LOCAL_MODEL_COST_MAP": "true"}
    with running(folder, port, program("litellm"), *options, variables=told) as url:
        yield Foreign(url, model="scripted", key=key)
