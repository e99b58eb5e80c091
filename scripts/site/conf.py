"""How Sphinx makes the site; `scripts/site/__main__.py` calls it."""

project = "surecall"
extensions = ["myst_parser"]
suppress_warnings = ["misc.highlighting_failure"]  # an example may be shortened with "…"

myst_heading_anchors = 4
# A link to a page that is ready, as `pages.turned` writes it.
myst_url_schemes = {"http": None, "https": None, "as-it-is": "{{path}}"}

html_theme = "furo"
html_title = "surecall"
html_favicon = "favicon.svg"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
# A page that was opened from a file may not read others, so there the results are titles only.
_TITLES = "DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY &&= location.protocol !== 'file:'"
html_js_files = [("", {"body": _TITLES})]
html_copy_source = False
html_show_copyright = False
