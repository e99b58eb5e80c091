"""Wrong uses of the API: each marked line must be an error to mypy, and no other line is one.

Never run. The marks are `type: ignore` comments, so that the project itself type-checks; the test
beside this takes them away and looks for exactly these errors on exactly these lines.
"""

import surecall
from surecall import (
    Context,
    OpenAICompatible,
    ToolLoopRunner,
    ToolRegistry,
    presets,
    tool,
)


@tool(timeout=3)  # type: ignore[call-overload, untyped-decorator]
def misspelt() -> str:
    """Have a keyword that does not exist."""
    return ""


@tool(timeout_s="3")  # type: ignore[call-overload, untyped-decorator]
def mistyped() -> str:
    """Have a keyword of the wrong type."""
    return ""


@tool
def change(context: Context) -> str:
    """Try to change what cannot be changed."""
    context["user"] = "root"  # type: ignore[index]
    return ""


surecall.unknown_name()  # type: ignore[attr-defined]
client = OpenAICompatible("http://127.0.0.1:8000")
runner = ToolLoopRunner(client=client, model="m", tools=[change])
ToolLoopRunner(client=None, model="m")  # type: ignore[arg-type]
ToolLoopRunner(client=client)  # type: ignore[call-arg]
ToolLoopRunner(client=client, model="m", tool=change)  # type: ignore[call-arg]
ToolLoopRunner(client=client, model="m", tools=5)  # type: ignore[arg-type]
ToolLoopRunner(client=client, model="m", tool_policy=object())  # type: ignore[arg-type]
ToolLoopRunner(client=client, model="m", config=3)  # type: ignore[arg-type]
ToolLoopRunner(client=client, model="m", output=5)  # type: ignore[arg-type]
counter = ToolLoopRunner(client=client, model="m", output=int)
counter.run_sync("Hello").output.append(1)  # type: ignore[attr-defined]
ToolRegistry(5)  # type: ignore[arg-type]
runner.run_sync("Hello", max_turn=3)  # type: ignore[call-arg]
runner.run_sync("Hello", max_turns="3")  # type: ignore[arg-type]
runner.run_sync("Hello", system=5)  # type: ignore[arg-type]
runner.run_sync("Hello", context="kim")  # type: ignore[arg-type]
runner.run_sync(5)  # type: ignore[arg-type]
runner.stream_sync("Hello", histroy=[])  # type: ignore[call-arg]
runner.stream_sync("Hello", on_event=5)  # type: ignore[arg-type]
runner.resume_sync("run")  # type: ignore[arg-type]
runner.resume_sync(runner.run_sync("Hello").run, history=[])  # type: ignore[call-arg]
presets.resolve(provider="openai", strategy="best")  # type: ignore[arg-type]
