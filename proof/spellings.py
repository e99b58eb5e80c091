"""Forty-odd ways to write the name of a tool so that it may pass for another one, or for none."""

import unicodedata
from collections.abc import Callable
from typing import Final, TypeAlias

Spelling: TypeAlias = Callable[[str], str]
_LOOKALIKES: Final = str.maketrans("aeopcxys", "аеорсхуѕ")  # noqa: RUF001  # Cyrillic, on purpose
_FULLWIDTH: Final = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


def _inside(mark: str) -> Spelling:
    return lambda name: f"{name[:1]}{mark}{name[1:]}"


def _camel(name: str) -> str:
    first, *others = name.replace("-", "_").split("_")
    return first + "".join(word.title() for word in others)


SPELLINGS: Final[dict[str, Spelling]] = {
    "as it is": str,
    "upper case": str.upper,
    "lower case": str.lower,
    "title case": str.title,
    "other case": str.swapcase,
    "camel case": _camel,
    "Kelvin sign": lambda name: name.replace("k", "\u212a").replace("K", "\u212a"),
    "long s": lambda name: name.replace("s", "\u017f"),
    "dotless i": lambda name: name.replace("i", "\u0131"),
    "dotted I": lambda name: name.replace("i", "\u0130"),
    "sharp s": lambda name: name.replace("ss", "\u00df"),
    "ligature": lambda name: name.replace("fi", "\ufb01").replace("ff", "\ufb00"),
    "full width": lambda name: name.translate(_FULLWIDTH),
    "lookalikes": lambda name: name.translate(_LOOKALIKES),
    "decomposed": lambda name: unicodedata.normalize("NFKD", name) + "\u0301",
    "bold letters": lambda name: "".join(
        chr(0x1D41A + ord(mark) - 97) if "a" <= mark <= "z" else mark for mark in name
    ),
    "dots": lambda name: name.replace("_", ".").replace("-", "."),
    "hyphens": lambda name: name.replace("_", "-"),
    "underscores": lambda name: name.replace("-", "_"),
    "spaces": lambda name: name.replace("_", " ").replace("-", " "),
    "no separators": lambda name: name.replace("_", "").replace("-", ""),
    "doubled underscore": lambda name: name.replace("_", "__") + "_",
    "zero-width space": _inside("\u200b"),
    "zero-width joiner": _inside("\u200d"),
    "soft hyphen": _inside("\u00ad"),
    "right-to-left mark": _inside("\u202e"),
    "byte order mark": lambda name: "\ufeff" + name,
    "NUL inside": _inside("\0"),
    "NUL behind": "{}\0".format,
    "NUL and another name": "{}\0other".format,
    "blanks around": "  {}\t\n".format,
    "no-break space": "\u00a0{}".format,
    "vertical tab": "{}\x0b".format,
    "functions.": "functions.{}".format,
    "functions:": "functions:{}".format,
    "Functions.": "Functions.{}".format,
    "twice a prefix": "functions.functions.{}".format,
    "tools.": "tools.{}".format,
    "default_api.": "default_api.{}".format,
    "google:": "google:{}".format,
    "tool:": "tool:{}".format,
    "a namespace": "mcp__server__{}".format,
    "brackets": "{}()".format,
    "control token": "{}<|channel|>commentary".format,
    "control token before": "<|call|>{}".format,
    "quotes": '"{}"'.format,
    "back ticks": "`{}`".format,
    "a path": "./{}".format,
    "a path up and down": "x/../{}".format,
    "per cent": lambda name: "".join(f"%{ord(mark):02x}" for mark in name),
    "entities": lambda name: "".join(f"&#{ord(mark)};" for mark in name),
    "escapes": lambda name: "".join(f"\\u{ord(mark):04x}" for mark in name),
    "a number behind": "{}:0".format,
    "plural": "{}s".format,
    "one letter less": lambda name: name[:-1],
    "twice": lambda name: name + name,
    "very long": lambda name: name.ljust(5_000, "_"),
    "half a surrogate": "{}\ud800".format,
}
