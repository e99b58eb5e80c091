"""The evaluation's workspace: what its tools do, refuse, and let pass with a warning."""

import asyncio
from typing import Any

import pytest

from surecall import ToolDispatcher, ToolError
from surecall.eval.scenarios.workspace import TOOLS, WORKSPACE_NOT_FOUND, Workspace
from surecall.settings.presets import raw
from surecall.values.types import JSON
from tests.support.spec import proves

SET: JSON = {"op": "set", "path": "/draft/foo", "value": "bar"}


def call(workspace: Workspace, name: str, **arguments: Any) -> JSON:
    return asyncio.run(workspace.execute(name, arguments))


def patch(workspace: Workspace, ops: Any, **arguments: Any) -> JSON:
    return call(workspace, "state_patch", ops=ops, **({"request_id": "r1"} | arguments))


def test_a_patch_sets_the_draft_and_raises_its_version() -> None:
    workspace = Workspace("ws_1")
    assert patch(workspace, [SET], workspace_id="ws_1") == {"draft_etag": "draft-1", "applied": 1}
    snapshot = call(workspace, "state_get", workspace_id="ws_1")["snapshot"]
    assert snapshot == {
        "facts": {},
        "draft": {"foo": "bar"},
        "locks": {"paths": []},
        "ui_state": {},
        "versions": {"facts_etag": "facts-0", "draft_etag": "draft-1"},
    }
    assert workspace.warnings == []


def test_a_snapshot_is_a_copy() -> None:
    workspace = Workspace("ws_1", {"foo": "bar"})
    call(workspace, "state_get")["snapshot"]["draft"]["foo"] = "changed"
    assert workspace.draft == {"foo": "bar"}


@proves("C122")
def test_a_missing_workspace_id_means_the_current_one() -> None:
    workspace = Workspace("ws_1")
    assert call(workspace, "state_get")["snapshot"]["draft"] == {}
    assert workspace.warnings == []


@pytest.mark.parametrize(
    ("given", "kind"), [("workspace_id", "the word `workspace_id` itself"), (" ", "a blank text")]
)
def test_a_placeholder_is_accepted_with_one_warning(given: str, kind: str) -> None:
    workspace = Workspace("ws_1")
    call(workspace, "state_get", workspace_id=given)
    call(workspace, "state_get", workspace_id=given)
    assert workspace.warnings == [f"state_get: {kind} was given as workspace_id"]


@proves("C122")
def test_another_workspace_is_not_found() -> None:
    with pytest.raises(ToolError, match="no workspace 'ws_2'") as error:
        call(Workspace("ws_1"), "state_get", workspace_id="ws_2")
    assert error.value.code == WORKSPACE_NOT_FOUND


@proves("C123")
@pytest.mark.parametrize(
    "ops",
    [
        None,
        "set",
        {},
        [],
        ["set"],
        [SET | {"op": "delete"}],
        [SET | {"path": "/draft/other"}],
        [SET | {"path": "/facts/foo"}],
        [SET, SET | {"path": "/draft/foo/deeper"}],
    ],
)
def test_anything_but_set_on_foo_is_an_argument_error_and_changes_nothing(ops: Any) -> None:
    workspace = Workspace("ws_1")
    with pytest.raises(ToolError) as error:
        patch(workspace, ops)
    assert error.value.code == "ARGUMENT_ERROR"
    assert (workspace.draft, workspace.versions["draft"]) == ({}, 0)


@proves("C124")
@pytest.mark.parametrize(
    ("asked", "pointer", "value"),
    [
        ("/draft/foo", "/draft/foo", "bar"),
        (" `/draft/foo` ", "/draft/foo", "bar"),
        ("#/draft/foo", "/draft/foo", "bar"),
        ("draft/foo", "/draft/foo", "bar"),
        ("/draft/list/1", "/draft/list/1", 2),
        ("/draft/list/9", "/draft/list/9", None),
        ("/draft/foo/deeper", "/draft/foo/deeper", None),
        ("/draft/a~1b~0c", "/draft/a~1b~0c", "odd"),
        ("/nowhere", "/nowhere", None),
    ],
)
def test_pointers_select_and_what_is_missing_is_null(asked: str, pointer: str, value: Any) -> None:
    workspace = Workspace("ws_1", {"foo": "bar", "list": [1, 2], "a/b~c": "odd"})
    assert call(workspace, "state_get", select=[asked])["snapshot"] == {pointer: value}
    assert bool(workspace.warnings) == (asked != pointer)


