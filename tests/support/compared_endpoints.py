"""Recorded requests that the simulator understands, and commands that compare endpoints by them."""

import json
from pathlib import Path
from typing import Any

from surecall.values.types import JSON

TOOL: JSON = {
    "type": "function",
    "function": {
        "name": "state_get",
        "description": "Read the workspace.",
        "parameters": {
            "type": "object",
            "properties": {"workspace_id": {"type": "string"}},
            "required": ["workspace_id"],
        },
    },
}
ASK = "workspace_id=ws_{}. Set /draft/foo to bar, then reply Done."
LOG = "requests.jsonl"


def written(folder: Path, number: int, **more: Any) -> None:
    """Write so many recorded requests."""
    lines = [
        json.dumps(
            {"messages": [{"role": "user", "content": ASK.format(at)}], "tools": [TOOL]} | more
        )
        for at in range(number)
    ]
    (folder / LOG).write_text("\n".join(lines))


def compare(*words: str, reference: str = "good", against: str = "cheap") -> tuple[str, ...]:
    return ("eval", "-s", LOG, "--reference", reference, "--against", against, *words)


def agreement(folder: Path) -> JSON:
    (path,) = folder.glob(".surecall/runs/*/agreement.json")
    (found,) = json.loads(path.read_text())["comparisons"]
    return dict(found)
