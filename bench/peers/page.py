"""Writes the tables of `docs/comparison.md` and of the README from the file of results."""

from collections.abc import Iterable, Iterator
from typing import Final

from bench.peers.corpus import FORMS, HEADINGS
from bench.peers.install import NODE
from bench.peers.results import ROOT, VERDICTS, Results, load
from bench.peers.roster import OURS, ROSTER, Peer
from scripts.marked import with_part
from surecall.eval.analysis.stats import wilson_interval
from surecall.simulator.personas.persona_catalog import PERSONAS

PAGE: Final = ROOT / "docs" / "comparison.md"
README: Final = ROOT / "README.md"
_NONE: Final = "none"
# The rows of the table in the README.
HEADLINE: Final = (OURS, "pydantic-ai", "langchain", "openai-agents", "vercel", "openai")


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Write a Markdown table."""
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _interval(count: int, total: int) -> str:
    low, high = (round(100 * bound) for bound in wilson_interval(count, total))
    return f"{low}\u2013{high}"


def readme_table(results: Results) -> str:
    """Write the short table: client, version, how often right, and how often wrong."""
    head = ("client", "version", "right", "ran something wrong")
    by_name = {peer.name: peer for peer in ROSTER}
    return table(head, (_short(by_name[name], results) for name in HEADLINE))


def _short(peer: Peer, results: Results) -> tuple[str, ...]:
    version = results.peers[peer.name].version
    if not version:
        return peer.title, _not_run(peer), "", ""
    plain, streamed = (results.counts(peer.name, form) for form in FORMS)
    both = plain + streamed
    return peer.title, version, *(_rate(both[word], both.total()) for word in ("right", "wrong"))


def _not_run(peer: Peer) -> str:
    return "not run: needs Node" if peer.environment == NODE else "not run"


def _rate(count: int, total: int) -> str:
    return f"{count} of {total} ({_interval(count, total)} %)"


def summary(results: Results) -> str:
    """Write how many runs of each client came to what, in each form."""
    head = ("client", "version", "form", "n", *VERDICTS, "illegal")
    return table(head, (row for peer in ROSTER for row in _rows(peer, results)))


def _rows(peer: Peer, results: Results) -> Iterator[tuple[object, ...]]:
    version = results.peers[peer.name].version
    if not version:
        yield peer.title, _not_run(peer), *[""] * (len(VERDICTS) + 3)
        return
    for form in FORMS:
        counts = results.counts(peer.name, form)
        total = counts.total()
        found = (*(counts[word] for word in VERDICTS), results.illegal(peer.name, form))
        cells = (f"{count} ({_interval(count, total)})" for count in found)
        yield peer.title, version, form, total, *cells


def _that_ran(results: Results) -> list[Peer]:
    return [peer for peer in ROSTER if results.peers[peer.name].version]


def by_family(form: str, results: Results) -> str:
    """Write how often each client was right, family by family."""
    peers, rows = _that_ran(results), []
    for family in (each for each in HEADINGS if each in results.cases[form].values()):
        counts = [results.counts(peer.name, form, family) for peer in peers]
        total = counts[0].total()
        cells = (f"{each['right']} ({_interval(each['right'], total)})" for each in counts)
        rows.append((HEADINGS[family], total, *cells))
    return table(("fault", "n", *(peer.title for peer in peers)), rows)


def missed(results: Results) -> str:
    """Write which cases surecall does not get right, and which clients do."""
    rows = [row for form in FORMS for row in _missed(form, results)]
    head = ("case", "form", "fault", "surecall", "clients that are right")
    better = sum(row[-1] != _NONE for row in rows)
    total = sum(map(len, results.cases.values()))
    count = f"{len(rows)} of {total} runs; in {better} of them another client is right."
    return f"{count}\n\n{table(head, rows)}"


def _missed(form: str, results: Results) -> Iterator[tuple[str, ...]]:
    others = [peer for peer in _that_ran(results) if peer.name != OURS]
    verdicts = {peer.title: results.verdicts(peer.name, form) for peer in others}
    for case, verdict in results.verdicts(OURS, form).items():
        if verdict != "right":
            right = [title for title, found in verdicts.items() if found[case] == "right"]
            persona = PERSONAS.get(case.partition(" ")[0])
            summary_of = persona.summary if persona else ""
            yield f"`{case}`", form, summary_of, verdict, ", ".join(right) or _NONE


def switches() -> str:
    """Write what is switched on in each client."""
    return table(("client", "switches"), ((peer.title, peer.switches) for peer in ROSTER))


def with_results(page: str, results: Results) -> str:
    """Put the tables into the page."""
    parts = {
        "peers": f"Measured on {results.date}.\n\n{summary(results)}",
        "misses": missed(results),
        "switches": switches(),
    } | {form: by_family(form, results) for form in FORMS}
    for name, text in parts.items():
        page = with_part(page, name, text)
    return page


def documents() -> tuple[str, str]:
    """Return the page and the README, with the tables of the results that are kept."""
    results = load()
    page = with_results(PAGE.read_text("utf-8"), results)
    return page, with_part(README.read_text("utf-8"), "peers", readme_table(results))


def write() -> None:
    """Write the page and the README."""
    page, readme = documents()
    PAGE.write_text(page, "utf-8")
    README.write_text(readme, "utf-8")
