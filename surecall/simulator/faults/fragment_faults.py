"""Faults of streamed calls: how fragments identify their call, and how arguments are split."""

import json
from typing import Any

from surecall.simulator.faults.shape_fault import Sample
from surecall.simulator.faults.stream_fault import (
    Fragments,
    argument_piece,
    build_argument_fragment,
    group_by_call,
    on_fragments,
    on_pieces,
    stream_fault,
    with_function_fields,
    without_keys,
)
from surecall.simulator.request_checks import signature
from surecall.values.types import JSON

# The index


@stream_fault(on_fragments, "D68")
def index_missing(fragments: list[JSON], sample: Sample) -> Fragments:
    """The index is missing or null in every fragment."""
    if sample.pick([True, False]):
        return [without_keys(fragment, "index") for fragment in fragments]
    return [fragment | {"index": None} for fragment in fragments]


@stream_fault(on_fragments, "D70", "D78")
def index_shared(fragments: list[JSON], sample: Sample) -> Fragments:
    """All fragments of all calls have the same index."""
    same = sample.pick([1, 0])
    return [fragment | {"index": same} for fragment in fragments]


@stream_fault(on_fragments, "D78")
def index_gaps(fragments: list[JSON], sample: Sample) -> Fragments:
    """The indexes do not start at zero and have gaps."""
    first = sample.pick([1, 5])
    return [fragment | {"index": first + 3 * fragment["index"]} for fragment in fragments]


@stream_fault(on_pieces, "D78")
def index_shifted(fragment: JSON, first_fragment: JSON, _number: int) -> JSON:
    """The arguments have a different index than the name."""
    return fragment | {"index": first_fragment["index"] + 1}


@stream_fault(on_fragments, "D68")
def index_text(fragments: list[JSON], _sample: Sample) -> Fragments:
    """The index is a string."""
    return [fragment | {"index": str(fragment["index"])} for fragment in fragments]


@stream_fault(on_fragments, "D70")
def index_reused(fragments: list[JSON], sample: Sample) -> Fragments:
    """Complete calls all have index 0 and distinct ids, in one chunk or in several."""
    calls = [_join_call_fragments(call) | {"index": 0} for call in group_by_call(fragments)]
    return [calls] if sample.pick([True, False]) else calls


def _join_call_fragments(call: list[JSON]) -> JSON:
    return with_function_fields(call[0], arguments="".join(map(argument_piece, call)))


@stream_fault(on_fragments, "D68", "D80")
def index_and_id_missing(fragments: list[JSON], sample: Sample) -> Fragments:
    """Index and id are missing, so only names and order distinguish the calls."""
    whole = [
        without_keys(_join_call_fragments(call), "index", "id") for call in group_by_call(fragments)
    ]
    if any(call in whole[:at] for at, call in enumerate(whole)):
        # Without an id, an identical call counts as a repetition, not as a second call.
        return fragments
    bare = [without_keys(fragment, "index", "id") for fragment in fragments]
    return sample.pick([bare, whole, [whole]])  # type: ignore[no-any-return]


# The id


@stream_fault(on_pieces, "D73")
def id_in_every_piece(fragment: JSON, first_fragment: JSON, _number: int) -> JSON:
    """Every fragment repeats the id of its call."""
    return fragment | {"id": first_fragment["id"]}


@stream_fault(on_pieces, "D70")
def id_changing(fragment: JSON, first_fragment: JSON, number: int) -> JSON:
    """Every fragment has a different id under the index of its call."""
    return fragment | {"id": f"{first_fragment['id']}_{number}"}


@stream_fault(on_fragments, "D59", "D80")
def id_absent(fragments: list[JSON], sample: Sample) -> Fragments:
    """The id is missing, null, or empty in every call."""
    given = sample.pick([{}, {"id": None}, {"id": ""}])
    return [
        without_keys(fragment, "id") | given if "id" in fragment else fragment
        for fragment in fragments
    ]


@stream_fault(on_fragments, "D80")
def id_of_the_first_alone(fragments: list[JSON], _sample: Sample) -> Fragments:
    """Only the first call has an id."""
    return [
        without_keys(fragment, "id") if fragment["index"] else fragment for fragment in fragments
    ]


@stream_fault(on_fragments, "D73")
def id_late(fragments: list[JSON], _sample: Sample) -> Fragments:
    """The id arrives with the last piece of the arguments."""
    calls = group_by_call(fragments)
    return [
        fragment
        for first, *others in calls
        for fragment in (without_keys(first, "id"), *others[:-1], others[-1] | {"id": first["id"]})
    ]


# The name


@stream_fault(on_pieces, "D71")
def name_in_every_piece(fragment: JSON, first_fragment: JSON, number: int) -> JSON:
    """Every fragment repeats the full name, and some the id."""
    named = with_function_fields(fragment, name=first_fragment["function"]["name"])
    return named | {"id": first_fragment["id"]} if number % 2 else named


@stream_fault(on_fragments, "D72")
def name_split(fragments: list[JSON], sample: Sample) -> Fragments:
    """The name arrives in two pieces, the second of which may repeat the first."""
    sent: list[JSON] = []
    for fragment in fragments:
        name = fragment["function"].get("name", "")
        half = len(name) // 2
        if not half:
            sent.append(fragment)
            continue
        rest = name if sample.pick([False, True]) else name[half:]
        sent += [
            with_function_fields(fragment, name=name[:half]),
            with_function_fields(build_argument_fragment(fragment, ""), name=rest),
        ]
    return sent


