"""Defects of the proxy, of reports, of tables, and of the project itself: claims D12 to D20."""

import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from proof import (
    canaries,
    hostile_clients,
    hostile_endpoints,
    hostile_upstreams,
    mutation,
    packaging,
    quirks,
    reports,
)
from proof.clean_exchanges import attempt as exchange
from proof.hostile_requests import MIB, TOKEN, Case
from proof.proxy_process import State
from proof.proxy_soak import leaks, problem_with
from proof.recording_upstream import Request, parsed
from proof.soak_upstream import Plan, message_of
from surecall.cli import explain
from surecall.proxy.serving.request_handler import json_response
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.wire.dialects import WRITERS
from tests.proof.planting import Plant, defect_of
from tests.support import corpus
from tests.support.project_files import ROOT

# Claim D12, the proxy under load

_PLAN = Plan(7, streams=False, fault="", aborts=False, kind="call")
_ERROR = {"error": {"message": "m"}}


def _planned(**changes: Any) -> Plan:
    return msgspec.structs.replace(_PLAN, **changes)


def _whole(message: Any) -> Any:
    return {"choices": [{"message": message}]}


for _number, (_plan, _status, _body) in enumerate(
    (
        (_PLAN, 502, _ERROR),
        (_PLAN, 200, _whole(message_of(_planned(number=8)))),
        (_PLAN, 200, _whole({"content": "City 7"})),
        (_PLAN, 200, _whole({"tool_calls": message_of(_PLAN)["tool_calls"] * 2})),
        (_planned(kind="bent"), 200, _whole(message_of(_planned(kind="bent")))),
        (_planned(kind="text"), 200, _whole(message_of(_planned(kind="text", number=8)))),
        (_planned(fault="cut"), 200, _whole(message_of(_PLAN))),
        (_planned(fault="cut"), 200, _ERROR),
    )
):

    def _wrong_answer(
        _patch: pytest.MonkeyPatch,
        _folder: Path,
        plan: Plan = _plan,
        status: int = _status,
        body: Any = _body,
    ) -> Iterable[str]:
        return [problem for problem in [problem_with(plan, status, body)] if problem]

    _wrong_answer.__name__ = f"wrong answer {_number}"
    defect_of("D12", "")(_wrong_answer)


