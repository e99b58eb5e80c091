"""The Responses API as a face: requests are read, answers and errors are written."""

from surecall.proxy.faces.face import Asked, Events, Failure, request_of
from surecall.proxy.faces.responses.answer import answer, ended, error
from surecall.proxy.faces.responses.events import ResponseEvents
from surecall.proxy.faces.responses.output_items import output_of, read, suffix_of
from surecall.proxy.faces.responses.request import chat_request
from surecall.proxy.faces.responses.tools import offered
from surecall.values.types import JSON


class Responses:
    """OpenAI's Responses API, without a store: every request brings its whole history."""

    name = "responses"

    def parse(self, data: bytes) -> Asked:
        """Read a request; raise `Refused` if a chat completion cannot answer it."""
        given = request_of(data)
        return Asked(chat_request(given), given, given.get("stream") is True)

    def render(self, asked: Asked, body: JSON) -> JSON:
        """Write a whole answer, of a chat completion."""
        suffix = suffix_of(body)
        said = read(body, suffix)
        output = output_of(said, suffix, offered(asked.given))
        return ended(answer(asked, body | {"id": suffix}, "completed", output), body, said.cut)

    def events(self, asked: Asked) -> Events:
        """Write an answer as events."""
        return ResponseEvents(asked)

    def error(self, failure: Failure) -> JSON:
        """Write an answer that says why there is none."""
        return error(failure)
