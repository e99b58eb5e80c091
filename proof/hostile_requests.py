"""Requests that no honest client sends, each with the answer it must get.

`@PORT@` stands for the port of the proxy, and `@ID@` for the number of the case.
"""

import gzip
import zlib
from typing import Any, Final

import msgspec

KIB: Final = 1024
MIB: Final = 1024 * KIB
TOKEN: Final = "token-canary-0123456789"  # noqa: S105  # made up
TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
ASKED: Final[dict[str, Any]] = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [TOOL],
}
BODY: Final = msgspec.json.encode(ASKED)
CHAT: Final = b"POST /v1/chat/completions HTTP/1.1\r\n"
HOST: Final = b"Host: 127.0.0.1:@PORT@\r\n"
MARKS: Final = b"X-Request-Id: @ID@\r\nConnection: close\r\n"
LENGTH: Final = b"Content-Length: %d\r\n"
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
WHOLE: Final = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


class Case(msgspec.Struct, frozen=True):
    """What is sent, the statuses that come back, and how many requests go on to the upstream.

    `guarded` is a proxy that wants a token.
    """

    data: bytes
    statuses: tuple[int, ...]
    sent: int = 0
    guarded: bool = False


def posted(
    headers: bytes = b"", body: bytes = BODY, length: bytes | None = None, host: bytes = HOST
) -> bytes:
    """Write a request for a chat completion."""
    length = LENGTH % len(body) if length is None else length
    return CHAT + host + MARKS + length + headers + b"\r\n" + body


def lined(line: bytes, headers: bytes = b"", body: bytes = BODY) -> bytes:
    """Write a request with another first line."""
    return line + b"\r\n" + HOST + MARKS + LENGTH % len(body) + headers + b"\r\n" + body


def _packed(mib: int) -> bytes:
    """Pack zeros, a MiB into a KiB; each but the first begins anew, and needs no head."""
    packers = (zlib.compressobj(9, zlib.DEFLATED, bits) for bits in (31, -15))
    first, again = (one.compress(bytes(MIB)) + one.flush(zlib.Z_FULL_FLUSH) for one in packers)
    return first + again * (mib - 1)


def _refused(status: int, requests: dict[str, bytes]) -> dict[str, Case]:
    return {name: Case(data, (status,)) for name, data in requests.items()}


def _served(requests: dict[str, bytes]) -> dict[str, Case]:
    return {name: Case(data, (200,), 1) for name, data in requests.items()}


def _lengths() -> dict[str, Case]:
    own = LENGTH % len(BODY)
    odd = (b"-1", b"+5", b"5 5", b"0x10", b"", b"1,1", b"9" * 23, b"\xb2", b"1_0")
    lengths = {f"length {text!r}": posted(length=b"Content-Length: %s\r\n" % text) for text in odd}
    return _refused(
        400,
        lengths
        | {
            "length and chunks": posted(CHUNKED, WHOLE, own),
            "chunks and length": posted(own, WHOLE, CHUNKED),
            "same length twice": posted(own),
            "two lengths": posted(LENGTH % 3),
            "space before the colon": posted(length=b"Content-Length : 3\r\n"),
        },
    ) | {
        "longer than its length": Case(
            CHAT + HOST + b"X-Request-Id: @ID@\r\n" + own + b"\r\n" + BODY + b"GARBAGE\r\n\r\n",
            (400,),
        ),
    }


