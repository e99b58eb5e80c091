"""Normalizes the tool names that models write, and strips control tokens of chat templates.

    <|im_end|>  <｜tool▁call▁end｜>  <turn|>  <|"|>      a bar inside the brackets
    </s>  </tool_call>  [/TOOL_CALLS]  [ARGS]           a closing tag, or capitals in brackets
    <end_of_turn>  <eos>                                 a known token name

Control tokens are recognized by their form. They are never part of JSON or of a name, so removing
them from either end is lossless. Any other opening tag is kept, because it may be meaningful.
"""

import string
from collections.abc import Iterable

from surecall.values.family import closest_matches

# ruff: noqa: RUF001, RUF002 (the wide bars are what models write)


_BARS = "|｜"
_LONGEST_TOKEN = 64
BLANKS = frozenset(string.whitespace)
# Characters without width, and the byte order mark.
_INVISIBLE = frozenset("\u200b\u200c\u200d\u2060\ufeff")
IGNORED_CHARACTERS = BLANKS | _INVISIBLE
_WORD_CHARS = frozenset(string.ascii_letters + string.digits + "_-:./▁")
_TOKEN_CHARS = _WORD_CHARS | frozenset(' "')
_CAPITALS = frozenset(string.ascii_uppercase + "_")
_TOKEN_NAMES = frozenset(
    {
        *("s", "bos", "eos", "eot", "eom", "pad", "unk", "sep", "tool_sep"),
        *("end_of_turn", "start_of_turn", "end_of_text", "end_of_utterance", "end_function_call"),
    }
)
_OPENERS = {">": "<", "]": "["}
_CLOSERS = {"<": ">", "[": "]"}


def is_control_token(mark: str) -> bool:
    """Whether a text is exactly one control token."""
    inside = mark[1:-1]
    if mark[:1] == "[":
        word = inside.removeprefix("/")
        return mark[-1:] == "]" and len(word) > 1 and _CAPITALS.issuperset(word)
    if mark[:1] != "<" or mark[-1:] != ">" or not inside:
        return False
    if inside[0] in _BARS or inside[-1] in _BARS:
        return _TOKEN_CHARS.issuperset(inside.strip(_BARS))
    if inside[0] == "/":
        return len(inside) > 1 and _WORD_CHARS.issuperset(inside[1:])
    return inside in _TOKEN_NAMES


def strip_control_tokens(text: str, ignored: frozenset[str] = IGNORED_CHARACTERS) -> str:
    """Strip control tokens and `ignored` characters from both ends."""
    start, end = 0, len(text)
    before = (-1, -1)
    while (start, end) != before:
        before = (start, end)
        while start < end and text[start] in ignored:
            start += 1
        while start < end and text[end - 1] in ignored:
            end -= 1
        start = _token_end(text, start, end)
        end = _token_start(text, start, end)
    return text[start:end]


def strip_last_token(text: str) -> str:
    """Strip one control token from the end, if there is one."""
    return text[: _token_start(text, 0, len(text))]


def strip_first_token(text: str) -> str:
    """Strip one control token from the start, if there is one."""
    return text[_token_end(text, 0, len(text)) :]


def is_noise(text: str, words: frozenset[str] = frozenset()) -> bool:
    """Whether a text holds only control tokens, blanks, and these words."""
    at = 0
    while at < len(text):
        after = _token_end(text, at, len(text))
        if after == at and text[at] in IGNORED_CHARACTERS:
            after = at + 1
        if after == at:
            after = at + _word_length(text, at)
            if text[at:after] not in words:
                return False
        at = after
    return True


def _word_length(text: str, at: int) -> int:
    end = at
    while end < len(text) and end - at < _LONGEST_TOKEN and text[end] in _WORD_CHARS:
        end += 1
    return max(1, end - at)


def _token_end(text: str, start: int, end: int) -> int:
    """Return the end of the control token that starts at `start`, or `start` if there is none."""
    closer = _CLOSERS.get(text[start : start + 1])
    if start >= end or closer is None:
        return start
    stop = text.find(closer, start, min(end, start + _LONGEST_TOKEN)) + 1
    return stop if stop and is_control_token(text[start:stop]) else start


def _token_start(text: str, start: int, end: int) -> int:
    """Return the start of the control token that ends at `end`, or `end` if there is none."""
    opener = _OPENERS.get(text[end - 1 : end])
    if start >= end or opener is None:
        return end
    stop = text.rfind(opener, max(start, end - _LONGEST_TOKEN), end)
    return stop if stop >= 0 and is_control_token(text[stop:end]) else end


# Tool names as models write them, in ASCII only.
#
# The registry tries the `spellings` of a requested name exactly, then looks for the one registered
# name with the same `fold_name`. If there is none, it repeats this with `bare_spellings`, which are
# stripped of everything around the name. `nearest_names` is only for error messages to the model,
# never for running a call.

