"""The face of chat completions: the upstream's own. A clean answer goes through as it came."""

from typing import Any, Final

from surecall.proxy.faces.face import Asked, Failure, event, sound_request
from surecall.values.types import JSON

_DONE: Final = b"data: [DONE]\n\n"
_SAID: Final = frozenset({"role", "content", "tool_calls"})


class Chat:
    """OpenAI's chat completions."""

    name = "chat"

    def parse(self, data: bytes) -> Asked:
        """Read a request; the upstream judges what is not about calls."""
        body, sound = sound_request(data)
        return Asked(body, body, body.get("stream") is True, sound)

    def render(self, asked: Asked, body: JSON) -> JSON:  # noqa: ARG002  # it is the same API
        """Return the chat completion itself."""
        return body

    def events(self, asked: Asked) -> "ChatEvents":
        """Write a chat completion as chunks."""
        options = asked.given.get("stream_options")
        wants_usage = isinstance(options, dict) and options.get("include_usage") is True
        return ChatEvents(wants_usage=wants_usage)

    def error(self, failure: Failure) -> JSON:
        """Write an error in OpenAI's form."""
        return error_body(failure)


def error_body(failure: Failure) -> JSON:
    """Write an error in OpenAI's form."""
    mistaken = 400 <= failure.status < 500  # noqa: PLR2004  # the class of the client's mistakes
    kind = "invalid_request_error" if mistaken else "api_error"
    error = {"message": failure.message, "type": kind, "param": failure.param, "code": failure.code}
    return {"error": error}


class ChatEvents:
    """The chunks of one chat completion: text as it comes, calls whole, usage at the end."""

    def __init__(self, *, wants_usage: bool) -> None:
        self._wants_usage = wants_usage
        self._head: JSON = {}
        self._text = 0
        self._thoughts: dict[str, int] = {}

    def begin(self, head: JSON) -> bytes:
        """Say who speaks."""
        self._head = head | {"object": "chat.completion.chunk"}
        return self._chunk({"role": "assistant"})  # whether there is text is not known yet

    def text(self, text: str) -> bytes:
        """Write more of the answer."""
        self._text += len(text)
        return self._chunk({"content": text})

    def thought(self, text: str, field: str) -> bytes:
        """Write more of what the model thinks, in the upstream's own field."""
        self._thoughts[field] = self._thoughts.get(field, 0) + len(text)
        return self._chunk({field: text})

    def finish(self, body: JSON) -> bytes:
        """Write the rest of the text, the fields that cannot be streamed, the calls, the end."""
        choice = body["choices"][0]
        message = choice["message"]
        chunks = [self._chunk(delta) for delta in self._rest(message)]
        beside = {key: choice[key] for key in choice if key not in {"index", "message"}}
        chunks.append(self._chunk({}, **beside))
        if self._wants_usage:
            chunks.append(self._event([], usage=body.get("usage")))
        return b"".join((*chunks, _DONE))

    def fail(self, failure: Failure) -> bytes:
        """Say why there is no answer; there is no end mark, since it is not complete."""
        return event(error_body(failure))

    def _rest(self, message: JSON) -> list[JSON]:
        fields = {
            key: self._unsent(key, value)
            for key, value in message.items()
            if key not in _SAID and value is not None
        }
        deltas: list[JSON] = [{key: value} for key, value in fields.items() if value != ""]
        if rest := (message.get("content") or "")[self._text :]:
            deltas.append({"content": rest})
        if calls := message.get("tool_calls"):
            numbered = [{"index": index} | call for index, call in enumerate(calls)]
            deltas.append({"tool_calls": numbered})
        return deltas

    def _unsent(self, key: str, value: Any) -> Any:
        return value[self._thoughts.get(key, 0) :] if isinstance(value, str) else value

    def _chunk(self, delta: JSON, **beside: Any) -> bytes:
        choice = {"index": 0, "delta": delta} | ({"finish_reason": None} | beside)
        return self._event([choice])

    def _event(self, choices: list[JSON], **beside: Any) -> bytes:
        return event(self._head | {"choices": choices} | beside)
