"""Openers that come too late: the name stands before them, as in `read_file<arg_key>`."""

from surecall.dialects.found import Draft, NotACall, Section
from surecall.dialects.grammar_b import known
from surecall.dialects.grammar_c import FUNCTION, Body
from surecall.dialects.grammar_c_keys import read_keys
from surecall.dialects.source import Source
from surecall.dialects.spelling import Opener
from surecall.dialects.values import read_value

_LOOK_BACK = 200
_STRAY = "</parameter>"
_MANGLED = "<name>"


def read_behind(source: Source, place: int, opener: Opener, floor: int) -> Section:
    """Read a call whose name stands before its opener; only a known tool is believed."""
    text = source.text
    floor = max(floor, place - _LOOK_BACK)
    before = text[floor:place].rstrip().removesuffix(_STRAY).rstrip()
    stop = floor + len(before)
    start = source.name_before(stop, floor)
    asked = text[start:stop]
    spec = known(source.tools, asked) if asked else None
    if spec is None:
        raise NotACall("no tool is named before it", place)
    if text.startswith(_MANGLED, start - len(_MANGLED)) and start - len(_MANGLED) >= floor:
        start -= len(_MANGLED)
    if opener.stem == "<arg_key":
        call = read_keys(source, start, spec.name, place)
    elif opener.stem == "<parameter=":
        values, end, cut = Body(source, FUNCTION, spec).read(place)
        call = Draft(spec.name, values, start, end, None, cut)
    else:
        value = read_value(source, source.blanks(place + len(opener.stem)))
        arguments = text[start : value.end] if value.twice else value.value
        call = Draft(spec.name, arguments, start, value.end, None, value.cut)
    row = "B4" if opener.row == "A7" else opener.row
    return Section(row=row, calls=(call,), end=call.end, body=place, start=start)
