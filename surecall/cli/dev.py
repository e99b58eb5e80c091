"""`surecall dev`: commands for work on surecall itself.

`new-drift` adds a malformed reply to the corpus, with stubs for its repair.

    REPLY.json ─► keys removed ─► parsed as by `explain` ─► tests/corpus/replies/<id>.json
                                                        ─► stubs of a fault and a repair, next steps

The file passes the corpus tests unchanged, because `expected` is how the reply is parsed now. The
file lists what a person must check.
"""

import json
import string
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import click
import msgspec

from surecall.cli.console import FAILED, ExitCode, print_error, print_text
from surecall.cli.explain import PRESETS, config_with, require_tool_list
from surecall.core.reply_parsing import parse_reply
from surecall.parsing.names import is_legal_name
from surecall.runtime.redaction import REDACTED, Redactor
from surecall.simulator.faults import FAULT_MODULES, SHAPE_FAULTS
from surecall.simulator.faults.shape_fault import Sample, shape_fault
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError, Fault
from surecall.values.nesting import TooDeep
from surecall.values.types import JSON, Plan, Reply, ToolCall
from surecall.wire.chat_format import decode, is_finite
from surecall.wire.transforms import RESPONSE

REPLIES: Final = Path("tests", "corpus", "replies")
_MOST_BYTES: Final = 2_000_000
_MAX_NAME: Final = 100
_SLUG: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_NO_FAULT = "no fault reproduces this reply yet"
_TO_CHECK = "is `expected` what the model meant? It is how the reply was parsed at first"
_GUESSED_NOTE = "; are `tools` the offered tools? They were guessed from the calls"
# Prefixes of keys that traces do not redact.
_KEY_STARTS: Final = ("AIza", "AKIA", "eyJ", "ghp_", "github_pat_", "glpat-", "gsk_", "hf_", "xox")
_MIN_KEY_CHARS: Final = 16
_MIN_VALUE_CHARS: Final = 8
# ASCII only, so that every character keeps its position.
_ASCII_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
# Characters between a field name and its value, including escaped quotes.
_SEPARATORS: Final = tuple(" \t:='\"\\")
_KEY_FIELDS: Final = frozenset(
    {"api_key", "apikey", "authorization", "password", "secret", "token", "access_token"}
)


