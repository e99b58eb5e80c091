"""Defects of readers, runs, and files: claims D1 to D11."""

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proof import (
    damage,
    event_streams,
    fuzz,
    histories,
    json_suite,
    kills,
    linear,
    masks,
    retries,
    schema_suite,
)
from proof.chaos import Held
from proof.chaos import judged as judged_chaos
from proof.retry_tables import rows
from scripts import kill_eval
from scripts.kill_test import Tally
from scripts.soak import Trial
from surecall.core.outcome import RunResult
from surecall.core.reply_parsing import parse_reply
from surecall.core.state import Run
from surecall.core.streaming import ResponseReader
from surecall.eval.storage.store import open_or_resume
from surecall.parsing.arguments import ParsedArguments
from surecall.runtime import recording, runner, tool_turn
from surecall.runtime.recording import parse_trace
from surecall.runtime.retrying_requests import PromptRunner
from surecall.settings.connection import RetryPolicy
from surecall.settings.presets import raw
from surecall.simulator.personas.intent import DONE
from surecall.tools import registry
from surecall.tools.registry import FilteredToolRegistry, ToolRegistry
from surecall.values.trace import Trace
from surecall.values.types import Reply, Usage
from surecall.wire import chat_format, response
from surecall.wire.history_repair import CallIds
from surecall.wire.sse import SseDecoder, SseEvent
from tests.proof.planting import Plant, defect_of
from tests.support.project_files import ROOT
from tests.support.replies import recorded
from tests.support.timing import virtual_time
from tests.support.trials import SAME


def seeded(seed: int = 1) -> random.Random:
    return random.Random(seed)  # noqa: S311  # cases, no secrets


def _raises(*_anything: object, **_named: object) -> Any:
    raise KeyError("choices")


def _nothing(*_anything: object, **_named: object) -> Any:
    return None


# Claim D1, readers


def _without_ids(*given: Any) -> Any:
    reply = parse_reply(*given)
    if not isinstance(reply, Reply):
        return reply
    calls = tuple(msgspec.structs.replace(call, id="c") for call in reply.calls)
    return msgspec.structs.replace(reply, calls=(*calls, *calls))


