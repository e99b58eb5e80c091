"""A request: the body of a chat completion that asks the same.

What a chat completion has no word for is left out: `store`, `include`, `truncation`,
`max_tool_calls`, `context_management` and whatever else is not named below. What would be another
answer without it is refused.
"""

from typing import Any, Final

from surecall.proxy.faces.face import Refused
from surecall.proxy.faces.responses.input_items import chat_messages
from surecall.proxy.faces.responses.tools import offered, render_tools
from surecall.values.types import JSON

_RESEND = "Send the whole conversation as `input` in every request."
_REFUSED: Final = {
    "previous_response_id": f"No answer is stored, so `previous_response_id` is unknown. {_RESEND}",
    "conversation": f"No conversation is stored. {_RESEND}",
    "prompt": "No prompt template is stored. Send `instructions` and `input` instead.",
    "background": "An answer is not made in the background. Leave `background` out.",
}
# The same name and meaning in both APIs.
_SAME: Final = (
    *("model", "temperature", "top_p", "metadata", "user", "safety_identifier"),
    *("prompt_cache_key", "service_tier"),
)
# Unknown to the Responses API: an application that adds them means the endpoint behind.
_ADDED: Final = (
    *("frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias", "seed", "stop"),
    *("top_k", "min_p", "chat_template_kwargs", "provider"),
)
_LOGPROBS: Final = "message.output_text.logprobs"


def chat_request(given: JSON) -> JSON:
    """Return what the upstream is asked; raise `Refused` if that cannot be said."""
    for key, message in _REFUSED.items():
        if given.get(key):
            raise Refused(message, key)
    body = {key: given[key] for key in (*_SAME, *_ADDED) if _is_said(given.get(key))}
    body["messages"] = _messages(given)
    return (
        body
        | render_tools(given, offered(given))
        | _limits(given)
        | _logprobs(given)
        | _thinking(given.get("reasoning"))
        | _form(given.get("text"))
        | _streaming(given)
    )


def _is_said(value: Any) -> bool:
    return value is not None and value != {}


def _messages(given: JSON) -> list[JSON]:
    messages = _instructions(given.get("instructions"))
    match given.get("input"):
        case str(text):
            messages.append({"role": "user", "content": text})
        case list(items):
            messages += chat_messages(items)
        case _:
            raise Refused("`input` must be a text or a list of items.", "input")
    if not messages:
        raise Refused("`input` has no item that a chat completion could answer.", "input")
    return messages


def _instructions(text: Any) -> list[JSON]:
    if not isinstance(text, str | None):
        raise Refused("`instructions` must be a text.", "instructions")
    return [{"role": "system", "content": text}] if text else []


def _limits(given: JSON) -> JSON:
    # `max_completion_tokens` is refused or unread by most endpoints but OpenAI's own, and those
    # of its models that refuse `max_tokens` have the Responses API themselves.
    limit = given.get("max_output_tokens")
    return {} if limit is None else {"max_tokens": limit}


def _logprobs(given: JSON) -> JSON:
    most, include = given.get("top_logprobs"), given.get("include")
    if most:
        return {"logprobs": True, "top_logprobs": most}
    asked = isinstance(include, list) and _LOGPROBS in include
    return {"logprobs": True} if asked else {}


def _thinking(reasoning: Any) -> JSON:
    match reasoning:
        case {"effort": str(effort)}:
            return {"reasoning_effort": effort}
        case _:
            return {}


def _form(text: Any) -> JSON:
    if not isinstance(text, dict):
        return {}
    body = {"verbosity": text["verbosity"]} if text.get("verbosity") is not None else {}
    match text.get("format"):
        case None | {"type": "text"}:
            return body
        case {"type": "json_object"}:
            return body | {"response_format": {"type": "json_object"}}
        case {"type": "json_schema", **form}:
            named = {key: value for key, value in form.items() if value is not None}
            return body | {"response_format": {"type": "json_schema", "json_schema": named}}
        case _:
            message = "`text.format` must be text, json_object or json_schema."
            raise Refused(message, "text.format")


def _streaming(given: JSON) -> JSON:
    if given.get("stream") is not True:
        return {}
    return {"stream": True, "stream_options": {"include_usage": True}}
