# ruff: noqa: RUF001, RUF002 (the wide bars are what models write)
"""Control tokens of chat templates, known by their form, and other marks that say nothing.

    <|im_end|>  <｜tool▁call▁end｜>  <turn|>  <|"|>      a bar inside the brackets
    </s>  </tool_call>  [/TOOL_CALLS]  [ARGS]           a closing tag, or capitals in brackets
    <end_of_turn>  <eos>                                 a word that names a token

They are never part of JSON or of a name, so around one they can be taken off without loss. An
opening tag of any other word is left alone: it may open something that was meant.
"""

import string

_BARS = "|｜"
_LONGEST = 64
BLANKS = frozenset(string.whitespace)
# Characters without width, and the byte order mark.
_INVISIBLE = frozenset("\u200b\u200c\u200d\u2060\ufeff")
NOTHING = BLANKS | _INVISIBLE
_WORD = frozenset(string.ascii_letters + string.digits + "_-:./▁")
_TOKEN = _WORD | frozenset(' "')
_CAPITALS = frozenset(string.ascii_uppercase + "_")
_NAMES = frozenset(
    {
        *("s", "bos", "eos", "eot", "eom", "pad", "unk", "sep", "tool_sep"),
        *("end_of_turn", "start_of_turn", "end_of_text", "end_of_utterance", "end_function_call"),
    }
)
_OPENERS = {">": "<", "]": "["}
_CLOSERS = {"<": ">", "[": "]"}


def is_control_token(mark: str) -> bool:
    """Whether a text is one control token and nothing else."""
    inside = mark[1:-1]
    if mark[:1] == "[":
        word = inside.removeprefix("/")
        return mark[-1:] == "]" and len(word) > 1 and _CAPITALS.issuperset(word)
    if mark[:1] != "<" or mark[-1:] != ">" or not inside:
        return False
    if inside[0] in _BARS or inside[-1] in _BARS:
        return _TOKEN.issuperset(inside.strip(_BARS))
    if inside[0] == "/":
        return len(inside) > 1 and _WORD.issuperset(inside[1:])
    return inside in _NAMES


def without_control_tokens(text: str, nothing: frozenset[str] = NOTHING) -> str:
    """Take control tokens, and characters that say `nothing`, off both ends."""
    start, end = 0, len(text)
    before = (-1, -1)
    while (start, end) != before:
        before = (start, end)
        while start < end and text[start] in nothing:
            start += 1
        while start < end and text[end - 1] in nothing:
            end -= 1
        start = _after_token(text, start, end)
        end = _before_token(text, start, end)
    return text[start:end]


def without_last_token(text: str) -> str:
    """Take off the control token at the end, if there is one."""
    return text[: _before_token(text, 0, len(text))]


def without_first_token(text: str) -> str:
    """Take off the control token at the beginning, if there is one."""
    return text[_after_token(text, 0, len(text)) :]


def is_noise(text: str, words: frozenset[str] = frozenset()) -> bool:
    """Whether a text holds only control tokens, blanks, and these words."""
    at = 0
    while at < len(text):
        after = _after_token(text, at, len(text))
        if after == at and text[at] in NOTHING:
            after = at + 1
        if after == at:
            after = at + _word_length(text, at)
            if text[at:after] not in words:
                return False
        at = after
    return True


def _word_length(text: str, at: int) -> int:
    end = at
    while end < len(text) and end - at < _LONGEST and text[end] in _WORD:
        end += 1
    return max(1, end - at)


def _after_token(text: str, start: int, end: int) -> int:
    """Return where the control token ends that begins at `start`, or `start` if none does."""
    closer = _CLOSERS.get(text[start : start + 1])
    if start >= end or closer is None:
        return start
    stop = text.find(closer, start, min(end, start + _LONGEST)) + 1
    return stop if stop and is_control_token(text[start:stop]) else start


def _before_token(text: str, start: int, end: int) -> int:
    """Return where the control token begins that ends at `end`, or `end` if none does."""
    opener = _OPENERS.get(text[end - 1 : end])
    if start >= end or opener is None:
        return end
    stop = text.rfind(opener, max(start, end - _LONGEST), end)
    return stop if stop >= 0 and is_control_token(text[stop:end]) else end