MAX_NAME_LENGTH = 64
PLACEHOLDER_NAME = "unknown_tool"

_LEGAL_CHARS = frozenset(string.ascii_letters + string.digits + "_-")
# An ASCII-only table: `str.lower` would turn the Kelvin sign into the letter k.
_FOLD_TABLE = str.maketrans(string.ascii_uppercase + "-.", string.ascii_lowercase + "__")
_CONTROL_MARK = "<|"
_CHANNEL = "<|channel|>"
# What may follow a control token after a name: a channel or a content type.
_CHANNELS = frozenset({"analysis", "commentary", "final", "json", "code"})
_RECIPIENT = "to="
_SPEAKERS = _CHANNELS | {"assistant"}
_QUOTES = frozenset("\"'`")
_MAX_LAYERS = 4
# A longer text is not a decorated name.
_LONGEST_NAME = 512
# `tool:` is omitted on purpose: it comes with invented suffixes, so the model is re-prompted.
NAMESPACE_PREFIXES = (
    "functions.",
    "functions:",
    "function.",
    "tools.",
    "tool.",
    "default_api.",
    "default_api:",
    "google:",
    "creating:",
)


def is_legal_name(name: str) -> bool:
    """Whether every provider accepts a name: 1 to 64 of `A-Z a-z 0-9 _ -`."""
    return 0 < len(name) <= MAX_NAME_LENGTH and _LEGAL_CHARS.issuperset(name)


def fold_name(name: str) -> str:
    """Return a name in lower case (ASCII only), with `-` and `.` replaced by `_`."""
    return name.translate(_FOLD_TABLE)


def spellings(written_name: str) -> tuple[str, ...]:
    """List the tool names that a written name may mean, likeliest first: exact, then stripped."""
    name = written_name.strip(string.whitespace)
    cut = _strip_channel(name)
    found = (name, _strip_prefix(name), cut, _strip_prefix(cut))
    return tuple(dict.fromkeys(spelling for spelling in found if spelling))


def bare_spellings(written_name: str) -> tuple[str, ...]:
    """List the possible tool names in `written_name` without anything that no legal name can hold.

    That is control tokens, the header of a Harmony message, quotation marks, empty parentheses,
    and the number of a call.
    """
    name = "" if len(written_name) > _LONGEST_NAME else written_name
    for _ in range(_MAX_LAYERS):
        name = _recipient(_strip_channel(name.strip(string.whitespace)))
        if name.startswith(_CHANNEL):
            return ()  # it names a channel, not a tool
        name = _strip_number(strip_control_tokens(name, BLANKS)).removesuffix("()")
        if len(name) > 1 and name[0] in _QUOTES and name[0] == name[-1]:
            name = name[1:-1]
    found = (name, _strip_prefix(name))
    return tuple(dict.fromkeys(spelling for spelling in found if spelling))


def legalized_name(name: str) -> str:
    """Return a legal name that can replace `name` in the history."""
    if is_legal_name(name):
        return name
    name = name.strip(string.whitespace)[:MAX_NAME_LENGTH]
    return "".join(mark if mark in _LEGAL_CHARS else "_" for mark in name) or PLACEHOLDER_NAME


def nearest_names(written_name: str, names: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """Return the names that are closest to a written name, best first."""
    by_fold: dict[str, list[str]] = {}
    for name in names:
        by_fold.setdefault(fold_name(name), []).append(name)
    # Comparison is quadratic in the length, which the model controls.
    wanted = fold_name(written_name.strip(string.whitespace)[:MAX_NAME_LENGTH])
    close = closest_matches(wanted, by_fold, max(1, limit))
    return tuple(name for folded in close for name in by_fold[folded])[: max(0, limit)]


def _strip_channel(name: str) -> str:
    """Cut a name at its first control token, if what follows cannot be arguments."""
    head, mark, rest = name.partition(_CONTROL_MARK)
    return head.strip(string.whitespace) if is_noise(mark + rest, _CHANNELS) else name


def _recipient(name: str) -> str:
    """Return the recipient in a Harmony header, such as `commentary to=functions.view`."""
    header, mark, recipient = name.partition(_RECIPIENT)
    return recipient if mark and is_noise(header, _SPEAKERS) else name


def _strip_number(name: str) -> str:
    """Remove the number that follows a name, as in `search:0`."""
    head, mark, number = name.rpartition(":")
    return head if mark and number.isascii() and number.isdigit() else name


def _strip_prefix(name: str) -> str:
    """Remove a namespace such as `functions.` from a name."""
    for prefix in NAMESPACE_PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix).strip(string.whitespace)
    return name
