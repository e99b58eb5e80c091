"""D16: no text of a model, a provider or a scenario becomes code, or more than text.

A run is made in which every name, id, error and answer is hostile. All of its reports are written
and every command that shows it prints it.
"""

import contextlib
import io
import itertools
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec

from proof.claims import Claim, Outcome, gathered
from surecall import ToolLoopRunner, cli
from surecall.cli.target import write_run_reports
from surecall.eval.report.report_files import load_results, write_trials
from surecall.eval.storage.store import open_for_reading, open_or_resume
from surecall.eval.storage.trial import Cell, Key, ServedRequest, Trial
from surecall.runtime.recording import dump_trace
from surecall.testing import ScriptedModel, calls, says
from surecall.values.trace import Trace
from tests.support.hostile_texts import PAYLOADS
from tests.support.trials import SAME

# One comes before the name of the default profile, one after it: the first is shown first.
HARMLESS = ("a word", "harmless")
Shape = Counter[tuple[str, tuple[str, ...]]]
# In an event, whatever a model, a provider or a tool has a say in.
SPOKEN = {"text", "content", "name", "model", "message", "id", "call_id", "response_id", "code"}
SPOKEN |= {"provider", "finish_reason", "reasoning_content", "arguments", "description", "run_id"}
DATA_BLOCK = "application/x-surecall-traces"
OWN_LINKS = ("#", "data:,")
LINKS = ("src", "href", "action", "data", "srcset", "formaction", "xlink:href", "poster")
# Run in a folder that holds one run; `@` is where it is.
COMMANDS = (
    ("report", "@", "--format", "markdown", "-o", "-"),
    ("report", "@", "--format", "json", "-o", "-"),
    ("report", "@", "--format", "jsonl", "-o", "-"),
    ("report", "@", "--format", "junit", "-o", "-"),
    ("compare", "@", "@"),
    ("compare", "@", "@", "--json"),
    ("ls", "runs", "--runs", "runs"),
    ("replay", "@"),
    ("replay", "@/1"),
    ("replay", "@/1", "--json"),
    ("explain", "reply.json"),
    ("explain", "reply.json", "--json"),
    ("explain", "words.txt"),
)


def attempt(size: int, seed: int) -> Outcome:
    """Try every payload, and pairs of them up to `size` texts."""
    events, usual = recorded_events(), [Page(page_of([word])).shape for word in HARMLESS]
    failures = [problem for text in texts(size, seed) for problem in tried(text, events, usual)]
    return Outcome(
        f"{size} texts (markup, scripts, terminal and direction characters, rich markup, paths) as "
        "model, profile, scenario, error, id, answer, tool and argument: page parsed, "
        f"{len(COMMANDS)} commands printed, files listed",
        size,
        gathered(failures),
        figures="no tag, script, handler, or URL but our own; only printable characters "
        "printed; nothing written beside the output",
    )


def texts(size: int, seed: int) -> list[str]:
    """Return the payloads, then pairs of them."""
    chance = random.Random(seed)
    if size <= len(PAYLOADS):
        return chance.sample(PAYLOADS, size)
    pairs = ("".join(chance.choices(PAYLOADS, k=2)) for _ in itertools.count())
    return [*PAYLOADS, *itertools.islice(pairs, size - len(PAYLOADS))]


class Page(HTMLParser):
    """A page taken apart: how often each tag comes with which attributes, and its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.shape: Shape = Counter()
        self.problems: list[str] = []
        self.feed(text)
        self.close()
        # Places where a name may break come with the name.
        del self.shape["wbr", ()]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count a tag, and look at its attributes."""
        if ("type", DATA_BLOCK) in attrs:
            return  # a script that no browser runs; long texts come in several of them
        self.shape[tag, tuple(name for name, _ in attrs)] += 1
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.problems.append(f"<{tag}> has {name}")
            if name in LINKS and not (value or "#").startswith(OWN_LINKS):
                self.problems.append(f"<{tag}> leads to {value!r}")


def recorded_events() -> list[Any]:
    """Return the events of a small run, as they are written down."""

    def look(item: str) -> str:
        """Look."""
        return item

    model = ScriptedModel(calls("look", item="x"), says("done"))
    runner = ToolLoopRunner(client=model, model="m", tools=[look])
    try:
        trace: Trace = runner.run_sync("Look.").trace
    finally:
        runner.close()
    return [msgspec.json.decode(line) for line in dump_trace(trace).splitlines()]


