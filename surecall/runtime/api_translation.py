"""Translates for endpoints with the Responses or the Messages API, in a thread if it is much.

    chat request ─ encode_request ─► request of the API         answer ─ decode_answer ─► completion
                                                                stream ─ translate_chunks ─► chunks

Only clients of such endpoints import this module and the translators.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from surecall.values.types import HttpResponse
from surecall.wire.apis.adapter import InvalidRequest
from surecall.wire.apis.messages_upstream import MessagesUpstream
from surecall.wire.apis.native_turns import (
    ChatStream,
    NativeApi,
    decode_native_response,
    encode_native_request,
    refusal_answer,
)
from surecall.wire.apis.responses_upstream import ResponsesUpstream

NATIVE_APIS: Final[dict[str, NativeApi]] = {
    each.name: each for each in (ResponsesUpstream(), MessagesUpstream())
}
# Translating more than this takes milliseconds.
_LARGE: Final = 128 * 1024


async def encode_request(api: NativeApi, body: bytes) -> bytes | HttpResponse:
    """Return a chat request in another API, or the answer if it cannot be translated."""
    try:
        return await _translate(encode_native_request, api, body)
    except InvalidRequest as problem:
        return refusal_answer(problem)


async def decode_answer(api: NativeApi, answer: HttpResponse) -> HttpResponse:
    """Return the answer of another API with a chat completion as its body."""
    body = await _translate(decode_native_response, api, answer.body)
    return msgspec.structs.replace(answer, body=body)


async def translate_chunks(
    api: NativeApi, chunks: AsyncIterator[bytes], max_bytes: int
) -> AsyncIterator[bytes]:
    """Yield the chat completion chunks of a stream of another API."""
    stream = ChatStream(api, max_bytes)
    async for chunk in chunks:
        if data := stream.feed(chunk):
            yield data
    if data := stream.close():
        yield data


async def _translate(
    work: Callable[[NativeApi, bytes], bytes], api: NativeApi, data: bytes
) -> bytes:
    if len(data) <= _LARGE:
        return work(api, data)
    return await asyncio.to_thread(work, api, data)
