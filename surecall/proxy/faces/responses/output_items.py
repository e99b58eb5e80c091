"""Output items: what the model said in a chat completion, item by item.

    thought     a reasoning item: what the model thought before it spoke, for people to read
    message     its text, its refusal
    state       a reasoning item: what has no place elsewhere, for the upstream to get back
    calls       in their order

The thought ends when the text begins, and what else belongs to a turn is known only at its end.
So they are two items; there is no second one where the first says everything.
"""

from typing import Any, Final

import msgspec

from surecall.proxy.faces.responses.state import State, pack, state_of
from surecall.proxy.faces.responses.tools import INPUT, Offer
from surecall.values.nesting import decode_json
from surecall.values.types import JSON, is_blank
from surecall.wire.content_parts import text_of
from surecall.wire.finish_reasons import Ending, ending_of

_THOUGHTS: Final = ("reasoning_content", "reasoning")
_REASONS: Final = {
    Ending.CUT_OFF: "max_output_tokens",
    Ending.FILTERED: "content_filter",
}
_PREFIX: Final = "chatcmpl-"


class Said(msgspec.Struct, frozen=True):
    """A chat completion, read: what the items are made of."""

    text: str
    refusal: str
    field: str
    thought: str
    calls: list[JSON]
    state: State
    logprobs: list[Any]
    annotations: list[JSON]
    cut: str | None

    @property
    def has_message(self) -> bool:
        """Whether there is a message: an answer without calls has one, however blank."""
        return not is_blank(self.text) or bool(self.refusal) or not self.calls


def suffix_of(head: JSON) -> str:
    """Return what the ids of all items of an answer end with."""
    return str(head.get("id") or "").removeprefix(_PREFIX)


def read(body: JSON, suffix: str, field: str = "") -> Said:
    """Read a chat completion; `field` is where the thought was seen, if it was."""
    choice = body["choices"][0]
    message: JSON = choice["message"]
    calls = message.get("tool_calls") or []
    field = _thought_field(message, field)
    logprobs = choice.get("logprobs")
    return Said(
        text=text_of(message.get("content")),
        refusal=message.get("refusal") or "",
        field=field,
        thought=message[field] if field else "",
        calls=calls,
        state=state_of(suffix, message, calls),
        logprobs=(logprobs or {}).get("content") or [],
        annotations=_citations(message.get("annotations")),
        cut=_REASONS.get(ending_of(choice.get("finish_reason"))),
    )


def _thought_field(message: JSON, seen: str) -> str:
    for field in (seen, *_THOUGHTS):
        if isinstance(message.get(field), str) and message[field]:
            return field
    return ""


def _citations(annotations: Any) -> list[JSON]:
    found: list[JSON] = []
    for annotation in annotations if isinstance(annotations, list) else ():
        match annotation:
            case {"type": "url_citation", "url_citation": dict(citation)}:
                found.append({"type": "url_citation"} | citation)
            case _:
                pass
    return found


def output_of(said: Said, suffix: str, offers: dict[str, Offer]) -> list[JSON]:
    """Write all items of an answer."""
    items = [thought_item(suffix, said.field, said.thought)] if said.thought else []
    if said.has_message:
        items.append(message_item(suffix, parts_of(said), said.cut))
    if is_unsaid(said, {said.field: said.thought} if said.thought else {}):
        items.append(state_item(suffix, said))
    return items + call_items(suffix, said, offers)


def is_unsaid(said: Said, told: JSON) -> bool:
    """Whether a turn has more state than what the thought has told."""
    return bool(said.state.calls) or said.state.message != told


def thought_item(suffix: str, field: str, text: str) -> JSON:
    """Write what the model thought before it spoke."""
    told = State(suffix, opens=True, message={field: text})
    return _reasoning(f"rs_{suffix}", text, told)


def state_item(suffix: str, said: Said, late: str = "") -> JSON:
    """Write the state of a turn, and what the model thought after it had begun to speak."""
    return _reasoning(f"rs_{suffix}_state", late, said.state)


def _reasoning(item_id: str, text: str, state: State) -> JSON:
    return {
        "id": item_id,
        "type": "reasoning",
        # Clients show the summary; they hide or drop `content`, which only open models have.
        "summary": [{"type": "summary_text", "text": text}] if text else [],
        "encrypted_content": pack(state),
        "status": "completed",
    }


def parts_of(said: Said) -> list[JSON]:
    """Write the parts of what the model said."""
    text = {
        "type": "output_text",
        "text": said.text,
        "annotations": said.annotations,
        "logprobs": said.logprobs,
    }
    if not said.refusal:
        return [text]
    refusal = {"type": "refusal", "refusal": said.refusal}
    return [text, refusal] if said.text else [refusal]


def message_item(suffix: str, parts: list[JSON], cut: str | None = None) -> JSON:
    """Write what the model said."""
    return {
        "id": f"msg_{suffix}",
        "type": "message",
        "role": "assistant",
        "content": parts,
        "status": "incomplete" if cut else "completed",
    }


def call_items(suffix: str, said: Said, offers: dict[str, Offer]) -> list[JSON]:
    """Write the calls, by the names that the client knows."""
    return [_call(call, f"{suffix}_{n}", offers) for n, call in enumerate(said.calls)]


def _call(call: JSON, suffix: str, offers: dict[str, Offer]) -> JSON:
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    offer = offers.get(name) or Offer(name, {})
    item = {"call_id": call["id"], "name": offer.name, "status": "completed"}
    if offer.namespace is not None:
        item["namespace"] = offer.namespace
    if offer.custom:
        kind = {"id": f"ctc_{suffix}", "type": "custom_tool_call"}
        return kind | item | {"input": _input_in(arguments)}
    return {"id": f"fc_{suffix}", "type": "function_call"} | item | {"arguments": arguments}


def _input_in(arguments: str) -> str:
    try:
        given = decode_json(arguments)
    except ValueError:
        return arguments
    text = given.get(INPUT) if isinstance(given, dict) else None
    return text if isinstance(text, str) else arguments
