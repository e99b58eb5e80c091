"""Faults of streamed calls: how fragments name their call, and how arguments are cut."""

import json
from typing import Any

from surecall.simulator.faults.shape_fault import Sample
from surecall.simulator.faults.stream_fault import (
    Fragments,
    arguments_of,
    calls_in,
    changed,
    on_fragments,
    on_pieces,
    piece_of,
    stream_fault,
    without,
)
from surecall.simulator.seals import signature
from surecall.values.types import JSON

# The index


@stream_fault("D68")
@on_fragments
def index_missing(fragments: list[JSON], sample: Sample) -> Fragments:
    """No fragment says which call it belongs to: the index is absent, or null."""
    if sample.pick([True, False]):
        return [without(fragment, "index") for fragment in fragments]
    return [fragment | {"index": None} for fragment in fragments]


@stream_fault("D70", "D78")
@on_fragments
def index_shared(fragments: list[JSON], sample: Sample) -> Fragments:
    """Every fragment of every call has the same index."""
    same = sample.pick([1, 0])
    return [fragment | {"index": same} for fragment in fragments]


@stream_fault("D78")
@on_fragments
def index_gaps(fragments: list[JSON], sample: Sample) -> Fragments:
    """The indexes do not count from zero, and leave gaps."""
    first = sample.pick([1, 5])
    return [fragment | {"index": first + 3 * fragment["index"]} for fragment in fragments]


@stream_fault("D78")
@on_fragments
@on_pieces
def index_shifted(fragment: JSON, opening: JSON, _number: int) -> JSON:
    """The arguments come under another index than the name."""
    return fragment | {"index": opening["index"] + 1}


@stream_fault("D68")
@on_fragments
def index_text(fragments: list[JSON], _sample: Sample) -> Fragments:
    """The index is a text."""
    return [fragment | {"index": str(fragment["index"])} for fragment in fragments]


@stream_fault("D70")
@on_fragments
def index_reused(fragments: list[JSON], sample: Sample) -> Fragments:
    """Whole calls, each with index 0 and an id of its own, in one chunk or in several."""
    calls = [_whole(call) | {"index": 0} for call in calls_in(fragments)]
    return [calls] if sample.pick([True, False]) else calls


def _whole(call: list[JSON]) -> JSON:
    return changed(call[0], arguments="".join(map(arguments_of, call)))


@stream_fault("D68", "D80")
@on_fragments
def index_and_id_missing(fragments: list[JSON], sample: Sample) -> Fragments:
    """Neither an index nor an id: only names and the order tell the calls apart."""
    whole = [without(_whole(call), "index", "id") for call in calls_in(fragments)]
    if any(call in whole[:at] for at, call in enumerate(whole)):
        # Without an id, the same call once more is a repetition and not a second call.
        return fragments
    bare = [without(fragment, "index", "id") for fragment in fragments]
    return sample.pick([bare, whole, [whole]])  # type: ignore[no-any-return]


# The id


@stream_fault("D73")
@on_fragments
@on_pieces
def id_in_every_piece(fragment: JSON, opening: JSON, _number: int) -> JSON:
    """Every fragment carries the id of its call."""
    return fragment | {"id": opening["id"]}


@stream_fault("D70")
@on_fragments
@on_pieces
def id_changing(fragment: JSON, opening: JSON, number: int) -> JSON:
    """Every fragment carries another id, under the index of its call."""
    return fragment | {"id": f"{opening['id']}_{number}"}


@stream_fault("D59", "D80")
@on_fragments
def id_absent(fragments: list[JSON], sample: Sample) -> Fragments:
    """No call has an id: it is absent, null or empty."""
    given = sample.pick([{}, {"id": None}, {"id": ""}])
    return [
        without(fragment, "id") | given if "id" in fragment else fragment for fragment in fragments
    ]


@stream_fault("D80")
@on_fragments
def id_of_the_first_alone(fragments: list[JSON], _sample: Sample) -> Fragments:
    """The first call has an id, those after it have none."""
    return [without(fragment, "id") if fragment["index"] else fragment for fragment in fragments]


@stream_fault("D73")
@on_fragments
def id_late(fragments: list[JSON], _sample: Sample) -> Fragments:
    """The id of a call comes with the last piece of its arguments."""
    calls = calls_in(fragments)
    return [
        fragment
        for first, *others in calls
        for fragment in (without(first, "id"), *others[:-1], others[-1] | {"id": first["id"]})
    ]


# The name


@stream_fault("D71")
@on_fragments
@on_pieces
def name_in_every_piece(fragment: JSON, opening: JSON, number: int) -> JSON:
    """Every fragment carries the full name, some the id as well."""
    named = changed(fragment, name=opening["function"]["name"])
    return named | {"id": opening["id"]} if number % 2 else named


@stream_fault("D72")
@on_fragments
def name_split(fragments: list[JSON], sample: Sample) -> Fragments:
    """The name comes in two pieces, or so that the second holds the first."""
    sent: list[JSON] = []
    for fragment in fragments:
        name = fragment["function"].get("name", "")
        half = len(name) // 2
        if not half:
            sent.append(fragment)
            continue
        rest = name if sample.pick([False, True]) else name[half:]
        sent += [changed(fragment, name=name[:half]), changed(piece_of(fragment, ""), name=rest)]
    return sent


