"""The door of the servers: strangers stay out, and nobody keeps it open for ever."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from surecall.runtime.loopback_server import GuardedListener

SHORT_S = 0.05


def refused(status: int, message: str) -> web.Response:
    return web.Response(status=status, text=message)


async def hello(request: web.Request) -> web.Response:
    return web.Response(text=f"hello {len(await request.read())}")


@asynccontextmanager
async def opened(host: str = "127.0.0.1", **patience: float) -> AsyncIterator[GuardedListener]:
    app = web.Application(client_max_size=100)
    app.router.add_route("*", "/", hello)
    door = GuardedListener(host, refused, **patience)
    runner = await door.open(app, 0)
    try:
        yield door
    finally:
        await runner.cleanup()


async def answer(
    door: GuardedListener, *headers: str, body: bytes = b"", method: str = "GET"
) -> bytes:
    """Return the head of an answer; a server that got half a body goes on to wait for the rest."""
    host = "127.0.0.1" if door.host == "0.0.0.0" else door.host  # noqa: S104 - see below
    reader, writer = await asyncio.open_connection(host, door.port)
    lines = [f"{method} / HTTP/1.1", *headers, "Connection: close", "", ""]
    writer.write("\r\n".join(lines).format(port=door.port).encode() + body)
    try:
        return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


def status(said: bytes) -> int:
    return int(said.split(b" ", 2)[1])


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (["Host: 127.0.0.1:{port}"], 200),
        (["Host: localhost:{port}"], 200),
        (["Host: LOCALHOST:{port}"], 200),
        (["Host: [::1]:{port}"], 200),
        (["Host: localhost"], 403),
        (["Host: localhost:1"], 403),
        (["Host: evil.example:{port}"], 403),
        (["Host: 127.0.0.1.evil.example:{port}"], 403),
        (["Host: 192.168.0.9:{port}"], 403),
        (["Host: box:{port}"], 403),
        (["Host: localhost:{port}", "Origin: http://localhost:{port}"], 200),
        (["Host: localhost:{port}", "Origin: http://127.0.0.1:{port}"], 403),
        (["Host: localhost:{port}", "Origin: http://localhost:3000"], 403),
        (["Host: localhost:{port}", "Origin: https://evil.example"], 403),
        (["Host: localhost:{port}", "Origin: null"], 403),
        (
            ["Host: localhost:{port}", "Origin: http://localhost:{port}", "Origin: http://e.org"],
            403,
        ),
        (["Host: localhost:{port}", "Sec-Fetch-Site: cross-site"], 403),
        (["Host: localhost:{port}", "Sec-Fetch-Site: same-site"], 403),
        (["Host: localhost:{port}", "Sec-Fetch-Site: same-origin"], 200),
    ],
)
def test_only_who_means_this_machine_is_let_in(headers: list[str], expected: int) -> None:
    async def scenario() -> bytes:
        async with opened() as door:
            return await answer(door, *headers)

    said = asyncio.run(scenario())
    assert status(said) == expected
    assert b"access-control" not in said.lower()


@pytest.mark.parametrize(("origin", "expected"), [("", 200), ("Origin: http://e.org\r\n", 403)])
def test_an_old_program_that_names_no_host_is_let_in(origin: str, expected: int) -> None:
    async def scenario() -> bytes:
        async with opened() as door:
            reader, writer = await asyncio.open_connection(door.host, door.port)
            writer.write(f"GET / HTTP/1.0\r\n{origin}\r\n".encode())
            said = await reader.read()
            writer.close()
            return said

    assert status(asyncio.run(scenario())) == expected


@pytest.mark.parametrize(("method", "expected"), [("GET", 200), ("POST", 403)])
def test_a_link_may_lead_here_but_no_form(method: str, expected: int) -> None:
    async def scenario() -> bytes:
        async with opened() as door:
            fetch = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate")
            said = ("Host: localhost:{port}", *fetch, "Sec-Fetch-Dest: document")
            return await answer(door, *said, method=method)

    assert status(asyncio.run(scenario())) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([f"X-{number}: 1" for number in range(98)], 200),
        ([f"X-{number}: 1" for number in range(99)], 431),
        ([f"X-{number}: {'h' * 8000}" for number in range(8)], 200),
        ([f"X-{number}: {'h' * 8000}" for number in range(9)], 431),
    ],
)
def test_a_head_is_so_large_at_most(headers: list[str], expected: int) -> None:
    async def scenario() -> bytes:
        async with opened() as door:
            return await answer(door, "Host: localhost:{port}", *headers)

    assert status(asyncio.run(scenario())) == expected


@pytest.mark.parametrize("version", ["", " HTTP/0.9"])
def test_a_version_without_headers_is_not_spoken(version: str) -> None:
    async def scenario() -> bytes:
        async with opened() as door:
            reader, writer = await asyncio.open_connection(door.host, door.port)
            writer.write(f"GET /{version}\r\nHost: localhost:{door.port}\r\n\r\n".encode())
            said = await reader.read()
            writer.close()
            return said

    assert status(asyncio.run(scenario())) == 400


@pytest.mark.parametrize(("error", "told"), [(ConnectionResetError, False), (KeyError, True)])
def test_a_client_that_has_gone_is_not_logged_but_a_mistake_of_ours_is(
    error: type[Exception], caplog: pytest.LogCaptureFixture, *, told: bool
) -> None:
    async def broken(_: web.Request) -> web.Response:
        raise error

    async def scenario() -> bytes:
        app = web.Application()
        app.router.add_route("*", "/", broken)
        door = GuardedListener("127.0.0.1", refused)
        runner = await door.open(app, 0)
        try:
            return await answer(door, "Host: localhost:{port}")
        finally:
            await runner.cleanup()

    assert status(asyncio.run(scenario())) == 500
    assert bool(caplog.text) is told


def test_what_cannot_be_read_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> bytes:
        async with opened() as door:
            return await answer(door, "Authorization: Bearer sk-canary-012345\x01")

    assert status(asyncio.run(scenario())) == 400
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("host", "expected"),
    [("10.1.2.3:99", 200), ("box", 200), ("localhost:{port}", 200), ("evil.example", 403)],
)
def test_a_door_to_the_network_takes_addresses_and_near_names(host: str, expected: int) -> None:
    async def scenario() -> bytes:
        async with opened("0.0.0.0") as door:  # noqa: S104 - what is tested
            return await answer(door, f"Host: {host}")

    assert status(asyncio.run(scenario())) == expected


HALF = b"GET / HTTP/1.1\r\nHost: local"


@pytest.mark.parametrize("drips", [False, True])
@pytest.mark.parametrize("whole", [0, 1])
@pytest.mark.parametrize("half", [b"", HALF])
def test_a_head_that_does_not_come_to_its_end_ends_the_connection(
    whole: int, half: bytes, *, drips: bool
) -> None:
    async def scenario() -> None:
        async with opened(head_s=SHORT_S) as door:
            reader, writer = await asyncio.open_connection(door.host, door.port)
            head = f"GET / HTTP/1.1\r\nHost: localhost:{door.port}\r\n\r\n".encode()
            writer.write(head * whole + half)
            # Who still sends when the connection ends may be told so by a reset.
            with suppress(ConnectionResetError, asyncio.IncompleteReadError):
                if whole:
                    await reader.readuntil(b"hello 0")
                while drips and half and not writer.is_closing():
                    writer.write(b"x")
                    await asyncio.sleep(0)
                assert await reader.read() == b""
            writer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        (["Content-Length: 9"], b"half", 408),
        (["Content-Length: 999"], b"x" * 999, 413),
        (["Content-Length: 4", "Content-Encoding: gzip"], b"none", 415),
        (["Content-Length: 4", "Content-Encoding: identity"], b"none", 200),
        (["Transfer-Encoding: gzip, chunked"], b"0\r\n\r\n", 501),
        (["Transfer-Encoding: Chunked"], b"0\r\n\r\n", 200),
        (["Transfer-Encoding: chunked"], b"zz\r\n", 400),
        (["Content-Length: 5"], b"whole", 200),
    ],
)
def test_a_body_that_cannot_be_read_is_told_so(
    headers: list[str], body: bytes, expected: int
) -> None:
    async def scenario() -> bytes:
        async with opened(body_s=SHORT_S if expected == 408 else 60.0) as door:
            return await answer(door, "Host: localhost:{port}", *headers, body=body, method="POST")

    assert status(asyncio.run(scenario())) == expected


def test_an_address_that_is_taken_is_an_error_and_leaves_nothing_open() -> None:
    async def scenario() -> None:
        async with opened() as door:
            with pytest.raises(OSError, match="in use"):
                await GuardedListener("127.0.0.1", refused).open(web.Application(), door.port)

    asyncio.run(scenario())


def test_an_address_of_the_new_kind_is_written_in_brackets() -> None:
    async def scenario() -> str:
        async with opened("::1") as door:
            assert status(await answer(door, "Host: [::1]:{port}")) == 200
            return door.url

    assert asyncio.run(scenario()).startswith("http://[::1]:")
