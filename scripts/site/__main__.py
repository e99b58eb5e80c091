"""Builds the documentation site: `python -m scripts.site`, or `make site`.

It needs the dependency group `site`, and no network. Whatever Sphinx warns of ends the build, and
so does a page that asks for something outside, or links to nothing.
"""

import subprocess
import sys
from pathlib import Path

from scripts.site.check import trouble
from scripts.site.pages import gather

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / ".venv" / "site"
SITE = ROOT / "site"


def main() -> int:
    """Gather the pages, build the site, and look at what came out."""
    pages = WORK / "pages"
    gather(ROOT, pages)
    ready = ",".join(map(str, sorted(pages.glob("*.html"))))
    options = ["-q", "-W", "--keep-going", "-E", "-a", "-c", str(HERE)]
    options += ["-d", str(WORK / "cache"), "-D", f"html_extra_path={ready}"]
    command = [sys.executable, "-m", "sphinx", *options, str(pages), str(SITE)]
    built = subprocess.run(command, check=False)  # noqa: S603  # our own pages
    found = [] if built.returncode else trouble(SITE)
    for line in found:
        print(line, file=sys.stderr)
    if built.returncode or found:
        return 1
    print(f"{SITE.relative_to(ROOT)}/index.html: {len(list(SITE.rglob('*.html')))} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