def spoken(value: Any, text: str, *, free: bool = False) -> Any:
    """Put a text in the place of everything that is said."""
    if isinstance(value, dict):
        made = {key: spoken(each, text, free=key in SPOKEN) for key, each in value.items()}
        return made | ({"arguments": {text: [text]}} if made.get("arguments") else {})
    if isinstance(value, list):
        return [spoken(each, text, free=free) for each in value]
    return text if free and isinstance(value, str) else value


def hostile_trial(text: str, number: int, profile: str = "default") -> Trial:
    """Return a trial in which every word is the text."""
    return Trial(
        key=Key(Cell(text, profile, "production"), text, number),
        status="failed" if number % 2 else "infra",
        category=text,
        error=text,
        hint=text,
        assistant_text=text,
        fired=(text,),
        requests=(ServedRequest(0, 3, 1, provider=text),),
    )


def made_run(base: Path, text: str, events: Sequence[Any]) -> Path:
    """Store a run in which every word is the text; return its directory."""
    trace = b"\n".join(msgspec.json.encode(spoken(event, text)) for event in events)
    with open_or_resume(base, SAME) as store:
        for number, profile in ((1, "default"), (2, "default"), (1, text)):
            store.add(hostile_trial(text, number, profile), trace)
        return store.directory


def page_of(words: Sequence[str], events: Sequence[Any] = ()) -> str:
    """Return the page of a run with these words in it."""
    with tempfile.TemporaryDirectory() as name:
        directory = made_run(Path(name), words[0], events)
        _write(directory, Path(name) / "out")
        return (Path(name) / "out" / "report.html").read_text("utf-8")


def _write(directory: Path, out: Path) -> None:
    out.mkdir()
    with open_for_reading(directory) as store:
        results = load_results(store)
        write_run_reports(store, results, out)
        write_trials(out, results, store.trials(), store.trace)


def tried(text: str, events: Sequence[Any], usual: Sequence[Shape]) -> Iterator[str]:
    """Make a run with a text, write and print everything, and say what went wrong."""
    told = f"{text[:60]!r}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        directory = made_run(folder / "runs", text, events)
        (folder / "words.txt").write_text(text, "utf-8", "replace")
        reply = spoken(calls("look", item="x"), text)
        (folder / "reply.json").write_bytes(msgspec.json.encode(reply))
        before = files_in(folder)
        _write(directory, folder / "out")
        yield from (f"{told}: wrote {one}" for one in strays(before, files_in(folder)))
        yield from (f"{told}: {one}" for one in page_problems(folder / "out", usual))
        shutil.rmtree(folder / "out")
        yield from (f"{told}: {one}" for one in command_problems(folder, directory))
        yield from (f"{told}: printing wrote {one}" for one in strays(before, files_in(folder)))


def files_in(folder: Path) -> set[str]:
    """List a folder and all below it."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def strays(before: set[str], after: set[str]) -> list[str]:
    """Return what came up outside of the output; a database makes files of its own."""
    new = (name for name in after - before if not name.endswith(("-wal", "-shm")))
    return sorted(name for name in new if Path(name).parts[0] != "out")


def page_problems(out: Path, usual: Sequence[Shape]) -> Iterator[str]:
    """Say what in the reports is more than text."""
    page = Page((out / "report.html").read_text("utf-8"))
    yield from page.problems
    if page.shape not in usual:
        more = min(((page.shape - one) + (one - page.shape) for one in usual), key=len)
        yield f"the page has other tags: {list(more)[:3]}"
    try:
        ET.parse(out / "junit.xml")  # noqa: S314  # our own file
    except ET.ParseError as error:
        yield f"junit.xml cannot be read: {error}"
    for path in out.rglob("*"):
        if path.suffix == ".json":
            msgspec.json.decode(path.read_bytes())


def command_problems(folder: Path, directory: Path) -> Iterator[str]:
    """Say which command prints what it must not."""
    for command in COMMANDS:
        where = str(directory)
        printed = output_of([word.replace("@", where) for word in command], folder)
        if bad := unprintable(printed):
            yield f"{command[0]} {' '.join(command[2:])} prints {sorted(bad)}"


def output_of(command: Sequence[str], folder: Path) -> str:
    """Run a command in a folder; return what it says, on both streams."""
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, "utf-8", write_through=True)
    here = Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            cli.main(list(command))
    finally:
        os.chdir(here)
    return data.getvalue().decode("utf-8")


def unprintable(text: str) -> set[str]:
    """Return the characters that could do something to a terminal."""
    return {char for char in text if not char.isprintable() and char != "\n"}


CLAIM = Claim(
    "D16",
    "Model output is always treated as plain text.",
    attempt,
    (327, 2000, 20_000),
    long=True,
)