def _chunks() -> dict[str, Case]:
    """Write bodies in chunks: sizes, extensions and trailers."""
    size, trailed = b"%x" % len(BODY), b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)
    bad = {
        "letters": b"zz\r\nx\r\n0\r\n\r\n",
        "a sign": b"-1\r\nx\r\n0\r\n\r\n",
        "a plus": b"+5\r\nhello\r\n0\r\n\r\n",
        "0x": b"0x5\r\nhello\r\n0\r\n\r\n",
        "overflow": b"f" * 18 + b"\r\nx",
        "a blank before": b" 5\r\nhello\r\n0\r\n\r\n",
        "a blank after": b"5 \r\nhello\r\n0\r\n\r\n",
        "a line feed in the extension": size + b";a\nb\r\n" + BODY + b"\r\n0\r\n\r\n",
        "line feeds only": size + b"\n" + BODY + b"\n0\n\n",
        "no end of a chunk": b"5\r\nhelloXX0\r\n\r\n",
        "a length in the trailer": trailed + b"Content-Length: 3\r\n\r\n",
        "a trailer of 65 KiB": trailed + b"X-T: " + b"t" * 65 * KIB + b"\r\n\r\n",
        "5,000 trailers": trailed + b"X-T: 1\r\n" * 5000 + b"\r\n",
    }
    good = {
        "chunk: sound": WHOLE,
        "chunk: an extension": size + b";a=b\r\n" + BODY + b"\r\n0\r\n\r\n",
        "chunk: a trailer": trailed + b"X-Evil: evil\r\nAuthorization: Bearer evil\r\n\r\n",
    }
    codings = (b"chunked, identity", b"identity", b"xchunked", b'"chunked"', b"\x0bchunked")
    return (
        _refused(400, {f"chunk: {name}": posted(b"", body, CHUNKED) for name, body in bad.items()})
        | _refused(
            400,
            {
                f"coding {text!r}": posted(b"", WHOLE, b"Transfer-Encoding: %s\r\n" % text)
                for text in codings
            }
            | {"chunked twice": posted(CHUNKED, WHOLE, CHUNKED)},
        )
        | _refused(
            501, {"packed chunks": posted(b"", WHOLE, b"Transfer-Encoding: gzip, chunked\r\n")}
        )
        | _served({name: posted(b"", body, CHUNKED) for name, body in good.items()})
    )


def _headers() -> dict[str, Case]:
    bad = {
        "NUL in a value": b"X-A: a\0b\r\n",
        "NUL in a name": b"X-\0A: b\r\n",
        "CR in a value": b"X-Title: a\rX-Evil: evil\r\n",
        "LF in a value": b"X-Title: a\nX-Evil: evil\r\n",
        "CR in a name": b"X\rA: b\r\n",
        "LF and a length": b"X-A: 1\nContent-Length: 0\r\n",
        "a folded value": b"X-A: a\r\n b\r\n",
        "a value folded by a tab": b"X-A: a\r\n\tb\r\n",
        "a blank in a name": b"X A: b\r\n",
        "no colon": b"XA\r\n",
        "no name": b": b\r\n",
        "a name that is not ASCII": b"X-\xe9: b\r\n",
        "an escape in a value": b"X-Title: a\x1b[2Jb\r\n",
        "a value of 65 KiB": b"X-A: " + b"a" * 65 * KIB + b"\r\n",
        "a name of 65 KiB": b"a" * 65 * KIB + b": 1\r\n",
        "1,000 headers": b"".join(b"X-%d: 1\r\n" % at for at in range(1000)),
    }
    large = {
        "101 headers": b"".join(b"X-%d: 1\r\n" % at for at in range(97)),
        "a head of 80 KiB": b"".join(b"X-%d: %s\r\n" % (at, b"a" * 8000) for at in range(10)),
    }
    return (
        _refused(400, {f"header: {name}": posted(text) for name, text in bad.items()})
        | _refused(431, {name: posted(text) for name, text in large.items()})
        | _refused(
            400,
            {
                "line feeds only": posted().replace(b"\r\n", b"\n"),
                "carriage returns only": posted().replace(b"\r\n", b"\r"),
            },
        )
    )


def _hops() -> dict[str, Case]:
    """Write headers that are for the proxy alone: none of them may reach the upstream."""
    hops = (
        b"TE: trailers\r\nTrailer: X-Evil\r\nX-Evil: evil\r\nCookie: evil=1\r\nVia: 1.1 evil\r\n"
        b"Proxy-Authorization: Basic evil\r\nProxy-Connection: evil\r\nForwarded: for=evil\r\n"
        b"X-Forwarded-For: evil\r\nX-Forwarded-Host: evil\r\nX-Real-IP: evil\r\nX-Api-Key: evil\r\n"
        b"Keep-Alive: evil\r\nAccept: evil\r\nAccept-Encoding: evil\r\nRange: bytes=0-1\r\n"
        b"Authorization: Bearer evil\r\nX-HTTP-Method-Override: DELETE\r\nX-Base-Url: evil\r\n"
    )
    upgrade = b"Connection: Upgrade, X-Evil\r\nX-Evil: evil\r\nUpgrade: "
    return _served(
        {
            "an underscore": posted(b"Content_Length: 3\r\nTransfer_Encoding: evil\r\n"),
            "hop by hop": posted(hops),
            "hop by hop, passed through": lined(b"GET /v1/models HTTP/1.1", hops, b""),
            "a title that is not UTF-8": posted(b"X-Title: \xff\xfe\r\n"),
            "upgrade to h2c": posted(upgrade + b"h2c\r\nHTTP2-Settings: AAMA\r\n"),
            "upgrade to a websocket": lined(
                b"GET /v1/realtime HTTP/1.1",
                upgrade + b"websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
                b"",
            ),
        }
    )


