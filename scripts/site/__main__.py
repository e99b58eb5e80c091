"""Builds the documentation site: `python -m scripts.site`, or `make site`.

It needs the dependency group `site` and no network. A warning of Sphinx, a request to another host,
or a broken link fails the build.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from scripts.site.check import trouble
from scripts.site.markdown_pages import write_markdown
from scripts.site.pages import gather
from scripts.site.search_pages import write_search_pages

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / ".venv" / "site"
SITE = ROOT / "site"


def main() -> int:
    """Gather the pages, build the site, and check it."""
    pages = WORK / "pages"
    gather(ROOT, pages)
    shutil.rmtree(SITE, ignore_errors=True)  # no page that is gone may stay
    ready = ",".join(map(str, sorted(pages.glob("*.html"))))
    options = ["-q", "-W", "--keep-going", "-E", "-a", "-c", str(HERE)]
    options += ["-d", str(WORK / "cache"), "-D", f"html_extra_path={ready}"]
    command = [sys.executable, "-m", "sphinx", *options, str(pages), str(SITE)]
    built = subprocess.run(command, check=False)  # noqa: S603  # our own pages
    if built.returncode:
        return 1
    write_search_pages(SITE, write_markdown(pages, SITE))
    if found := trouble(SITE):
        print(*found, sep="\n", file=sys.stderr)
        return 1
    print(f"{SITE.relative_to(ROOT)}/index.html: {len(list(SITE.rglob('*.html')))} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