@defect_of("D12", "memory grew by 5.5 MiB after the first quarter")
def a_leak(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    base = State(50, 50, 10, 2, 0.0)
    found = list(leaks(base, State(55.5, 60, 15, 3, 0.0), base))
    assert found[1:] == ["1 tasks are left", "5 descriptors are left"]
    return found


# Claim D13, hostile clients of the proxy

_HOST = "127.0.0.1:1"
_LINE = b"POST /v1/chat/completions HTTP/1.1"
_HEAD = b"Host: 127.0.0.1:1\r\nAuthorization: Bearer " + hostile_clients.KEY.encode()


def _reached(line: bytes = _LINE, head: bytes = _HEAD, more: bytes = b"") -> Request:
    return parsed(line + b"\r\n" + head + more + b"\r\n\r\n", b"")


def _plant_in_requests(request: Request) -> Plant:
    def plant(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
        return hostile_clients.unsound(request, _HOST)

    return plant


for _request, _reported in (
    (_reached(more=b"\r\nCookie: a=1"), "headers cookie"),
    (_reached(more=b"\r\nX-Title: a\r\nX-Title: b"), "a header twice"),
    (_reached(head=b"Host: 127.0.0.1:1\r\nAuthorization: Bearer x"), "another key"),
    (_reached(head=_HEAD.replace(b":1\r\n", b":2\r\n")), "host [b'127.0.0.1:2']"),
    (_reached(b"POST /admin HTTP/1.1"), "line b'POST /admin HTTP/1.1'"),
    (_reached(more=b"\r\nX-Title: evil"), "what was meant for the proxy"),
    (_reached(more=b"\r\nX-Title: " + TOKEN.encode()), "what was meant for the proxy"),
):
    defect_of("D13", _reported)(_plant_in_requests(_request))


@defect_of("D13", "a: the key came back")
def an_answer_with_the_key(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    data = b"Access-Control-Allow-Origin: *\r\n\r\n" + hostile_clients.KEY.encode()
    said = hostile_clients.Said((200,), is_closed=True, data=data)
    found = list(hostile_clients.judged("a", Case(b"", (400,)), said, [_reached()]))
    assert found[:3] == [
        "a: (200,), not (400,)",
        "a: 1 requests went on, not 0",
        "a: another origin may read the answer",
    ]
    return found


@defect_of("D13", "a: 101 MiB for 1.00")
def much_memory_for_a_request(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    before, after = State(50, 0, 0, 0, 0.0), State(0, 151, 0, 0, 0.0)
    return hostile_clients.too_much("a", MIB, before, after)


# Claim D14, hostile endpoints

_ENDED = hostile_endpoints.Ended


def _plant_in_endings(ended: Any, answered: tuple[str, ...] | None) -> Plant:
    def plant(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
        return hostile_endpoints.judged("a+b", "plain", ended, answered)

    return plant


for _ended, _answered, _reported in (
    (_ENDED("TIMEOUT", 65.0, 0.1), (), "65 MiB over the base"),
    (_ENDED("TIMEOUT", 1.0, 4.1), (), "4.1 s"),
    (_ENDED(raised="KeyError: 'x'"), None, "KeyError: 'x'"),
    (_ENDED(), (), "it was taken for an answer"),
    (_ENDED(), ("streamed",), "it was taken for an answer"),
    (_ENDED("DECODE_ERROR"), ("plain", "streamed"), "DECODE_ERROR, though it can be read"),
):
    defect_of("D14", _reported)(_plant_in_endings(_ended, _answered))


@defect_of("D14", "drip of a body, chat, plain: 65 MiB over the base")
def a_proxy_that_takes_too_much(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    drip = hostile_upstreams.Asked("drip of a body", "chat", "plain")
    found = hostile_upstreams.judged(drip, hostile_upstreams.Got("", 65, 3.1), 64, 1)
    assert found[1:] == [
        "drip of a body, chat, plain: 3.1 s",
        "drip of a body, chat, plain: it was taken for an answer",
    ]
    return found


# Claim D15, canary keys


class _Hit(NamedTuple):
    """A canary that was heard."""

    place: str
    encoding: str
    artefact: str


@defect_of("D15", "query: base64 in report.html")
def a_key_in_a_report(patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    hit = _Hit("query", "base64", "report.html")
    patch.setattr(canaries, "sung", lambda _folder: (64, [hit]))
    return canaries.attempt(1, 1).failures


# Claim D16, reports


@defect_of("D16", "<img> has onerror")
def a_handler_in_a_page(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    return reports.Page("<img src=x onerror=alert(1)><p style='color:red'>").problems


@defect_of("D16", "the page has other tags: [('script', ())]")
def another_script_in_a_page(_patch: pytest.MonkeyPatch, folder: Path) -> Iterable[str]:
    usual = [reports.Page(reports.page_of(["harmless"])).shape]
    (folder / "junit.xml").write_text("<x>")
    page = reports.page_of(["harmless"]) + "<script>alert(1)</script>"
    (folder / "report.html").write_text(page)
    found = list(reports.page_problems(folder, usual))
    assert found[1].startswith("junit.xml cannot be read")
    return found


@defect_of("D16", "passwd")
def a_file_beside_the_output(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    return reports.strays({"runs"}, {"runs", "out", "out/report.html", "passwd"})


@defect_of("D16", "prints ['")
def a_command_that_prints_controls(patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    patch.setattr(explain, "print_text", print)
    usual = [reports.Page(reports.page_of(["harmless"])).shape]
    return reports.tried("\x1b[2J", reports.recorded_events(), usual)


# Claim D17, the tables of quirks

_KNOWN: Any = {"replies": [], "conversations": ["D63"]}
_TEXTS = [{"row": row} for row in WRITERS for _ in range(quirks.KINDS)]


@defect_of("D17", "D51 has no case")
def a_source_without_a_case(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    cases = [case for case in corpus.load().values() if case["source"] != "D51"]
    found = quirks.table_failures(cases, _KNOWN | {"replies": ["D51"]}, _TEXTS[1:])
    assert found[1] == "parallel_wrapper: no case of D51"
    assert found[2].startswith("dialect ")
    return found


@defect_of("D17", "sim/arguments_object is no persona")
def a_fault_without_a_persona(patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    patch.delitem(PERSONAS, "sim/arguments_object")
    return quirks.table_failures(corpus.load().values(), _KNOWN, _TEXTS)


def _plant_in_quirks(tests: list[str]) -> Plant:
    def plant(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
        return quirks.conversation_failures([{"source": "D63", "tests": tests}], _KNOWN)

    return plant


for _tests in ([], ["properties/test_corpus.py::no_such_test"], ["nowhere.py::x"]):
    defect_of("D17", "D63: there is no ")(_plant_in_quirks(_tests))


@defect_of("D17", "A1, plain: read")
def a_text_that_is_read_otherwise(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    case = {"row": "A1", "kind": "plain", "weak": False, "text": "Hello.", "calls": [{"name": "x"}]}
    with pytest.raises(AssertionError) as caught:
        quirks.check_dialect(case, [])
    yield str(caught.value)


# Claim D18, mutants


@defect_of("D18", "all modules: 80% of 10 noticed; not: b:1 x; b:2 y")
def unnoticed_mutants(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    found = [mutation.Noticed("b", 10, ["1 x", "2 y"])]
    return mutation.failures_of(found, alone=False)


@defect_of("D18", "a: 0% of 1 noticed; not: the tests fail without a mistake")
def tests_that_fail_anyway(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    problem = ["the tests fail without a mistake"]
    broken = mutation.Noticed("a", 1, problem, is_sound=False)
    good = [mutation.Noticed(module, 25, []) for module in "bcd"]
    return mutation.failures_of([broken, *good], alone=False)


@defect_of("D18", "True", pytest.mark.processes)
def a_mistake_that_no_test_looks_at(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    """Return whether a mistake survives tests of its module, and tests of another."""
    module = ROOT / "surecall" / "core" / "loop.py"
    found = []
    for test in ("core/test_loop.py", "parsing/test_names.py"):
        code = _SURVIVES.format(path=str(module), test=str(ROOT / "tests" / test))
        line = [sys.executable, "-c", code]
        ran = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
        found.append(ran.stdout.strip())
    assert found[0] == "False"
    return found


_SURVIVES = """
from pathlib import Path
from proof.mutation import survives
path = Path({path!r})
print(survives(path, path.read_text(), 0, [{test!r}]))
"""


# Claim D19, wheels

_NAMES = ("surecall/__init__.py", "surecall/__main__.py")


def _wheel(folder: Path, extra: dict[str, bytes] | None = None, *left_out: str) -> Path:
    files = {name: (ROOT / name).read_bytes() for name in _NAMES}
    files |= {"surecall-1.dist-info/RECORD": b""} | (extra or {})
    path = folder / "surecall-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            if name not in left_out:
                archive.writestr(zipfile.ZipInfo(name), data)
    return path


def _plant_in_wheels(extra: dict[str, bytes], *left_out: str) -> Plant:
    def plant(_patch: pytest.MonkeyPatch, folder: Path) -> Iterable[str]:
        return packaging.content_failures(_wheel(folder, extra, *left_out), _NAMES)

    return plant


for _extra, _reported in (
    ({"surecall/secret.env": b""}, "surecall/secret.env is in the wheel but not in git"),
    ({"evil.pth": b"import os"}, "evil.pth is a .pth file"),
    ({"tests/__init__.py": b""}, "at the top of the wheel are surecall, surecall-1.dist-info"),
    ({_NAMES[0]: b"import evil"}, f"{_NAMES[0]} differs from the file in the checkout"),
):
    defect_of("D19", _reported)(_plant_in_wheels(_extra))
defect_of("D19", f"{_NAMES[1]} is in git but not in the wheel")(_plant_in_wheels({}, _NAMES[1]))


@defect_of("D19", "")
def wheels_that_differ(_patch: pytest.MonkeyPatch, folder: Path) -> Iterable[str]:
    places = [folder / "one", folder / "other"]
    for place in places:
        place.mkdir()
    other = _wheel(places[1], {"surecall-1.dist-info/AT": b"now"})
    return packaging.sameness_failures([_wheel(places[0]), other])


@defect_of("D19", "rich is imported but not declared")
def an_undeclared_dependency(_patch: pytest.MonkeyPatch, folder: Path) -> Iterable[str]:
    source = folder / "source.py"
    source.write_text("import os\n\n\ndef work():\n    import rich.table\n    from . import x\n")
    return packaging.dependency_failures({"click"}, packaging.imports_of([source]))


# Claim D20, clean exchanges through the proxy


@defect_of("D20", "")
def an_answer_that_is_changed(patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    def changed(status: int, body: Any, headers: Any = None) -> Any:
        return json_response(status, body | {"id": "another"}, headers)

    patch.setattr("surecall.proxy.serving.request_handler.json_response", changed)
    return exchange(1, 3).failures
