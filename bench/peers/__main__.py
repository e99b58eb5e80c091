"""The drift of the catalogue through agents of others and through surecall: `make peers`.

    python -m bench.peers [--peers NAME …] [--keep FILE] [--write] [--same-as FILE] [--misses]

Prints the table. With `--keep` the results go to a file; with `--write` to `docs/peers.json`, from
which docs/comparison.md and the table of the README are written. With `--same-as` it names the runs
whose results differ from those in a file. Exits with 1 if any differ, or if a client fails without
any fault.
"""

import argparse
import asyncio
import datetime as dt
import sys
import time
from pathlib import Path
from typing import Final

from bench.peers.corpus import CONTROL, FORMS, cases
from bench.peers.measure import Outcome, measured
from bench.peers.page import summary, write
from bench.peers.results import Results, Runs, families, letter_of, load, save
from bench.peers.roster import ROSTER, Peer

AT_ONCE: Final = 2


async def run_all(peers: list[Peer], *, misses: bool) -> dict[str, Runs]:
    """Run all peers in both forms, two at a time, as there are cores."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(peer: Peer, form: str) -> dict[str, Outcome]:
        async with gate:
            began = time.monotonic()
            found = await measured(peer.command(form), cases(form), in_words=peer.speaks_in_words)
            took = time.monotonic() - began
            print(f"{peer.title}, {form}: {took:.0f} s", file=sys.stderr, flush=True)
            return found

    jobs = [(peer, form) for peer in peers for form in FORMS]
    done = dict(zip(jobs, await asyncio.gather(*(one(*job) for job in jobs)), strict=True))
    if misses:
        for (peer, form), outcomes in done.items():
            show_misses(peer, form, outcomes)
    return {peer.name: _runs(peer, *(done[peer, form] for form in FORMS)) for peer in peers}


def _runs(peer: Peer, plain: dict[str, Outcome], streamed: dict[str, Outcome]) -> Runs:
    return Runs(
        peer.version,
        "".join(map(letter_of, plain.values())),
        "".join(map(letter_of, streamed.values())),
    )


def show_misses(peer: Peer, form: str, outcomes: dict[str, Outcome]) -> None:
    """Print every run that did not come out right."""
    for case, outcome in outcomes.items():
        if outcome.verdict != "right" or outcome.illegal:
            print(f"miss: {peer.title}, {form}, {case}: {outcome.verdict}: {outcome.reason}")


def differences(one: Results, other: Results) -> list[str]:
    """Name the runs that came to something else, of the peers that both have."""
    found = []
    for name in one.peers.keys() & other.peers.keys():
        for form in FORMS:
            if one.peers[name].version and other.peers[name].version:
                before, after = one.verdicts(name, form), other.verdicts(name, form)
                found += [
                    f"{name}, {form}, {case}: {before.get(case)} before, {verdict} now"
                    for case, verdict in after.items()
                    if before.get(case) != verdict
                ]
    return sorted(found)


def failed_controls(results: Results) -> list[str]:
    """Name the runs without any fault that went wrong: then it is the client here that is wrong."""
    return [
        f"{peer.title}, {form}, {case}: {verdict}"
        for peer in ROSTER
        if results.peers[peer.name].version
        for form in FORMS
        for case, verdict in results.verdicts(peer.name, form).items()
        if results.cases[form][case] == CONTROL and verdict != "right"
    ]


def chosen(names: list[str]) -> list[Peer]:
    """Return the peers that are named, or all; those that are not installed are told."""
    wanted = [peer for peer in ROSTER if not names or peer.name in names]
    for peer in wanted:
        if not peer.version:
            print(f"{peer.title} is not installed, and not run", file=sys.stderr)
    return [peer for peer in wanted if peer.version]


def main() -> int:
    """Measure, print, write and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", nargs="+", default=[], choices=[each.name for each in ROSTER])
    parser.add_argument("--keep", type=Path, help="write the results to a file")
    parser.add_argument("--write", action="store_true", help="write docs/peers.json and the page")
    parser.add_argument("--same-as", type=Path, help="compare with a file of results")
    parser.add_argument("--misses", action="store_true", help="print each miss with its reason")
    options = parser.parse_args()
    ran = asyncio.run(run_all(chosen(options.peers), misses=options.misses))
    absent = {peer.name: Runs() for peer in ROSTER}
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    results = Results(today, families(), absent | ran)
    print(summary(results))
    if options.keep:
        save(results, options.keep)
    if options.write:
        save(results)
        write()
    changed = differences(load(options.same_as), results) if options.same_as else []
    failed = [*failed_controls(results), *changed]
    for each in failed:
        print(each)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
