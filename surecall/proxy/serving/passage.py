"""A request that is none of ours: handed on as it is, and its answer back as it comes."""

import asyncio
import time
from typing import Final

from aiohttp import web

from surecall.proxy.faces.chat import error_body
from surecall.proxy.faces.face import Failure
from surecall.proxy.serving.record import Record
from surecall.proxy.serving.streams import LONGEST_WRITE_S
from surecall.proxy.serving.upstream import returned
from surecall.proxy.serving.visit import Parts, answer
from surecall.runtime.transport import Incoming
from surecall.values.errors import ErrorCode, Fault, ProviderError

_PATH_CHARS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/@+"
)
_LEFT: Final = 499


def is_plain_path(path: str) -> bool:
    """Whether a path, after the prefix, can only mean something below the upstream's own."""
    parts = path.split("/")
    return (
        path.startswith("/")
        and _PATH_CHARS.issuperset(path)
        and not any(part in {"", ".", ".."} for part in parts[1:])
    )


class Passage:
    """One request that passes through."""

    def __init__(self, parts: Parts, request: web.Request, path: str) -> None:
        self._parts = parts
        self._request = request
        self._path = path
        self._number = parts.records.next_number()
        self._at, self._began = time.time(), time.perf_counter()
        self._upstream = parts.upstream_for(request.headers)

    async def made(self) -> web.StreamResponse:
        """Hand it on."""
        request = self._request
        query = request.raw_path.partition("?")[2]
        path = f"{self._path}?{query}" if query else self._path
        body = await request.read()
        kind = request.headers.get("Content-Type")
        status, has_begun = _LEFT, False
        try:
            async with self._upstream.forwarded(request.method, path, body, kind) as incoming:
                status, has_begun = incoming.status, True
                return await self._returned(incoming)
        except ProviderError as error:
            status = _status_of(error.fault)
            if has_begun:
                # A second answer inside of the first would be taken for a part of it.
                raise ConnectionResetError("the upstream broke off") from None
            failure = Failure(status, error.fault.message, str(error.fault.code))
            return answer(status, error_body(failure))
        except TimeoutError:
            raise ConnectionResetError("the client does not read") from None
        finally:
            self._note(status)

    async def _returned(self, incoming: Incoming) -> web.StreamResponse:
        kind = incoming.headers.get("content-type", "application/octet-stream")
        headers = returned(incoming.headers) | {"Content-Type": kind}
        response = web.StreamResponse(status=incoming.status, headers=headers)
        await response.prepare(self._request)
        left = self._parts.upstream.limits.max_response_bytes
        async for chunk in incoming.chunks:
            left -= len(chunk)
            if left < 0:
                raise ConnectionResetError("the upstream says too much")
            async with asyncio.timeout(LONGEST_WRITE_S):
                await response.write(chunk)
        await response.write_eof()
        return response

    def _note(self, status: int) -> None:
        self._parts.records.add(
            Record(
                number=self._number,
                at=self._at,
                face=self._request.method,
                model=self._path[:200],
                streamed=False,
                status=status,
                outcome="left" if status == _LEFT else "passed",
                elapsed_ms=round((time.perf_counter() - self._began) * 1000),
            )
        )


def _status_of(fault: Fault) -> int:
    return 504 if fault.code is ErrorCode.TIMEOUT else 502
