"""Inputs that cost most to read: bodies, schemas, and deeply nested values."""

import json
import random
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from surecall.values.nesting import MAX_WRAPPED_DEPTH
from surecall.values.types import JSON

# Answers of a hostile endpoint, by name: what costs most to read, for the size that may be sent.
# Each is an HTTP answer as bytes in pieces, made while it is sent, so that a gigabyte takes no room
# here. `PLAIN` are whole bodies, `STREAMED` are streams of events; `send` plays one to a
# connection.


MIB: Final = 1024 * 1024
# Nearly what an endpoint might have sent in earlier days, and more than is read today.
HUGE: Final = 31 * MIB
GIGABYTE: Final = 1024 * MIB
_GZIP: Final = "Content-Encoding: gzip\r\n"
_CHUNK: Final = 64 * 1024

Make = Callable[[int], Iterator[bytes]]


class Hostile(NamedTuple):
    """An answer: its body for a number of bytes, and in which sizes it is worth a try."""

    make: Make
    headers: str = ""
    header_bytes: int = 0
    sizes: tuple[str, ...] = ("most",)

    def pieces(self, size: int) -> Iterator[bytes]:
        """Go through the whole answer, head and body."""
        yield f"HTTP/1.1 200 OK\r\nConnection: close\r\n{self.headers}".encode()
        for number in range(self.header_bytes // 1024):
            yield f"X-Filler-{number}: ".encode() + b"h" * 1000 + b"\r\n"
        yield b"\r\n"
        yield from self.make(size)


def _filled(unit: bytes, size: int) -> Iterator[bytes]:
    """Repeat something to fill a number of bytes, in pieces."""
    times = max(1, _CHUNK // len(unit))
    piece = unit * times
    count = max(0, size // len(unit))
    for _ in range(count // times):
        yield piece
    yield unit * (count % times)


def _around(before: bytes, unit: bytes, after: bytes) -> Make:
    def make(size: int) -> Iterator[bytes]:
        yield before
        yield from _filled(unit, size - len(before) - len(after))
        yield after

    return make


_BEGIN: Final = b'{"id":"x","choices":[{"index":0,"finish_reason":"stop","message":{'
_END: Final = b"}}]}"
_EMOJI: Final = "\N{GRINNING FACE}".encode()
_CALL: Final = '<tool_call>{"name": "note", "arguments": {"text": "x"}}</tool_call>\n'


def _message(key: str, before: str, unit: bytes, after: str = '"') -> Make:
    return _around(_BEGIN + f'"{key}":{before}'.encode(), unit, after.encode() + _END)


def _content(unit: str, before: str = "") -> Make:
    """Make a body whose text repeats something; `before` stands once at its beginning."""
    return _message("content", '"' + _escaped(before), _escaped(unit).encode())


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _calls(arguments: str) -> bytes:
    call = {"id": "c", "type": "function", "function": {"name": "note", "arguments": arguments}}
    return json.dumps(call).encode()


def _arguments(unit: bytes) -> Make:
    before, after = _calls('{"text": "@"}').split(b"@")
    return _around(_BEGIN + b'"tool_calls":[' + before, unit, after + b"]" + _END)


def _deep(size: int) -> Iterator[bytes]:
    yield from _around(_BEGIN + b'"x":', b"[", b"")(size // 2)
    yield from _filled(b"]", size // 2)
    yield _END


def _bomb(make: Make) -> Make:
    """Pack a body; what is repeated shrinks a thousand times."""

    def packed(size: int) -> Iterator[bytes]:
        packer = zlib.compressobj(1, wbits=31)
        yield from map(packer.compress, make(size))
        yield packer.flush()

    return packed


_ALL_SIZES: Final = ("most", "31 MiB", "1 GiB")
# As long as a text may be that is searched for calls.
_SEARCHED: Final = ("most", "text")
_LISTS: Final = '{"text": [' + "[]," * 2_000 + "0]}"
_FEW: Final = 190_000


def _few(unit: bytes) -> Make:
    """Make a body that holds just as many values as may be read."""

    def make(size: int) -> Iterator[bytes]:
        del size
        commas = unit.count(b",") + unit.count(b"[") + unit.count(b"{")
        body = _message("x", "[", unit, "0]")
        yield from body(_FEW // commas * len(unit))

    return make


PLAIN: Final[dict[str, Hostile]] = {
    "lists": Hostile(_message("x", "[", b"[],", "0]"), sizes=_ALL_SIZES),
    "objects": Hostile(_message("x", "[", b'{"a":0},', "0]")),
    "numbers": Hostile(_message("x", "[", b"0,", "0]")),
    "small strings": Hostile(_message("x", "[", b'"ab",', '""]')),
    "keys": Hostile(_message("x", "{", b'"ab":0,', '"a":0}')),
    "parts": Hostile(_message("content", "[", b'{"type":"text","text":"a"},', "0]")),
    "calls": Hostile(_message("tool_calls", "[", _calls("{}") + b",", "0]")),
    "values below the cap": Hostile(_few(b'{"a":[]},')),
    "strings below the cap": Hostile(_few(b'"' + b"x" * 40 + b'",')),
    "text": Hostile(_content("word "), sizes=_ALL_SIZES),
    "text with blanks around": Hostile(_content("word ", "\n ")),
    "text with an emoji": Hostile(_content("word ", "\N{GRINNING FACE} ")),
    "text with an accent": Hostile(_content("word ", "\N{EURO SIGN} ")),
    "text of emoji": Hostile(_content("\N{GRINNING FACE}")),
    "text with escapes": Hostile(_message("content", '"', b"\\u00e9")),
    "text with one escape": Hostile(_message("content", '"\\ud83d\\ude00', b"word ")),
    "text with half a character": Hostile(_message("content", '"\\ud83d', b"word ")),
    "text of line ends": Hostile(_content("\n")),
    "text of calls": Hostile(_content(_CALL), sizes=_SEARCHED),
    "text of calls and an emoji": Hostile(_content(_CALL, "\N{GRINNING FACE}"), sizes=_SEARCHED),
    "text of openers": Hostile(_content("<tool_call>"), sizes=_SEARCHED),
    "text of thoughts": Hostile(_content("<think>a</think>"), sizes=_SEARCHED),
    "text of objects": Hostile(_content('{"a":'), sizes=_SEARCHED),
    "text of numbers in a list": Hostile(
        _content("0,", '<tool_call>{"name":"note","arguments":['), sizes=_SEARCHED
    ),
    "one thought": Hostile(_content("word ", "<think>\N{GRINNING FACE}"), sizes=_SEARCHED),
    "reasoning": Hostile(
        _message("reasoning_content", '"' + "\N{GRINNING FACE}", b"word "), sizes=_SEARCHED
    ),
    "arguments": Hostile(_arguments(b"word ")),
    "arguments of lists": Hostile(
        _message("tool_calls", '[{"function":{"name":"note","arguments":{"a":[', b"[],", "0]}}}]")
    ),
    "arguments of many calls": Hostile(_message("tool_calls", "[", _calls(_LISTS) + b",", "0]")),
    "arguments in arguments": Hostile(
        _message("tool_calls", "[", _calls(json.dumps(_LISTS)) + b",", "0]")
    ),
    "arguments below the cap": Hostile(
        lambda _: _message("tool_calls", "[", _calls(_LISTS) + b",", "0]")(40 * len(_LISTS))
    ),
    "calls in a string": Hostile(_message("tool_calls", '"[', b"[],", '0]"')),
    "deep": Hostile(_deep),
    "invalid UTF-8": Hostile(_message("content", '"', b"word \xff")),
    "one invalid byte": Hostile(_around(_BEGIN + b'"content":"\xff', b"word ", b'"' + _END)),
    "byte order mark": Hostile(
        _around(b"\xef\xbb\xbf" + _BEGIN + b'"content":"', b"word ", b'"' + _END)
    ),
    "not JSON": Hostile(_around(b"<html>", b"word ", b"")),
    "cut off": Hostile(_around(_BEGIN + b'"content":"', b"word ", b"")),
    "blanks": Hostile(_around(b"", b" ", b"{}")),
    "error text": Hostile(_around(b'{"error":{"message":"', b"word ", b'"}}')),
    "packed": Hostile(_bomb(_content("word ")), headers=_GZIP, sizes=("most", "1 GiB")),
    "headers": Hostile(_content("word "), header_bytes=10 * MIB),
}


def _event(delta: str, finish: str = "null") -> bytes:
    choice = f'{{"index":0,"finish_reason":{finish},"delta":{{{delta}}}}}'
    return f'data: {{"id":"x","choices":[{choice}]}}\n\n'.encode()


_LAST: Final = _event("", '"stop"') + b"data: [DONE]\n\n"


def _deltas(*deltas: str, first: str = "") -> Make:
    events = b"".join(map(_event, deltas))
    return _around(_event(first) if first else b"", events, _LAST)


def _text_deltas(piece: str, first: str = "") -> Make:
    said = f'"content":"{_escaped(first)}"' if first else ""
    return _deltas(f'"content":"{_escaped(piece)}"', first=said)


def _call_delta(arguments: str, index: str = "0") -> str:
    return (
        f'"tool_calls":[{{"index":{index},"function":{{"name":"note","arguments":"{arguments}"}}}}]'
    )


def _one_event(unit: bytes, before: bytes = b"") -> Make:
    event, after = _event('"content":"@"').split(b"@")
    return _around(event + before, unit, after + _LAST)


def _numbered_calls(size: int) -> Iterator[bytes]:
    for number in range(size // 200):
        yield _event(_call_delta("{}", str(number)))
    yield _LAST


_WORDS: Final = "word " * 800
STREAMED: Final[dict[str, Hostile]] = {
    "deltas": Hostile(_text_deltas("a"), sizes=_ALL_SIZES),
    "deltas with an emoji": Hostile(_text_deltas("a", "\N{GRINNING FACE}")),
    "large deltas": Hostile(_text_deltas(_WORDS)),
    "large deltas with an emoji": Hostile(_text_deltas(_WORDS, "\N{GRINNING FACE}")),
    "large deltas of emoji": Hostile(_text_deltas("\N{GRINNING FACE}" * 800)),
    "large deltas of thought": Hostile(_deltas(f'"reasoning_content":"{_WORDS}"')),
    "thought in text": Hostile(_text_deltas(_WORDS, "<think>\N{GRINNING FACE}")),
    "thought details": Hostile(
        _deltas('"reasoning_details":[{"type":"reasoning.text","text":"a"}]')
    ),
    "details below the cap": Hostile(_deltas('"reasoning_details":[{"type":"x","index":0}]')),
    "other fields": Hostile(_deltas('"annotations":[{},{},{},{},{},{},{},{}]')),
    "deltas of calls as text": Hostile(_text_deltas(_CALL)),
    "large deltas of calls as text": Hostile(_text_deltas(_CALL * 60, "\N{GRINNING FACE}")),
    "argument deltas": Hostile(_deltas(_call_delta("a"))),
    "calls one by one": Hostile(_numbered_calls),
    "empty events": Hostile(_around(b"", b"data:\n\n", _LAST)),
    "empty deltas": Hostile(_deltas("")),
    "one event": Hostile(_one_event(b"word ")),
    "one event with an emoji": Hostile(_one_event(b"word ", _EMOJI)),
    "one event of lists": Hostile(_around(b'data: {"choices":[', b"[],", b"0]}\n\n" + _LAST)),
    "one event of lines": Hostile(_around(b"", b"data: a\n", b"\n" + _LAST)),
    "comments": Hostile(_around(b"", b": keep-alive\n\n", _LAST), sizes=_ALL_SIZES),
    "one comment": Hostile(_around(b": ", b"word ", b"\n\n" + _LAST)),
    "blank lines": Hostile(_around(b": x", b"\n", _LAST)),
    "other events": Hostile(_around(b"", b"event: x\nid: 1\n", _LAST)),
    "no last blank line": Hostile(_around(b"", _event('"content":"word "'), _LAST.rstrip())),
    "no end": Hostile(_around(b"", _event('"content":"word "'), b"")),
    "invalid UTF-8": Hostile(_one_event(b"word \xff")),
    "byte order mark": Hostile(_around(b"\xef\xbb\xbf", _event('"content":"word "'), _LAST)),
    "packed": Hostile(_bomb(_text_deltas(_WORDS)), headers=_GZIP, sizes=("most", "1 GiB")),
    "packed comments": Hostile(
        _bomb(_around(b"", b":\n", b"")), headers=_GZIP, sizes=("most", "1 GiB")
    ),
    "headers": Hostile(_text_deltas("a"), header_bytes=10 * MIB),
}
ALL: Final[dict[str, Hostile]] = PLAIN | {
    f"stream of {name}": made for name, made in STREAMED.items()
}
CLEAN: Final = {
    "clean-plain": Hostile(lambda _: iter([_BEGIN + b'"content":"Hello."' + _END])),
    "clean-stream": Hostile(lambda _: iter([_event('"content":"Hello."'), _LAST])),
}


# Schemas and values whose validation takes long, or seems to: a case is any of each


def size(rng: random.Random, most: int) -> int:
    """Return a size: mostly small, and sometimes as large as it may be."""
    return rng.randint(1, most if rng.random() < 0.1 else max(2, most // 25))


def alternatives(rng: random.Random) -> tuple[JSON, Any]:
    """Many alternatives at each item of a list."""
    kinds = rng.choice([2, 3, 5, 40])
    each = [_record(rng, f"kind{number}") for number in range(kinds)]
    schema = {"items": {rng.choice(["anyOf", "oneOf"]): each}}
    kind = f"kind{rng.randrange(kinds + kinds // 2)}"
    return schema, [{"kind": kind, "name": rng.choice(["x", 1])}] * rng.choice([1, 5, 40, 400])


def _record(rng: random.Random, kind: str) -> JSON:
    name = {"type": rng.choice(["string", "integer"])}
    return {
        "type": "object",
        "properties": {"kind": {"const": kind}, "name": name},
        "required": rng.sample(["kind", "name", "other"], rng.randint(0, 2)),
        "additionalProperties": rng.choice([True, False, {"type": "string"}]),
    }


def nested_alternatives(rng: random.Random) -> tuple[JSON, Any]:
    """Alternatives of alternatives, with lists between them or without."""
    schema: JSON = {"type": rng.choice(["string", "integer"])}
    value: Any = "x"
    for _ in range(rng.randint(1, 4)):
        branches = [schema | {"minimum": number} for number in range(rng.randint(1, 6))]
        schema = {rng.choice(["anyOf", "oneOf", "allOf"]): branches}
        if rng.random() < 0.5:
            schema = {"type": "array", "items": schema}
            value = [value] * rng.randint(1, 12)
    return schema, value


def enums(rng: random.Random) -> tuple[JSON, Any]:
    """Large enumerations of texts, numbers or containers."""
    options = [_option(rng.randrange(3), number) for number in range(size(rng, 4_000))]
    keyword = {"enum": options} if rng.random() < 0.9 else {"const": options}
    items = [_option(rng.randrange(3), rng.randrange(5_000)) for _ in range(size(rng, 4_000))]
    return {"items": keyword if rng.random() < 0.7 else {"not": keyword}}, items


def _option(kind: int, number: int) -> Any:
    return (f"v{number}", number, {"a": [number]})[kind]


def unique(rng: random.Random) -> tuple[JSON, Any]:
    """Make lists whose items must differ, also inside of lists."""
    items = [_option(rng.randrange(3), number) for number in range(size(rng, 3_000))]
    if rng.random() < 0.5:
        items.append(items[0])
    schema = {"uniqueItems": True}
    return {"items": schema, **schema}, [items] * rng.randint(1, 4)


NUMERIC: Final = ("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf")


def digits(rng: random.Random) -> tuple[JSON, Any]:
    """Make numbers of many digits, under all that compares numbers or calculates with them."""
    many = rng.choice([1, 10, 19, 20, 100, 600])  # no argument of a call may have more
    items: list[Any] = [
        _number(rng, many, at) for at in range(max(2, size(rng, 6_000 // (20 + many))))
    ]
    if rng.random() < 0.3:
        fitting = {"minimum": -0.5, "maximum": 10**700, "multipleOf": 1}
        keyword = rng.choice([*fitting])
        return {"items": {keyword: fitting[keyword]}}, [
            10**many + at for at in range(size(rng, 900))
        ]
    if rng.random() < 0.3:
        items.append(rng.choice(items))
    options = [_number(rng, many, rng.randrange(60)) for _ in range(size(rng, 30))]
    compared: JSON = rng.choice([{"enum": options}, {"const": options[0]}])
    keywords: JSON = {key: _number(rng, many, 1) for key in rng.sample(NUMERIC, rng.randint(0, 5))}
    each: JSON = rng.choice([keywords, keywords | compared])
    if rng.random() < 0.4:
        items = [rng.choice([[item], {"a": item}]) for item in items]
        each = {"items": each, "additionalProperties": each}
    schema: JSON = {"items": rng.choice([each, {"not": each}, {"allOf": [each, each]}])}
    return schema | {"uniqueItems": rng.random() < 0.6}, items


def _number(rng: random.Random, many: int, at: int) -> int | float:
    kinds: list[int | float] = [
        10**many + at,
        2**62 + at,
        at + 0.5,
        at,
        1e300 + at * 1e285,
        (at + 1) * 1e-300,
    ]
    return rng.choice(kinds[: rng.randint(1, len(kinds))])


PATTERNS: Final = (
    "^[a-z]{2,8}$",
    "(a|b)*c",
    "(\\w{1,50}){1,9}0",
    "^(a?){30}b",
    "[ab]*a[ab]{40}$",
    "^\\p{L}+$",
    "x{1,200}y{1,200}",
)


def patterns(rng: random.Random) -> tuple[JSON, Any]:
    """Long texts against large patterns, many of each."""
    ask = [{"pattern": rng.choice(PATTERNS) + str(n)} for n in range(size(rng, 60))]
    texts = [rng.choice(["a", "ab", "xy", "é"]) * size(rng, 3_000) for _ in range(8)]
    return {"items": {rng.choice(["anyOf", "allOf"]): ask}}, texts


def keys(rng: random.Random) -> tuple[JSON, Any]:
    """Objects with many keys, and much that is said about keys."""
    many = size(rng, 600)
    schema = rng.choice(
        [
            {"patternProperties": {f"^k{n}.*x": {"type": "integer"} for n in range(many)}},
            {"propertyNames": {"anyOf": [{"pattern": f"^k{n}$"} for n in range(many)]}},
            {"required": [f"k{n}" for n in range(many)], "additionalProperties": False},
            {"properties": {f"k{n}": {"type": "integer"} for n in range(many)}},
            {"dependentRequired": {f"k{n}": [f"k{n + 1}"] for n in range(many)}},
            {"dependentSchemas": {f"k{n}": {"minProperties": n} for n in range(many)}},
            {"additionalProperties": {"anyOf": [{"const": n} for n in range(many)]}},
        ]
    )
    value = {f"k{rng.randrange(2 * many)}": rng.choice([1, "x"]) for _ in range(size(rng, 600))}
    return {"items": schema}, [value] * rng.randint(1, 20)


def contains(rng: random.Random) -> tuple[JSON, Any]:
    """Make lists that must hold something, or much, and tuples."""
    ask = [{"contains": {"const": n}, "minContains": rng.randint(0, 2)} for n in range(100)]
    schema = {"allOf": ask[: rng.randint(1, 100)], "prefixItems": [{"type": "integer"}] * 20}
    return schema, [rng.randrange(120) for _ in range(size(rng, 2_000))]


def unevaluated(rng: random.Random) -> tuple[JSON, Any]:
    """Ask for what is left over at many levels: each evaluates all that is below it again."""
    schema: JSON = {"properties": {"a": {"type": "integer"}}}
    for _ in range(rng.randint(1, 40)):
        around = rng.choice(["allOf", "anyOf", "oneOf", "if", "not"])
        schema = {around: [schema] if around.endswith("Of") else schema}
        schema |= {"unevaluatedProperties": rng.choice([False, {"type": "string"}])}
    return schema, {"a": rng.choice([1, "x"]), **({"b": 1} if rng.random() < 0.5 else {})}


def recursive(rng: random.Random) -> tuple[JSON, Any]:
    """Schemas that refer to themselves, and values of many levels."""
    reference = rng.choice([{"$ref": "#"}, {"$dynamicRef": "#"}, {"$ref": "#/$defs/more"}])
    link = {"type": "object", "properties": {"next": reference, "kind": {"const": "a"}}}
    branches = [link, link | {"minProperties": 1}, {"items": reference, "type": "array"}]
    leaf = {"type": rng.choice(["integer", "string"])}
    schema = {rng.choice(["anyOf", "oneOf"]): [*branches, leaf]}
    value: Any = rng.choice([1, "x", None])
    for _ in range(rng.randint(0, 40)):
        value = {"next": value, "kind": "a"} if rng.random() < 0.7 else [value]
    return schema | {"$defs": {"more": schema}}, {"next": value, "kind": "a"}


def fans(rng: random.Random) -> tuple[JSON, Any]:
    """Make references that fan out, and lead back to where they began."""
    levels, back = rng.randint(1, 4), rng.choice(["#", "#/$defs/d0"])
    definitions: JSON = {
        f"d{level}": {
            rng.choice(["anyOf", "oneOf", "allOf"]): [
                {"$ref": f"#/$defs/d{level + 1}"} for _ in range(rng.randint(1, 3))
            ]
        }
        for level in range(levels)
    }
    ask: JSON = rng.choice(
        [{"propertyNames": {"not": {}}}, {"required": ["z"]}, {"maxProperties": 1}]
    )
    end = {f"d{levels}": rng.choice([{"$ref": back}, {"items": {"$ref": back}, "minItems": 1}])}
    value = {f"k{number}": [number] for number in range(rng.randint(1, 30))}
    return ask | {"$ref": "#/$defs/d0", "$defs": definitions | end}, value


def wide(rng: random.Random) -> tuple[JSON, Any]:
    """Large lists of numbers and texts against small schemas: nothing is wrong with these."""
    ask = rng.choice([{"type": "integer"}, {"minimum": 0}, {"multipleOf": 0.01}, {"minLength": 3}])
    return {"items": ask}, [rng.choice([0, 1.5, "abc", "x" * 900])] * size(rng, 8_000)


def small(rng: random.Random) -> tuple[JSON, Any]:
    """Make what tools and models really say."""
    properties = {f"p{n}": {"type": rng.choice(["string", "integer", "array"])} for n in range(5)}
    value = {f"p{n}": rng.choice(["x", 1, [1, 2]]) for n in range(rng.randint(0, 6))}
    return {"properties": properties, "required": ["p0"]}, value


_MAKERS: Final = (alternatives, contains, digits, enums, fans, keys, nested_alternatives, patterns)
FAMILIES: Final[dict[str, Callable[[random.Random], tuple[JSON, Any]]]] = {
    each.__name__: each for each in (*_MAKERS, recursive, small, unevaluated, unique, wide)
}


def case(family: str, rng: random.Random) -> tuple[JSON, JSON]:
    """Make a schema of a tool's parameters, and arguments; no two parts are the same object."""
    schema, value = FAMILIES[family](rng)
    if not any(mark in json.dumps(schema) for mark in ('"#', '"$')):
        schema = {"properties": {"it": schema, "n": {"type": "integer"}}}
        value = {"it": value, **({"n": "one"} if rng.random() < 0.1 else {})}
    decoded: tuple[JSON, JSON] = json.loads(json.dumps([schema, value]))
    return decoded[0], decoded[1]


# Values that are nested too deeply, above the limit of surecall and of every Python


# Some Pythons encode and decode 5,000 levels, some do not.
DEPTHS: Final = (MAX_WRAPPED_DEPTH + 1, 5_000, 100_000)


def nested(depth: int) -> list[Any]:
    """Return a list with this many levels."""
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def nested_text(depth: int, opening: str = "[") -> str:
    """Return JSON with this many levels."""
    if opening == "[":
        return "[" * depth + "]" * depth
    return opening * depth + "1" + "}" * depth