@stream_fault("D69")
@on_fragments
def name_late(fragments: list[JSON], sample: Sample) -> Fragments:
    """The arguments begin before the name and the id have come."""
    sent = []
    for first, second, *others in calls_in(fragments):
        name = {"name": first["function"]["name"]}
        sent += [second, first | {"function": name}, *others]
    return [without(each, "index") for each in sent] if sample.pick([False, True]) else sent


@stream_fault("D73")
@on_fragments
@on_pieces
def name_blank_later(fragment: JSON, opening: JSON, _number: int) -> JSON:
    """Later fragments carry an empty name, and the id again."""
    return changed(fragment, name="") | {"id": opening["id"]}


@stream_fault("D73")
@on_fragments
def name_blank_first(fragments: list[JSON], _sample: Sample) -> Fragments:
    """The first fragment has an empty name; the next one has the name."""
    return [
        fragment
        for first, *others in calls_in(fragments)
        for fragment in (
            changed(first, name=""),
            changed(piece_of(first, ""), name=first["function"]["name"]),
            *others,
        )
    ]


# The arguments


@stream_fault("D76")
@on_fragments
def arguments_as_objects(fragments: list[JSON], _sample: Sample) -> Fragments:
    """Arguments as objects, each of which holds one key more; empty ones at both ends."""
    sent: list[JSON] = []
    for call in calls_in(fragments):
        values: JSON = json.loads(arguments_of(_whole(call)))
        items = list(values.items())
        grown = [dict(items[: count + 1]) for count in range(len(items))]
        sent.append(changed(call[0], arguments={}))
        sent += [piece_of(call[0], each) for each in (*grown, {})]
    return sent


@stream_fault("D74", "D75")
@on_fragments
def arguments_cumulative(fragments: list[JSON], sample: Sample) -> Fragments:
    """Every piece holds all the arguments so far, the last one more than once."""
    sent: list[JSON] = []
    for first, *others in calls_in(fragments):
        texts = [arguments_of(each) for each in others]
        sums = ["".join(texts[: count + 1]) for count in range(len(texts))]
        sent.append(first)
        sent += [piece_of(first, text) for text in (*sums, *sums[-1:] * sample.pick([0, 2]))]
    return sent


@stream_fault("D79")
@on_fragments
def arguments_replayed(fragments: list[JSON], sample: Sample) -> Fragments:
    """After the last piece the whole arguments come once more, bare or with id and name."""
    is_bare = sample.pick([True, False])
    sent: list[JSON] = []
    for call in calls_in(fragments):
        whole = _whole(call)
        sent += [*call, piece_of(call[0], arguments_of(whole)) if is_bare else whole]
    return sent


@stream_fault("D77")
@on_fragments
def arguments_interleaved(fragments: list[JSON], sample: Sample) -> Fragments:
    """All calls begin, and then their pieces take turns, one or several to a chunk."""
    calls = calls_in(fragments)
    rounds = [
        [call[number] for call in calls if number < len(call)]
        for number in range(max(map(len, calls)))
    ]
    return rounds if sample.pick([True, False]) else [each for turn in rounds for each in turn]


@stream_fault("D75")
@on_fragments
def arguments_in_crumbs(fragments: list[JSON], _sample: Sample) -> Fragments:
    """One character to a chunk, so that escapes and repeated digits are torn apart."""
    sent: list[JSON] = []
    for call in calls_in(fragments):
        sent += [call[0], *(piece_of(call[0], char) for char in arguments_of(_whole(call)))]
    return sent


@stream_fault("D40", "D41")
@on_fragments
def characters_halved(fragments: list[JSON], _sample: Sample) -> Fragments:
    """Rare characters as two halves, each in a chunk of its own."""
    sent: list[JSON] = []
    for fragment in fragments:
        units = arguments_of(fragment).encode("utf-16-le")
        halves = [units[at : at + 2] for at in range(0, len(units), 2)]
        texts = [half.decode("utf-16-le", "surrogatepass") for half in halves]
        is_rare = any("\ud800" <= text <= "\udfff" for text in texts)
        sent += [piece_of(fragment, text) for text in texts] if is_rare else [fragment]
    return sent


@stream_fault("D80")
@on_fragments
def calls_whole(fragments: list[JSON], sample: Sample) -> Fragments:
    """Every call comes whole, all of them in one chunk, or each in its own."""
    calls = [_whole(call) for call in calls_in(fragments)]
    return [calls] if sample.pick([True, False]) else calls


@stream_fault("D73")
@on_fragments
def pieces_blank(fragments: list[JSON], sample: Sample) -> Fragments:
    """Fragments that say nothing come between the others, and after them."""
    nothing: tuple[Any, ...] = ({"arguments": ""}, {"arguments": None}, {}, {"name": None})
    blank = sample.pick(nothing)
    return [
        each
        for fragment in fragments
        for each in (fragment, {"index": fragment["index"], "function": blank})
    ]


@stream_fault("provider quirks")
@on_fragments
def signature_late(fragments: list[JSON], _sample: Sample) -> Fragments:
    """The signature of a call comes alone, after its arguments."""
    sent: list[JSON] = []
    for call in calls_in(fragments):
        made = {"google": {"thought_signature": signature(str(call[0]["id"]))}}
        signed = call[0].get("extra_content", made)
        first = without(call[0], "extra_content")
        sent += [first, *call[1:], piece_of(first, "") | {"extra_content": signed}]
    return sent