def _plant_in_fuzz(target: str, name: str, defect: Any) -> Plant:
    def plant(patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
        patch.setattr(fuzz, name, defect)
        return next(problems for n in range(200) if (problems := fuzz.replay(target, 1, n)))

    plant.__name__ = f"{name} of {target}"
    return plant


_IN_FUZZ: tuple[tuple[str, str, Any, str], ...] = (
    ("bodies", "parse_reply", _raises, "KeyError: 'choices' at "),
    ("raw_bodies", "parse_reply", _without_ids, "ids that are not unique: ['c', 'c'"),
    ("chunks", "parse_reply", _nothing, "neither a reply nor a fault: None"),
    (
        "arguments",
        "parse_arguments",
        lambda *_: ParsedArguments(None, 0),
        "neither an object nor a",
    ),
    ("alike", "read_sample", lambda body: body, "AttributeError"),
    ("schemas", "ToolDefinition", _raises, "KeyError"),
    ("written", "recover", _raises, "KeyError"),
    ("traces", "parse_trace", _raises, "KeyError"),
    ("raw_streams", "ResponseReader", _raises, "KeyError"),
    ("raw_texts", "MarkFilter", _raises, "KeyError"),
    ("raw_traces", "parse_trace", _raises, "KeyError"),
)
for _target, _name, _defect, _reported in _IN_FUZZ:
    defect_of("D1", _reported)(_plant_in_fuzz(_target, _name, _defect))


# Claim D2, work and memory


def _each(text: str) -> None:
    for _ in text:
        pass


def _case(read: Callable[[str], object]) -> linear.Case:
    return linear.Case("bad", lambda size: "x" * size, read)


@defect_of("D2", "lines [")
def quadratic_work(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    def pairs(text: str) -> None:
        for at in range(0, len(text), 16):
            _each(text[: at // 16])

    yield linear.growth_problem(_case(pairs), 4_000)[1]


@defect_of("D2", "lines for each byte")
def much_work_for_a_byte(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    def tries(text: str) -> None:
        for _ in range(600):
            _each(text)

    yield linear.density_problem(_case(tries))[1]


@defect_of("D2", "25 MiB of memory for 1024 KiB")
def much_memory(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    def hoards(text: str) -> object:
        return [bytearray(len(text)) for _ in range(25)]

    yield linear.memory_problem(_case(hoards))[1]


@defect_of("D2", "dialects, commas: looks [")
def repeated_searches(patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    def recover(text: str, *_: object, **__: object) -> None:
        for at in range(0, len(text), 64):
            text.find("<never>", at)

    patch.setattr(linear, "recover", recover)
    yield linear.look_problem("commas", 1_000)


# Claim D3, event streams


@defect_of("D3", "clean_call.sse cut at [1, 8] has other events")
def a_forgotten_carriage_return(patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    honest = SseDecoder.feed

    def feed(decoder: SseDecoder, chunk: bytes) -> list[SseEvent]:
        decoder._after_cr = False
        return honest(decoder, chunk)

    patch.setattr(SseDecoder, "feed", feed)
    return event_streams.pair_problems("clean_call", b"data: a\r\ndata: b\r\n\r\n")


@defect_of("D3", "clean_call.sse cut at [1] is heard otherwise")
def lost_short_pieces(patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    honest, stream = ResponseReader.feed, recorded("clean_call")[0]

    def feed(listener: ResponseReader, chunk: bytes) -> Any:
        return honest(listener, chunk) if len(chunk) > 1 else []

    patch.setattr(ResponseReader, "feed", feed)
    yield from event_streams.stream_problems("clean_call", stream, seeded(), partitions=0)
    (problem,) = asyncio.run(event_streams.run_problems({"clean_call": stream}))
    assert "other digests" in problem


# Claim D4, JSON


def _refuses_all(_data: bytes) -> Any:
    raise ValueError("no")


def _breaks(*_anything: object) -> None:
    raise RecursionError


def _plant_in_json(name: str, defect: Any) -> Plant:
    def plant(patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
        patch.setattr(json_suite, name, defect)
        pins = json_suite.pinned()
        for case, data in json_suite.suite().items():
            for problem in json_suite.problems_of(case, data, pins):
                yield f"{case}: {problem}"

    plant.__name__ = f"{name} {defect.__name__}"
    return plant


_IN_JSON: tuple[tuple[str, Any, str], ...] = (
    ("decode", _refuses_all, "y_array_empty"),
    ("decode", _nothing, "n_array_1_true_without_comma: read as None"),
    ("parse_arguments", _breaks, "arguments raised RecursionError"),
    ("decode_body", _nothing, "without a typed fault"),
)
for _name, _defect, _reported in _IN_JSON:
    defect_of("D4", _reported)(_plant_in_json(_name, _defect))


# Claim D5, schemas


@defect_of("D5", "draft7/additionalItems")
def a_validator_that_accepts_everything(patch: pytest.MonkeyPatch, _: Path) -> Iterable[str]:
    patch.setattr(schema_suite, "compile_schema", lambda _schema: lambda _value: ())
    return schema_suite.attempt(1, 1).failures


@defect_of("D5", "as a tool")
def a_tool_that_forgets_its_schema(patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    patch.setattr(registry, "portable_schema", lambda _schema: {"type": "object"})
    return schema_suite.attempt(1, 1).failures


@defect_of("D5", "accepted, not refused as a schema")
def an_accepted_bomb(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    yield schema_suite.set_off(schema_suite.Bomb({"type": "object"}, {}, accepted=None))[1]


# Claim D6, histories


def _plant_in_histories(owner: Any, name: str, defect: Any) -> Plant:
    def plant(patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
        patch.setattr(owner, name, defect)
        return histories.attempt(40, 1).failures

    plant.__name__ = name
    return plant


_IN_HISTORIES: tuple[tuple[Any, str, Any, str], ...] = (
    (tool_turn, "find_unknown_outcome", _nothing, "ran twice"),
    (tool_turn, "known_result", _nothing, "ran twice"),
    (CallIds, "claim", lambda _ids, wanted: wanted or "x", "an id that is blank or used before"),
    (chat_format, "short_id", lambda call_id: call_id, "an id that Mistral refuses"),
)
for _owner, _name, _defect, _reported in _IN_HISTORIES:
    defect_of("D6", _reported)(_plant_in_histories(_owner, _name, _defect))


# Claim D7, masks

_MASKED = masks.Case("task", "read-file", "the deny list")


@defect_of("D7", "it ran, as it is ('read-file'), by native calls")
def a_mask_that_lets_everything_through(patch: pytest.MonkeyPatch, _: Path) -> Iterable[str]:
    patch.setattr(FilteredToolRegistry, "_is_allowed", lambda *_: True)
    problems = asyncio.run(masks.case_problems(_MASKED, seeded(), more=0))[1]
    assert any("upper case ('READ-FILE'), by execute" in problem for problem in problems)
    return problems


@defect_of("D7", "'read-file'")
def a_runner_without_its_mask(patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    patch.setattr(runner, "_visible_toolbox", lambda registry, _config: registry)
    return asyncio.run(masks.run_problems(_MASKED, seeded()))


@defect_of("D7", "the allowed one did not run")
def an_allowed_tool_that_does_not_run(patch: pytest.MonkeyPatch, _: Path) -> Iterable[str]:
    patch.setattr(ToolRegistry, "resolve", lambda _registry, _asked: None)
    return asyncio.run(masks.case_problems(_MASKED, seeded(), more=0))[1]


# Claim D8, retries


def _waits_twice(policy: RetryPolicy, *given: Any) -> float | None:
    wait = _HONEST_WAIT(policy, *given)
    return None if wait is None else wait * 2


_HONEST_WAIT = RetryPolicy.wait


def _plant_in_retries(owner: Any, name: str, defect: Any) -> Plant:
    def plant(patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
        patch.setattr(owner, name, defect)
        with virtual_time() as clock:
            return [p for row in rows() for p in retries.row_problems(clock, row)]

    plant.__name__ = f"{name} {defect.__name__}"
    return plant


_IN_RETRIES: tuple[tuple[Any, str, Any], ...] = (
    (RetryPolicy, "wait", _waits_twice),
    (RetryPolicy, "wait", _nothing),
    (response, "_seconds_until", _nothing),
)
for _owner, _name, _defect in _IN_RETRIES:
    defect_of("D8", "retry-after: Fri, 29 Sep 2023")(_plant_in_retries(_owner, _name, _defect))


@defect_of("D8", "Script(afters=(0.25,), attempts=3, deadline=2.0): ([0.5], True)")
def a_run_that_waits_beyond_its_deadline(patch: pytest.MonkeyPatch, _: Path) -> Iterable[str]:
    patch.setattr(RetryPolicy, "wait", _waits_twice)
    with virtual_time() as clock:
        return [retries.run_problem(clock, retries.Script((0.25,), 3, 2.0))]


@defect_of("D8", "2 sockets are open after the requests")
def a_socket_that_stays_open(patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    counts = iter([3, 5])

    async def ask(*_anything: object) -> None:
        return None

    patch.setattr(retries, "_sockets", lambda: next(counts))
    patch.setattr(PromptRunner, "ask", ask)
    yield retries.socket_problem()


# Claim D9, faulty transport


def _held(code: str = "", text: str = DONE, repeated: int = 1, *, retryable: bool = False) -> Held:
    run = Run(run_id="1", model="m", config=raw(), messages=())
    result = RunResult(text, "stop", Usage(), Trace(()), run)
    meant = Trial("ws_1", [], result).meant
    return Held(Trial("ws_1", meant * repeated, result, code), 1.0, retryable)


@defect_of("D9", "wrong or repeated: ws_1")
def a_repeated_effect(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    return judged_chaos({"ws_1": _held(repeated=2)}, set())


@defect_of("D9", "lost: ws_1")
def a_lost_answer(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    return judged_chaos({"ws_1": _held(text="")}, set())


@defect_of("D9", "lost: ws_1")
def a_run_that_failed_without_need(_patch: pytest.MonkeyPatch, _: Path) -> Iterable[str]:
    return judged_chaos({"ws_1": _held("TIMEOUT", retryable=True)}, set())


@defect_of("D9", "not told as passing: ws_1")
def a_passing_fault_reported_as_final(_patch: pytest.MonkeyPatch, _: Path) -> Iterable[str]:
    return judged_chaos({"ws_1": _held("AUTH")}, {"ws_1"})


@defect_of("D9", "unclassified: ws_1")
def an_untyped_error(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    return judged_chaos({"ws_1": RuntimeError("no such thing")}, set())


# Claim D10, killed processes

_FORKS = (
    pytest.mark.processes,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
)
_IMPORTS = "from pathlib import Path\nimport msgspec\nfrom proof import killed_runs\n"
# A resume that forgets which calls had begun.
_FORGETFUL = """
honest = killed_runs.run_of
killed_runs.run_of = lambda trace: msgspec.structs.replace(honest(trace), begun=())
"""
# A tool that acts twice.
_EAGER = """
honest = killed_runs.Place.leave
killed_runs.Place.leave = lambda self, item: (honest(self, item), honest(self, item))
"""


def _failures_in_a_process(work: str, defect: str) -> list[str]:
    code = f'{_IMPORTS}{defect}\n_, failures = killed_runs.{work}\nprint(*failures, sep="\\n")'
    line = [sys.executable, "-c", code]
    ran = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


@defect_of("D10", "took effect 2 times", *_FORKS)
def a_resume_that_repeats_a_call(_patch: pytest.MonkeyPatch, folder: Path) -> Iterable[str]:
    work = f"kill_runs(Path({str(folder / 'run')!r}), 60, 1)"
    found = _failures_in_a_process(work, _FORGETFUL)
    assert any("not CALL_OUTCOME_UNKNOWN" in line for line in found)
    return found


@defect_of("D10", "took effect 2 times", *_FORKS)
def an_effect_too_many_after_a_stream(_patch: pytest.MonkeyPatch, folder: Path) -> Iterable[str]:
    return _failures_in_a_process(f"leave_streams(Path({str(folder / 'run')!r}))", _EAGER)


@defect_of("D10", '"lost":1')
def a_store_that_lost_a_trial(_patch: pytest.MonkeyPatch, _folder: Path) -> Iterable[str]:
    return kills.store_failures([Tally(kills=9, lost=1)])


@defect_of("D10", "an evaluation: lost 0, changed 0, same summary: False")
def an_evaluation_with_another_summary(patch: pytest.MonkeyPatch, folder: Path) -> Iterable[str]:
    patch.setattr(kill_eval, "killed", lambda *_: (0, 0))
    patch.setattr(kill_eval, "finished", _nothing)
    patch.setattr(kill_eval, "summaries", lambda place: place.name)
    return kills.kill_evaluations(folder, 3, 1)


# Claim D11, damaged files


@defect_of("D11", "ReplayDiverged")
def events_made_of_a_torn_line(patch: pytest.MonkeyPatch, folder: Path) -> Iterable[str]:
    sound = damage.recorded(folder / "run")

    def inventive(data: bytes) -> Trace:
        whole = parse_trace(sound)
        return whole if len(data) == len(sound) else Trace((*parse_trace(data), whole[-1]))

    patch.setattr(damage, "parse_trace", inventive)
    found = list(damage.cut_failures(sound, 97))
    assert any(line.endswith("other events") for line in found)
    return found


@defect_of("D11", "of a trace: KeyError: 'calls'")
def an_untyped_error_of_a_reader(patch: pytest.MonkeyPatch, folder: Path) -> Iterable[str]:
    sound = damage.recorded(folder / "run")

    def broken(data: bytes) -> Trace:
        if data != sound:
            raise KeyError("calls")
        return parse_trace(data)

    patch.setattr(damage, "parse_trace", broken)
    return damage.flip_failures(sound, 60, 1)[1]


@defect_of("D11", "read as other events")
def ignored_checksums(patch: pytest.MonkeyPatch, folder: Path) -> Iterable[str]:
    sound = damage.recorded(folder / "run")
    patch.setattr(recording, "_is_damaged", lambda _line: False)
    return damage.flip_failures(sound, 400, 1)[1]


@defect_of("D11", "took effect 2 times")
def a_journal_that_is_none(patch: pytest.MonkeyPatch, folder: Path) -> Iterable[str]:
    patch.setattr(damage.FullDisk, "is_journal", False)
    return damage.full_disks(folder / "run")[0]


@defect_of("D11", "two writers have one run")
def two_writers_of_one_run(patch: pytest.MonkeyPatch, folder: Path) -> Iterable[str]:
    with open_or_resume(folder / "other", SAME) as store:
        patch.setattr(damage, "open_or_resume", lambda *_: nullcontext(store))
        return damage.two_writers(folder / "base")
