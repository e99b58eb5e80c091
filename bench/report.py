"""How large a report is, how long it takes to write, and how soon a browser shows it.

The runs are those of an evaluation with the simulator. Where more are wanted, they are recorded
again under other numbers; they stand too far apart for a compression to notice. The browser tells
its own times: from the start of the navigation to the first content on the screen and to a page
that can be used, and from a click to the filtered list or to the conversation of a run.

    python -m bench.report [RUNS …]
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import msgspec

from surecall.eval.report.page.page_files import write_report
from surecall.eval.storage.store import RunStore, open_for_reading, open_or_resume
from surecall.eval.storage.trial import Trial
from tests.support.browser import Browser, evaluated, started

SIZES = (1_450, 100_000)
ROUNDS = 3
TRIALS = 9
PAINTED = """
    for (;;) {
      const [paint] = performance.getEntriesByName("first-contentful-paint");
      const [page] = performance.getEntriesByType("navigation");
      const end = page.loadEventEnd;
      if (paint && end) return [paint.startTime, page.domInteractive, end];
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
"""
FILTERED = """
    const before = performance.now();
    document.querySelector("#map .cell").click();
    document.getElementById("list").offsetHeight;
    return performance.now() - before;
"""
OPENED = """
    const before = performance.now();
    location.hash = document.querySelector("#list .rows a").getAttribute("href");
    while (!document.querySelector("#wire dl")) await new Promise((next) => setTimeout(next));
    return performance.now() - before;
"""
Packed = tuple[Trial, bytes | None]


def simulated(base: Path) -> list[Packed]:
    """Run every simulated model of the catalog, as a user would."""
    matrix = ("-m", "all", "--strategy", "both", "-n", str(TRIALS))
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        directory = evaluated(base, *matrix)
    with open_for_reading(directory) as store:
        return list(store.packed_trials())


def multiplied(packed: list[Packed], count: int) -> Iterator[Packed]:
    """Yield as many runs as wanted."""
    for number in range(count):
        trial, lines = packed[number % len(packed)]
        shift = number // len(packed) * TRIALS
        key = msgspec.structs.replace(trial.key, trial=trial.key.trial + shift)
        yield msgspec.structs.replace(trial, key=key), lines


def measured(browser: Browser, store: RunStore, folder: Path) -> str:
    """Write a report, open it, and return a line with the figures."""
    began = time.perf_counter()
    page = write_report(store, folder)
    written = time.perf_counter() - began
    times = []
    for _ in range(ROUNDS):
        browser.open("about:blank")
        browser.open(page)
        times.append(browser.run_async(PAINTED))
    paint, usable, loaded = (sorted(each)[ROUNDS // 2] / 1000 for each in zip(*times, strict=True))
    filtered, opened = browser.run(FILTERED), browser.run_async(OPENED)
    size = f"{page.stat().st_size / 1e6:.2f} MB"
    seconds = "".join(f"{value:>9.2f} s" for value in (written, paint, usable, loaded))
    clicks = "".join(f"{value:>7.0f} ms" for value in (filtered, opened))
    return f"{len(store):>8,}{size:>12}{_beside(folder):>9}{seconds}{clicks}"


def _beside(folder: Path) -> str:
    sizes = [path.stat().st_size for path in folder.rglob("traces_*.js")]
    return f"{sum(sizes) / 1e6:.0f} MB" if sizes else "-"


def main() -> None:
    """Measure reports of several sizes."""
    sizes = [int(text) for text in sys.argv[1:]] or SIZES
    print(f"{'runs':>8}{'page':>12}{'beside':>9}", end="")
    print("".join(f"{name:>11}" for name in ("written", "first", "usable", "loaded")), end="")
    print("".join(f"{name:>10}" for name in ("filter", "open")))
    with tempfile.TemporaryDirectory() as name, started() as browser:
        base = Path(name)
        packed = simulated(base)
        for size in sizes:
            with open_or_resume(base / str(size), {}) as store:
                store.absorb(multiplied(packed, size))
                print(measured(browser, store, store.directory), flush=True)


if __name__ == "__main__":
    main()
