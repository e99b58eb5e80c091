"""`surecall new-drift`: a bent reply becomes a file of the corpus, and the stubs for its cure.

    REPLY.json ─► keys taken out ─► read as by `explain` ─► tests/corpus/replies/<id>.json
                                                        ─► stubs of a fault and a cure, next steps

The file passes the corpus tests as it is: `expected` is what the reader makes of the reply now.
Whether that is right is for a person to say, so the file says what has to be checked.
"""

import json
import string
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import click
import msgspec

from surecall.cli.common import FAILED, complain, say
from surecall.cli.explain import PRESETS
from surecall.core.inbound import inbound
from surecall.parsing.names import is_legal
from surecall.runtime.redaction import REDACTED, Redactor
from surecall.settings.config import ToolCallingConfig
from surecall.settings.presets import PRESET
from surecall.simulator.faults import FAULT_MODULES, SHAPE_FAULTS
from surecall.simulator.faults.shape_fault import Sample, shape_fault
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError, Fault
from surecall.values.nesting import TooDeep
from surecall.values.types import JSON, Plan, Reply, ToolCall
from surecall.wire.messages import decode
from surecall.wire.plain_json import is_finite
from surecall.wire.transforms import RESPONSE

REPLIES: Final = Path("tests", "corpus", "replies")
_FAULTS: Final = Path("surecall", "simulator", "faults")
_MOST_BYTES: Final = 2_000_000
_LONGEST_NAME: Final = 100
_SLUG: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_NO_FAULT = "no fault has been written for this reply yet"
_TO_CHECK = "whether `expected` is what the model meant: it is what was read when this was written"
_GUESSED = "; whether `tools` are those that were offered: they are guessed from the calls"
# How keys of other makers than those that a trace looks for begin.
_KEY_STARTS: Final = ("AIza", "AKIA", "eyJ", "ghp_", "github_pat_", "glpat-", "gsk_", "hf_", "xox")
_KEY_MARKS: Final = tuple("-_.")
_SHORTEST_KEY: Final = 16
_SHORTEST_VALUE: Final = 8
# A table of ASCII alone keeps every character in its place.
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
# What may stand between the name of a field and its value, also where quotes are escaped.
_BETWEEN: Final = tuple(" \t:='\"\\")
_KEY_FIELDS: Final = frozenset(
    {"api_key", "apikey", "authorization", "password", "secret", "token", "access_token"}
)


@click.command()
@click.argument("file", metavar="REPLY.json", type=click.File("rb"))
@click.option("--id", "case_id", default="", help="Name of the case and of its file.")
@click.option("--source", default="", help="Name of where it is from, such as wild-2026-11-acme.")
@click.option("--tools", type=click.File("rb"), help="JSON list of the tools that were offered.")
@click.option("--provenance", default="", help="Where it was seen, in words.")
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    help="Folder to write to.  [the project's tests/corpus/replies]",
)
def command(
    *,
    file: BinaryIO,
    case_id: str,
    source: str,
    tools: BinaryIO | None,
    provenance: str,
    into: Path | None,
) -> int:
    """Turn a bent reply in REPLY.json (or - for standard input) into a corpus file.

    For contributors, in a checkout of the project. Writes the file with what is read of the reply
    now, prints stubs of a fault and a cure, and says what to do next. Never overwrites a file.
    """
    folder = into or _replies_of(Path.cwd())
    name, source = _names(case_id, source, _stem(file))
    cleaner = _Cleaner()
    body = cleaner.value(_json(file, "the reply"))
    offered = [] if tools is None else cleaner.value(_listed(_json(tools, "--tools")))
    case = _case(name, source, body, offered) | (
        {"provenance": cleaner.text(provenance)} if provenance.strip() else {}
    )
    path, text = folder / f"{name}.json", _written(case)
    try:
        with path.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        return complain(f"{path} is there already; choose another --id", FAILED)
    except OSError as error:
        return complain(f"cannot write {path}: {error.strerror or error}", FAILED)
    say("\n".join(_report(path, case, cleaner.count)))
    return 0


def _replies_of(start: Path) -> Path:
    """Find the corpus of the checkout that a folder belongs to."""
    for folder in (start, *start.parents):
        if (folder / REPLIES).is_dir() and (folder / _FAULTS).is_dir():
            return folder / REPLIES
    raise ConfigError(
        "this is not a checkout of surecall: run the command in one, or name a folder with --into"
    )


def _stem(file: BinaryIO) -> str:
    """Return the name of a file without its ending; standard input has none."""
    name = str(getattr(file, "name", ""))
    return "" if name.startswith("<") else Path(name).stem


