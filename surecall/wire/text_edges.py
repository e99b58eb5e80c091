"""The edges of an answer: end tokens and invisible characters that are no part of what was said.

A server that does not know a model's end token passes it on as text, and some models begin or end
with characters that nobody sees. Only edges are trimmed: inside a text such a token may be what the
answer is about, and so it may be where the last sentence speaks of it. A text that is nothing else
says nothing.
"""

import unicodedata

# These end a turn, and may come more than once.
END_TOKENS = (
    "<|end|>",
    "<|return|>",
    "<|eom|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<turn|>",
    "<｜end▁of▁sentence｜>",  # noqa: RUF001
    "</s>",
)
# Further ones, which no dialect has behind its calls.
_OTHERS = (
    *("<|eot|>", "<|eos|>", "<|eod|>", "<|end_of_text|>", "<|end_of_turn|>", "<|endofturn|>"),
    *("<|end_of_turn_token|>", "<|end_of_message|>", "<|message_end|>", "<|role_end|>"),
    *("<|end▁of▁sentence|>", "<|end_of_sentence|>", "<eos>", "<eod>", "[eos]"),
    *("<|eoa|>", "<|eoh|>", "<|pad|>", "<pad>"),
)
TRIMMED = tuple(token.casefold() for token in (*END_TOKENS, *_OTHERS))
_LONGEST = max(map(len, TRIMMED))
_OPENS = frozenset(token[0] for token in TRIMMED)
_CLOSES = tuple({token[-1] for token in TRIMMED})
# Nobody sees these, and at an edge they join or part nothing.
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e"
# Characters of the category of letters or signs that show nothing.
_FILLERS = "\u115f\u1160\u2800\u3164\uffa0"
_SENTENCE_ENDS = tuple(".!?…)]}>`*\"'”’»。！？")  # noqa: RUF001
_ANNOUNCES = (":", "：")  # noqa: RUF001
# The other one also ends what is struck out in a page.
_NOT_STRUCK = tuple(each for each in TRIMMED if each != "</s>")
_BLANK = " \t\r\n\v\f\xa0\u2028\u2029"
_LINE_ENDS = ("\n", "\r", "\u2028", "\u2029")


def trimmed(text: str) -> str:
    """Return the text without what is at its edges; the same object if there is nothing."""
    if says_nothing(text):
        return "" if text and not text.isspace() else text
    begin, end = _begin(text), _end(text)
    # A sentence about the token may be all there is.
    return text[begin:end] if begin < end else text


def says_nothing(text: str) -> bool:
    """Whether a text has only blanks, invisible characters and end tokens."""
    at = 0
    while at < len(text):
        if not _is_void(text[at]):
            token = _token_at(text, at)
            if not token:
                return False
            at += token - 1
        at += 1
    return True


def speaks_at_once(text: str) -> bool:
    """Whether the first character of a text says something already, so that no other matters."""
    return bool(text) and text[0] not in _OPENS and not _is_void(text[0])


def may_begin(text: str) -> bool:
    """Whether nothing has been said yet, but perhaps the beginning of an end token."""
    place = max(map(text.rfind, _OPENS))
    head = text[:place] if place >= 0 and _is_begun(text[place:]) else text
    return says_nothing(head)


def without_lead(text: str) -> str:
    """Return a text that says something without what is before it."""
    return text[_begin(text) :]


def may_end(text: str) -> int:
    """Return from where on a text may turn out to be an edge, if nothing else follows."""
    place = max(map(text.rfind, _OPENS))
    end = place if place >= 0 and _is_begun(text[place:]) else len(text)
    while end:
        before = _before_blanks(text, end)
        if before and text[before - 1] in INVISIBLE:
            before -= 1
        else:
            before -= _token_before(text, before)
        if before == end:
            break
        end = before
    return end


def _is_begun(tail: str) -> bool:
    """Whether an end token has begun and may go on."""
    begun = tail.casefold() if len(tail) < _LONGEST else ""
    return bool(begun) and any(token.startswith(begun) for token in TRIMMED)


def _is_void(char: str) -> bool:
    # Control and format characters, surrogates, and every kind of blank.
    return (
        char.isspace() or char in _FILLERS or unicodedata.category(char) in {"Cc", "Cf", "Zs", "Cs"}
    )


def _token_at(text: str, at: int) -> int:
    """Return the length of the end token that begins here."""
    if text[at] not in _OPENS:
        return 0
    near = text[at : at + _LONGEST].casefold()
    return max((len(token) for token in TRIMMED if near.startswith(token)), default=0)


def _begin(text: str) -> int:
    """Return where a text begins, behind what does not belong to it."""
    at = begin = 0
    while at < len(text):  # pragma: no branch  # the text says something
        if text[at] in INVISIBLE:
            at += 1
            begin = at
        elif text[at] in _BLANK:
            at += 1
        elif (token := _token_at(text, at)) and _stands_apart(text, at + token):
            at += token
            begin = at
        else:
            break
    return _past_blanks(text, begin) if begin else 0


def _stands_apart(text: str, at: int) -> bool:
    """Whether a token that ends here is not the first word of a sentence."""
    line = _past_blanks(text, at)
    return line == at or any(end in text[at:line] for end in _LINE_ENDS)


def _past_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _end(text: str) -> int:
    """Return where a text ends, before what does not belong to it."""
    end = last = len(text)
    tokens = TRIMMED if "<s>" not in text else _NOT_STRUCK
    while last:  # pragma: no branch  # the text says something
        before = _before_blanks(text, last)
        if before and text[before - 1] in INVISIBLE:
            end = last = before - 1
        elif (token := _token_before(text, before, tokens)) and _ends_before(text, before - token):
            end = last = before - token
        else:
            break
    return _before_blanks(text, end) if end < len(text) else end


def _before_blanks(text: str, at: int) -> int:
    while at and text[at - 1] in _BLANK:
        at -= 1
    return at


def _token_before(text: str, at: int, tokens: tuple[str, ...] = TRIMMED) -> int:
    """Return the length of the end token that ends here."""
    near = text[max(0, at - _LONGEST) : at].casefold()
    if not near.endswith(_CLOSES):
        return 0
    return max((len(token) for token in tokens if near.endswith(token)), default=0)


def _ends_before(text: str, at: int) -> bool:
    """Whether a token that begins here is not the last word of a sentence."""
    line = _before_blanks(text, at)
    if line in {0, at}:
        return True
    if any(end in text[line:at] for end in _LINE_ENDS):
        return not text.endswith(_ANNOUNCES, 0, line)
    return text.endswith(_SENTENCE_ENDS, 0, line)
