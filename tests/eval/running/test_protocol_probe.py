"""Which call protocols an endpoint honours, as `surecall check` tells it."""

import asyncio
import json

import pytest

from surecall.eval.running.protocol_probe import MAGIC_WORD, probe_protocols
from surecall.runtime.transport import OpenAICompatible
from surecall.simulator.server import Simulator
from surecall.testing import ScriptedProvider, calls, failure, hangs, hangs_up, raw, says
from surecall.values.types import JSON
from tests.support.commands import (
    BOUND,
    GUIDED,
    HOSTILE,
    MODEL,
    NATIVE,
    PROBED,
    PROMPTED,
    TAGGED,
    TRIED,
    Run,
    protocols_in,
)
from tests.support.evaluations import planned

KEY = "sk-or-v1-0123456789abcdef"
IGNORED = "ignored: the reply does not follow the schema"
WELL_FORMED = json.dumps({"tool": "echo", "arguments": {"text": "hello"}})


def refused(message: str, status: int = 400) -> object:
    return failure(status, {"error": {"message": message}})


def test_each_protocol_is_asked_for_once_in_its_own_way(run: Run) -> None:
    with ScriptedProvider(*TRIED, *PROBED) as provider:
        code, out, err = run("check", *MODEL, "--base-url", provider.url, "--top-k", "4")

    assert (code, err) == (0, "")
    assert protocols_in(out) == {
        "native": "called echo, structured",
        "guided": "reply bound to the schema",
        "prompted": "wrote a call as text",
    }
    native, guided, prompted = provider.requests[len(TRIED) :]
    assert {native["top_k"], guided["top_k"], prompted["top_k"]} == {4}
    assert (native["tool_choice"], [one["type"] for one in native["tools"]]) == (
        "required",
        ["function"],
    )
    assert "tools" not in guided | prompted
    assert guided["response_format"]["type"] == "json_schema"
    assert "response_format" not in native | prompted


def test_the_word_that_proves_a_schema_stands_in_no_prompt(run: Run) -> None:
    with ScriptedProvider(*TRIED, *PROBED) as provider:
        run("check", *MODEL, "--base-url", provider.url)

    guided = provider.requests[len(TRIED) + 1]
    assert MAGIC_WORD in json.dumps(guided["response_format"])
    assert MAGIC_WORD not in json.dumps(guided["messages"])


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (says(BOUND), "reply bound to the schema"),
        (says(f"\n {BOUND}\n"), "reply bound to the schema"),
        # A model that writes the form by itself proves nothing.
        (says(WELL_FORMED), IGNORED),
        (says(json.dumps({"answer": "Done."})), IGNORED),
        (says(f"```json\n{BOUND}\n```"), IGNORED),
        (says(f"[{BOUND}]"), IGNORED),
        (raw(b'{"choices": [{"message": {"content": "\\ud800"}}]}'), IGNORED),
        (says(None), IGNORED),
        (calls("echo", text=MAGIC_WORD), IGNORED),
        (
            refused("this model knows no json_schema"),
            "response_format refused (HTTP 400: this model knows no json_schema)",
        ),
        (refused("no such field", 422), "response_format refused (HTTP 422: no such field)"),
        (failure(503), "not answered: UPSTREAM_5XX (HTTP 503): "),
        (hangs_up(), "not answered: CONNECTION_ERROR: "),
    ],
)
def test_whether_a_schema_binds_is_judged_by_the_reply_as_it_came(
    run: Run, reply: object, said: str
) -> None:
    script = (*TRIED, NATIVE, reply, PROMPTED)
    with ScriptedProvider(*script) as provider:  # type: ignore[arg-type]  # see the table
        code, out, _ = run("check", *MODEL, "--base-url", provider.url)

    found = protocols_in(out)
    assert code == 0
    assert found["guided"].startswith(said)
    assert found["prompted"] == "wrote a call as text"


def test_a_schema_that_is_taken_beside_json_object_binds_as_well(run: Run) -> None:
    no = refused("1 validation error: response_format should be 'text' or 'json_object'", 500)
    script = (*TRIED, NATIVE, no, GUIDED, PROMPTED)
    with ScriptedProvider(*script) as provider:  # type: ignore[arg-type]  # as above
        _, out, _ = run("check", *MODEL, "--base-url", provider.url)

    assert protocols_in(out)["guided"] == "reply bound to the schema"
    form = provider.requests[-2]["response_format"]
    assert (form["type"], MAGIC_WORD in json.dumps(form["schema"])) == ("json_object", True)