def _names(case_id: str, source: str, stem: str) -> tuple[str, str]:
    """Choose the id and the source of a case; what was given must be fit for a file name."""
    for flag, given in (("--id", case_id), ("--source", source)):
        plain = _SLUG.issuperset(given.lower()) and given[:1] not in {".", "_", "-"}
        if not plain or len(given) > _LONGEST_NAME:
            raise ConfigError(
                f"{flag} may have up to {_LONGEST_NAME} letters, digits, '.', '_' and '-', and "
                "begins with a letter or digit"
            )
    words = "".join(char if char in _SLUG else " " for char in stem.lower()).split()
    tail = "-".join(words).strip("._-")[:_LONGEST_NAME] or "reply"
    name = case_id or (f"{source.lower()}-{tail}" if source else f"wild-{tail}")
    source = source or name
    if not name.startswith(source.lower()):
        raise ConfigError(f"the id must begin with the source: --id {source.lower()}-…")
    return name, source


def _json(file: BinaryIO, what: str) -> Any:
    """Read a file that somebody else wrote."""
    data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{what} is larger than {_MOST_BYTES} bytes; cut it down to what is bent")
    try:
        value = decode(data)
    except ValueError as error:
        reason = "nested too deeply" if isinstance(error, TooDeep) else "not JSON"
        raise ConfigError(f"{what} is {reason}") from None
    # It was read all the same, but a case must be the reply as it came.
    if not is_finite(json.loads(data.decode("utf-8-sig", "replace"), strict=False)):
        raise ConfigError(f"{what} holds NaN or Infinity, which JSON cannot")
    return value


def _listed(tools: Any) -> list[Any]:
    if not isinstance(tools, list):
        raise ConfigError("--tools must be a JSON list of tool definitions")
    return tools


class _Cleaner:
    """Takes out what looks like a key, and counts how often."""

    def __init__(self) -> None:
        self._redactor = Redactor()
        self.count = 0

    def value(self, value: Any) -> Any:
        """Copy a JSON value without what looks like a key in it."""
        match value:
            case str():
                return self.text(value)
            case list():
                return [self.value(item) for item in value]
            case dict():
                return {self.text(key): self._field(key, item) for key, item in value.items()}
            case _:
                return value

    def _field(self, key: str, value: Any) -> Any:
        if key.lower().replace("-", "_") in _KEY_FIELDS and isinstance(value, str) and value:
            self.count += 1
            return REDACTED
        return self.value(value)

    def text(self, text: str) -> str:
        """Copy a text without what looks like a key in it."""
        before, text = text, self._redactor.text(text)
        plain = text.translate(_LOWER)
        spans = [span for start in _KEY_STARTS for span in _keys(text, start)]
        spans += [span for field in _KEY_FIELDS for span in _values(plain, field)]
        kept, at = [], 0
        for start, end in sorted(spans):
            kept += [text[at:start], REDACTED] if start >= at else []
            at = max(at, end)
        cleaned = "".join((*kept, text[at:]))
        self.count += cleaned.count(REDACTED) - before.count(REDACTED)
        return cleaned


def _keys(text: str, start: str) -> Iterable[tuple[int, int]]:
    """Find the long words that begin so."""
    at = text.find(start)
    while at >= 0:
        end = _word_end(text, at)
        if not text[max(0, at - 1) : at].isalnum() and end - at >= _SHORTEST_KEY:
            yield at, end
        at = text.find(start, end)


def _values(text: str, field: str) -> Iterable[tuple[int, int]]:
    """Find what is given for a field in a text that holds JSON, a header or an assignment."""
    at = text.find(field)
    while at >= 0:
        start = named = at + len(field)
        while text[start : start + 1] in _BETWEEN:
            start += 1
        # Only after such a mark, which ends a word: otherwise one long word is gone through often.
        if {":", "="} & {*text[named:start]}:
            end = _word_end(text, start)
            if end - start >= _SHORTEST_VALUE:
                yield start, end
        at = text.find(field, start)


def _word_end(text: str, at: int) -> int:
    while text[at : at + 1].isalnum() or text[at : at + 1] in _KEY_MARKS:
        at += 1
    return at


def _case(name: str, source: str, body: Any, tools: Sequence[Any]) -> JSON:
    """Describe the reply and what is read of it now."""
    guessed = [] if tools else _guessed(_read(body, []))
    reply = _read(body, tools or guessed)
    known = any(source in drift.sources for drift in SHAPE_FAULTS.values())
    return {
        "id": name,
        "source": source,
        "provenance": "say here where it was seen: provider, model, link",
        **({} if known else {"no_fault": _NO_FAULT}),
        "to_check": _TO_CHECK + (_GUESSED if guessed else ""),
        "tools": [*tools] or guessed,
        "presets": [*PRESETS],
        "body": body,
        "expected": _expected(reply),
    }


