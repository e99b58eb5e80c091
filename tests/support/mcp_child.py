"""A small MCP server by hand, which can misbehave: `python -I mcp_child.py JOURNAL [MANNER]`.

It speaks the protocol of 2025 over its standard streams, and writes what it does to the journal, a
line each: its process id, the ids of processes that it starts, and every call that took effect.
A STUBBORN one ends neither with its standard input nor when it is told to, nor does its child. One
that is MUTE answers nothing.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

NAMES = ["echo", "note", "die", "hang", "grow", "change", "shrink", "env", "flood", "crooked"]
IGNORING = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
KINDS = {"note": {"idempotentHint": True}, "shrink": {"destructiveHint": True}}


def journal(*words: object) -> None:
    """Write down what happened."""
    with Path(sys.argv[1]).open("a", encoding="utf-8") as file:
        print(*words, file=file, flush=True)


def say(**message: Any) -> None:
    """Send a message."""
    write(json.dumps({"jsonrpc": "2.0", **message}))


def write(line: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def described(name: str) -> dict[str, Any]:
    """Describe a tool."""
    schema: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
    if name == "echo" and "change" not in NAMES:
        schema["properties"]["more"] = {"type": "string"}
    return {"name": name, "inputSchema": schema, "annotations": KINDS.get(name, {})}


def called(name: str, text: str) -> dict[str, Any]:
    """Run a tool."""
    journal("called", name, text)
    if name == "die" or (name == "note" and text == "die once" and is_first()):
        os.kill(os.getpid(), signal.SIGKILL)
    if name in {"grow", "change", "shrink"}:
        NAMES.append("grown") if name == "grow" else NAMES.remove(text or name)
        say(method="notifications/tools/list_changed")
    if name == "flood":
        write("x" * (17 * 1024 * 1024))
    if name == "crooked":
        return {"content": "none"}
    said = json.dumps(sorted(os.environ)) if name == "env" else text
    return {"content": [{"type": "text", "text": said}]}


def is_first() -> bool:
    """Whether no other process has run before this one."""
    return Path(sys.argv[1]).read_text("utf-8").count("server") == 1


def answer(message: dict[str, Any]) -> None:
    """Answer a request."""
    number, params = message["id"], message.get("params", {})
    match message["method"]:
        case "initialize":
            about = {"name": "child", "version": "1"}
            version = params["protocolVersion"]
            capable = {"tools": {"listChanged": True}}
            result = {"protocolVersion": version, "capabilities": capable, "serverInfo": about}
        case "tools/list":
            result = {"tools": [described(name) for name in NAMES]}
        case "tools/call":
            result = called(params["name"], params["arguments"].get("text", ""))
            if params["name"] == "hang":
                return
        case method:
            say(id=number, error={"code": -32601, "message": f"no {method}"})
            return
    say(id=number, result=result)


def main() -> None:
    """Serve."""
    journal("server", os.getpid())
    write("A greeting that is no message.")
    stubborn = "STUBBORN" in sys.argv
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-I", "-c", IGNORING])
        journal("child", child.pid)
    for line in sys.stdin:
        message = json.loads(line)
        if "MUTE" in sys.argv:
            journal("heard", message["method"])
        elif "id" in message:
            answer(message)
        else:
            journal("heard", message["method"])
    while stubborn:
        signal.pause()


if __name__ == "__main__":
    main()
