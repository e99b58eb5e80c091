"""A model that speaks with smolagents: its calls and their results stand in words in a request.

smolagents sends what was called as `Calling tools: […]` of the assistant and what came of it as
`Observation: …` of the user, demands a call in every turn, and takes its final answer as a call of
the tool `final_answer`. A real model reads that; the scripted ones of the simulator are given the
same conversation with the fields of the API, and where they answer, the answer becomes that call.
What a reply has wrong with it stays wrong; the checks of requests see what was really sent.
"""

import ast
import re
from typing import Any, Final

from surecall.simulator import Simulator
from surecall.simulator.personas.intent import next_intent
from surecall.simulator.personas.persona import Persona, PersonaReply
from surecall.values.types import JSON
from surecall.wire.chat_format import encode
from surecall.wire.content_parts import text_of

ANSWER: Final = "final_answer"
_TASK, _CALLS, _SEEN, _FAILED = "New task:\n", "Calling tools:\n", "Observation:\n", "Error:\n"
# Messages that follow each other as one are sent as one.
_PARTS: Final = re.compile(rf"(?:^|\n)(?:Call id: .*\n)?(?=(?:{_TASK}|{_SEEN}|{_FAILED}))")


class WordedSimulator(Simulator):
    """The simulator, for a client that tells calls and results in words."""

    def _said(self, persona: Persona, body: JSON) -> PersonaReply:
        asked = in_fields(body)
        said = super()._persona_reply(persona, asked)
        is_answer = asked is not body and not next_intent(asked).calls
        return PersonaReply(as_call(said.body), said.fault) if is_answer else said


def _offers_answer(request: JSON) -> bool:
    return any(tool["function"]["name"] == ANSWER for tool in request.get("tools", ()))


def in_fields(request: JSON) -> JSON:
    """Put what a request says in words into the fields of the API."""
    if not _offers_answer(request):
        return request
    tools = [each for each in request["tools"] if each["function"]["name"] != ANSWER]
    rest = {key: value for key, value in request.items() if key != "tool_choice"}
    messages: list[JSON] = []
    for message in request["messages"]:
        messages += _restored(message, messages)
    return rest | {"tools": tools, "messages": messages}


def _restored(message: JSON, before: list[JSON]) -> list[JSON]:
    text = text_of(message.get("content"))
    if message["role"] == "assistant":
        said, _, listed = text.partition(_CALLS)
        calls = ast.literal_eval(listed) if listed else []
        return [_calling(said, calls)] if calls else [message | {"content": text}]
    if message["role"] != "user":
        return [message | {"content": text}]
    return _heard(text, before)


def _calling(said: str, calls: list[JSON]) -> JSON:
    made = [
        {
            "id": str(call["id"]),
            "type": "function",
            "function": call["function"]
            | {"arguments": encode(call["function"]["arguments"]).decode()},
        }
        for call in calls
    ]
    return {"role": "assistant", "content": said or None, "tool_calls": made}


def _heard(text: str, before: list[JSON]) -> list[JSON]:
    """Take apart what is told as the user: the task, what was seen of calls, what went wrong.

    An error without a call is one of a call that could not be kept.
    """
    waiting = [call["id"] for call in before[-1].get("tool_calls", ())] if before else []
    heard: list[JSON] = []
    for part in filter(str.strip, _PARTS.split(text)):
        if part.startswith(_TASK):
            heard.append({"role": "user", "content": part.removeprefix(_TASK)})
        elif waiting:
            heard += [_result(call_id, part.removeprefix(_SEEN)) for call_id in waiting]
            waiting = []
        elif part.startswith(_FAILED):
            call_id = f"lost_{len(before)}_{len(heard)}"
            lost = {"id": call_id, "function": {"name": "", "arguments": {}}}
            heard += [_calling("", [lost]), _result(call_id, part)]
        else:
            heard.append({"role": "user", "content": part})
    return heard


def _result(call_id: str, content: str) -> JSON:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def as_call(body: Any) -> Any:
    """Make an answer in plain words the call that hands it over; anything else stays."""
    match body:
        case {"choices": [{"message": {"content": str(text)} as message} as choice]} if (
            text.strip() and not message.get("tool_calls") and choice["finish_reason"] == "stop"
        ):
            arguments = encode({"answer": text}).decode()
            function = {"name": ANSWER, "arguments": arguments}
            call = {"id": "call_answer", "type": "function", "function": function}
            told = message | {"content": None, "tool_calls": [call]}
            return body | {"choices": [choice | {"message": told, "finish_reason": "tool_calls"}]}
        case _:
            return body
