"""The Messages face: Anthropic's API, as Claude Code and Anthropic's SDKs speak it.

messages_request   what the client asks ─► the request of a chat completion
messages_answer    a chat completion ─► the client's answer
messages_events    the same, while it comes
messages_state     what must come back in the next request, and how it travels
"""

from typing import Any

from surecall.proxy.faces.face import Asked, Failure, request_of
from surecall.proxy.faces.messages_answer import error_of, message_of
from surecall.proxy.faces.messages_content import unmarked
from surecall.proxy.faces.messages_events import MessageEvents
from surecall.proxy.faces.messages_request import chat_request
from surecall.settings.capabilities import estimate_tokens
from surecall.values.types import JSON
from surecall.wire.messages import encode

# About what the largest image takes that is not made smaller before the model sees it.
_TOKENS_OF_MEDIA = 1_600
_MEDIA = ("image_url", "file")


class Messages:
    """Anthropic's Messages API. `keeps_cache_control` sends on where the client wants caching."""

    name = "messages"

    def __init__(self, *, keeps_cache_control: bool = False) -> None:
        self._keeps_cache_control = keeps_cache_control

    def parse(self, data: bytes) -> Asked:
        """Read a request; raise `Refused` if no chat completion could answer it."""
        given = request_of(data)
        body = chat_request(given if self._keeps_cache_control else unmarked(given))
        return Asked(body, given, stream="stream" in body)

    def render(self, asked: Asked, body: JSON) -> JSON:
        """Write a whole message."""
        return message_of(asked, body)

    def events(self, asked: Asked) -> MessageEvents:
        """Write a message as events."""
        return MessageEvents(asked)

    def error(self, failure: Failure) -> JSON:
        """Write why there is no message."""
        return error_of(failure)

    def count_tokens(self, data: bytes) -> JSON:
        """Guess how many tokens a request takes, for `POST /v1/messages/count_tokens`."""
        body = self.parse(data).body
        contents = [_parted(message["content"]) for message in body["messages"]]
        media = sum(_is_media(part) for content in contents for part in content)
        texts = [[part for part in content if not _is_media(part)] for content in contents]
        rest = [message | {"content": None} for message in body["messages"]]
        text = encode([texts, rest, body.get("tools")]).decode()
        return {"input_tokens": estimate_tokens(text) + _TOKENS_OF_MEDIA * media}


def _parted(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _is_media(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in _MEDIA
