"""The coverage gates: every branch of the pure layers, and nearly all of the rest."""

import io
import sys

import coverage

# What waits, or touches files, processes and the network; everything else is pure.
EDGE = (
    "surecall/cli/*",
    "surecall/eval/report_server.py",  # serves the report, which is pure
    "surecall/eval/running/*",
    "surecall/eval/storage/*",
    "surecall/mcp/*",
    "surecall/proxy/serving/*",
    "surecall/runtime/*",
    "surecall/testing/*",
)
PURE_FLOOR = 100.0
EDGE_FLOOR = 95.0


def percent(data: coverage.Coverage, **selection: tuple[str, ...]) -> tuple[float, str]:
    """Return the covered share, and the report of what is missing."""
    report = io.StringIO()
    share = data.report(file=report, show_missing=True, skip_covered=True, **selection)  # type: ignore[arg-type]  # the stub knows no keyword groups
    return share, report.getvalue()


def main() -> int:
    """Print both shares; fail when one is below its floor."""
    data = coverage.Coverage()
    data.load()
    pure, missing = percent(data, include=("surecall/*",), omit=EDGE)
    edge, edge_missing = percent(data, include=EDGE)
    print(f"branch coverage: pure layers {pure:.2f} % (floor 100), edge {edge:.2f} % (floor 95)")
    if pure < PURE_FLOOR:
        print(missing)
    if edge < EDGE_FLOOR:
        print(edge_missing)
    return int(pure < PURE_FLOOR or edge < EDGE_FLOOR)


if __name__ == "__main__":
    sys.exit(main())
