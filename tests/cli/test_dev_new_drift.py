"""`surecall dev new-drift`: a bent reply becomes a corpus file that passes, and stubs that fit."""

import io
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from surecall.cli.dev import REPLIES
from surecall.core.reply_parsing import parse_reply
from surecall.settings.endpoint_profile import RESPONSE_NORMALIZERS
from surecall.simulator.faults import SHAPE_FAULTS, shape_fault
from surecall.testing import calls, says
from surecall.values.errors import Fault
from surecall.values.types import JSON, Plan
from surecall.wire.transforms import RESPONSE
from tests.support import corpus
from tests.support.commands import HOSTILE, Run, command_line, one_line
from tests.support.persona_trials import UNREPAIRED
from tests.support.project_files import ROOT
from tests.support.replies import DEFAULT, REGISTRY, SAMPLES, with_fault
from tests.support.timing import LINEAR, growth

SOURCE = "seen-in-a-test"
KEY = "sk-proj-abcdefghij1234567890"
WEATHER: JSON = {
    "name": "get_weather",
    "description": "Tell the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture(name="run")
def run_fixture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run a command in a folder that looks like a checkout."""
    (tmp_path / REPLIES).mkdir(parents=True)
    (tmp_path / "surecall" / "simulator" / "faults").mkdir(parents=True)
    return command_line(tmp_path, monkeypatch, capsys)


def saved(body: Any, name: str = "reply.json") -> str:
    Path(name).write_text(body if isinstance(body, str) else json.dumps(body), "utf-8")
    return name


def written(name: str) -> JSON:
    """Return the case that was written, checked as the corpus tests check it."""
    cases = corpus.load(REPLIES)
    corpus.check_case(cases[name], name)
    return cases[name]


def called(arguments: Any, name: str = "get_weather") -> JSON:
    body = calls(name)
    body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = arguments
    return body


def test_the_file_passes_the_corpus_tests_as_it_is(run: Run) -> None:
    body = called('{"city": "Paris",}')
    tools = saved([WEATHER], "tools.json")
    arguments = ("--source", SOURCE, "--tools", tools, "--provenance", "seen at Acme, v7")
    code, out, err = run("dev", "new-drift", saved(body), *arguments)

    case = written(f"{SOURCE}-reply")
    assert (code, err) == (0, "")
    assert (case["source"], case["provenance"]) == (SOURCE, "seen at Acme, v7")
    assert (case["body"], case["tools"]) == (body, [WEATHER])
    assert case["expected"] == {
        "text": "",
        "calls": [{"name": "get_weather", "arguments": {"city": "Paris"}}],
    }
    assert "how the reply was parsed" in case["to_check"]
    assert out.startswith(f"wrote {Path.cwd() / REPLIES}/{SOURCE}-reply.json\n")


@pytest.mark.slow
@pytest.mark.parametrize("fault", SHAPE_FAULTS)
def test_whatever_a_reply_is_like_the_file_passes(run: Run, fault: str) -> None:
    bodies = [with_fault(fault, sample, seed) for sample in SAMPLES for seed in range(3)]
    for number, body in enumerate(bodies[::4]):
        assert run("dev", "new-drift", saved(body), "--id", f"wild-{number}")[0] == 0

    for name in corpus.load(REPLIES):
        written(name)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (says("Hello."), {"text": "Hello.", "calls": []}),
        ({"error": {"code": 429, "message": "slow"}}, {"text": "", "code": "RATE_LIMIT"}),
        ({"choices": []}, {"text": "", "code": "EMPTY_RESPONSE"}),
        (["?"], {"text": "", "code": "DECODE_ERROR"}),
        (called("{"), {"text": "", "code": "ARGUMENTS_JSON_PARSE_ERROR"}),
        (called("{}", "no tool"), {"text": "", "code": "TOOL_NOT_ALLOWED"}),
    ],
)
def test_what_is_read_now_is_expected(run: Run, body: Any, expected: JSON) -> None:
    code, out, _ = run("dev", "new-drift", saved(body), "--id", "wild-1")

    assert (code, written("wild-1")["expected"]) == (0, expected)
    assert f"parsed as: {json.dumps(expected, separators=(',', ':'))}" in out


def test_of_several_calls_each_has_its_own_end(run: Run) -> None:
    body = called("{}")
    message = body["choices"][0]["message"]
    message["tool_calls"].append(called("{", "shell")["choices"][0]["message"]["tool_calls"][0])
    message["tool_calls"][1]["id"] = "call_2"
    run("dev", "new-drift", saved(body), "--id", "wild-1")

    assert written("wild-1")["expected"]["calls"] == [
        {"name": "get_weather", "arguments": {}},
        {"name": "shell", "code": "ARGUMENTS_JSON_PARSE_ERROR"},
    ]


def test_without_tools_they_are_guessed_and_the_file_says_so(run: Run) -> None:
    body = called("{}", "get_weather")
    other = called("{}", "Get-Weather")["choices"][0]["message"]["tool_calls"][0]
    body["choices"][0]["message"]["tool_calls"].append(other)
    run("dev", "new-drift", saved(body), "--id", "wild-1")

    case = written("wild-1")
    assert [tool["name"] for tool in case["tools"]] == ["get_weather"]
    assert "guessed from the calls" in case["to_check"]


def test_it_reads_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    given = io.TextIOWrapper(io.BytesIO(json.dumps(says("Hi.")).encode()))
    monkeypatch.setattr("sys.stdin", given)
    assert run("dev", "new-drift", "-")[0] == 0
    assert written("wild-reply")["expected"]["text"] == "Hi."


def test_a_source_with_a_fault_needs_no_word_about_it(run: Run) -> None:
    assert run("dev", "new-drift", saved(says("Hi.")), "--source", "D23")[0] == 0
    assert "no_fault" not in written("d23-reply")


def test_it_finds_the_checkout_from_any_folder_inside(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = Path(saved(says("Hi."))).resolve()
    inside = REPLIES.resolve()
    monkeypatch.chdir(inside)
    assert run("dev", "new-drift", str(reply))[0] == 0
    assert (inside / "wild-reply.json").is_file()


def test_outside_of_a_checkout_it_asks_where_to_write(
    run: Run, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    code, out, err = run("dev", "new-drift", saved(says("Hi.")))
    assert (code, out) == (2, "")
    assert "not a checkout of surecall" in one_line(err)
    assert "--into" in err

    assert run("dev", "new-drift", saved(says("Hi.")), "--into", ".")[0] == 0
    assert Path("wild-reply.json").is_file()


def test_a_file_is_never_overwritten(run: Run) -> None:
    run("dev", "new-drift", saved(says("one")))
    code, out, err = run("dev", "new-drift", saved(says("two")))

    assert (code, out) == (1, "")
    assert "already exists: choose another --id" in one_line(err)
    assert written("wild-reply")["expected"]["text"] == "one"


def test_a_folder_that_is_not_there_is_one_sentence(run: Run) -> None:
    code, _, err = run("dev", "new-drift", saved(says("one")), "--into", "nowhere")

    assert code == 1
    assert "No such file or directory" in one_line(err)


@pytest.mark.parametrize(
    "hidden",
    [
        KEY,
        "AIzaSyA-0123456789abcdefghij",
        "ghp_0123456789abcdefghijABCDEFGHIJ",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.c2ln",
    ],
)
def test_what_looks_like_a_key_is_taken_out(run: Run, hidden: str) -> None:
    body = called(json.dumps({"command": f"curl -H {hidden}"})) | {"note": {hidden: [hidden]}}
    tools = [WEATHER | {"description": f"Use {hidden}."}]
    given = ("--tools", saved(tools, "tools.json"), "--provenance", f"see {hidden}")
    _, out, _ = run("dev", "new-drift", saved(body), "--id", "wild-1", *given)

    text = (REPLIES / "wild-1.json").read_text("utf-8")
    assert hidden not in text + out
    assert "removed 5 that looked like keys" in out
    written("wild-1")


def test_fields_that_hold_keys_are_emptied_whatever_is_in_them(run: Run) -> None:
    body = called('{"api_key": "hunter22", "token" : 5}') | {"Authorization": "hunter22", "max": ""}
    run("dev", "new-drift", saved(body | {"password": None, "usage": {"total_tokens": 12345678}}))

    case = written("wild-reply")
    assert "hunter22" not in json.dumps(case)
    assert case["body"]["usage"] == {"total_tokens": 12345678}
    assert case["expected"]["calls"][0]["arguments"] == {"api_key": "[redacted]", "token": 5}


def test_words_that_only_begin_like_a_key_stay(run: Run) -> None:
    text = "The hf_hub has AKIA keys; a task-force wrote xoxo, and token: see below."
    run("dev", "new-drift", saved(says(text)))

    assert written("wild-reply")["expected"]["text"] == text


def test_characters_that_cannot_be_seen_become_escapes(run: Run) -> None:
    reply = saved(says(HOSTILE))
    code, out, _ = run("dev", "new-drift", reply, "--provenance", HOSTILE)

    text = (REPLIES / "wild-reply.json").read_text("utf-8")
    assert code == 0
    assert all(line.isprintable() for line in text.split("\n"))
    assert written("wild-reply")["expected"]["text"] == HOSTILE
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--id", "a\x1b[2Jb"), "--id may have"),
        (("--id", "../../etc/passwd"), "--id may have"),
        (("--id", "a" * 101), "up to 100 letters"),
        (("--id", "-x"), "begin with a letter or digit"),
        (("--source", "a b"), "--source may have"),
        (("--id", "mine", "--source", SOURCE), f"begin with the source: --id {SOURCE}-"),
        (("--tools", "reply.json"), "--tools must be a JSON list"),
        (("--tools", "broken.json"), "--tools is not JSON"),
        (("--tools", "illegal.json"), "illegal tool name"),
    ],
)
def test_wrong_usage_is_one_sentence(run: Run, arguments: tuple[str, ...], words: str) -> None:
    saved("[", "broken.json")
    saved([{"name": "a\nb"}], "illegal.json")
    code, out, err = run("dev", "new-drift", saved(says("Hi.")), *arguments)

    assert (code, out) == (2, "")
    assert words in one_line(err)
    assert list(REPLIES.iterdir()) == []


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("not JSON at all", "the reply is not JSON"),
        ("", "the reply is not JSON"),
        ("[" * 5000 + "]" * 5000, "the reply is nested too deeply"),
        ('{"a":' * 400 + "1" + "}" * 400, "the reply is nested too deeply"),
        (json.dumps("x" * 2_000_001), "the reply is larger than 2000000 bytes"),
        ('{"choices": [], "x": NaN}', "the reply has NaN or Infinity"),
    ],
)
def test_a_reply_that_cannot_be_kept_is_one_sentence(run: Run, reply: str, words: str) -> None:
    code, out, err = run("dev", "new-drift", saved(reply))

    assert (code, out) == (2, "")
    assert words in one_line(err)
    assert list(REPLIES.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["token", "token:", "api_key=12345678 ", "eyJ", f"{KEY} ", "xox"])
def test_looking_for_keys_takes_steps_in_proportion_to_the_reply(run: Run, unit: str) -> None:
    ids = itertools.count()

    def look(times: int) -> None:
        given = ("--id", f"case-{next(ids)}")
        assert run("dev", "new-drift", saved(says(unit * times)), *given)[0] == 0

    assert growth(look, 5_000) < LINEAR
    look(1_900_000 // len(unit))


def test_the_name_of_the_file_becomes_a_plain_id(run: Run) -> None:
    run("dev", "new-drift", saved(says("Hi."), "Été 2026 (copy)\n.json"))
    run("dev", "new-drift", saved(says("Hi."), "🍸.json"))

    assert {*corpus.load(REPLIES)} == {"wild-t-2026-copy", "wild-reply"}


def stub(out: str, opening: str) -> str:
    """Cut a stub out of what was printed."""
    lines = out.split("\n")
    start = next(at for at, line in enumerate(lines) if line.startswith(opening))
    return "\n".join(lines[start : lines.index("", start)])


def test_the_stubs_can_be_pasted(run: Run) -> None:
    _, out, _ = run("dev", "new-drift", saved(says("Hi.")), "--source", SOURCE)
    names: dict[str, Any] = {"RESPONSE": RESPONSE, "JSON": JSON} | vars(shape_fault)
    exec(stub(out, "@shape_fault("), names)  # noqa: S102  # this is the test
    exec(stub(out, "@RESPONSE."), names)  # noqa: S102  # this is the test
    fault, cure = (
        SHAPE_FAULTS.pop("seen_in_a_test_reply"),
        "assistant_seen_in_a_test_reply_repaired",
    )
    healed = RESPONSE[cure]({"content": "Hi."})
    del RESPONSE._members[cure]

    assert (fault.sources, fault.repairs, fault.outcome) == ((SOURCE,), (cure,), "repaired")
    assert fault.summary.endswith(".")
    assert healed == {"content": "Hi."}


def test_the_next_steps_name_files_and_commands_that_are_there(run: Run) -> None:
    _, out, _ = run("dev", "new-drift", saved(says("Hi.")), "--id", "7-up")
    steps = out[out.index("Next steps:") :]

    for name in (
        "tests/properties/test_corpus.py",
        "tests/simulator/faults",
        "surecall/settings/endpoint_profile.py",
        "surecall/wire/transforms/response_transforms.py",
        "tests/simulator/faults/test_faults_pairs.py",
        "tests/eval/running/test_trial_run.py",
    ):
        assert name in steps
        assert (ROOT / name).exists()
    assert "-k 7-up" in steps
    assert "def reply_7_up(" in out
    assert "RESPONSE_NORMALIZERS in" in steps
    assert all((RESPONSE_NORMALIZERS, UNREPAIRED))
    pairs = ROOT / "tests" / "simulator" / "faults" / "test_faults_pairs.py"
    assert "\nAPART" in pairs.read_text("utf-8")


def test_a_reply_is_read_as_a_run_reads_it(run: Run) -> None:
    body = called({"city": "Paris"}, "ping")
    run("dev", "new-drift", saved(body), "--id", "wild-1")
    reply = parse_reply(body, Plan("", ()), DEFAULT, REGISTRY)

    assert not isinstance(reply, Fault)
    assert written("wild-1")["expected"]["calls"][0]["name"] == reply.calls[0].name
