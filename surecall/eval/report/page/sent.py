"""What a run sent, request by request, for the page: each line has what the one before has not.

A trace holds what was said; the bodies of its requests are composed from it again. A body repeats
all messages before it and, as a rule, the tools: so a line says how many messages are `kept` from
the request before, and leaves out the `rest` (tools, schema, options) where that is the same.
"""

import msgspec

from surecall.runtime.replay import sent_requests
from surecall.runtime.trace import parse_trace
from surecall.values.errors import SurecallError
from surecall.values.trace import Trace

_MESSAGES = "messages"


class SentLine(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="sent", omit_defaults=True
):
    """One request. `exact` says that its bytes have the recorded hash."""

    turn: int
    exact: bool
    kept: int = 0
    messages: tuple[msgspec.Raw, ...] = ()
    rest: dict[str, msgspec.Raw] | None = None


def sent_lines(events: bytes) -> bytes:
    """Return the lines for the events of a run; none where they cannot be read."""
    try:
        trace = parse_trace(events)
    except SurecallError:
        return b""
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines_of(trace))


def lines_of(trace: Trace) -> list[SentLine]:
    """Return what each request has that the one before had not."""
    found: list[SentLine] = []
    before: list[msgspec.Raw] = []
    rest_before: dict[str, msgspec.Raw] = {}
    for request in sent_requests(trace):
        rest = msgspec.json.decode(request.body, type=dict[str, msgspec.Raw])
        messages = msgspec.json.decode(rest.pop(_MESSAGES), type=list[msgspec.Raw])
        kept = _common(before, messages)
        found.append(
            SentLine(
                turn=request.turn,
                exact=request.exact,
                kept=kept,
                messages=tuple(messages[kept:]),
                rest=None if rest == rest_before else rest,
            )
        )
        before, rest_before = messages, rest
    return found


def _common(first: list[msgspec.Raw], second: list[msgspec.Raw]) -> int:
    """Count the messages with which both begin."""
    pairs = zip(first, second, strict=False)
    return next(
        (at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second))
    )
