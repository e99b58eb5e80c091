"""The peers' table: what is met, how it is judged, and that the page says what was measured."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.peers.__main__ import differences, failed_controls
from bench.peers.corpus import FORMS, PLAIN, STREAMED, Case, cases, verdict_of
from bench.peers.in_words import ANSWER, as_call, in_fields
from bench.peers.measure import measured
from bench.peers.page import HEADLINE, PAGE, README, documents, missed, readme_table, summary
from bench.peers.results import Results, Runs, load, save
from bench.peers.roster import OURS, ROSTER
from surecall.simulator.demo_tasks import SAVE
from surecall.simulator.personas.persona import QUOTED, REPAIRED, RETRIED
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.testing import says

KEPT = load()
NAMED = {case.key: case for case in cases(STREAMED)}
SMALL = Results(
    "2026-01-01",
    {"plain": {"sim/clean save": "control", "sim/tags save": "text"}, "streamed": {"x y": "text"}},
    {OURS: Runs("1", "rs", "r"), "openai": Runs("2", "Rr", "w")}
    | {peer.name: Runs() for peer in ROSTER if peer.name not in {OURS, "openai"}},
)


def test_every_peer_has_a_verdict_on_every_case_of_the_results() -> None:
    assert list(KEPT.peers) == [peer.name for peer in ROSTER]
    for runs in KEPT.peers.values():
        for form in FORMS:
            assert len(runs.letters(form)) == len(KEPT.cases[form])


def test_the_page_and_the_readme_have_the_tables_of_the_results() -> None:
    assert documents() == (PAGE.read_text("utf-8"), README.read_text("utf-8"))


def test_what_the_catalogue_claims_is_met_but_for_what_only_waits() -> None:
    met = {case.persona.id for case in cases(STREAMED)}
    claimed = {
        persona.id
        for persona in PERSONAS.values()
        if persona.outcome in {REPAIRED, RETRIED, QUOTED} or persona.outcome.startswith("opt_in")
    }

    # The first three wait until a client's patience ends; the others show in none of the tasks.
    assert claimed - met == {
        "sim/silent",
        "sim/stream-silent",
        "sim/stream-drip",
        "sim/stream-keep-alive",
        "sim/formless",
        "sim/texts_as_containers",
    }


def test_a_fault_of_a_stream_is_met_in_streams_only() -> None:
    plain, streamed = ({case.key for case in cases(form)} for form in FORMS)

    assert plain < streamed
    assert {NAMED[key].family for key in streamed - plain} == {"stream"}


def test_an_error_is_right_where_the_endpoint_refuses_for_good_and_nothing_ran() -> None:
    refused, clean = NAMED["sim/http-401 save"], NAMED["sim/clean save"]

    assert verdict_of(refused, [], ValueError("401")).verdict == "right"
    assert verdict_of(refused, list(SAVE.calls), ValueError("401")).verdict == "error"
    assert verdict_of(refused, [], "Done.").verdict == "silent"
    assert verdict_of(clean, [], ValueError("401")).verdict == "error"


def test_a_right_run_with_an_illegal_request_counts_as_an_error() -> None:
    assert SMALL.counts("openai", PLAIN) == {"error": 1, "right": 1}
    assert SMALL.illegal("openai", PLAIN) == 1


def test_the_page_names_the_clients_that_are_right_where_surecall_is_not() -> None:
    text = missed(SMALL)

    assert text.startswith("1 of 3 runs; in 1 of them another client is right.")
    assert text.endswith("| silent | openai SDK |")


def test_who_was_not_run_is_shown_as_that() -> None:
    for table in (summary(SMALL), readme_table(SMALL)):
        assert "| LangChain | not run |" in table
        assert "| Vercel AI SDK | not run: needs Node |" in table
    assert summary(SMALL).count("| not run |") == len(ROSTER) - 3


def test_the_readme_counts_both_forms_together() -> None:
    row = "| openai SDK | 2 | 1 of 3 (6\u201379 %) | 1 of 3 (6\u201379 %) |"

    assert row in readme_table(SMALL)
    assert len(readme_table(SMALL).splitlines()) == 2 + len(HEADLINE)


def test_a_client_that_fails_without_any_fault_is_told() -> None:
    assert failed_controls(SMALL) == ["openai SDK, plain, sim/clean save: error"]


def test_results_are_kept_and_compared_run_by_run(tmp_path: Path) -> None:
    save(SMALL, tmp_path / "peers.json")
    again = load(tmp_path / "peers.json")
    changed = Results(SMALL.date, SMALL.cases, SMALL.peers | {"openai": Runs("2", "rr", "w")})

    assert again == SMALL
    assert differences(SMALL, again) == []
    assert differences(SMALL, changed) == ["openai, plain, sim/clean save: error before, right now"]


def test_what_is_told_in_words_is_read_as_calls_and_results() -> None:
    made = "{'id': 'c1', 'function': {'name': 'a', 'arguments': {'x': 1}}}"
    listed = f"Calling tools:\n[{made}]"
    said = [
        ("user", "New task:\nDo it.\nError:\nno tool b"),
        ("assistant", listed),
        ("user", "Observation:\n7"),
    ]
    request = {
        "tools": _offered("a", ANSWER),
        "tool_choice": "required",
        "messages": _messages(said),
    }

    read = in_fields(request)

    roles = [(each["role"], each["content"]) for each in read["messages"]]
    assert [each["function"]["name"] for each in read["tools"]] == ["a"]
    assert "tool_choice" not in read
    assert roles == [
        ("user", "Do it."),
        ("assistant", None),
        ("tool", "Error:\nno tool b"),
        ("assistant", None),
        ("tool", "7"),
    ]
    assert read["messages"][3]["tool_calls"][0]["function"] == {"name": "a", "arguments": '{"x":1}'}


def test_an_answer_becomes_the_call_that_hands_it_over_and_a_blank_one_stays() -> None:
    call = as_call(says("Done."))["choices"][0]["message"]["tool_calls"][0]

    assert call["function"] == {"name": ANSWER, "arguments": '{"answer":"Done."}'}
    assert as_call(says(" ")) == says(" ")


@pytest.mark.processes
def test_a_client_is_judged_by_what_it_did_in_a_process_of_its_own() -> None:
    met = [NAMED[key] for key in ("sim/clean two", "sim/tags save", "sim/http-401 save")]

    found = _measured([sys.executable, "-m", "bench.peers.client", OURS, STREAMED], met)

    assert found == {case.key: "right" for case in met}


@pytest.mark.processes
def test_a_client_that_ends_in_a_conversation_goes_on_with_the_next() -> None:
    ending = (
        "import json, sys\n"
        "key = json.load(sys.stdin)['cases'][0]['key']\n"
        "print(json.dumps({'began': key}), flush=True)\n"
    )
    met = [NAMED["sim/clean two"], NAMED["sim/clean save"]]

    assert _measured([sys.executable, "-c", ending], met) == {case.key: "error" for case in met}


def _measured(command: list[str], met: list[Case]) -> dict[str, str]:
    found = asyncio.run(measured(command, met, in_words=False))
    return {key: outcome.verdict for key, outcome in found.items()}


def _offered(*names: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name}} for name in names]


def _messages(said: list[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in said]
