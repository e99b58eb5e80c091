"""The page of the last requests: for reading, by whoever knows its address.

It has no script, and everything that comes from outside is escaped. It asks for itself again every
few seconds.
"""

import base64
import hashlib
import time
from functools import cache
from importlib.resources import files
from typing import Final

import jinja2
from aiohttp import web

from surecall.proxy.serving.record import Records

_ASSETS: Final = files(__package__) / "assets"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@cache
def _style() -> str:
    return (_ASSETS / "page.css").read_text("utf-8")


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["clock"] = lambda at: time.strftime("%H:%M:%S", time.localtime(at))
    return environment.from_string((_ASSETS / "page.html").read_text("utf-8"))


def render_page(records: Records, upstream: str) -> web.Response:
    """Return the page as it is now."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'; "
        "base-uri 'none'; form-action 'none'"
    )
    text = _template().render(
        records=list(records), upstream=upstream, style=_style(), count=records.count
    )
    headers = _HEADERS | {"Content-Security-Policy": policy}
    return web.Response(text=text, content_type="text/html", headers=headers)
