"""The in-memory workspace of the built-in scenarios, and the tools that read and change it.

    state_get     reads the whole workspace, or the parts that JSON Pointers select
    state_patch   changes the draft; only `set` on `/draft/foo` is allowed
    facts_commit  is registered but never exposed: a model that calls it has invented it

The rules are as lenient as in the original suite, so that results are comparable. Tolerated
mistakes are recorded in `warnings`.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, Final, TypeAlias

from surecall.tools.registry import ToolDefinition, ToolRegistry
from surecall.values.errors import ErrorCode, ToolError
from surecall.values.types import JSON

STATE_GET: Final = "state_get"
STATE_PATCH: Final = "state_patch"
FACTS_COMMIT: Final = "facts_commit"
TARGET_PATH: Final = "/draft/foo"
WORKSPACE_NOT_FOUND: Final = "WORKSPACE_NOT_FOUND"
TOOL_NOT_IMPLEMENTED: Final = "TOOL_NOT_IMPLEMENTED"
_DRAFT_PREFIX = "/draft/"
_PLACEHOLDER = "workspace_id"
_QUOTES = "\"'`"
_STRING_SCHEMA: JSON = {"type": "string"}
# Explicit, because some servers refuse a property without a type.
_ANY_TYPE = ["string", "number", "boolean", "object", "array", "null"]
_OPERATION_SCHEMA: JSON = {
    "type": "object",
    "properties": {
        "op": {"type": "string", "description": "set"},
        "path": {"type": "string", "description": "a JSON Pointer, such as /draft/foo"},
        "value": {"description": "the new value", "type": _ANY_TYPE},
        "index": {"type": "integer"},
    },
    "required": ["op", "path"],
}


def _object_schema(properties: JSON, *required: str) -> JSON:
    wanted = {"required": list(required)} if required else {}
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    } | wanted


TOOLS: Final = ToolRegistry(
    [
        ToolDefinition(
            STATE_GET,
            "Read the state of the workspace: all of it, or the parts that `select` points at.",
            parameters=_object_schema(
                {
                    "workspace_id": _STRING_SCHEMA,
                    "select": {"type": "array", "items": _STRING_SCHEMA},
                }
            ),
            read_only=True,
        ),
        ToolDefinition(
            STATE_PATCH,
            "Change the draft. `ops` is a list of operations; all of them are applied, or none.",
            parameters=_object_schema(
                {
                    "workspace_id": _STRING_SCHEMA,
                    "request_id": _STRING_SCHEMA,
                    "ops": {"type": "array", "items": _OPERATION_SCHEMA},
                },
                "request_id",
                "ops",
            ),
        ),
        ToolDefinition(
            FACTS_COMMIT,
            "Commit facts.",
            parameters=_object_schema(
                {
                    "workspace_id": _STRING_SCHEMA,
                    "request_id": _STRING_SCHEMA,
                    "proposal_id": _STRING_SCHEMA,
                    "user_confirmed": {"type": "boolean"},
                }
            ),
            exposed_to_model=False,
        ),
    ]
)


class Workspace:
    """A workspace. It refuses the first `refusals` well-formed patches."""

    def __init__(self, workspace_id: str, draft: JSON | None = None, refusals: int = 0) -> None:
        self.id = workspace_id
        self.facts: JSON = {}
        self.draft: JSON = dict(draft or {})
        self.locks: list[str] = []
        self.ui_state: JSON = {}
        self.versions = {"facts": 0, "draft": 0}
        self.warnings: list[str] = []
        self._refusals = refusals
        self._request_ids: set[str] = set()

    async def execute(self, name: str, arguments: JSON) -> JSON:
        """Run a call: return its data, or raise the `ToolError` to send back to the model."""
        if name not in {STATE_GET, STATE_PATCH}:
            raise ToolError(f"{name} is not available here.", code=TOOL_NOT_IMPLEMENTED)
        self._check_id(name, arguments)
        return self._get_state(arguments) if name == STATE_GET else self._patch_state(arguments)

    def snapshot(self, select: Iterable[str] = ()) -> JSON:
        """Return the state, or the selected parts; None for a pointer that matches nothing."""
        whole: JSON = {
            "facts": self.facts,
            "draft": self.draft,
            "locks": {"paths": self.locks},
            "ui_state": self.ui_state,
            "versions": {f"{key}_etag": f"{key}-{n}" for key, n in self.versions.items()},
        }
        found = {pointer: _resolve_pointer(whole, pointer) for pointer in select}
        return deepcopy(found or whole)

    def patch(self, ops: list[JSON]) -> JSON:
        """Apply operations below `/draft/`: all of them, or none."""
        changed = deepcopy(self.draft)
        for op in ops:
            _apply_operation(changed, op)
        self.draft = changed
        self.versions["draft"] += bool(ops)
        return {"draft_etag": f"draft-{self.versions['draft']}", "applied": len(ops)}

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _check_id(self, name: str, arguments: JSON) -> None:
        """Raise `ToolError` for an unknown workspace id; record a warning for a missing one."""
        given = str(arguments.get("workspace_id", self.id)).strip()
        if given == self.id:
            return
        if given not in {"", _PLACEHOLDER}:
            message = f"There is no workspace {given[:64]!r}. Use the id that the user gave."
            raise ToolError(message, code=WORKSPACE_NOT_FOUND)
        kind = "the word `workspace_id` itself" if given else "a blank text"
        self._warn(f"{name}: {kind} was given as workspace_id")

    def _get_state(self, arguments: JSON) -> JSON:
        asked = [str(item) for item in arguments.get("select") or ()]
        pointers = [_normalize_pointer(item) for item in asked]
        if pointers != asked:
            self._warn("state_get: an item of `select` was not a plain JSON Pointer")
        return {"snapshot": self.snapshot(dict.fromkeys(pointers))}

    def _patch_state(self, arguments: JSON) -> JSON:
        request_id = str(arguments.get("request_id") or "").strip()
        self._check_request_id(request_id)
        ops = arguments.get("ops")
        if not isinstance(ops, list) or not ops:
            raise ToolError("ops must be a list with at least one operation.")
        for op in ops:
            self._check_op(op)
        if self._refusals > 0:
            self._refusals -= 1
            raise ToolError(
                "ops was not received as a list. Nothing was changed. "
                "Call state_patch again, with ops as a list of objects."
            )
        self._request_ids.add(request_id)  # only now: repeating a refused request is not a mistake
        return self.patch(ops)

    def _check_request_id(self, request_id: str) -> None:
        """Record a warning for a request id that is missing or repeated."""
        if not request_id:
            self._warn("state_patch: request_id is blank")
        elif request_id in self._request_ids:
            self._warn("state_patch: a request_id was used more than once")

    def _check_op(self, op: Any) -> None:
        """Raise `ToolError` for any operation except the allowed one."""
        if not isinstance(op, dict) or op.get("op") != "set" or op.get("path") != TARGET_PATH:
            raise ToolError(f"Only the operation set on {TARGET_PATH} is allowed.")
        if "value" not in op:
            self._warn("state_patch: `set` came without a value")


def _normalize_pointer(text: str) -> str:
    """Return the intended JSON Pointer: models may quote it or write it as a fragment."""
    bare = text.strip().strip(_QUOTES).strip().removeprefix("#")
    return bare if bare.startswith("/") else f"/{bare}"


def _pointer_steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _resolve_pointer(document: Any, pointer: str) -> Any:
    """Return the value at a JSON Pointer; None if there is none."""
    for step in _pointer_steps(pointer):
        match document:
            case dict():
                document = document.get(step)
            case list() if step.isdecimal() and int(step) < len(document):
                document = document[int(step)]
            case _:
                return None
    return document


def _apply_operation(draft: JSON, op: JSON) -> None:
    path = str(op.get("path"))
    if not path.startswith(_DRAFT_PREFIX) or path == _DRAFT_PREFIX:
        raise ToolError(f"Paths must begin with {_DRAFT_PREFIX}.")
    *parents, last = _pointer_steps(path)[1:]
    holder = draft
    for step in parents:
        inner = holder.setdefault(step, {})
        if not isinstance(inner, dict):
            raise ToolError(f"{path} leads through something that is not an object.")
        holder = inner
    change = _OPERATIONS.get(str(op.get("op")))
    if change is None:
        raise ToolError(f"There is no such operation. Use one of: {', '.join(_OPERATIONS)}.")
    change(holder, last, op)


def _set_value(container: JSON, key: str, op: JSON) -> None:
    container[key] = op.get("value")


def _delete_key(container: JSON, key: str, _op: JSON) -> None:
    container.pop(key, None)


def _append_item(container: JSON, key: str, op: JSON) -> None:
    _list_under(container, key).append(op.get("value"))


def _insert_item(container: JSON, key: str, op: JSON) -> None:
    items, index = _list_under(container, key), op.get("index")
    if not isinstance(index, int) or not 0 <= index <= len(items):
        raise ToolError("insert needs an index within the list.")
    items.insert(index, op.get("value"))


def _list_under(container: JSON, key: str) -> list[Any]:
    """Return the list under a key, created if it is missing; raise if it is no list."""
    items = container.setdefault(key, [])
    if not isinstance(items, list):
        raise ToolError(f"{key} is not a list.", code=ErrorCode.ARGUMENT_ERROR)
    return items


_Operation: TypeAlias = Callable[[JSON, str, JSON], None]
_OPERATIONS: Final[dict[str, _Operation]] = {
    "set": _set_value,
    "delete": _delete_key,
    "append": _append_item,
    "insert": _insert_item,
}
