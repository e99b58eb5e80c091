"""Writes the generated documents in `docs/` from the code, the data and the corpus.

With `--check` it only compares, so that none of them can fall behind.
"""

import importlib.metadata
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.peers.page import PAGE, with_results
from bench.peers.page import readme_table as peers_table
from bench.peers.results import load
from scripts.features.table import page, readme_table
from scripts.marked import with_part
from surecall.cli import COMMANDS, cli
from surecall.cli.demo_page import right
from surecall.eval.report.page.html import render_page
from surecall.eval.report.page.snapshot import report_of_snapshot
from surecall.eval.settings.fields import documentation
from surecall.parsing.repairs import BY_CHOICE, OF_MEANING, OF_SPELLING, OF_TYPE
from surecall.settings.capabilities import capabilities_for
from surecall.settings.catalog import ModelCatalog
from surecall.settings.config import ToolCallingConfig
from surecall.settings.connection import Limits, RetryPolicy
from surecall.settings.endpoint_profile import FAMILIES, EndpointProfile
from surecall.settings.overlay import Settings, unset_fields
from surecall.settings.presets import PRESET, RAW
from surecall.settings.provider_sources import KNOWN
from surecall.settings.providers import ROWS
from surecall.settings.sampling import SamplingCatalog
from surecall.settings.setting_docs import setting_docs
from surecall.simulator.demo.contest import OWN, PLAIN, SDK, Row, contest
from surecall.simulator.demo.shapes import TITLES, drawn, every_shape
from surecall.simulator.faults import FAMILIES as KINDS
from surecall.simulator.faults import SHAPE_FAULTS, ShapeFault
from surecall.simulator.faults.stream_fault import STREAM_FAULTS
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.values.errors import ErrorCode

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "tests" / "corpus" / "replies"
TRY_IT = ROOT / "scripts" / "try_it"


