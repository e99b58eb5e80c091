"""Grammar C again, with key and value in tags of their own: `<arg_key>` and `<arg_value>`."""

from surecall.dialects.found import Draft, NotACall
from surecall.dialects.grammar_c import KEYS, Body, tag_after
from surecall.dialects.source import Source
from surecall.dialects.spelling import CLOSERS
from surecall.types import JSON

_MAX_KEY = 400
_STRAY = ("</arg_key", "</arg_value", "<tool_sep")


def keys_follow(source: Source, at: int) -> bool:
    """Whether a name that ends here is followed by keys, or by what is left of them."""
    text = source.text
    if text.startswith("<tool_call", at):
        end = source.find("</arg_key", at)
        return 0 <= end - at < _MAX_KEY and "<" not in text[at + 1 : end]
    return text.startswith(("<arg_key", *_STRAY), at)


def read_keys(source: Source, start: int, asked: str, at: int) -> Draft:
    """Read the pairs of a call to `asked`, which begin at `at`."""
    spec = source.tools.find(asked)
    if not asked or (spec is None and not source.text.startswith(("<arg_key", "<tool_sep"), at)):
        raise NotACall("no tool is named before the keys", at)
    arguments, end, cut = _Pairs(source, Body(source, KEYS, spec)).read(at)
    return Draft(spec.name if spec else asked, arguments, start, end, None, cut)


class _Pairs:
    """Keys and values of one call."""

    def __init__(self, source: Source, body: Body) -> None:
        self._source = source
        self._body = body

    def read(self, at: int) -> tuple[JSON, int, bool]:
        source, text = self._source, self._source.text
        cut, first = False, True
        while True:
            after = source.blanks(at)
            if text.startswith(_STRAY, after):
                at = tag_after(source, after, KEYS)
            elif text.startswith("<arg_key", after) or (first and keys_follow(source, after)):
                at, cut = self._pair(after)
                first = False
            else:
                break
        if text.startswith("</tool_call", after):
            at = tag_after(source, after, KEYS)
        elif first and not text.startswith(CLOSERS, after) and after < len(text):
            raise NotACall("no keys follow", after)
        return self._body.result(), at, cut or (first and after >= len(text))

    def _pair(self, at: int) -> tuple[int, bool]:
        """Read one pair. Another tag in the place of `<arg_key>` is taken for it."""
        source, text = self._source, self._source.text
        end = text.find("</arg_key", at, at + _MAX_KEY)
        key = text[at:end].rpartition(">")[2].strip() if end >= 0 else ""
        at = source.blanks(tag_after(source, end, KEYS)) if end >= 0 else at
        while text.startswith("</arg_key", at):
            at = source.blanks(tag_after(source, at, KEYS))
        if not key or not text.startswith("<arg_value", at):
            if at >= len(text) or end < 0:
                return len(text), True
            raise NotACall("a key has no value", at)
        start = tag_after(source, at, KEYS)
        stop, after, cut = self._body.extent(start)
        self._body.store(key, text[start:stop], None)
        return after, cut
