"""Input items, as chat messages.

An assistant's turn is several items and one message: its text, its calls and its state. So the
message stays open until somebody else speaks or another turn begins.

    message                                   ─► a message of its role
    function_call, custom_tool_call           ─► a call in the message of the assistant
    function_call_output, custom_…_output     ─► a message of the tool
    reasoning                                 ─► its state, if it is one of ours
    lists of tools, and searches without
    their findings: web_search_call, …        ─► left out
    what only a service knows, or a client
    ran for a tool that cannot be offered     ─► refused
    anything else: mcp_call, unknown types    ─► a labeled message of the user

Ids may be missing or wrong: the history of the request is made legal later, for all APIs alike.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from surecall.proxy.faces.face import Refused
from surecall.proxy.faces.responses.content import (
    chat_content,
    labeled_item,
    output_content,
    said_text,
)
from surecall.proxy.faces.responses.state import State, unpack
from surecall.proxy.faces.responses.tools import BRINGING_TOOLS, INPUT, chat_name
from surecall.values.types import JSON
from surecall.wire.content_parts import with_text
from surecall.wire.messages import encode, text_id
from surecall.wire.opaque_state import (
    CONTENT,
    DOCUMENTED,
    DOCUMENTED_OF_CALL,
    DOCUMENTED_OF_FUNCTION,
    FUNCTION,
)

_ROLES: Final = ("user", "system", "developer")
_WHOLE = "Send the whole input: every item, not references (in many clients: `store` false)."
_REFUSED: Final = {
    "item_reference": f"An item cannot be looked up by its id: nothing is stored. {_WHOLE}",
    "compaction": f"A compacted history can be read only where it was written. {_WHOLE}",
    "compaction_trigger": "A chat completion cannot compact a history. Shorten the input instead.",
    "mcp_approval_response": "A chat completion cannot call MCP servers. Offer functions instead.",
}
_OUTPUT: Final = "_output"
# They hold no words and no results: `tools` of them are offered, and a search is named by its call.
_LEFT_OUT: Final = frozenset(
    {*BRINGING_TOOLS, "mcp_list_tools", "tool_search_call", "web_search_call"}
)


class _Turn(msgspec.Struct):
    """What the assistant has said so far."""

    text: str = ""
    calls: list[JSON] = []
    state: State = State()


def chat_messages(items: list[Any]) -> list[JSON]:
    """Return the messages that input items stand for."""
    transcript = Transcript()
    for position, item in enumerate(items):
        transcript.add(item, f"input[{position}]")
    return transcript.close()


class Transcript:
    """Chat messages, written item by item."""

    def __init__(self) -> None:
        self._messages: list[JSON] = []
        self._turn: _Turn | None = None
        self._call_state: dict[str, JSON] = {}
        self._writers: dict[str, Callable[[JSON, str], None]] = {
            "message": self._message,
            "function_call": self._function_call,
            "custom_tool_call": self._custom_call,
            "function_call_output": self._output,
            "custom_tool_call_output": self._output,
            "reasoning": self._reasoning,
        }

    def add(self, item: Any, where: str) -> None:
        """Write one item; raise `Refused` if it cannot be said in a chat completion."""
        kind = _kind(item, where)
        if kind in self._writers:
            self._writers[kind](item, where)
        elif kind in _REFUSED:
            raise Refused(_REFUSED[kind], where)
        elif kind in _LEFT_OUT:
            return
        elif kind.endswith(_OUTPUT):
            message = f"A chat completion cannot hold an item of type '{kind}'. Offer a function."
            raise Refused(message, where)
        else:
            self._speak({"role": "user", CONTENT: labeled_item(item, kind)})

    def close(self) -> list[JSON]:
        """Return all messages; the last turn of the assistant ends."""
        self._end_turn()
        return self._messages

    def _message(self, item: JSON, where: str) -> None:
        role = item.get("role")
        if role == "assistant":
            self._say(said_text(item.get(CONTENT), where))
        elif role in _ROLES:
            self._speak({"role": role, CONTENT: chat_content(item.get(CONTENT), where)})
        else:
            raise Refused(f"The role of {where} is not known.", where)

    def _say(self, text: str) -> None:
        turn = self._turn
        if turn is not None and turn.text and turn.calls:
            # Nothing may stand between calls and their outputs, so it is said before the calls.
            turn.text += "\n" + text
            return
        if turn is not None and turn.text:
            self._end_turn()
        self._current().text = text

    def _function_call(self, item: JSON, where: str) -> None:
        match item:
            case {"name": str(), "arguments": str(arguments)}:
                self._call(item, arguments)
            case _:
                raise Refused(f"{where} needs `name` and `arguments`, both of them texts.", where)

    def _custom_call(self, item: JSON, where: str) -> None:
        match item:
            case {"name": str(), "input": str(given)}:
                self._call(item, encode({INPUT: given}).decode())
            case _:
                raise Refused(f"{where} needs `name` and `input`, both of them texts.", where)

    def _call(self, item: JSON, arguments: str) -> None:
        function = {"name": chat_name(item["name"], item.get("namespace")), "arguments": arguments}
        call = {"id": text_id(item.get("call_id")), "type": FUNCTION, FUNCTION: function}
        self._current().calls.append(call)

    def _output(self, item: JSON, where: str) -> None:
        content = output_content(item.get("output"), where)
        message: JSON = {"role": "tool", "tool_call_id": text_id(item.get("call_id"))}
        name = item.get("name")
        if isinstance(name, str) and name:
            message["name"] = chat_name(name, item.get("namespace"))
        self._speak(message | {CONTENT: content})

    def _reasoning(self, item: JSON, _: str) -> None:
        state = unpack(item.get("encrypted_content"))
        if state is None:
            return
        self._call_state |= state.calls
        if self._turn is not None and _is_another(self._turn.state, state):
            self._end_turn()
        self._current().state = state

    def _current(self) -> _Turn:
        if self._turn is None:
            self._turn = _Turn(calls=[])
        return self._turn

    def _speak(self, message: JSON) -> None:
        self._end_turn()
        self._messages.append(message)

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is None or not (turn.text or turn.calls):
            return
        message = _beyond(turn.state.message, DOCUMENTED) | {"role": "assistant"}
        message[CONTENT] = _content(turn)
        if turn.calls:
            message["tool_calls"] = [self._with_state(call) for call in turn.calls]
        self._messages.append(message)

    def _with_state(self, call: JSON) -> JSON:
        extra = self._call_state.get(call["id"])
        if extra is None:
            return call
        inner = extra.get(FUNCTION)
        beside = _beyond(inner, DOCUMENTED_OF_FUNCTION) if isinstance(inner, dict) else {}
        return _beyond(extra, DOCUMENTED_OF_CALL) | call | {FUNCTION: beside | call[FUNCTION]}


def _kind(item: Any, where: str) -> str:
    match item:
        case {"type": str(kind)}:
            return kind
        case {"role": _}:
            return "message"
        case {"id": _}:
            return "item_reference"
        case _:
            raise Refused(f"{where} is not an item: it has no `type`.", where)


def _is_another(known: State, state: State) -> bool:
    """Whether a state belongs to a turn that begins after the one whose state is known."""
    return state.opens or (bool(known.turn) and known.turn != state.turn)


def _content(turn: _Turn) -> str | list[Any] | None:
    parts = turn.state.message.get(CONTENT)
    if isinstance(parts, list):
        return with_text(parts, turn.text)
    # Beside calls no text is null: that is how the API writes it, and some endpoints refuse "".
    return turn.text or None if turn.calls else turn.text


def _beyond(mapping: JSON, documented: frozenset[str]) -> JSON:
    return {key: value for key, value in mapping.items() if key not in documented}
