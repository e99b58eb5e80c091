"""`surecall dev`: commands for work on surecall itself.

`dialect` derives a text dialect from a chat template.
`new-drift` adds a malformed reply to the corpus, with stubs for its repair.

    REPLY.json ─► keys removed ─► parsed as by `explain` ─► tests/corpus/replies/<id>.json
                                                        ─► stubs of a fault and a repair, next steps

The file passes the corpus tests unchanged, because `expected` is how the reply is parsed now. The
file lists what a person must check.
"""

import json
import string
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import click
import jinja2
import jinja2.sandbox
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
from surecall.values.types import JSON, Plan, Reply, ToolCall, ToolSpec
from surecall.wire.chat_format import decode, is_finite
from surecall.wire.dialects import recover
from surecall.wire.dialects.writers import (
    SAMPLE_KEYS,
    SAMPLE_NAME,
    SAMPLE_TEXT,
    SAMPLE_VALUES,
    TemplateDialect,
    corpus_cases,
    dialect_of_renderings,
)
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


# A dialect from a chat template, which is untrusted: it runs in jinja2's immutable sandbox, in a
# process of its own that may use few seconds and little memory.

MAX_TEMPLATE: Final = 200_000
MAX_RENDERED: Final = 1_000_000
_SECONDS: Final = 10
_CPU_SECONDS: Final = 3
_MEMORY: Final = 512 * 1024 * 1024
_ASKED: Final = "qqaskedqq"
_GRAMMARS: Final = {
    "A": "a JSON object in an envelope",
    "B": "a name, then an object",
    "C": "tagged parameters",
    "D": "a Python call",
}
_TOOLS: Final = (
    ToolSpec(
        SAMPLE_NAME,
        "",
        {"type": "object", "properties": {key: {"type": "string"} for key in SAMPLE_KEYS}},
    ),
)


@command.command("dialect")
@click.argument("file", metavar="TEMPLATE", type=click.File("rb"))
@click.option("--row", default="X1", help="Row id for the new dialect, such as A20.")
@click.option("--cases", is_flag=True, help="Also print five cases for the corpus, as JSON.")
def dialect(*, file: BinaryIO, row: str, cases: bool) -> ExitCode:
    """Derive how a model writes calls from its chat template.

    TEMPLATE is a Jinja file, a tokenizer_config.json, or - for standard input. Prints the marks
    around a call, whether surecall parses them, and if not, the lines to add.
    """
    try:
        template = read_template(file.read(MAX_TEMPLATE + 1))
        found = derive_dialect(template)
    except ConfigError as error:
        return print_error(str(error), FAILED)
    print_text("\n".join(_dialect_lines(found, row)))
    if cases:
        print_text(json.dumps(corpus_cases(found, row), ensure_ascii=False, indent=1))
    return 0


