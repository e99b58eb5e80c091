"""Tests of `surecall.eval.scenarios.bfcl_turns`."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from surecall import ConfigError
from surecall.eval.running.trial_run import TrialCase, make_cell_setup, run_trial
from surecall.eval.scenarios.bfcl import MappingCounts, find_data
from surecall.eval.scenarios.bfcl_turns import (
    CALLED_CHECK,
    MODULE_BY_CLASS,
    RESULTS_CHECK,
    STATE_CHECK,
    ApiObjects,
    BfclTurn,
    MultiTurnCase,
    find_code,
    multi_turn_files,
    parse_call_text,
    read_multi_turn_cases,
    scenarios_in,
)
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.testing import ScriptedModel, calls, calls_many, says
from tests.support.scenario_packs import (
    GOLDEN,
    conversation,
    data_folder,
    forget_code,
    wheel,
    written,
)

# Conversations of BFCL: objects that tools change, held against those of the golden calls


OPEN = calls("open_ticket", titles=["a"])
COUNT, ADD = calls("count"), calls("add_title", number=2, title="b")
DONE = says("Done.")


@pytest.fixture(name="folder")
def folder_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the pack, as the command does."""
    forget_code(monkeypatch)
    source = wheel(tmp_path)
    data, code = find_data(source), find_code(source)
    assert code is not None
    sets = {
        name: read_multi_turn_cases(data, name, None)
        for name in ("multi_turn_base", "multi_turn_long_context")
    }
    for path, text in multi_turn_files(data, code, sets, MappingCounts()):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text)
    return tmp_path


def scenario(folder: Path, name: str = "multi_turn_base") -> Scenario:
    (one,) = scenarios_in(folder / f"{name}.json")
    return one


def trial(one: Scenario, *script: Any) -> tuple[Trial, ScriptedModel]:
    model = ScriptedModel(*script)
    case = TrialCase(one, make_cell_setup("m", strategy="raw", extra_attempts=0))
    done, _ = asyncio.run(run_trial(Key(Cell("m"), one.id, 1), case, model))
    return done, model


def checks(done: Trial) -> list[str]:
    return [miss.check for miss in done.score.misses]


def test_the_golden_calls_pass_in_one_reply_or_in_several(folder: Path) -> None:
    one = scenario(folder)
    several, model = trial(one, OPEN, COUNT, DONE, DONE, ADD, DONE)
    assert (several.status, several.error) == ("passed", "")
    assert trial(one, calls_many(OPEN, COUNT), DONE, DONE, ADD, DONE)[0].ok
    said = [each["content"] for each in model.requests[-1]["messages"] if each["role"] == "user"]
    assert said == ["Open a ticket.", "Thanks.", "Add b."]


def test_further_looks_and_calls_before_their_turn_do_no_harm(folder: Path) -> None:
    one = scenario(folder)
    early = calls("add", a=1, b=2)
    assert trial(one, early, OPEN, COUNT, DONE, COUNT, DONE, ADD, DONE)[0].ok


def test_a_turn_without_golden_calls_is_not_judged_but_what_it_changed_is(folder: Path) -> None:
    done, _ = trial(scenario(folder), OPEN, COUNT, DONE, OPEN, DONE, ADD, DONE)
    assert checks(done) == [STATE_CHECK]
    (miss,) = done.score.misses
    assert miss.expected == "TicketAPI.tickets is [['first'], ['a', 'b']]"
    assert miss.got == "TicketAPI.tickets is [['first'], ['a', 'b'], ['a']]"


def test_a_turn_without_a_call_ends_it(folder: Path) -> None:
    done, model = trial(scenario(folder), DONE, DONE, ADD, DONE)
    assert (done.status, checks(done)) == ("failed", [CALLED_CHECK])
    assert len(model.requests) == 1


def test_every_result_of_the_golden_calls_must_have_been_returned(folder: Path) -> None:
    done, _ = trial(scenario(folder), OPEN, DONE)
    assert checks(done) == [RESULTS_CHECK]
    assert (done.score.misses[0].expected, done.score.misses[0].turn) == ("2", 1)


def test_a_long_context_begins_with_more(folder: Path) -> None:
    done, _ = trial(scenario(folder, "multi_turn_long_context"), OPEN, DONE)
    assert [miss.expected for miss in done.score.misses] == ["3"]


def test_a_run_that_fails_fails_the_case(folder: Path) -> None:
    done, _ = trial(scenario(folder), OPEN, COUNT, *[says("")] * 3)
    assert (done.status, done.score.misses) == ("failed", ())


