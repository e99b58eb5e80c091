"""The same loop over OpenAI's own client, wherever that is installed."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import Any, Final

from surecall.simulator.demo.plain_loop import converse, put_together
from surecall.simulator.demo.tasks import Task, Tools, described
from surecall.values.types import JSON

_TIMEOUT_S: Final = 60.0


def loop_at(url: str, stack: ExitStack) -> Callable[..., str] | None:
    """Return the loop at an address; None without the client, or with one from another age."""
    try:
        make, transport = import_module("openai").OpenAI, import_module("httpx").Client
    except (ImportError, AttributeError):
        return None
    # Its own settings, but for the address; and no proxy, which would not find this machine.
    line = stack.enter_context(transport(trust_env=False))
    client = make(base_url=f"{url}/v1", api_key="none", timeout=_TIMEOUT_S, http_client=line)
    return partial(sdk_loop, client)


def sdk_loop(client: Any, model: str, task: Task, tools: Tools, *, streamed: bool) -> str:
    """Let a model do a task."""
    create, offered = client.chat.completions.create, described(tools)

    def ask(messages: list[JSON]) -> JSON:
        answer = create(model=model, messages=messages, tools=offered, stream=streamed)
        if streamed:
            # Closed here: left to the garbage collector, it may lock up all that share the line.
            with answer:
                return put_together(chunk.model_dump(warnings=False) for chunk in answer)
        message: JSON = answer.choices[0].message.model_dump(exclude_none=True, warnings=False)
        return message

    return converse(ask, task, tools)