def test_a_pointer_is_selected_once_and_an_empty_list_selects_everything() -> None:
    workspace = Workspace("ws_1")
    twice = call(workspace, "state_get", select=["/draft", "/draft"])["snapshot"]
    assert twice == {"/draft": {}}
    assert "facts" in call(workspace, "state_get", select=[])["snapshot"]


def test_slips_with_request_ids_and_values_are_noted_but_do_not_matter() -> None:
    workspace = Workspace("ws_1")
    patch(workspace, [SET], request_id=" ")
    patch(workspace, [SET])
    patch(workspace, [{"op": "set", "path": "/draft/foo"}])
    assert workspace.warnings == [
        "state_patch: request_id is blank",
        "state_patch: a request_id was used more than once",
        "state_patch: `set` came without a value",
    ]
    assert workspace.draft == {"foo": None}


def test_a_scripted_refusal_meets_the_first_well_formed_patch_only() -> None:
    workspace = Workspace("ws_1", refusals=1)
    with pytest.raises(ToolError, match="at least one"):
        patch(workspace, [])
    with pytest.raises(ToolError, match="not received as a list") as error:
        patch(workspace, [SET])
    assert (error.value.code, workspace.draft) == ("ARGUMENT_ERROR", {})
    assert patch(workspace, [SET])["applied"] == 1
    assert workspace.warnings == []  # sending the same id again after a refusal is right


def test_only_the_two_tools_are_shown_and_the_third_cannot_be_called() -> None:
    workspace = Workspace("ws_1")
    assert [tool.name for tool in TOOLS.definitions] == ["state_get", "state_patch"]
    dispatcher = ToolDispatcher(TOOLS, raw(), executor=workspace.execute)
    refused = asyncio.run(dispatcher.execute("facts_commit", {}))
    assert refused.error_codes == ("TOOL_NOT_ALLOWED",)
    with pytest.raises(ToolError) as error:
        call(workspace, "facts_commit")
    assert error.value.code == "TOOL_NOT_IMPLEMENTED"


def test_operations_below_the_draft_are_applied_in_order() -> None:
    workspace = Workspace("ws_1", {"old": 1})
    ops: list[JSON] = [
        {"op": "set", "path": "/draft/a/b", "value": 1},
        {"op": "append", "path": "/draft/list", "value": "y"},
        {"op": "insert", "path": "/draft/list", "value": "x", "index": 0},
        {"op": "delete", "path": "/draft/old"},
        {"op": "delete", "path": "/draft/never"},
    ]
    assert workspace.patch(ops)["applied"] == 5
    assert workspace.draft == {"a": {"b": 1}, "list": ["x", "y"]}
    assert workspace.patch([]) == {"draft_etag": "draft-1", "applied": 0}


@pytest.mark.parametrize(
    "bad",
    [
        {"op": "set", "path": "/facts/a", "value": 1},
        {"op": "set", "path": "/draft/", "value": 1},
        {"op": "set", "path": "/draft/text/inner", "value": 1},
        {"op": "move", "path": "/draft/a"},
        {"op": "append", "path": "/draft/text", "value": 1},
        {"op": "insert", "path": "/draft/list", "value": 1},
        {"op": "insert", "path": "/draft/list", "value": 1, "index": 5},
    ],
)
def test_one_bad_operation_undoes_all_of_them(bad: JSON) -> None:
    workspace = Workspace("ws_1", {"text": "t", "list": [1]})
    with pytest.raises(ToolError):
        workspace.patch([{"op": "set", "path": "/draft/list", "value": []}, bad])
    assert workspace.draft == {"text": "t", "list": [1]}
    assert workspace.versions["draft"] == 0