def test_a_model_sees_objects_as_data_and_errors_as_errors(folder: Path) -> None:
    wrong = calls("add_title", number=9, title="b")
    _, model = trial(scenario(folder), OPEN, COUNT, wrong, ADD, DONE, DONE)
    results = [each["content"] for each in model.requests[4]["messages"] if each["role"] == "tool"]
    assert '"data":{"number":2}' in results[0]
    assert '"2"' in results[1]
    assert "Error during execution: list index out of range" in results[2]
    assert "<TicketAPI>" in results[3]  # what cannot be written as JSON is told as Python writes it


def test_what_a_tool_changes_later_leaves_the_conversation_as_it_was(folder: Path) -> None:
    _, model = trial(scenario(folder), OPEN, COUNT, DONE, DONE, ADD, DONE)
    (first,) = model.requests[-1]["messages"][1]["tool_calls"]
    assert "b" not in first["function"]["arguments"].replace("open", "")


def test_its_hash_changes_with_its_golden_calls(folder: Path) -> None:
    before = scenario(folder).prompt_hash
    path = folder / "multi_turn_base.json"
    path.write_bytes(path.read_bytes().replace(b"title='b'", b"title='c'"))
    assert scenario(folder).prompt_hash != before


def test_a_package_that_their_code_needs_is_named(folder: Path) -> None:
    (path,) = folder.rglob("math_api.py")
    path.write_text("import no_such_package_at_all\n")
    with pytest.raises(ConfigError, match="MathAPI needs a package: pip install no_such_package"):
        scenario(folder)


def test_golden_calls_are_read_and_never_evaluated() -> None:
    assert parse_call_text("f(1, b=[True, 'x'])") == ("f", [1], {"b": [True, "x"]})
    with pytest.raises(ConfigError, match="is not a call"):
        parse_call_text("x.f(1)")
    with pytest.raises(ValueError, match="malformed"):
        parse_call_text("f(open('x'))")


def test_a_golden_call_that_raises_counts_by_what_it_says() -> None:
    objects = ApiObjects({"MathAPI": dict}, {}, long=False)
    assert objects.make_calls(["nothing()"])[0].startswith("Error during execution: ")


# The files of BFCL's multi-turn cases: what is written, and what is refused


BASE = "multi_turn_base"


def test_a_case_has_its_turns_with_their_golden_calls(tmp_path: Path) -> None:
    (one,) = read_multi_turn_cases(find_data(wheel(tmp_path)), BASE, None)
    assert (one.id, one.tags) == ("bfcl_multi_turn_base_0", ["bfcl", "bfcl_multi_turn_base"])
    assert one.turns == [
        BfclTurn("Open a ticket.", GOLDEN[0]),
        BfclTurn("Thanks."),
        BfclTurn("Add b.", GOLDEN[2]),
    ]
    assert (one.classes, one.long) == (["MathAPI", "TicketAPI"], False)
    (long,) = read_multi_turn_cases(find_data(wheel(tmp_path)), "multi_turn_long_context", 1)
    assert long.long


def test_tools_are_mapped_and_code_is_copied_as_it_is(tmp_path: Path) -> None:
    source = wheel(tmp_path)
    code = find_code(source)
    assert code is not None
    mapped = MappingCounts()
    cases: dict[str, list[MultiTurnCase]] = {
        BASE: read_multi_turn_cases(find_data(source), BASE, None)
    }
    found = dict(multi_turn_files(find_data(source), code, cases, mapped))
    tools = msgspec.json.decode(found["_tools.json"])
    assert tools.keys() == MODULE_BY_CLASS.keys()
    assert [tool["function"]["name"] for tool in tools["MathAPI"]] == ["add"]
    assert mapped.times == {"type `dict`: `object`": 4}
    assert found[f"{BASE}.py"].startswith(b'"""Multi-turn cases of BFCL.')
    copied = [path for path in found if path.startswith("_code/bfcl_eval/")]
    assert len(copied) == len(MODULE_BY_CLASS) + 1
    assert all(found[path] == code.joinpath(Path(path).name).read_bytes() for path in copied)


def test_where_there_is_only_data_there_is_no_code(tmp_path: Path) -> None:
    assert find_code(data_folder(tmp_path)) is None


def test_a_case_that_does_not_fit_its_answer_or_our_classes_is_refused(tmp_path: Path) -> None:
    folder = data_folder(tmp_path)
    for case, told in (
        (conversation("multi_turn_base_0", "Hello"), "the numbers of answers and turns differ"),
        (conversation("multi_turn_base_1", "Hello"), "the numbers of answers and turns differ"),
        (
            conversation("multi_turn_base_0", "a", "b", "c", classes=["WebAPI", "TicketAPI"]),
            "unknown class WebAPI",
        ),
    ):
        (folder / "BFCL_v4_multi_turn_base.json").write_text(written([case]), "utf-8")
        with pytest.raises(ConfigError, match=f"{case['id']}: .*{told}"):
            read_multi_turn_cases(folder, BASE, None)