def _hosts() -> dict[str, Case]:
    strange = (
        *(b"x/#@evil", b"evil.example", b"evil.example:@PORT@", b"127.0.0.1:@PORT@@evil"),
        *(b"127.0.0.1.evil:@PORT@", b"127.0.0.1", b"127.0.0.1:1", b"", b"0.0.0.0:@PORT@"),
        *(b"2130706433:@PORT@", b"127.0.0.1:@PORT@, evil", b"169.254.169.254:@PORT@"),
    )
    pages = {
        "origin": b"Origin: https://evil.example\r\n",
        "origin null": b"Origin: null\r\n",
        "two origins": b"Origin: http://127.0.0.1:@PORT@\r\nOrigin: https://evil.example\r\n",
        "cross-site": b"Sec-Fetch-Site: cross-site\r\n",
        "same-site": b"Sec-Fetch-Site: same-site\r\n",
        "a form": b"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"
        b"Sec-Fetch-Dest: document\r\nContent-Type: text/plain\r\n",
    }
    preflight = (
        b"Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n"
        b"Access-Control-Request-Private-Network: true\r\n"
    )
    return (
        _refused(403, {f"host {host!r}": posted(host=b"Host: %s\r\n" % host) for host in strange})
        | _refused(403, {f"page: {name}": posted(text) for name, text in pages.items()})
        | _refused(
            403,
            {
                "preflight": lined(b"OPTIONS /v1/chat/completions HTTP/1.1", preflight, b""),
                "another host as address": lined(
                    b"POST http://evil.example/v1/chat/completions HTTP/1.1"
                ),
                "CONNECT": lined(b"CONNECT evil.example:443 HTTP/1.1", b"", b""),
            },
        )
        | _refused(400, {"no host": posted(host=b""), "two hosts": posted(b"Host: evil\r\n")})
    )


