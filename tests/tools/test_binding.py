"""From checked arguments to a call: converted for the handler, never with a context of its own."""

from dataclasses import dataclass
from datetime import date
from typing import Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from surecall.tools.binding import argument_binder, context_parameter_name
from surecall.tools.context import Context
from surecall.values.errors import ToolError


@dataclass
class AsDataclass:
    day: date
    guests: int = 2


class AsStruct(msgspec.Struct):
    day: date
    guests: int = 2


class AsModel(BaseModel):
    day: date
    guests: int = 2


class AsTypedDict(TypedDict):
    day: date


def meet(day: date, **more: Any) -> None: ...


def meet_for(day: date, context: Context, **more: Any) -> None: ...


@pytest.mark.parametrize("kind", [AsDataclass, AsStruct, AsModel])
def test_a_class_gives_its_fields_with_its_own_defaults(kind: type[Any]) -> None:
    bound = argument_binder(kind, meet, None)({"day": "2026-11-17"})

    assert bound == {"day": date(2026, 11, 17), "guests": 2}


def test_a_typed_dict_gives_what_it_has() -> None:
    bound = argument_binder(AsTypedDict, meet, None)({"day": "2026-11-17"})

    assert bound == {"day": date(2026, 11, 17)}


def test_with_a_schema_the_handlers_own_annotations_count() -> None:
    bound = argument_binder({"type": "object"}, meet, None)({"day": "2026-11-17", "note": "x"})

    assert bound == {"day": date(2026, 11, 17), "note": "x"}


def test_a_handler_may_take_a_context_and_the_model_cannot_give_it() -> None:
    name = context_parameter_name(meet_for, {"properties": {"day": {}}}, "tool 'meet'")
    bind = argument_binder({}, meet_for, name)

    assert (
        name,
        context_parameter_name(meet, {"properties": 7}, ""),
        context_parameter_name(None, {}, ""),
    ) == (
        "context",
        None,
        None,
    )
    assert bind({"day": "2026-11-17"}) == {"day": date(2026, 11, 17)}
    with pytest.raises(ToolError, match="context: the tool has no such parameter"):
        bind({"day": "2026-11-17", "context": {}})
