"""Canonical answers: there is nothing to heal in them, so no transform has to look at them.

An answer is canonical by its form alone: one choice, whose message says something, with its text
in `content` and its calls in `tool_calls`, each with a name and arguments as text. Whatever the
config, every transform of bodies and of messages returns such an answer as it is. What the text
says and what the arguments hold is another matter; both are read as in any other answer.
"""

from surecall.wire.text_edges import speaks_at_once

# What a transform looks for in a name: tags of arguments, and calls inside a call.
_IN_BENT_NAMES = ("<arg_key>", "multi_tool_use")


def is_canonical(body: object) -> bool:
    """Whether healing would leave an answer as it is."""
    if not isinstance(body, dict) or body.get("error"):
        return False
    choices = body.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return False
    message = choices[0].get("message")
    if not isinstance(message, dict) or "function_call" in message:
        return False
    content, calls = message.get("content"), message.get("tool_calls")
    if content not in (None, "") and not (isinstance(content, str) and speaks_at_once(content)):
        return False
    if calls in (None, []):
        return bool(content)
    return isinstance(calls, list) and all(map(_is_call, calls))


def _is_call(call: object) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return False
    name = function.get("name")
    return (
        isinstance(name, str)
        and bool(name.strip())
        and not any(mark in name for mark in _IN_BENT_NAMES)
    )
