"""Every repair of arguments has a name, and a reason why nothing is lost by it."""

import ast

from surecall.parsing.arguments import (
    OPT_IN_REPAIRS,
    REPAIRS,
    SCHEMA_REPAIRS,
    SPELLING_REPAIRS,
    TYPE_REPAIRS,
)
from surecall.settings.endpoint_profile import FAMILIES
from surecall.simulator.faults import SHAPE_FAULTS
from tests.support.project_files import ROOT

TRANSFORMS = {name for family in FAMILIES.values() for name in family.names}
# `…_from_text` is put together from the kind that was declared.
COMPOSED = {"number_from_text", "boolean_from_text", "container_from_text", "null_from_text"}
COMPOSED |= {"null_optional_dropped", "empty_optional_dropped"}


def test_a_repair_belongs_to_one_group_and_its_reason_is_a_sentence() -> None:
    groups = (SPELLING_REPAIRS, TYPE_REPAIRS, SCHEMA_REPAIRS, OPT_IN_REPAIRS)

    assert sum(map(len, groups)) == len(REPAIRS)
    assert all(reason.endswith(".") and reason[0].isupper() for reason in REPAIRS.values())


def test_every_repair_that_cures_a_fault_has_a_reason() -> None:
    cures = {cure for fault in SHAPE_FAULTS.values() for cure in fault.repairs}

    assert cures - TRANSFORMS <= REPAIRS.keys()


def test_every_reason_is_for_a_repair_that_the_readers_can_make() -> None:
    texts = set(COMPOSED)
    for path in (ROOT / "surecall" / "parsing").glob("*.py"):
        if path.stem != "repairs":
            nodes = ast.walk(ast.parse(path.read_text("utf-8")))
            constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
            texts |= {value for value in constants if isinstance(value, str)}

    assert texts >= REPAIRS.keys()
