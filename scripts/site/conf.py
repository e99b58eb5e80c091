"""Sphinx configuration of the site; `scripts/site/__main__.py` runs it."""

from typing import Any

project = "surecall"
extensions = ["myst_parser"]
suppress_warnings = ["misc.highlighting_failure"]  # examples may be shortened with "…"

myst_heading_anchors = 4
# Links to ready-made HTML, as `pages.rewrite_links` writes them.
myst_url_schemes = {"http": None, "https": None, "unchanged": "{{path}}"}

html_theme = "furo"
html_title = "surecall"
html_favicon = "favicon.svg"
html_static_path = ["site.css", "copy.js", "search.js"]
html_css_files = ["site.css"]
html_js_files = [("copy.js", {"defer": "defer"})]
html_copy_source = False
html_show_copyright = False


def add_page_assets(app: Any, name: str, _template: str, context: Any, document: Any) -> None:
    """Give the search page its scripts, and every document a link to its Markdown."""
    if name == "search":
        app.add_js_file("search_pages.js", priority=900)  # `search_pages.py` writes it
        app.add_js_file("search.js", priority=901)
    elif document is not None:
        markdown = f"{name.rpartition('/')[2]}.md"
        context["metatags"] += f'<link rel="alternate" type="text/markdown" href="{markdown}" />'


def setup(app: Any) -> None:
    """Connect the hooks above."""
    app.connect("html-page-context", add_page_assets)