def _read(body: Any, tools: Sequence[Any]) -> Reply | Fault:
    config = ToolCallingConfig()
    for name in PRESETS:
        config = PRESET[name](config)
    registry = ToolRegistry(tools)
    specs = tuple(definition.spec for definition in registry.definitions)
    return inbound(body, Plan("", (), specs, known_tools=specs), config, registry)


def _guessed(reply: Reply | Fault) -> list[JSON]:
    """Declare the tools that were called, each with any arguments."""
    calls = reply.calls if isinstance(reply, Reply) else ()
    names = dict.fromkeys(call.name for call in calls if is_legal(call.name))
    found: list[JSON] = []
    for name in names:
        tool = {"name": name, "description": "", "parameters": {"type": "object"}}
        if ToolRegistry(found).find(name) is None:
            found.append(tool)
    return found


def _expected(reply: Reply | Fault) -> JSON:
    if isinstance(reply, Fault):
        return {"text": "", "code": reply.code}
    codes = {call.problem.code if call.problem else None for call in reply.calls}
    if len(codes) == 1 and None not in codes:
        return {"text": reply.text, "code": codes.pop()}
    return {"text": reply.text, "calls": [_shown(call) for call in reply.calls]}


def _shown(call: ToolCall) -> JSON:
    if call.problem is not None:
        return {"name": call.name, "code": call.problem.code}
    return {"name": call.name, "arguments": call.arguments}


def _written(case: JSON) -> str:
    """Write a case; characters that cannot be seen become escapes."""
    text = json.dumps(case, indent=2, ensure_ascii=False, allow_nan=False)
    if not text.replace("\n", "").isprintable():
        text = json.dumps(case, indent=2, allow_nan=False)
    return f"{text}\n"


def _report(path: Path, case: JSON, redacted: int) -> Iterable[str]:
    yield f"wrote {path}"
    if redacted:
        yield f"took out {redacted} that looked like keys; look for others before you share it"
    yield f"read as: {msgspec.json.encode(case['expected']).decode()}"
    name = "".join(char if char.isalnum() else "_" for char in case["id"].lower())
    cure = f"assistant_{name}_healed"
    name = f"reply_{name}" if name[0].isdigit() else name
    yield from ("", *_fault_stub(name, case["source"], cure), "", *_cure_stub(cure), "")
    yield from _steps(path, case, cure)


def _fault_stub(name: str, source: str, cure: str) -> Iterable[str]:
    """Write a fault that can be pasted, with the names that the code has for its parts now."""
    sample = Sample.__name__
    modules = ", ".join(f"{module.__name__.rpartition('.')[2]}.py" for module in FAULT_MODULES)
    yield f"# A fault: one of {modules} in surecall/simulator/faults/, by the part that it bends."
    yield f'@{shape_fault.__name__}("message", "{source}", cures=("{cure}",))'
    yield "@on_message"
    yield f"def {name}(message: JSON, _{sample.lower()}: {sample}) -> JSON:"
    yield '    """Say in one line what is bent."""'
    yield "    return message  # a bent copy, or this object where there is nothing to bend"


def _cure_stub(cure: str) -> Iterable[str]:
    yield f"# A cure: {_home_of_cures()}"
    yield "@RESPONSE.register"
    yield f"def {cure}(message: JSON) -> JSON:"
    yield '    """Say in one line what is healed."""'
    yield "    return message  # a healed copy, or this object where there is nothing to heal"


def _home_of_cures() -> str:
    return f"{RESPONSE[RESPONSE.names[0]].__module__.replace('.', '/')}.py"


def _steps(path: Path, case: JSON, cure: str) -> Iterable[str]:
    yield "What to do next:"
    yield f"1. In {path}: correct `expected`, `tools` and `provenance`; delete `to_check`."
    yield f"2. Run: .venv/bin/pytest tests/laws/test_corpus.py -k {case['id']}"
    yield "   It fails while the reply is not read as you expect. If it passes, skip step 3."
    yield f"3. Paste the cure into {_home_of_cures()} and add its name to NORMALISERS in"
    yield f"   surecall/settings/endpoint_profile.py: {cure}. Repeat step 2."
    yield "4. Paste the fault into its module. Without a cure of its own, delete `cures=…`."
    yield f"   Delete `no_fault` from {path.name}."
    yield "5. Run: .venv/bin/pytest tests/laws/test_corpus.py tests/simulator/faults"
    yield "     tests/eval/running/test_trial_run.py"
    yield "   If a test says so, add a line about the fault to APART in"
    yield "   tests/simulator/faults/test_faults_pairs.py (faults that it never meets in a reply)"
    yield "   or to UNCURED in tests/eval/running/test_trial_run.py (its end without presets)."
    yield "6. Run: make docs && make check"