@click.group(invoke_without_command=True, no_args_is_help=False)
@click.pass_context
def command(context: click.Context) -> None:
    """Work on surecall itself, in a checkout of the project."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@command.command("new-drift")
@click.argument("file", metavar="REPLY.json", type=click.File("rb"))
@click.option("--id", "case_id", default="", help="Name of the case and its file.")
@click.option("--source", default="", help="Name of the source, such as wild-2026-11-acme.")
@click.option("--tools", type=click.File("rb"), help="JSON list of the tools in the request.")
@click.option("--provenance", default="", help="Description of where the reply was seen.")
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    help="Folder to write to.  [the project's tests/corpus/replies]",
)
def new_drift(
    *,
    file: BinaryIO,
    case_id: str,
    source: str,
    tools: BinaryIO | None,
    provenance: str,
    into: Path | None,
) -> ExitCode:
    """Add a malformed reply to the test corpus.

    For contributors, in a checkout of the project. REPLY.json is a file, or - for standard input.
    Writes a corpus file with the reply and its current parse result, prints stubs of a fault and a
    repair, and lists the next steps. Never overwrites a file.
    """
    folder = into or _find_corpus(Path.cwd())
    name, source = _choose_names(case_id, source, _file_stem(file))
    cleaner = _KeyRemover()
    body = cleaner.clean_value(_read_json(file, "the reply"))
    offered = (
        []
        if tools is None
        else cleaner.clean_value(require_tool_list(_read_json(tools, "--tools")))
    )
    case = _build_case(name, source, body, offered) | (
        {"provenance": cleaner.clean_text(provenance)} if provenance.strip() else {}
    )
    path, text = folder / f"{name}.json", _case_text(case)
    try:
        with path.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        return print_error(f"{path} already exists: choose another --id", FAILED)
    except OSError as error:
        return print_error(f"cannot write {path}: {error.strerror or error}", FAILED)
    print_text("\n".join(_report_lines(path, case, cleaner.count)))
    return 0


def _find_corpus(start: Path) -> Path:
    """Return the corpus of the checkout that contains a folder."""
    for folder in (start, *start.parents):
        if (folder / REPLIES).is_dir() and (folder / "surecall/simulator/faults").is_dir():
            return folder / REPLIES
    raise ConfigError(
        "not a checkout of surecall: run the command in one, or pass a folder with --into"
    )


def _file_stem(file: BinaryIO) -> str:
    """Return the name of a file without its suffix; blank for standard input."""
    name = str(getattr(file, "name", ""))
    return "" if name.startswith("<") else Path(name).stem


def _choose_names(case_id: str, source: str, stem: str) -> tuple[str, str]:
    """Return the id and the source of a case; raise if a given one does not fit a file name."""
    for flag, given in (("--id", case_id), ("--source", source)):
        plain = _SLUG.issuperset(given.lower()) and given[:1] not in {".", "_", "-"}
        if not plain or len(given) > _MAX_NAME:
            raise ConfigError(
                f"{flag} may have up to {_MAX_NAME} letters, digits, '.', '_', and '-', and "
                "must begin with a letter or digit"
            )
    words = "".join(char if char in _SLUG else " " for char in stem.lower()).split()
    tail = "-".join(words).strip("._-")[:_MAX_NAME] or "reply"
    name = case_id or (f"{source.lower()}-{tail}" if source else f"wild-{tail}")
    source = source or name
    if not name.startswith(source.lower()):
        raise ConfigError(f"the id must begin with the source: --id {source.lower()}-…")
    return name, source


def _read_json(file: BinaryIO, label: str) -> Any:
    """Read and decode an untrusted JSON file."""
    data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ConfigError(
            f"{label} is larger than {_MOST_BYTES} bytes: reduce it to the malformed part"
        )
    try:
        value = decode(data)
    except ValueError as error:
        reason = "nested too deeply" if isinstance(error, TooDeep) else "not JSON"
        raise ConfigError(f"{label} is {reason}") from None
    # It was decoded, but a case must be the original reply.
    if not is_finite(json.loads(data.decode("utf-8-sig", "replace"), strict=False)):
        raise ConfigError(f"{label} has NaN or Infinity, which are not valid JSON")
    return value


class _KeyRemover:
    """Removes what looks like a key, and counts the removals."""

    def __init__(self) -> None:
        self._redactor = Redactor()
        self.count = 0

    def clean_value(self, value: Any) -> Any:
        """Return a copy of a JSON value without keys."""
        match value:
            case str():
                return self.clean_text(value)
            case list():
                return [self.clean_value(item) for item in value]
            case dict():
                return {
                    self.clean_text(key): self._clean_field(key, item)
                    for key, item in value.items()
                }
            case _:
                return value

    def _clean_field(self, key: str, value: Any) -> Any:
        """Return the value of a field without keys; a field named like a key is removed whole."""
        if key.lower().replace("-", "_") in _KEY_FIELDS and isinstance(value, str) and value:
            self.count += 1
            return REDACTED
        return self.clean_value(value)

    def clean_text(self, text: str) -> str:
        """Return a text without keys."""
        before, text = text, self._redactor.redact_text(text)
        plain = text.translate(_ASCII_LOWER)
        spans = [span for start in _KEY_STARTS for span in _key_spans(text, start)]
        spans += [span for field in _KEY_FIELDS for span in _value_spans(plain, field)]
        kept, at = [], 0
        for start, end in sorted(spans):
            kept += [text[at:start], REDACTED] if start >= at else []
            at = max(at, end)
        cleaned = "".join((*kept, text[at:]))
        self.count += cleaned.count(REDACTED) - before.count(REDACTED)
        return cleaned


def _key_spans(text: str, start: str) -> Iterable[tuple[int, int]]:
    """Yield the spans of long words with a prefix."""
    at = text.find(start)
    while at >= 0:
        end = _word_end(text, at)
        if not text[max(0, at - 1) : at].isalnum() and end - at >= _MIN_KEY_CHARS:
            yield at, end
        at = text.find(start, end)


def _value_spans(text: str, field: str) -> Iterable[tuple[int, int]]:
    """Yield the spans of a field's values in JSON, a header, or an assignment."""
    at = text.find(field)
    while at >= 0:
        start = named = at + len(field)
        while text[start : start + 1] in _SEPARATORS:
            start += 1
        # Requiring a separator, which ends a word, avoids scanning a long word repeatedly.
        if {":", "="} & {*text[named:start]}:
            end = _word_end(text, start)
            if end - start >= _MIN_VALUE_CHARS:
                yield start, end
        at = text.find(field, start)


def _word_end(text: str, start: int) -> int:
    while text[start : start + 1].isalnum() or text[start : start + 1] in ("-", "_", "."):
        start += 1
    return start


def _build_case(name: str, source: str, body: Any, tools: Sequence[Any]) -> JSON:
    """Return the corpus case for a reply, and its current parse result."""
    guessed = [] if tools else _guess_tools(_parse_reply(body, []))
    reply = _parse_reply(body, tools or guessed)
    known = any(source in drift.sources for drift in SHAPE_FAULTS.values())
    return {
        "id": name,
        "source": source,
        "provenance": "write here where it was seen: provider, model, link",
        **({} if known else {"no_fault": _NO_FAULT}),
        "to_check": _TO_CHECK + (_GUESSED_NOTE if guessed else ""),
        "tools": [*tools] or guessed,
        "presets": [*PRESETS],
        "body": body,
        "expected": _expected_json(reply),
    }


