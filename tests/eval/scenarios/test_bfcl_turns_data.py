"""The files of BFCL's multi-turn cases: what is written, and what is refused."""

from pathlib import Path

import msgspec
import pytest

from surecall import ConfigError
from surecall.eval.scenarios.bfcl import Mapped
from surecall.eval.scenarios.bfcl_data import data_in
from surecall.eval.scenarios.bfcl_turns import CLASSES, MultiTurn, Turn
from surecall.eval.scenarios.bfcl_turns_data import code_in, multi_turn_cases, multi_turn_files
from tests.support.bfcl import GOLDEN, conversation, data_folder, wheel, written

BASE = "multi_turn_base"


def test_a_case_has_its_turns_with_their_golden_calls(tmp_path: Path) -> None:
    (one,) = multi_turn_cases(data_in(wheel(tmp_path)), BASE, None)
    assert (one.id, one.tags) == ("bfcl_multi_turn_base_0", ["bfcl", "bfcl_multi_turn_base"])
    assert one.turns == [
        Turn("Open a ticket.", GOLDEN[0]),
        Turn("Thanks."),
        Turn("Add b.", GOLDEN[2]),
    ]
    assert (one.classes, one.long) == (["MathAPI", "TicketAPI"], False)
    (long,) = multi_turn_cases(data_in(wheel(tmp_path)), "multi_turn_long_context", 1)
    assert long.long


def test_tools_are_mapped_and_code_is_copied_as_it_is(tmp_path: Path) -> None:
    source = wheel(tmp_path)
    code = code_in(source)
    assert code is not None
    mapped = Mapped()
    cases: dict[str, list[MultiTurn]] = {BASE: multi_turn_cases(data_in(source), BASE, None)}
    found = dict(multi_turn_files(data_in(source), code, cases, mapped))
    tools = msgspec.json.decode(found["_tools.json"])
    assert tools.keys() == CLASSES.keys()
    assert [tool["function"]["name"] for tool in tools["MathAPI"]] == ["add"]
    assert mapped.times == {"type `dict`: `object`": 4}
    assert found[f"{BASE}.py"].startswith(b'"""Multi-turn cases of BFCL.')
    copied = [path for path in found if path.startswith("_code/bfcl_eval/")]
    assert len(copied) == len(CLASSES) + 1
    assert all(found[path] == code.joinpath(Path(path).name).read_bytes() for path in copied)


def test_where_there_is_only_data_there_is_no_code(tmp_path: Path) -> None:
    assert code_in(data_folder(tmp_path)) is None


def test_a_case_that_does_not_fit_its_answer_or_our_classes_is_refused(tmp_path: Path) -> None:
    folder = data_folder(tmp_path)
    for case, told in (
        (conversation("multi_turn_base_0", "Hello"), "not as many answers as turns"),
        (conversation("multi_turn_base_1", "Hello"), "not as many answers as turns"),
        (
            conversation("multi_turn_base_0", "a", "b", "c", classes=["WebAPI", "TicketAPI"]),
            "the class WebAPI is not known",
        ),
    ):
        (folder / "BFCL_v4_multi_turn_base.json").write_text(written([case]), "utf-8")
        with pytest.raises(ConfigError, match=f"{case['id']}: .*{told}"):
            multi_turn_cases(folder, BASE, None)