def table(head: str, rows: Iterable[Iterable[object]]) -> str:
    """Write a Markdown table; `head` names the columns, separated by bars."""
    columns = [column.strip() for column in head.split("|")]
    lines = [columns, ["---"] * len(columns), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def code(value: object) -> str:
    """Write a value as JSON, in code style."""
    return f"`{msgspec.json.encode(value).decode()}`"


def changes(name: str) -> str:
    """Say which settings a preset changes."""
    before, after = RAW.to_mapping(), PRESET[name](RAW).to_mapping()
    return ", ".join(f"`{key}`" for key in after if after[key] != before[key])


def defaults_of(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    """List the fields of a settings class with their defaults."""
    return [(f"`{item.name}`", code(item.default)) for item in msgspec.structs.fields(kind)]


def settings_table(kind: type[Settings]) -> str:
    """List the settings of a class with their defaults and what they do."""
    docs, defaults = setting_docs(kind), unset_fields(kind)
    rows = ((f"`{key}`", _default(defaults[key].value), docs[key]) for key in defaults)
    return table("setting | default | what it does", rows)


def _default(value: object) -> str:
    return "see below" if isinstance(value, EndpointProfile) else code(value)


def sections() -> Iterable[str]:
    """Write the reference, section by section."""
    yield "# Reference\n\nGenerated from the code by `make docs`. Do not edit."
    yield "## Settings of a run (`ToolCallingConfig`)"
    yield (
        "A field that you leave out has the value that is recommended for the endpoint and model. "
        "The default is that value for an endpoint nothing is known of. Only `presets.raw()` "
        "repairs nothing."
    )
    yield settings_table(ToolCallingConfig)
    yield "## Endpoint and model (`EndpointProfile`, as `config.endpoint`)"
    yield (
        "Presets set these from the endpoint's address and the model's name. In a mapping they may "
        "stand beside the settings of the run."
    )
    yield settings_table(EndpointProfile)
    yield "## Limits of a connection (`Limits`)"
    yield table("limit | default", defaults_of(Limits))
    yield "## Retry of a request (`RetryPolicy`)"
    yield table("setting | default", defaults_of(RetryPolicy))
    yield "## Error codes"
    yield table("code | meaning", ((f"`{item}`", item.meaning) for item in ErrorCode))
    yield "## Presets"
    yield table(
        "preset | what it does | what it changes",
        ((f"`{name}`", PRESET.help(name), changes(name)) for name in PRESET.names),
    )
    yield "## Transforms"
    for field, family in FAMILIES.items():
        yield f"### `{field}`"
        rows = [(f"`{name}`", family.help(name)) for name in family.names]
        yield table("name | what it does", rows)
    yield from catalogs()


def catalogs() -> Iterable[str]:
    """Write what is known about providers, models and sampling."""
    yield "## Providers"
    yield table("provider | also called | addresses | what the endpoint takes", provider_rows())
    yield "### What is known of providers, and from where"
    yield (
        "What nobody has reported is not here: the careful default applies, and what an endpoint "
        "refuses at run time is remembered for it. The simulator's personas `sim/strict-…` refuse "
        "most of what is refused here, in the providers' own words."
    )
    yield table("provider | what is known | sources", known_rows())
    models = ModelCatalog.builtin().models
    yield "## Models in the catalog"
    yield table(
        "model | workarounds | tags",
        ((f"`{m.id}`", ", ".join(m.workarounds) or "none", ", ".join(m.tags)) for m in models),
    )
    profiles = SamplingCatalog.builtin().profiles
    yield "## Sampling profiles"
    yield table(
        "profile | applies to | options",
        ((f"`{p.id}`", ", ".join(p.applies_to) or "all", code(p.options)) for p in profiles),
    )


def provider_rows() -> Iterable[tuple[str, ...]]:
    """Say how providers are called, where they live, and what their endpoints take."""
    for row in ROWS:
        able = msgspec.structs.asdict(capabilities_for(row.name))
        places = [*row.domains, *([f"localhost:{row.local_port}"] if row.local_port else [])]
        yield (
            f"`{row.name}`",
            ", ".join(row.aliases),
            ", ".join(f"`{place}`" for place in places),
            ", ".join(key for key, value in able.items() if value is True),
        )


def known_rows() -> Iterable[tuple[str, ...]]:
    """Say what public issues and documents tell of each provider."""
    for name, facts in KNOWN.items():
        for fact in facts:
            yield f"`{name}`", fact.says, ", ".join(fact.sources)


def drifts() -> Iterable[str]:
    """Write the table of faults: what is wrong in a reply, and what is done about it."""
    yield "# Drift\n\nGenerated from the code and the corpus by `make docs`. Do not edit."
    yield (
        "What such replies do to an agent, error by error, and how to fix it: "
        "[My agent breaks](my-agent-breaks.md)."
    )
    yield (
        "Each row is a pair: a fault that the simulator can make (`apply_fault(id, reply)`), and "
        "what the pipeline does about it under the default preset. A cure leaves its name in "
        "`Reply.fired`. "
        "Every row is proved by the laws in `tests/simulator/faults/test_faults.py`, in pairs in "
        "`test_faults_pairs.py` and in whole runs in `test_faults_runs.py`; the cases "
        "are files in `tests/corpus/replies`."
    )
    cases = corpus()
    for family in KINDS:
        yield f"## {family.capitalize()}"
        found = [fault for fault in SHAPE_FAULTS.values() if fault.family == family]
        rows = [fault_row(fault, cases) for fault in found]
        yield table("fault | source | shape | behaviour | cure | cases", rows)
    yield from repairs()
    yield "## Streams"
    yield (
        "Faults of the stream itself, on top of anything above. They are undone before a reply is "
        "read; `tests/simulator/faults/test_stream_fault.py` proves each, and the recorded forms "
        "are in `tests/corpus/streams`. The personas are called `sim/stream-…`."
    )
    yield table(
        "fault | source | shape | behaviour",
        (
            (f"`{fault.id}`", ", ".join(fault.sources), fault.summary, cure_of(fault))
            for fault in stream_faults()
        ),
    )
    yield "## Histories, endpoints and whole runs"
    yield table("source | shape | behaviour | tests", conversation_rows())


def repairs() -> Iterable[str]:
    """Write why each repair of arguments loses nothing."""
    yield "## Repairs of arguments, and why they lose nothing"
    yield (
        "A cure of arguments is made only where it has one possible meaning. What could mean two "
        "things is told to the model instead. The names are those in `ToolCall.repairs`."
    )
    for head, group in REPAIR_GROUPS.items():
        yield f"### {head}"
        yield table("repair | why it is lossless", ((f"`{k}`", why) for k, why in group.items()))


REPAIR_GROUPS = {
    "Whatever the tool is": OF_SPELLING,
    "By the type that the schema declares": OF_TYPE,
    "Only if the straight reading failed, and nothing else validates": OF_MEANING,
    "Only by a preset": BY_CHOICE,
}


def stream_faults() -> list[ShapeFault]:
    """List the faults of streams; the server's list is what loads all of their modules."""
    sent = TRANSPORT_FAULTS.values()
    return [STREAM_FAULTS[fault.stream_fault] for fault in sent if fault.stream_fault]


def corpus() -> list[tuple[str, str]]:
    """List the cases of the corpus: source and id."""
    found = [msgspec.json.decode(path.read_bytes()) for path in sorted(CORPUS.glob("*.json"))]
    return [(case["source"], case["id"]) for case in found]


def conversation_rows() -> list[tuple[str, ...]]:
    """List what is no shape of one reply, but of a history, an endpoint or a whole run."""
    rows = msgspec.json.decode((CORPUS.parent / "conversations.json").read_bytes())
    return [
        (row["source"], row["shape"], row["behaviour"], ", ".join(f"`{t}`" for t in row["tests"]))
        for row in rows
    ]


def fault_row(fault: ShapeFault, cases: list[tuple[str, str]]) -> tuple[str, ...]:
    """Say what one fault is and what is done about it."""
    cures = ", ".join(f"`{name}`" for name in fault.cures) or "none needed"
    named = ", ".join(f"`{name}`" for source, name in cases if source in fault.sources)
    cure = cures if fault.outcome == "cured" or fault.cures else ""
    return f"`{fault.id}`", ", ".join(fault.sources), fault.summary, cure_of(fault), cure, named


def cure_of(fault: ShapeFault) -> str:
    """Say what is done about a fault."""
    kind, _, preset = fault.outcome.partition(":")
    match kind:
        case "cured":
            return "read as the clean reply"
        case "retried":
            return "asked for again"
        case "opt_in":
            return f"cured by the preset `{preset}` only"
        case _:
            return f"refused: `{fault.outcome}`"


def commands() -> Iterable[str]:
    """Write the help of every command, and the settings of an evaluation."""
    yield "# Commands\n\nGenerated from the code by `make docs`. Do not edit."
    for name in ("", *COMMANDS):
        context = cli.make_context("surecall", [], terminal_width=100)
        command = cli.get_command(context, name) if name else cli
        if command is None:
            raise LookupError(name)
        inner = click.Context(command, context, name, terminal_width=100) if name else context
        yield f"## `{f'surecall {name}'.strip()}`"
        yield f"```text\n{command.get_help(inner)}\n```"
    yield "## Settings of an evaluation"
    yield (
        "A flag stands above `SURECALL_*`, that above `OPENROUTER_*`, that above `surecall.toml` "
        "or `[tool.surecall]` in `pyproject.toml`, that above the default. A `.env` file in the "
        "working directory counts like the environment, but never overrides it. `surecall check` "
        "tells each effective value and where it came from. Which key goes to which address, and "
        "what files of the directory may not decide, is in [trust.md](trust.md)."
    )
    yield table("setting | flags | variables | default | what it does", documentation())


def demo() -> str:
    """Write what `surecall demo --all` counts, by family, and what `surecall demo` counts of it."""
    rows = contest(every_shape())
    few = {shape.persona.id for shape in drawn()}
    sample = [row for row in rows if row.shape.persona.id in few]
    loops = (PLAIN, SDK, OWN)
    families = [
        (TITLES[family], *(_right(list(group), loop) for loop in loops))
        for family, group in _by_family(rows)
    ]
    total = ("**all of them** (`surecall demo --all`)", *(_right(rows, loop) for loop in loops))
    drawn_only = ("**a sample by rule** (`make demo`)", *(_right(sample, loop) for loop in loops))
    version = importlib.metadata.version("openai")
    head = f"what is wrong in the reply | plain loop | openai SDK {version} | surecall"
    return table(head, [drawn_only, total, *families])


def _by_family(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.shape.family, []).append(row)
    return list(found.items())


def _right(rows: Sequence[Row], loop: str) -> str:
    return f"{right(rows, loop)} of {len(rows)}"


def with_proof(readme: str) -> str:
    """Put the claims of `docs/proof.md` into the README: sentence, cases, bound and result."""
    rows = [
        line.strip("| ").split(" | ")
        for line in (ROOT / "docs" / "proof.md").read_text("utf-8").splitlines()
        if line.startswith("| D")
    ]
    short = [(claim, n, bound, result.partition(";")[0]) for claim, _, n, _, bound, result in rows]
    return with_part(readme, "proof", table("claim | n | 95 % bound | result", short))


def with_trial(name: str, parts: Iterable[str]) -> Iterable[str]:
    """Put a block at the end of a document that its readers can try."""
    yield from parts
    yield (TRY_IT / name).read_text("utf-8").rstrip()


def main() -> int:
    """Write the documents, or say which is out of date."""
    stale = 0
    readme = (ROOT / "README.md").read_text("utf-8")
    readme = with_part(with_proof(readme), "features", readme_table())
    readme = with_part(readme, "peers", peers_table(load()))
    documents: dict[str, Iterable[str]] = {
        "reference.md": with_trial("reference.md", sections()),
        "drift.md": with_trial("drift.md", drifts()),
        "commands.md": with_trial("commands.md", commands()),
        "snapshot.html": [render_page(report_of_snapshot()).rstrip()],
        "features.md": with_trial("features.md", page()),
        "peers.md": [with_results(PAGE.read_text("utf-8"), load()).removesuffix("\n")],
        "../README.md": [with_part(readme, "demo", demo()).removesuffix("\n")],
    }
    for name, parts in documents.items():
        target, text = (ROOT / "docs" / name).resolve(), "\n\n".join(parts) + "\n"
        if "--check" not in sys.argv:
            target.write_text(text, "utf-8")
        elif not target.exists() or target.read_text("utf-8") != text:
            print(f"{target.relative_to(ROOT)} is out of date: run `make docs`", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
