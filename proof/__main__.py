"""Try to break every claim; print a table; fail if one does not hold.

    python -m proof --tier ci --seed 1 --write docs/proof.md
    python -m proof D3 D6 --tier hour

Each claim is tried in a process of its own. Some wait for processes and sockets, so there is one
more of them at a time than there are processors.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from proof.catalogue import CLAIMS
from proof.claims import TIERS, Claim, Outcome, Row, Tier
from proof.table import markdown, write


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    chosen = _parsed(arguments)
    wanted = [claim for claim in CLAIMS if claim.id in chosen.ids or not chosen.ids]
    if unknown := set(chosen.ids) - {claim.id for claim in CLAIMS}:
        print(f"there is no claim {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    if chosen.inside:
        print(msgspec.json.encode(tried(wanted[0], chosen.tier, chosen.seed)).decode())
        return 0
    started = time.perf_counter()
    rows = all_tried([claim for claim in wanted if claim.size(chosen.tier)], chosen)
    text = markdown(rows, chosen.tier, _machine(time.perf_counter() - started))
    print(text)
    if chosen.write is not None:
        write(text, chosen.write)
    return int(not all(row.outcome.holds for row in rows))


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="proof", description=__doc__.partition("\n")[0])
    parser.add_argument("ids", nargs="*", metavar="CLAIM", help="D1, D2 …; all if none is named")
    parser.add_argument("--tier", choices=TIERS, default="ci", help="how much is tried")
    parser.add_argument("--seed", type=int, default=1, help="which cases are made")
    parser.add_argument(
        "--jobs", type=int, default=(os.cpu_count() or 1) + 1, help="claims at a time"
    )
    parser.add_argument("--write", type=Path, help="also write the tables to this file")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def tried(claim: Claim, tier: Tier, seed: int) -> Row:
    """Try to break one claim, here."""
    started = time.perf_counter()
    try:
        outcome = claim.attempt(claim.size(tier), seed)
    except Exception as error:  # noqa: BLE001  # told as a claim that does not hold
        outcome = Outcome("it ended early", 0, (f"{type(error).__name__}: {error}",))
    return Row(claim.id, claim.sentence, seed, time.perf_counter() - started, outcome)


def all_tried(claims: Sequence[Claim], chosen: argparse.Namespace) -> list[Row]:
    """Try claims in processes of their own; those that measure the machine come last, alone."""

    def one(claim: Claim) -> tuple[str, Row]:
        row = _in_a_process(claim, chosen.tier, chosen.seed)
        mark = "✓" if row.outcome.holds else "✗"
        print(f"{mark} {row.id} {row.seconds:.0f} s", file=sys.stderr, flush=True)
        return row.id, row

    together = [claim for claim in claims if not claim.alone]
    with ThreadPoolExecutor(chosen.jobs) as pool:
        rows = dict(pool.map(one, sorted(together, key=lambda claim: not claim.long)))
    rows |= dict(map(one, [claim for claim in claims if claim.alone]))
    return [rows[claim.id] for claim in claims]


def _in_a_process(claim: Claim, tier: Tier, seed: int) -> Row:
    command = [sys.executable, "-m", "proof", claim.id, "--inside"]
    command += ["--tier", tier, "--seed", str(seed)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own
    try:
        return msgspec.json.decode(_last_line(ended.stdout), type=Row)
    except msgspec.DecodeError:
        last = _last_line(ended.stderr)
        outcome = Outcome("it ended early", 0, (f"exit code {ended.returncode}: {last}",))
        return Row(claim.id, claim.sentence, seed, 0.0, outcome)


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def _machine(seconds: float) -> str:
    cores = os.cpu_count() or 1
    return f"Python {platform.python_version()}, {cores} cores, {seconds / 60:.0f} minutes."


if __name__ == "__main__":
    sys.exit(main())