def read_template(data: bytes) -> str:
    """Return the template in a file: its text, or the field of a tokenizer's configuration."""
    if len(data) > MAX_TEMPLATE:
        raise ConfigError(f"the template has more than {MAX_TEMPLATE} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ConfigError("the template is not UTF-8 text") from None
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return text
    template = value.get("chat_template") if isinstance(value, dict) else None
    if isinstance(template, list):
        named = {item.get("name"): item.get("template") for item in template}
        template = named.get("tool_use", named.get("default"))
    if not isinstance(template, str):
        raise ConfigError("the JSON has no chat_template")
    return template


def derive_dialect(template: str) -> TemplateDialect:
    """Derive the dialect by rendering a template with and without calls."""
    pairs = dict(zip(SAMPLE_KEYS, SAMPLE_VALUES, strict=True))
    first = {SAMPLE_KEYS[0]: SAMPLE_VALUES[0]}
    for is_text in (False, True):
        texts = _render_all(
            template,
            [
                _conversation(SAMPLE_TEXT),
                _conversation("", [first], is_text=is_text),
                _conversation("", [first, first], is_text=is_text),
                _conversation("", [pairs], is_text=is_text),
            ],
        )
        plain, one, two, both = texts
        if all(SAMPLE_NAME in text and SAMPLE_VALUES[0] in text for text in (one, both)):
            return dialect_of_renderings(plain, one, two)
    raise ConfigError("the template does not write calls, or fails if there are any")


def _conversation(text: str, calls: Sequence[JSON] = (), *, is_text: bool = False) -> list[JSON]:
    """Return a conversation whose last message has calls; with `is_text`, arguments are JSON."""
    rendered = [
        {
            "id": "call00001",
            "type": "function",
            "function": {
                "name": SAMPLE_NAME,
                "arguments": json.dumps(arguments) if is_text else arguments,
            },
        }
        for arguments in calls
    ]
    said: JSON = {"role": "assistant", "content": text}
    return [
        {"role": "user", "content": _ASKED},
        said | {"tool_calls": rendered} if rendered else said,
    ]


def known_row(found: TemplateDialect) -> str:
    """Return the row that parses a call of the dialect, or an empty string."""
    parsed = recover(found.call, _TOOLS, weak=True).calls
    same = [(one.name, one.arguments) for one in parsed]
    expected = {SAMPLE_KEYS[0]: SAMPLE_VALUES[0]}
    return parsed[0].dialect if same == [(SAMPLE_NAME, expected)] else ""


def _dialect_lines(found: TemplateDialect, row: str) -> list[str]:
    lines = [
        f"grammar    {found.grammar}: {_GRAMMARS[found.grammar]}",
        f"opener     {found.opener!r}",
        f"separator  {found.before_arguments!r}",
        f"closer     {found.closer!r}",
        f"between    {found.between!r}",
        f"a call     {found.call!r}",
    ]
    if parsed := known_row(found):
        return [*lines, "", f"surecall parses it, as row {parsed}. Nothing to add."]
    stem = found.opener.strip() or found.call[: len(SAMPLE_NAME)]
    lines += [
        "",
        "surecall does not parse it. In surecall/wire/dialects/spelling.py, add to OPENERS",
        f"    Opener({stem!r}, {row!r}),",
    ]
    if closer := found.closer.strip():
        lines += ["and to CLOSERS, if it is missing", f"    {closer!r},"]
    lines += ["In surecall/wire/dialects/writers.py, add to WRITERS", f"    {_writer(found, row)}"]
    return [
        *lines,
        "Add the cases of --cases to tests/corpus/dialects/rows.json after a review.",
        f"The simulator then has the persona sim/dialect-{row.lower()}, and",
        "`pytest tests/wire/dialects tests/properties/test_damaged_marks.py` plays the row.",
    ]


def _writer(found: TemplateDialect, row: str) -> str:
    match found.grammar:
        case "A":
            return f"{row!r}: _wrapped_writer({found.opener!r}, {found.closer!r}),"
        case "B":
            middle = found.before_arguments.partition("{")[0]
            parts = f"{found.opener!r}, {middle!r}, {found.closer!r}"
            return f"{row!r}: _name_first_writer({parts}),"
        case _:
            template = found.call.replace(SAMPLE_NAME, "{call.name}")
            return f"{row!r}: ...,  # a new grammar: {template!r}"


def _render_all(template: str, conversations: Sequence[list[JSON]]) -> list[str]:
    """Render conversations in a limited process; a failed one renders as an empty text."""
    request = json.dumps({"template": template, "conversations": list(conversations)})
    try:
        done = subprocess.run(
            [sys.executable, "-m", "surecall.cli.dev"],
            input=request,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"rendering the template took more than {_SECONDS} seconds") from None
    try:
        answer = msgspec.json.decode(done.stdout, type=dict[str, Any])
    except msgspec.DecodeError:
        raise ConfigError("rendering the template needed too much memory or time") from None
    if "error" in answer:
        raise ConfigError(f"the template is not valid: {answer['error']}")
    texts: list[str] = answer["texts"]
    return texts


def render(template: str, conversations: Sequence[list[JSON]]) -> JSON:
    """Render conversations in the sandbox."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _fixed_time
    try:
        compiled = environment.from_string(template)
    except jinja2.TemplateError as error:
        return {"error": str(error)[:200]}
    return {"texts": [_render_one(compiled, messages) for messages in conversations]}


def _render_one(compiled: jinja2.Template, messages: list[JSON]) -> str:
    text = ""
    try:
        for piece in compiled.generate(
            messages=messages, tools=None, add_generation_prompt=False, bos_token="", eos_token=""
        ):
            text += piece
            if len(text) > MAX_RENDERED:
                return ""
    except Exception:  # noqa: BLE001 (a template may fail in any way, also on purpose)
        return ""
    return text


def _to_json(value: object, indent: int | None = None, **_: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> str:
    raise jinja2.TemplateError(message)


def _fixed_time(pattern: str) -> str:
    return pattern


def _limit_process() -> None:
    """Limit the time and the memory of this process, where the system can."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 (not on every system)

    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    if sys.platform != "darwin":
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


if __name__ == "__main__":
    _limit_process()
    given = json.load(sys.stdin)
    json.dump(render(given["template"], given["conversations"]), sys.stdout)
