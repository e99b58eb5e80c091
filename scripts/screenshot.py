"""Takes the picture of a report that the README shows: `docs/report.png`.

The report is that of simulated models; the browser is the one that the tests use.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "report.png"
STRATEGIES = "raw,production,guided_contract"
EVALUATION = ("eval", "-m", "all", "--strategy", STRATEGIES, "-n", "10", "-q")
BROWSER = (
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=2",
    "--window-size=1280,970",
)


def main() -> int:
    """Evaluate, render, photograph; with --help, only say so."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "surecall", *EVALUATION]
        subprocess.run(command, cwd=folder, check=False, stdout=subprocess.DEVNULL)  # noqa: S603  # our own program
        page = Path(folder) / "report.html"
        report = [sys.executable, "-m", "surecall", "report", "-o", str(page)]
        subprocess.run(report, cwd=folder, check=True)  # noqa: S603  # our own program
        shot = f"--screenshot={TARGET}"
        profile = f"--user-data-dir={folder}/profile"
        browser = [*BROWSER, profile, shot, page.as_uri()]
        subprocess.run(browser, check=True, capture_output=True)  # noqa: S603  # our own page
    print(f"{TARGET.relative_to(ROOT)}: {TARGET.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
