"""The events of a Responses stream, in the order that clients insist on.

    response.created, response.in_progress
    per item    output_item.added, its parts or its arguments, output_item.done
    per part    …part.added, ….delta, ….done, …part.done
    response.completed | response.incomplete | response.failed

One item is open at a time, and what was sent is never taken back. Blank text is held until a word
comes: a thought may still follow it. What is thought after the first word waits for the end,
because the message is open. There is no `[DONE]`.
"""

from typing import Any, Final

import msgspec

from surecall.proxy.faces.face import Asked, Failure, event
from surecall.proxy.faces.responses.answer import answer, ended, failed
from surecall.proxy.faces.responses.output_items import (
    Said,
    call_items,
    is_unsaid,
    message_item,
    parts_of,
    read,
    state_item,
    suffix_of,
    thought_item,
)
from surecall.proxy.faces.responses.tools import offered
from surecall.values.types import JSON, is_blank


class _Part(msgspec.Struct, frozen=True):
    """The events of one kind of part: their names, its place in the item, and it without text."""

    holder: str
    name: str
    index: str
    key: str
    blank: JSON


_PARTS: Final = {
    "summary_text": _Part(
        "reasoning_summary_part",
        "reasoning_summary_text",
        "summary_index",
        "text",
        {"type": "summary_text", "text": ""},
    ),
    "output_text": _Part(
        "content_part",
        "output_text",
        "content_index",
        "text",
        {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    ),
    "refusal": _Part(
        "content_part",
        "refusal",
        "content_index",
        "refusal",
        {"type": "refusal", "refusal": ""},
    ),
}
# Where an item holds its parts, or its text and what the events of that are named.
_HOLDERS: Final = {"reasoning": "summary", "message": "content"}
_CALLS: Final = {
    "function_call": ("arguments", "function_call_arguments"),
    "custom_tool_call": ("input", "custom_tool_call_input"),
}


class ResponseEvents:
    """The events of one answer."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._head: JSON = {"id": ""}
        self._number = 0
        self._output: list[JSON] = []
        self._item_id = ""
        self._field = ""
        self._thought = ""
        self._text = ""  # before it can be sent
        self._sent = 0  # characters of the text
        self._speaks = False
        self._told: JSON = {}

    def begin(self, head: JSON) -> bytes:
        """Write that there will be an answer."""
        self._head = head | {"id": suffix_of(head)}
        response = self._response("in_progress")
        created = self._write("response.created", response=response)
        return created + self._write("response.in_progress", response=response)

    def thought(self, text: str, field: str) -> bytes:
        """Write more of what the model thinks, unless it has begun to speak."""
        if not text or self._speaks or self._field not in {"", field}:
            return b""
        opening = b"" if self._thought else self._open_thought(field)
        self._thought += text
        return opening + self._delta(0, "summary_text", text)

    def text(self, text: str) -> bytes:
        """Write more of the answer."""
        self._sent += len(text)
        if self._speaks:
            return self._delta(0, "output_text", text) if text else b""
        self._text += text
        if is_blank(self._text):
            return b""
        thought = self._end_thought(self._field, self._thought)
        return thought + self._open_message() + self._delta(0, "output_text", self._text)

    def finish(self, body: JSON) -> bytes:
        """Write the rest of the items and the end."""
        said = read(body, self._suffix, self._field)
        rest = [self._last_thought(said), self._message(said), self._state(said)]
        calls = call_items(self._suffix, said, offered(self._asked.given))
        rest += [self._rest_of(item) for item in calls]
        response = ended(self._response("completed"), body, said.cut)
        return b"".join(rest) + self._write(f"response.{response['status']}", response=response)

    def fail(self, failure: Failure) -> bytes:
        """Write that the answer failed; an item that is open stays so."""
        response = failed(self._response("failed"), failure)
        return self._write("response.failed", response=response)

    @property
    def _suffix(self) -> str:
        return str(self._head["id"])

    def _response(self, status: str) -> JSON:
        return answer(self._asked, self._head, status, list(self._output))

    def _open_thought(self, field: str) -> bytes:
        self._field = field
        item = thought_item(self._suffix, field, "")
        return self._added(item) + self._part_added(0, "summary_text")

    def _open_message(self) -> bytes:
        self._speaks = True
        return self._added(message_item(self._suffix, [])) + self._part_added(0, "output_text")

    def _end_thought(self, field: str, text: str) -> bytes:
        if not text:
            return b""
        self._told = {field: text}
        return self._rest_of(thought_item(self._suffix, field, text), len(self._thought) or None)

    def _last_thought(self, said: Said) -> bytes:
        if self._speaks:
            return b""
        return self._end_thought(said.field or self._field, self._thought + self._late(said))

    def _late(self, said: Said) -> str:
        is_more = said.thought.startswith(self._thought)
        return said.thought[len(self._thought) :] if is_more else ""

    def _message(self, said: Said) -> bytes:
        if not (self._speaks or said.has_message):
            return b""
        item = message_item(self._suffix, parts_of(said), said.cut)
        return self._rest_of(item, self._sent if self._speaks else None)

    def _state(self, said: Said) -> bytes:
        if not is_unsaid(said, self._told):
            return b""
        late = self._late(said) if self._speaks else ""
        return self._rest_of(state_item(self._suffix, said, late))

    def _rest_of(self, item: JSON, sent: int | None = None) -> bytes:
        """Write an item to its end; of its first part so much was sent, if it is open."""
        events = [self._added(item)] if sent is None else []
        if item["type"] in _CALLS:
            events.append(self._whole_call(item))
        else:
            for index, part in enumerate(item[_HOLDERS[item["type"]]]):
                events.append(self._rest_of_part(index, part, None if index else sent))
        return b"".join(events) + self._done(item)

    def _rest_of_part(self, index: int, part: JSON, sent: int | None) -> bytes:
        kind = part["type"]
        opening = self._part_added(index, kind) if sent is None else b""
        rest = part[_PARTS[kind].key][sent or 0 :]
        delta = self._delta(index, kind, rest) if rest else b""
        return opening + delta + self._part_done(index, part)

    def _whole_call(self, item: JSON) -> bytes:
        key, name = _CALLS[item["type"]]
        delta = self._about_item(f"response.{name}.delta", delta=item[key])
        return delta + self._about_item(f"response.{name}.done", **{key: item[key]})

    def _added(self, item: JSON) -> bytes:
        self._item_id = item["id"]
        kind = item["type"]
        begun = {key: value for key, value in item.items() if key != "encrypted_content"}
        empty: JSON = {_CALLS[kind][0]: ""} if kind in _CALLS else {_HOLDERS[kind]: []}
        begun |= empty | {"status": "in_progress"}
        index = len(self._output)
        return self._write("response.output_item.added", output_index=index, item=begun)

    def _done(self, item: JSON) -> bytes:
        index = len(self._output)
        self._output.append(item)
        return self._write("response.output_item.done", output_index=index, item=item)

    def _part_added(self, index: int, kind: str) -> bytes:
        part = _PARTS[kind]
        place = {part.index: index, "part": part.blank}
        return self._about_item(f"response.{part.holder}.added", **place)

    def _delta(self, index: int, kind: str, text: str) -> bytes:
        part = _PARTS[kind]
        beside: JSON = {"logprobs": []} if kind == "output_text" else {}
        place = {part.index: index, "delta": text} | beside
        return self._about_item(f"response.{part.name}.delta", **place)

    def _part_done(self, index: int, done: JSON) -> bytes:
        part = _PARTS[done["type"]]
        text = {key: done[key] for key in (part.key, "logprobs") if key in done}
        place: JSON = {part.index: index}
        ends = self._about_item(f"response.{part.name}.done", **place, **text)
        return ends + self._about_item(f"response.{part.holder}.done", **place, part=done)

    def _about_item(self, name: str, **fields: Any) -> bytes:
        index = len(self._output)
        return self._write(name, item_id=self._item_id, output_index=index, **fields)

    def _write(self, name: str, **fields: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return event({"type": name, "sequence_number": number} | fields, name)