@stream_fault(on_fragments, "D69")
def name_late(fragments: list[JSON], sample: Sample) -> Fragments:
    """The arguments begin before the name and the id arrive."""
    sent = []
    for first, second, *others in group_by_call(fragments):
        name = {"name": first["function"]["name"]}
        sent += [second, first | {"function": name}, *others]
    return [without_keys(each, "index") for each in sent] if sample.pick([False, True]) else sent


@stream_fault(on_pieces, "D73")
def name_blank_later(fragment: JSON, first_fragment: JSON, _number: int) -> JSON:
    """Later fragments have an empty name and repeat the id."""
    return with_function_fields(fragment, name="") | {"id": first_fragment["id"]}


@stream_fault(on_fragments, "D73")
def name_blank_first(fragments: list[JSON], _sample: Sample) -> Fragments:
    """The first fragment has an empty name, the second the real one."""
    return [
        fragment
        for first, *others in group_by_call(fragments)
        for fragment in (
            with_function_fields(first, name=""),
            with_function_fields(
                build_argument_fragment(first, ""), name=first["function"]["name"]
            ),
            *others,
        )
    ]


# The arguments


@stream_fault(on_fragments, "D76")
def arguments_as_objects(fragments: list[JSON], _sample: Sample) -> Fragments:
    """The arguments are objects that grow by one key, with empty ones at both ends."""
    sent: list[JSON] = []
    for call in group_by_call(fragments):
        values: JSON = json.loads(argument_piece(_join_call_fragments(call)))
        items = list(values.items())
        grown = [dict(items[: count + 1]) for count in range(len(items))]
        sent.append(with_function_fields(call[0], arguments={}))
        sent += [build_argument_fragment(call[0], each) for each in (*grown, {})]
    return sent


@stream_fault(on_fragments, "D74", "D75")
def arguments_cumulative(fragments: list[JSON], sample: Sample) -> Fragments:
    """Every piece repeats all arguments so far; the last one may be sent again."""
    sent: list[JSON] = []
    for first, *others in group_by_call(fragments):
        texts = [argument_piece(each) for each in others]
        sums = ["".join(texts[: count + 1]) for count in range(len(texts))]
        sent.append(first)
        sent += [
            build_argument_fragment(first, text)
            for text in (*sums, *sums[-1:] * sample.pick([0, 2]))
        ]
    return sent


@stream_fault(on_fragments, "D79")
def arguments_replayed(fragments: list[JSON], sample: Sample) -> Fragments:
    """The full arguments are sent again after the last piece, alone or with id and name."""
    is_bare = sample.pick([True, False])
    sent: list[JSON] = []
    for call in group_by_call(fragments):
        whole = _join_call_fragments(call)
        sent += [
            *call,
            build_argument_fragment(call[0], argument_piece(whole)) if is_bare else whole,
        ]
    return sent


@stream_fault(on_fragments, "D77")
def arguments_interleaved(fragments: list[JSON], sample: Sample) -> Fragments:
    """The pieces of all calls are interleaved, one or several per chunk."""
    calls = group_by_call(fragments)
    rounds = [
        [call[number] for call in calls if number < len(call)]
        for number in range(max(map(len, calls)))
    ]
    return rounds if sample.pick([True, False]) else [each for turn in rounds for each in turn]


@stream_fault(on_fragments, "D75")
def arguments_in_crumbs(fragments: list[JSON], _sample: Sample) -> Fragments:
    """Each chunk has one character, which splits escape sequences and repeated digits."""
    sent: list[JSON] = []
    for call in group_by_call(fragments):
        sent += [
            call[0],
            *(
                build_argument_fragment(call[0], char)
                for char in argument_piece(_join_call_fragments(call))
            ),
        ]
    return sent


@stream_fault(on_fragments, "D40", "D41")
def characters_halved(fragments: list[JSON], _sample: Sample) -> Fragments:
    """Characters outside the BMP are split into surrogates in separate chunks."""
    sent: list[JSON] = []
    for fragment in fragments:
        units = argument_piece(fragment).encode("utf-16-le")
        halves = [units[at : at + 2] for at in range(0, len(units), 2)]
        texts = [half.decode("utf-16-le", "surrogatepass") for half in halves]
        is_rare = any("\ud800" <= text <= "\udfff" for text in texts)
        sent += (
            [build_argument_fragment(fragment, text) for text in texts] if is_rare else [fragment]
        )
    return sent


@stream_fault(on_fragments, "D80")
def calls_whole(fragments: list[JSON], sample: Sample) -> Fragments:
    """Every call arrives complete, all in one chunk or each in its own."""
    calls = [_join_call_fragments(call) for call in group_by_call(fragments)]
    return [calls] if sample.pick([True, False]) else calls


@stream_fault(on_fragments, "D73")
def pieces_blank(fragments: list[JSON], sample: Sample) -> Fragments:
    """Empty fragments follow every fragment."""
    nothing: tuple[Any, ...] = ({"arguments": ""}, {"arguments": None}, {}, {"name": None})
    blank = sample.pick(nothing)
    return [
        each
        for fragment in fragments
        for each in (fragment, {"index": fragment["index"], "function": blank})
    ]


@stream_fault(on_fragments, "provider quirks")
def signature_late(fragments: list[JSON], _sample: Sample) -> Fragments:
    """The signature of a call arrives separately, after its arguments."""
    sent: list[JSON] = []
    for call in group_by_call(fragments):
        made = {"google": {"thought_signature": signature(str(call[0]["id"]))}}
        signed = call[0].get("extra_content", made)
        first = without_keys(call[0], "extra_content")
        sent += [first, *call[1:], build_argument_fragment(first, "") | {"extra_content": signed}]
    return sent
