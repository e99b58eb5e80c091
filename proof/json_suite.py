"""D4: the reader of bodies against JSONTestSuite, and the kind readers against the same bytes.

The cases are the files of the suite's `test_parsing` (see `proof/data/README.md`): `y_` must be
read, `n_` must be refused, `i_` may be either, so what we do is pinned. Bodies are read a little
more kindly than the suite wants, because servers really send such: each exception is named here
and counted in the table.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from proof.claims import Claim, Outcome, gathered
from surecall.parsing.arguments import parse_arguments
from surecall.parsing.coercion import coerce
from surecall.runtime.retrying_requests import decode_body
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import HttpResponse, ToolSpec
from surecall.wire.chat_format import decode
from surecall.wire.dialects import recover

_DATA = Path(__file__).parent / "data"
_REFUSED: Final = "refused"
_LIMIT: Final = 1 << 20
_TOOLS: Final = (ToolSpec("f", "", {"type": "object", "properties": {"a": {}}}),)
_SCHEMA: Final = {
    "type": "object",
    "properties": {"a": {"type": "array"}, "b": {"anyOf": [{"type": "number"}, {}]}},
}
# Cases that the suite wants refused and that are read, with the reason.
EXCEPTIONS: Final = {
    "n_number_NaN": "servers written in Python send it for a missing probability",
    "n_number_infinity": "as above",
    "n_number_minus_infinity": "as above",
    "n_string_unescaped_ctrl_char": "servers forget to escape what a model wrote",
    "n_string_unescaped_newline": "as above",
    "n_string_unescaped_tab": "as above",
}


def suite() -> dict[str, bytes]:
    """Return the bytes of every case, by name."""
    stored = json.loads((_DATA / "json_suite.json").read_text("utf-8"))
    return {name: _bytes(case) for name, case in stored.items()}


def _bytes(case: Any) -> bytes:
    if isinstance(case, dict):
        case = case["repeat"] * case["times"] + case["then"]
    return str(case).encode("latin-1")


def pinned() -> dict[str, str]:
    """Return what is read of the cases that the standard leaves open, as Python writes it."""
    pins: dict[str, str] = json.loads((_DATA / "json_suite_pinned.json").read_text("utf-8"))
    return pins


def attempt(_size: int, _seed: int) -> Outcome:
    """Read every case strictly and kindly."""
    cases, pins = suite(), pinned()
    failures = [
        f"{name}: {problem} (json_suite.problems_of({name!r}, suite()[{name!r}]))"
        for name, data in cases.items()
        for problem in problems_of(name, data, pins)
    ]
    count = {kind: sum(name.startswith(kind) for name in cases) for kind in ("y_", "n_", "i_")}
    if count != {"y_": 95, "n_": 188, "i_": 35}:
        failures.append(f"the suite is not whole: {count}")
    refused = count["n_"] - len(EXCEPTIONS)
    figures = (
        f"accepted {count['y_']}/{count['y_']}, refused {refused}/{count['n_']} and "
        f"{len(EXCEPTIONS)} accepted on purpose ({', '.join(EXCEPTIONS)}), pinned {count['i_']}"
    )
    ran = "JSONTestSuite (the files of pyjson5 2.0.1) through the body, argument, and text "
    ran += "parsers"
    return Outcome(ran, len(cases), gathered(failures), every=True, figures=figures)


def problems_of(name: str, data: bytes, pins: dict[str, str] | None = None) -> Iterator[str]:
    """Yield what is wrong with how one case is read."""
    found = _read(data)
    if name.startswith("y_") and found == _REFUSED:
        yield "refused, but it is JSON"
    if name.startswith("n_"):
        yield from _not_refused(name, data, found)
    wanted = (pinned() if pins is None else pins).get(name, "")
    if name.startswith("i_") and found != wanted:
        yield f"read as {found:.60}, pinned is {wanted:.60}"
    yield from _crashes(data)


def _read(data: bytes) -> str:
    try:
        return ascii(decode(data))
    except ValueError:
        return _REFUSED


def _not_refused(name: str, data: bytes, found: str) -> Iterator[str]:
    if (found == _REFUSED) == (name in EXCEPTIONS):
        yield "refused, but named as an exception" if name in EXCEPTIONS else f"read as {found:.60}"
    if found != _REFUSED:
        return
    fault = decode_body(HttpResponse(200, {}, data))
    typed = (ErrorCode.DECODE_ERROR, ErrorCode.EMPTY_RESPONSE)
    if not (isinstance(fault, Fault) and fault.code in typed):
        yield f"refused without a typed fault: {fault!r:.60}"


def _crashes(data: bytes) -> Iterator[str]:
    text = data.decode("utf-8", "replace")
    kindly: dict[str, Callable[[], object]] = {
        "arguments": lambda: parse_arguments(text, _LIMIT),
        "dialects": lambda: recover(text, _TOOLS, weak=True),
        "coercion": lambda: coerce({"a": text, "b": text}, _SCHEMA),
    }
    for reader, read in kindly.items():
        try:
            read()
        except Exception as error:  # noqa: BLE001  # any is a crash
            yield f"{reader} raised {type(error).__name__}"


CLAIM = Claim(
    "D4",
    "JSON parsing follows JSONTestSuite with six exceptions; no parser crashes.",
    attempt,
    (1, 1, 1),
)