def flat_call() -> JSON:
    reply = says(None)
    reply["choices"][0]["message"]["function_call"] = {
        "name": "echo",
        "arguments": '{"text": "hello"}',
    }
    return reply


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (NATIVE, "called echo, structured"),
        (calls("eko", text="hello"), "called eko, structured"),
        (flat_call(), "called echo, in a shape that had to be repaired"),
        (says(TAGGED), "wrote a call as text"),
        (says("Done."), "answered without a call"),
        (refused("tool_choice: only auto"), "tool_choice refused (HTTP 400: tool_choice: only"),
    ],
)
def test_a_demanded_call_comes_structured_as_text_or_not_at_all(
    run: Run, reply: object, said: str
) -> None:
    script = (*TRIED, reply, GUIDED, PROMPTED)
    with ScriptedProvider(*script) as provider:  # type: ignore[arg-type]  # see the table
        code, out, _ = run("check", *MODEL, "--base-url", provider.url)

    assert code == 0
    assert protocols_in(out)["native"].startswith(said)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (says(f"Sure.\n{TAGGED}"), "wrote a call as text"),
        (NATIVE, "called echo, structured"),
        (says("hello"), "answered without a call"),
        (refused("too long"), "the request refused (HTTP 400: too long)"),
    ],
)
def test_a_described_call_may_come_as_text_or_structured(
    run: Run, reply: object, said: str
) -> None:
    script = (*TRIED, NATIVE, GUIDED, reply)
    with ScriptedProvider(*script) as provider:  # type: ignore[arg-type]  # see the table
        code, out, _ = run("check", *MODEL, "--base-url", provider.url)

    assert code == 0
    assert protocols_in(out)["prompted"] == said


def test_a_protocol_that_is_not_answered_leaves_the_others_their_time() -> None:
    cell = planned(model_filter="x_ai").cells[0]
    with ScriptedProvider(hangs(20), GUIDED, PROMPTED) as provider:
        client = OpenAICompatible(provider.url)
        found = asyncio.run(probe_protocols(cell, client, 3.0))

    assert [probe.works for probe in found] == [False, True, True]
    assert found[0].said == "no answer within 1.0 s"
    assert len(provider.requests) == 3


def test_a_lesson_about_something_else_is_kept_and_one_about_the_protocol_is_not(run: Run) -> None:
    lessons = (refused("parallel_tool_calls is unknown"), refused("tool_choice must be auto"))
    script = (lessons[0], *TRIED, lessons[1], GUIDED, PROMPTED)
    with ScriptedProvider(*script) as provider:  # type: ignore[arg-type]  # failures are no replies
        code, out, _ = run("check", *MODEL, "--base-url", provider.url, "--strategy", "baseline")

    assert code == 0
    assert protocols_in(out)["native"].startswith("tool_choice refused")
    sent = provider.requests[3]
    assert ("parallel_tool_calls" in sent, sent["tool_choice"]) == (False, "required")


def test_what_an_endpoint_says_of_a_refusal_is_one_short_line_without_the_key(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURECALL_API_KEY", KEY)
    script = (*TRIED, NATIVE, refused(f"{KEY} {HOSTILE} " + "long " * 99), PROMPTED)
    with ScriptedProvider(*script) as provider:  # type: ignore[arg-type]  # a failure is no reply
        code, out, err = run("check", *MODEL, "--base-url", provider.url)

    assert code == 0
    assert KEY[6:] not in out + err
    assert len(protocols_in(out)["guided"]) < 300
    assert len(protocols_in(out)) == 3


@pytest.mark.parametrize(
    ("persona", "native", "guided"),
    [
        ("sim/clean", "called echo, structured", "reply bound to the schema"),
        ("sim/tags", "wrote a call as text", "reply bound to the schema"),
        ("sim/strict-no-format", "called echo, structured", "response_format refused (HTTP 400: "),
        ("sim/formless", "called echo, structured", IGNORED),
    ],
)
def test_the_simulators_endpoints_are_told_apart(
    run: Run, persona: str, native: str, guided: str
) -> None:
    with Simulator() as simulator:
        code, out, _ = run("check", "-m", persona, "--base-url", simulator.url)

    found = protocols_in(out)
    assert code == 0
    assert found["native"] == native
    assert found["guided"].startswith(guided)
    assert found["prompted"] == "wrote a call as text"


def test_a_model_in_vain_is_not_asked_in_other_ways(run: Run) -> None:
    with ScriptedProvider(failure(401)) as provider:
        _, out, _ = run("check", *MODEL, "--base-url", provider.url)

    assert protocols_in(out) == {}
    assert len(provider.requests) == 1
