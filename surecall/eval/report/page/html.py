"""The page: one HTML file that needs nothing else, and in which nothing from outside can act.

    Report ─► jinja2, everything escaped ─► sections        figures and advice
           ─► JSON in a data block       ─► page_*.js       runs, filters
    traces ─► compressed data blocks     ─► page_*.js       one run in detail, decoded on demand

The policy in its head allows the one style sheet and the one script whose hashes it names. Model
text, names and errors are hostile: they are escaped here, and set as text over there.
"""

import base64
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final

import jinja2
import msgspec
from jinja2.filters import do_mark_safe

from surecall.eval.analysis.steps import steps_sentence
from surecall.eval.analysis.verdict_sentence import verdict_parts
from surecall.eval.analysis.verdicts import verdicts
from surecall.eval.report.page import words
from surecall.eval.report.page.board import board_of
from surecall.eval.report.page.data import CellView, Report
from surecall.eval.report.page.drawing import curves
from surecall.eval.report.page.moves import moves_of
from surecall.eval.report.page.readers import readers_of
from surecall.eval.report.page.tables import tally
from surecall.eval.report.page.traces import NO_TRACES, Source
from surecall.eval.storage.trial import CONTROL, Cell

SCRIPTS: Final = (
    "page_base.js",
    "page_data.js",
    "page_address.js",
    "page_list.js",
    "page_filters.js",
    "page_diff.js",
    "page_copies.js",
    "page_sent.js",
    "page_wire.js",
    "page_talk.js",
    "page_trace.js",
    "page_main.js",
)
DEFAULT_PROFILE: Final = Cell("").profile
LIVE_SCRIPT: Final = "live.js"
STYLES: Final = (
    "style_base.css",
    "style_parts.css",
    "style_board.css",
    "style_run.css",
    "style_media.css",
)
# What could end a data block, or a line where a script's line must not end.
_ESCAPES: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render_page(report: Report, traces: Source = NO_TRACES, *, live: bool = False) -> str:
    """Return the page. Its policy lets it reach a server only when it is `live`."""
    return "".join(page_pieces(report, traces, live=live))


def page_pieces(report: Report, traces: Source = NO_TRACES, *, live: bool = False) -> Iterator[str]:
    """Return the page piece by piece: its traces may be large."""
    script = _script(live=live)
    style = style_sheet()
    return (
        environment()
        .get_template("page.html")
        .generate(
            **_context(report),
            live=live,
            policy=_policy(script, style, live=live, bundled=traces.bundled),
            style=do_mark_safe(style),  # noqa: S704 - a file of this package
            script=do_mark_safe(script),  # noqa: S704 - files of this package
            data=do_mark_safe(runs_json(report, traces, live=live)),  # noqa: S704 - escaped there
            blocks=map(do_mark_safe, traces.inline),  # base64
        )
    )


def render_sections(report: Report) -> str:
    """Return the part of the page that is made anew when a live report changes."""
    return environment().get_template("sections.html").render(**_context(report))


def runs_json(report: Report, traces: Source = NO_TRACES, *, live: bool = False) -> str:
    """Return what the scripts of the page read, safe inside a data block.

    All but ASCII is escaped: no encoding can spoil it, and half of a pair of surrogates is kept.
    """
    found = {
        "runs": msgspec.to_builtins(report.runs),
        "origin": msgspec.to_builtins(report.origin),
        "simulated": report.simulated,
        "meanings": {code: words.MEANINGS.get(code, "") for code in report.runs.codes},
        "control": CONTROL,
        "traces": {
            "kind": "live" if live else traces.kind,
            "starts": list(traces.starts),
            "note": traces.note,
            "folder": traces.folder,
        },
    }
    return json.dumps(found, separators=(",", ":")).translate(_ESCAPES)


@cache
def asset(name: str) -> str:
    """Read a file of the page."""
    return files("surecall.eval.report.page").joinpath("assets", name).read_text("utf-8")


def style_sheet(*more: str) -> str:
    """Return the style of a page, with what only some page needs at the end."""
    return "".join(map(asset, (*STYLES, *more)))


def _script(*, live: bool) -> str:
    names = (*SCRIPTS, LIVE_SCRIPT) if live else SCRIPTS
    # One scope for all files; none of their names is visible outside.
    return "\n".join(["(() => {", '"use strict";', *map(asset, names), "})();"])


def _policy(script: str, style: str, *, live: bool, bundled: bool) -> str:
    allowed = [
        "default-src 'none'",
        f"style-src '{source_hash(style)}'",
        # Traces in files of their own are scripts: nothing else can be read next to a local file.
        f"script-src '{source_hash(script)}'" + (" 'strict-dynamic'" if bundled else ""),
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        *(["connect-src 'self'"] if live else []),
    ]
    return "; ".join(allowed)


def source_hash(text: str) -> str:
    """Return what a policy calls the one inline style sheet or script with this text."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


@cache
def environment() -> jinja2.Environment:
    """Return what renders the files of the page: everything escaped, nothing left undefined."""
    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (
        words.percent,
        words.bounds,
        words.points,
        words.seconds,
        words.count,
        words.counted,
        words.money,
        words.address,
        words.run_address,
        words.name,
        words.shown,
    )
    found.filters.update({function.__name__: function for function in filters})
    return found


def _context(report: Report) -> dict[str, object]:
    return {
        "report": report,
        "verdicts": verdicts(simulated=report.simulated),
        "parts": verdict_parts(report.advice),
        "steps_sentence": steps_sentence(report.comparisons),
        "rules": words.RULES,
        "meanings": words.MEANINGS,
        "board": board_of(report),
        "moves": moves_of(report),
        "models": _by_model(report),
        "readers": readers_of(report),
        "by_scenario": tally(report.failures, "code", "scenario"),
        "by_model": tally(report.failures, "model", "code"),
        "curves": curves(report.reliability.curves),
        "several": len({view.cell.strategy for view in report.cells}) > 1,
    }


def _by_model(report: Report) -> dict[str, list[CellView]]:
    """Return the cells of each model: the default profile first, to be in one column."""
    found: dict[str, list[CellView]] = {view.cell.model: [] for view in report.cells}
    for view in sorted(report.cells, key=lambda view: view.cell.profile != DEFAULT_PROFILE):
        found[view.cell.model].append(view)
    return found