def _parse_reply(body: Any, tools: Sequence[Any]) -> Reply | Fault:
    registry = ToolRegistry(tools)
    specs = tuple(definition.spec for definition in registry.definitions)
    return parse_reply(body, Plan("", (), specs, known_tools=specs), config_with(PRESETS), registry)


def _guess_tools(reply: Reply | Fault) -> list[JSON]:
    """Return definitions of the called tools, which accept any arguments."""
    calls = reply.calls if isinstance(reply, Reply) else ()
    names = dict.fromkeys(call.name for call in calls if is_legal_name(call.name))
    found: list[JSON] = []
    for name in names:
        tool = {"name": name, "description": "", "parameters": {"type": "object"}}
        if ToolRegistry(found).find(name) is None:
            found.append(tool)
    return found


def _expected_json(reply: Reply | Fault) -> JSON:
    if isinstance(reply, Fault):
        return {"text": "", "code": reply.code}
    codes = {call.problem.code if call.problem else None for call in reply.calls}
    if len(codes) == 1 and None not in codes:
        return {"text": reply.text, "code": codes.pop()}
    return {"text": reply.text, "calls": [_call_json(call) for call in reply.calls]}


def _call_json(call: ToolCall) -> JSON:
    if call.problem is not None:
        return {"name": call.name, "code": call.problem.code}
    return {"name": call.name, "arguments": call.arguments}


def _case_text(case: JSON) -> str:
    """Encode a case; unprintable characters are escaped."""
    text = json.dumps(case, indent=2, ensure_ascii=False, allow_nan=False)
    if not text.replace("\n", "").isprintable():
        text = json.dumps(case, indent=2, allow_nan=False)
    return f"{text}\n"


def _report_lines(path: Path, case: JSON, redacted: int) -> Iterable[str]:
    yield f"wrote {path}"
    if redacted:
        yield f"removed {redacted} that looked like keys; check for others before you share it"
    yield f"parsed as: {msgspec.json.encode(case['expected']).decode()}"
    name = "".join(char if char.isalnum() else "_" for char in case["id"].lower())
    repair = f"assistant_{name}_repaired"
    name = f"reply_{name}" if name[0].isdigit() else name
    yield from ("", *_fault_stub(name, case["source"], repair), "", *_repair_stub(repair), "")
    yield from _next_step_lines(path, case, repair)


def _fault_stub(name: str, source: str, repair: str) -> Iterable[str]:
    """Yield the lines of a fault to paste, with the current names of the code."""
    sample = Sample.__name__
    modules = ", ".join(f"{module.__name__.rpartition('.')[2]}.py" for module in FAULT_MODULES)
    yield f"# Fault: put it into one of {modules} in surecall/simulator/faults/."
    yield f'@{shape_fault.__name__}(on_message, "message", "{source}", repairs=("{repair}",))'
    yield f"def {name}(message: JSON, _{sample.lower()}: {sample}) -> JSON:"
    yield '    """Describe in one line what is malformed."""'
    yield "    return message  # a malformed copy, or this object if it does not apply"


def _repair_stub(repair: str) -> Iterable[str]:
    yield f"# Repair: put it into {_repair_path()}"
    yield "@RESPONSE.register"
    yield f"def {repair}(message: JSON) -> JSON:"
    yield '    """Describe in one line what is repaired."""'
    yield "    return message  # a repaired copy, or this object if it does not apply"


def _repair_path() -> str:
    return f"{RESPONSE[RESPONSE.names[0]].__module__.replace('.', '/')}.py"


def _next_step_lines(path: Path, case: JSON, repair: str) -> Iterable[str]:
    yield "Next steps:"
    yield f"1. In {path}: correct `expected`, `tools`, and `provenance`; delete `to_check`."
    yield f"2. Run: .venv/bin/pytest tests/properties/test_corpus.py -k {case['id']}"
    yield "   It fails until the reply is parsed as expected. If it passes, skip step 3."
    yield f"3. Paste the repair into {_repair_path()} and add its name to RESPONSE_NORMALIZERS in"
    yield f"   surecall/settings/endpoint_profile.py: {repair}. Repeat step 2."
    yield "4. Paste the fault into its module. If it has no repair, delete `repairs=…`."
    yield f"   Delete `no_fault` from {path.name}."
    yield "5. Run: .venv/bin/pytest tests/properties/test_corpus.py tests/simulator/faults"
    yield "     tests/eval/running/test_trial_run.py"
    yield "   If a test asks for it, add a line about the fault to APART in"
    yield "   tests/simulator/faults/test_faults_pairs.py (faults that never occur with it)"
    yield "   or to UNCURED in tests/support/persona_trials.py (its result without presets)."
    yield "6. Run: make docs && make check"