def _lines() -> dict[str, Case]:
    gone = (
        *(b"/v1/../admin", b"/v1/%2e%2e/admin", b"/v1/..%2fadmin", b"/v1/a%2f..%2fadmin"),
        *(b"/v1/a\\..\\b", b"/v1/./models", b"/v1//evil.example", b"//evil.example/v1/models"),
        *(b"/v1/models;x=1", b"/v1/%00", b"/v1/chat%2fcompletions", b"/%76%31/chat/completions"),
        *(b"/v1/models#evil", b"/", b"/surecall/", b"/surecall/guess/", b"/v1/%0d%0aX-Evil:1"),
    )
    unreadable = (
        *(b"GET /v1/models\0 HTTP/1.1", b"GET /v1/mod\xc3\xa9ls HTTP/1.1", b"FOO / HTTP/1.1"),
        *(b"POST /v1/chat completions HTTP/1.1", b"POST @evil.example/v1 HTTP/1.1"),
        *(b"POST /v1/models HTTP/1.2", b"POST /v1/models HTTP/9.9", b"POST /v1/models HTTP/0.9"),
        *(b"POST /v1/models", b"GET /%s HTTP/1.1" % (b"a" * 65 * KIB), b"PRI * HTTP/2.0"),
        b"GET /v1/models?%s HTTP/1.1" % (b"a" * 65 * KIB),
    )
    served = {
        "query: an address": b"GET /v1/models?base_url=http://other.example/ HTTP/1.1",
        "query: a line break": b"GET /v1/models?a=b%0d%0aX-Other:1 HTTP/1.1",
        "query: dots": b"GET /v1/models?a=../../admin HTTP/1.1",
        "query: a fragment": b"GET /v1/models?a=1#other HTTP/1.1",
        "path: an at sign": b"GET /v1/@other.example/models HTTP/1.1",
    }
    methods = (b"TRACE", b"OPTIONS", b"PUT", b"PATCH", b"HEAD")
    return (
        _refused(404, {f"path {path!r}": lined(b"POST %s HTTP/1.1" % path) for path in gone})
        | _refused(400, {f"line {line[:40]!r}": lined(line) for line in unreadable})
        | _refused(
            405,
            {
                f"method {method.decode()}": lined(b"%s /v1/models HTTP/1.1" % method, b"", b"")
                for method in methods
            },
        )
        | _served({name: lined(line, b"", b"") for name, line in served.items()})
        | _refused(400, {"TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)})
        | _refused(400, {"preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"})
    )


def _bodies() -> dict[str, Case]:
    million = 1_000_000
    bad = {
        "deep and closed": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "NaN": b'{"a":NaN}',
        "invalid UTF-8": b'{"model":"\xff"}',
        "byte order mark": b"\xef\xbb\xbf" + BODY,
        "UTF-16": BODY.decode().encode("utf-16"),
        "nothing": b"",
        "null": b"null",
        "a list": b"[]",
        "a number of 5,000 digits": BODY.replace(b'"hi"', b"1" * 5000),
    }
    large = {
        "deep and open": b'{"messages":' + b"[" * 200_000,
        "a million values": b'{"a":[' + b"1," * million + b"1]}",
        "a million objects": b'{"messages":[' + b"{}," * million + b"{}]}",
        "33 MiB": b'{"a":"' + b"x" * 33 * MIB,
    }
    gzipped = b"Content-Encoding: gzip\r\n"
    packed = {
        "a bomb": posted(gzipped, _packed(1028)),
        "a sound body": posted(gzipped, gzip.compress(BODY)),
        "another coding": posted(b"Content-Encoding: br\r\n"),
    }
    chunks = b"".join(b"100000\r\n%s\r\n" % (b"x" * MIB) for _ in range(33)) + b"0\r\n\r\n"
    return (
        _refused(400, {f"body: {name}": posted(b"", body) for name, body in bad.items()})
        | _refused(413, {f"body: {name}": posted(b"", body) for name, body in large.items()})
        | _refused(413, {"body: 33 MiB in chunks": posted(b"", chunks, CHUNKED)})
        | _refused(415, {f"packed: {name}": data for name, data in packed.items()})
        | _served(
            {
                "body: a role that is a list": posted(b"", BODY.replace(b'"user"', b'["user"]')),
                "body: a choice that is a list": posted(b"", BODY[:-1] + b',"tool_choice":[1]}'),
                "body: a count that is a list": posted(b"", BODY[:-1] + b',"n":[1]}'),
                "body: 31 MiB": posted(b"", BODY[:-1] + b',"a":"' + b"x" * 31 * MIB + b'"}'),
            }
        )
    )


def _tokens() -> dict[str, Case]:
    token = TOKEN.encode()
    wrong = {
        "none": b"",
        "wrong": b"Authorization: Bearer wrong\r\n",
        "half": b"Authorization: Bearer %s\r\n" % token[:-1],
        "longer": b"Authorization: Bearer %sx\r\n" % token,
        "no scheme": b"Authorization: %s\r\n" % token,
        "another scheme": b"Authorization: Basic %s\r\n" % token,
        "as a cookie": b"Cookie: token=%s\r\n" % token,
        "in another header": b"X-Token: %s\r\n" % token,
        "two keys": b"Authorization: Bearer wrong\r\nX-Api-Key: %s\r\n" % token,
        "not ASCII": b"X-Api-Key: \xff\xfe\r\n",
    }
    right = {
        "right": b"Authorization: Bearer %s\r\n" % token,
        "as an API key": b"X-Api-Key: %s\r\n" % token,
    }
    query = lined(b"POST /v1/chat/completions?token=%s HTTP/1.1" % token)
    return {
        **{f"token: {n}": Case(posted(h), (401,), 0, guarded=True) for n, h in wrong.items()},
        **{f"token: {n}": Case(posted(h), (200,), 1, guarded=True) for n, h in right.items()},
        "token: in the query": Case(query, (401,), 0, guarded=True),
        "token: passed through": Case(lined(b"GET /v1/models HTTP/1.1"), (401,), guarded=True),
        "token: from a page": Case(
            posted(right["right"] + b"Origin: https://evil.example\r\n"), (403,), guarded=True
        ),
    }


def all_cases() -> dict[str, Case]:
    """Return the table."""
    return {
        **_lengths(),
        **_chunks(),
        **_headers(),
        **_hops(),
        **_hosts(),
        **_lines(),
        **_bodies(),
        **_tokens(),
    }
