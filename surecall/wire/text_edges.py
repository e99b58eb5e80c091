"""Trims end tokens and invisible characters from the edges of an answer.

Servers that do not know a model's end token pass it on as text, and some models emit invisible
characters. Only the edges are trimmed: elsewhere, or in the last sentence, the token may be what
the answer is about.
"""

import unicodedata

# Tokens that end a turn; they may repeat.
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
# End tokens that no dialect writes after its calls.
_OTHER_TOKENS = (
    *("<|eot|>", "<|eos|>", "<|eod|>", "<|end_of_text|>", "<|end_of_turn|>", "<|endofturn|>"),
    *("<|end_of_turn_token|>", "<|end_of_message|>", "<|message_end|>", "<|role_end|>"),
    *("<|end▁of▁sentence|>", "<|end_of_sentence|>", "<eos>", "<eod>", "[eos]"),
    *("<|eoa|>", "<|eoh|>", "<|pad|>", "<pad>"),
)
TRIMMED_TOKENS = tuple(token.casefold() for token in (*END_TOKENS, *_OTHER_TOKENS))
_MAX_TOKEN = max(map(len, TRIMMED_TOKENS))
_FIRST_CHARS = frozenset(token[0] for token in TRIMMED_TOKENS)
_LAST_CHARS = tuple({token[-1] for token in TRIMMED_TOKENS})
# Invisible characters that have no effect at an edge.
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e"
# Invisible characters that Unicode classifies as letters or symbols.
_FILLERS = "\u115f\u1160\u2800\u3164\uffa0"
_SENTENCE_ENDS = tuple(".!?…)]}>`*\"'”’»。！？")  # noqa: RUF001
_COLONS = (":", "：")  # noqa: RUF001
# `</s>` also closes struck-out HTML text.
_NOT_STRIKETHROUGH = tuple(each for each in TRIMMED_TOKENS if each != "</s>")
_BLANK = " \t\r\n\v\f\xa0\u2028\u2029"
_LINE_ENDS = ("\n", "\r", "\u2028", "\u2029")


def trim_edges(text: str) -> str:
    """Trim the edges; return the same object if there is nothing to trim."""
    if is_without_content(text):
        return "" if text and not text.isspace() else text
    begin, end = _content_start(text), _content_end(text)
    # The whole text may be a sentence about the token.
    return text[begin:end] if begin < end else text


def is_without_content(text: str) -> bool:
    """Whether a text has only blanks, invisible characters, and end tokens."""
    at = 0
    while at < len(text):
        if not _is_invisible(text[at]):
            token = _token_length_at(text, at)
            if not token:
                return False
            at += token - 1
        at += 1
    return True


def starts_with_content(text: str) -> bool:
    """Whether the first character is content; a fast check before a full one."""
    return bool(text) and text[0] not in _FIRST_CHARS and not _is_invisible(text[0])


def may_be_lead(text: str) -> bool:
    """Whether a text has no content yet, at most a partial end token."""
    place = max(map(text.rfind, _FIRST_CHARS))
    head = text[:place] if place >= 0 and _is_partial_token(text[place:]) else text
    return is_without_content(head)


def strip_lead(text: str) -> str:
    """Trim the start of a text that has content."""
    return text[_content_start(text) :]


def possible_trail_start(text: str) -> int:
    """Return where trailing text begins that would be trimmed if nothing else follows."""
    place = max(map(text.rfind, _FIRST_CHARS))
    end = place if place >= 0 and _is_partial_token(text[place:]) else len(text)
    while end:
        before = _skip_blanks_back(text, end)
        if before and text[before - 1] in INVISIBLE:
            before -= 1
        else:
            before -= _token_length_before(text, before)
        if before == end:
            break
        end = before
    return end


def _is_partial_token(tail: str) -> bool:
    """Whether a text is the beginning of an end token."""
    start = tail.casefold() if len(tail) < _MAX_TOKEN else ""
    return bool(start) and any(token.startswith(start) for token in TRIMMED_TOKENS)


def _is_invisible(char: str) -> bool:
    # Control and format characters, surrogates, and all blanks.
    return (
        char.isspace() or char in _FILLERS or unicodedata.category(char) in {"Cc", "Cf", "Zs", "Cs"}
    )


def _token_length_at(text: str, at: int) -> int:
    """Return the length of the end token that begins at `at`, or 0."""
    if text[at] not in _FIRST_CHARS:
        return 0
    near = text[at : at + _MAX_TOKEN].casefold()
    return max((len(token) for token in TRIMMED_TOKENS if near.startswith(token)), default=0)


def _content_start(text: str) -> int:
    """Return where the content begins."""
    at = begin = 0
    while at < len(text):  # pragma: no branch  # the text has content
        if text[at] in INVISIBLE:
            at += 1
            begin = at
        elif text[at] in _BLANK:
            at += 1
        elif (token := _token_length_at(text, at)) and _is_lead_token(text, at + token):
            at += token
            begin = at
        else:
            break
    return _skip_blanks(text, begin) if begin else 0


def _is_lead_token(text: str, at: int) -> bool:
    """Whether a leading control token that ends at `at` is followed by text or a line break.

    Followed by a space, it may be the first word of a sentence.
    """
    line = _skip_blanks(text, at)
    return line == at or any(end in text[at:line] for end in _LINE_ENDS)


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _content_end(text: str) -> int:
    """Return where the content ends."""
    end = last = len(text)
    tokens = TRIMMED_TOKENS if "<s>" not in text else _NOT_STRIKETHROUGH
    while last:  # pragma: no branch  # the text has content
        before = _skip_blanks_back(text, last)
        if before and text[before - 1] in INVISIBLE:
            end = last = before - 1
        elif (token := _token_length_before(text, before, tokens)) and _is_trail_token(
            text, before - token
        ):
            end = last = before - token
        else:
            break
    return _skip_blanks_back(text, end) if end < len(text) else end


def _skip_blanks_back(text: str, at: int) -> int:
    while at and text[at - 1] in _BLANK:
        at -= 1
    return at


def _token_length_before(text: str, at: int, tokens: tuple[str, ...] = TRIMMED_TOKENS) -> int:
    """Return the length of the end token that ends at `at`, or 0."""
    near = text[max(0, at - _MAX_TOKEN) : at].casefold()
    if not near.endswith(_LAST_CHARS):
        return 0
    return max((len(token) for token in tokens if near.endswith(token)), default=0)


def _is_trail_token(text: str, at: int) -> bool:
    """Whether a token that begins at `at` is not the last word of a sentence."""
    line = _skip_blanks_back(text, at)
    if line in {0, at}:
        return True
    if any(end in text[line:at] for end in _LINE_ENDS):
        return not text.endswith(_COLONS, 0, line)
    return text.endswith(_SENTENCE_ENDS, 0, line)
