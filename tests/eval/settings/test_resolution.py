"""Tests of `surecall.eval.settings.resolution`."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.settings.endpoint import (
    OPENROUTER_URL,
)
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.resolution import (
    FULL,
    llm_options,
    public_settings,
    resolve_settings,
    resolve_shard,
    result_settings,
)
from surecall.eval.settings.value_parsers import Shard
from surecall.values.errors import ConfigError
from tests.support.spec import proves

# Settings: which place wins, what is refused, and what an evaluation makes of them


KEY = "sk-or-v1-made-up"
# Every variable of the original script, with a value that it would accept.
VARIABLES = {
    "OPENROUTER_API_KEY": KEY,
    "OPENROUTER_BASE_URL": "https://openrouter.ai/api",
    "OPENROUTER_API_PREFIX": "/v1",
    "OPENROUTER_HTTP_REFERER": "https://example.com",
    "OPENROUTER_X_TITLE": "eval",
    "OPENROUTER_CLIENT_TIMEOUT": "90",
    "OPENROUTER_OPEN_TIMEOUT": "5",
    "OPENROUTER_READ_TIMEOUT": "30",
    "OPENROUTER_HTTP_ADAPTER": "httpx",
    "OPENROUTER_MODEL_FILTER": "all,!minimax",
    "OPENROUTER_SAMPLING_PROFILE_FILTER": "default,recommended",
    "OPENROUTER_SAMPLING_PROFILE_ENFORCE_APPLICABILITY": "0",
    "OPENROUTER_LLM_OPTIONS_DEFAULTS_JSON": '{"max_tokens": 500}',
    "OPENROUTER_TEMPERATURE": "0.2",
    "OPENROUTER_TOP_P": "0.9",
    "OPENROUTER_TOP_K": "40",
    "OPENROUTER_MIN_P": "0.1",
    "OPENROUTER_TRIALS": "3",
    "OPENROUTER_JOBS": "4",
    "OPENROUTER_SCENARIOS": "simple",
    "OPENROUTER_STRATEGY_FILTER": "baseline",
    "OPENROUTER_STRATEGY_MATRIX": "1",
    "OPENROUTER_FALLBACK_MATRIX": "1",
    "OPENROUTER_ENABLE_CONTENT_TAG_TOOL_CALL_FALLBACK": "1",
    "OPENROUTER_TOOL_USE_MODE": "relaxed",
    "OPENROUTER_TOOL_FAILURE_POLICY": "tolerated",
    "OPENROUTER_TOOL_CALLING_FALLBACK_RETRY_COUNT": "2",
    "OPENROUTER_TOOL_ALLOWLIST": "state_get",
    "OPENROUTER_FIX_EMPTY_FINAL": "0",
    "OPENROUTER_ROUTE": "fallback",
    "OPENROUTER_TRANSFORMS": "none",
    "OPENROUTER_PROVIDER_ONLY": "Groq",
    "OPENROUTER_PROVIDER_ORDER": "Groq,Together",
    "OPENROUTER_PROVIDER_IGNORE": "Azure",
    "OPENROUTER_REQUEST_OVERRIDES_JSON": '{"user": "u"}',
    "OPENROUTER_REQUIRE_PARAMETERS": "0",
    "VERBOSE": "2",
    "OPENROUTER_EMPTY_RESPONSE_RETRY_COUNT": "0",
    "OPENROUTER_PRODUCTION_AUTO_SAMPLING_PROFILE": "1",
    "OPENROUTER_LANGUAGE_POLICY_FILTER": "",
    "OPENROUTER_LANGUAGE_POLICY_MATRIX": "0",
    "OPENROUTER_LANGUAGE_POLICY_STRICT": "0",
    "OPENROUTER_REPORT_DIR": "reports",
}


def settings(**environ: str) -> Settings:
    return resolve_settings({}, environ).settings


def refusal(flags: dict[str, Any], *texts: str | None, **environ: str) -> str:
    own, pyproject = (*texts, None, None)[:2]
    with pytest.raises(ConfigError) as problem:
        resolve_settings(flags, environ, own, pyproject)
    return str(problem.value)


@pytest.mark.parametrize(("flag", "name"), [("--threads", "threads"), ("--context", "context")])
def test_a_flag_about_serving_is_refused_where_nothing_is_served(flag: str, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{flag} has no effect without --gguf"):
        resolve_settings({name: "512"}, {})
    served = resolve_settings({name: "512", "gguf": "m.gguf"}, {})
    assert getattr(served.settings, name) == 512
    assert getattr(resolve_settings({}, {f"SURECALL_{name.upper()}": "512"}).settings, name) == 512


def test_nothing_given_means_the_defaults() -> None:
    effective = resolve_settings({}, {})

    assert effective.settings == Settings()
    assert set(effective.sources.values()) == {"default"}
    assert effective.warnings == ()


def test_every_variable_of_the_original_is_understood() -> None:
    effective = resolve_settings({}, VARIABLES)
    expected = {
        "model_filter": "all,!minimax",
        "trials": 3,
        "tool_allowlist": ("state_get",),
        "transforms": (),
        "request_overrides": {"user": "u"},
        "verbose": 2,
        "empty_response_retry_count": 0,
        "read_timeout": 30.0,
    }

    assert {name: getattr(effective.settings, name) for name in expected} == expected
    assert effective.warnings == (
        "OPENROUTER_HTTP_ADAPTER has no effect: there is only one HTTP client",
    )


@proves("I25")
def test_every_variable_of_the_original_may_be_blank_and_then_says_nothing() -> None:
    effective = resolve_settings({}, dict.fromkeys(VARIABLES, " "))

    assert effective.settings == msgspec.structs.replace(Settings(), api_prefix="")
    assert effective.warnings == ()


def test_flag_beats_own_variable_beats_router_variable_beats_file_beats_default() -> None:
    places: list[tuple[dict[str, Any], dict[str, str], str | None]] = [
        ({"trials": 1}, {"SURECALL_TRIALS": "2", "OPENROUTER_TRIALS": "3"}, "trials = 4"),
        ({"trials": None}, {"SURECALL_TRIALS": "2", "OPENROUTER_TRIALS": "3"}, "trials = 4"),
        ({}, {"OPENROUTER_TRIALS": "3"}, "trials = 4"),
        ({}, {}, "trials = 4"),
        ({}, {}, None),
    ]
    found = [resolve_settings(*place) for place in places]

    assert [each.settings.trials for each in found] == [1, 2, 3, 4, 10]
    assert [each.sources["trials"] for each in found] == [
        "--trials",
        "SURECALL_TRIALS",
        "OPENROUTER_TRIALS",
        "surecall.toml: trials",
        "default",
    ]


def test_a_flag_that_may_be_repeated_is_one_filter() -> None:
    assert resolve_settings({"model_filter": ("a", "b")}, {}).settings.model_filter == "a,b"
    assert resolve_settings({"model_filter": ()}, {}).settings.model_filter == "stable"


def test_a_dotenv_file_never_overrides_the_environment() -> None:
    dotenv = f"OPENROUTER_API_KEY={KEY}\nOPENROUTER_TRIALS=7\n"
    effective = resolve_settings({}, {"OPENROUTER_TRIALS": "3"}, dotenv_text=dotenv)

    assert effective.settings.trials == 3
    assert effective.sources["api_key"] == "OPENROUTER_API_KEY in .env"


def test_settings_may_stand_in_pyproject_unless_there_is_a_file_of_their_own() -> None:
    pyproject = '[tool.surecall]\nmodel-filter = ["google", "!pro"]\n'

    assert resolve_settings({}, {}, None, pyproject).settings.model_filter == "google,!pro"
    assert resolve_settings({}, {}, "", pyproject).settings.model_filter == "stable"
    assert resolve_settings({}, {}, None, "[project]\n").settings == Settings()
    assert resolve_settings({}, {}, None, "tool = 3\n").settings == Settings()


def test_blank_text_in_a_file_says_nothing_except_for_the_prefix() -> None:
    found = resolve_settings({}, {}, 'model_filter = ""\napi_prefix = ""\n').settings

    assert (found.model_filter, found.api_prefix) == ("stable", "")


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        pytest.param(("trails = 3",), 'surecall.toml: unknown setting "trails"; did', id="unknown"),
        pytest.param(('api_key = "x"',), "api_key is not allowed in a shared file", id="key"),
        pytest.param(("trials =",), "surecall.toml: not valid TOML", id="toml"),
        pytest.param((None, "["), "pyproject.toml: not valid TOML", id="pyproject"),
        pytest.param((None, "[tool]\nsurecall = 3"), "must be a table", id="no-table"),
        pytest.param(
            ('endpoint = "olama"',),
            'surecall.toml: endpoint: unknown endpoint "olama"; did you mean "ollama"?',
            id="endpoint",
        ),
        pytest.param(('trials = "x"',), "surecall.toml: trials: must be a whole", id="value"),
    ],
)
def test_a_file_that_is_wrong_is_refused_by_name(
    texts: tuple[str | None, ...], complaint: str
) -> None:
    assert complaint in refusal({}, *texts)


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("OPENROUTER_TOOL_USE_MODE", "enforce", 'did you mean "enforced"'),
        ("OPENROUTER_TOOL_FAILURE_POLICY", "lethal", "known: "),
        ("SURECALL_ENDPOINT", "openruter", 'did you mean "openrouter"'),
        ("OPENROUTER_TRIALS", "ten", "must be a whole number"),
        ("SURECALL_MAX_COST", "-1", "must be a number above zero"),
        ("OPENROUTER_REQUEST_OVERRIDES_JSON", "{", "must be a JSON object"),
        ("OPENROUTER_STRATEGY_MATRIX", "maybe", "must be 1 or 0"),
        ("OPENROUTER_EVAL_PRESET", "fill", 'did you mean "full"'),
        ("OPENROUTER_LANGUAGE_POLICY_FILTER", "ja-JP", "is not supported"),
        ("OPENROUTER_LANGUAGE_POLICY_MATRIX", "1", "is not supported"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_the_name_of_its_variable(
    variable: str, value: str, complaint: str
) -> None:
    message = refusal({}, **{variable: value})

    assert message.startswith(variable)
    assert complaint in message


def test_a_wrong_value_counts_only_where_nothing_stronger_is_said() -> None:
    assert resolve_settings({"trials": "2"}, {"OPENROUTER_TRIALS": "ten"}).settings.trials == 2


def test_an_unknown_flag_and_the_key_as_a_flag_are_refused() -> None:
    assert 'did you mean "trials"' in refusal({"trails": 3})
    assert "unknown flag" in refusal({"api_key": KEY})


def test_a_variable_that_nobody_knows_is_told_with_what_may_be_meant() -> None:
    environ = {"OPENROUTER_TRAILS": "3", "OPENROUTER_SEED": "1", "SURECALL_ZZZZ": "", "OTHER": "x"}

    assert resolve_settings({}, environ).warnings == (
        'OPENROUTER_TRAILS is not a setting; did you mean "OPENROUTER_TRIALS"?',
        'OPENROUTER_SEED is not a setting; did you mean "SURECALL_SEED"?',
        "SURECALL_ZZZZ is not a setting",
    )


def test_the_key_is_never_shown() -> None:
    effective = resolve_settings({}, VARIABLES)
    shown = (
        repr(effective)
        + repr(public_settings(effective.settings))
        + repr(result_settings(effective.settings))
    )

    assert KEY not in shown
    assert effective.settings.api_key is not None
    assert effective.settings.api_key.reveal() == KEY


def test_a_broken_key_is_refused_without_repeating_it() -> None:
    message = refusal({}, OPENROUTER_API_KEY="sk or v1")

    assert message.startswith("OPENROUTER_API_KEY: ")
    assert "sk or" not in message


def test_the_full_preset_fills_in_what_nothing_else_sets() -> None:
    effective = resolve_settings({}, {"OPENROUTER_FULL": "1", "OPENROUTER_MODEL_FILTER": "google"})
    found = effective.settings

    assert (found.trials, found.scenarios, found.model_filter) == (10, "all", "google")
    assert found.sampling_profile_filter == "default,recommended,conversation,creative,tool_calling"
    assert found.strategy_filter == "raw,baseline,production"
    assert (found.full, found.eval_preset) == (True, FULL)
    assert effective.sources["scenarios"] == "preset full (OPENROUTER_FULL)"
    assert effective.warnings == ()


def test_beside_a_reference_replies_are_judged_as_they_come_unless_something_else_is_said() -> None:
    plain = resolve_settings({"reference": "a", "against": "b,c"}, {})
    asked = {"reference": "a", "strategy_filter": "production", "empty_response_retry_count": "2"}
    said = resolve_settings(asked, {}).settings

    assert (plain.settings.strategy_filter, plain.settings.empty_response_retry_count) == ("raw", 0)
    assert plain.sources["strategy_filter"] == "with --reference"
    assert plain.settings.against == "b,c"
    assert (said.strategy_filter, said.empty_response_retry_count) == ("production", 2)


def test_the_full_preset_turns_the_strategy_matrix_off_and_says_so() -> None:
    effective = resolve_settings({"eval_preset": "all"}, {"OPENROUTER_STRATEGY_MATRIX": "1"})

    assert not effective.settings.strategy_matrix
    assert effective.warnings == ("OPENROUTER_STRATEGY_MATRIX has no effect with the preset full",)
    assert resolve_settings({"full": False}, {}).settings == Settings()


@pytest.mark.parametrize(
    ("flags", "environ", "matrix"),
    [
        ({"strategy_filter": "raw"}, {"OPENROUTER_STRATEGY_MATRIX": "1"}, False),
        ({"strategy_matrix": True}, {"OPENROUTER_STRATEGY_FILTER": "raw"}, True),
        ({}, {"OPENROUTER_STRATEGY_FILTER": "raw", "OPENROUTER_STRATEGY_MATRIX": "1"}, True),
        ({}, {"OPENROUTER_STRATEGY_MATRIX": "1"}, True),
        ({"strategy_filter": "raw"}, {}, False),
    ],
)
def test_the_matrix_beats_a_filter_that_is_not_from_a_stronger_place(
    flags: dict[str, Any], environ: dict[str, str], *, matrix: bool
) -> None:
    assert resolve_settings(flags, environ).settings.strategy_matrix is matrix


def test_a_single_sampling_value_beats_the_same_one_in_json() -> None:
    environ = {
        "OPENROUTER_LLM_OPTIONS_DEFAULTS_JSON": '{"temperature": 1.5, "max_tokens": 9}',
        "OPENROUTER_TEMPERATURE": "0.2",
    }

    assert llm_options(resolve_settings({}, environ).settings) == {
        "temperature": 0.2,
        "max_tokens": 9,
    }


def test_json_from_a_stronger_place_beats_a_single_sampling_value() -> None:
    flags = {"llm_options_defaults": '{"temperature": 1.5}'}
    effective = resolve_settings(
        flags, {"OPENROUTER_TEMPERATURE": "0.2", "OPENROUTER_TOP_P": "0.5"}
    )

    assert llm_options(effective.settings) == {"temperature": 1.5, "top_p": 0.5}
    assert effective.sources["temperature"] == "--llm-options"


def test_identity_holds_what_changes_results_and_nothing_else() -> None:
    one = settings(OPENROUTER_API_KEY=KEY, OPENROUTER_TRIALS="3", OPENROUTER_JOBS="1")
    other = settings(
        OPENROUTER_API_KEY="another-key",
        OPENROUTER_BASE_URL=OPENROUTER_URL,
        OPENROUTER_MODEL_FILTER="all",
    )
    warmer = settings(OPENROUTER_API_KEY=KEY, OPENROUTER_TEMPERATURE="1")

    assert result_settings(one) == result_settings(other)
    assert result_settings(one) != result_settings(warmer)
    assert result_settings(one) != result_settings(Settings())
    assert result_settings(Settings())["base_url"] == "sim"


# The part that a scheduler gave to a process is read from its variables, or refused


def slurm(
    index: object, least: object, most: object, count: object, step: object = 1
) -> dict[str, str]:
    found = {"ID": index, "MIN": least, "MAX": most, "COUNT": count, "STEP": step}
    return {f"SLURM_ARRAY_TASK_{name}": f"{value}" for name, value in found.items()}


def kubernetes(index: object) -> dict[str, str]:
    return {"JOB_COMPLETION_INDEX": f"{index}"}


@pytest.mark.parametrize(
    ("value", "environ", "shard"),
    [
        pytest.param("2/4", slurm(0, 0, 7, 8), Shard(2, 4), id="what-is-said-counts"),
        pytest.param("auto", slurm(0, 0, 7, 8), Shard(1, 8), id="slurm-from-zero"),
        pytest.param("auto", slurm(8, 1, 8, 8), Shard(8, 8), id="slurm-from-one"),
        pytest.param("auto", slurm(15, 10, 20, 3, 5), Shard(2, 3), id="slurm-with-a-step"),
        pytest.param("auto/8", slurm(3, 0, 7, 8), Shard(4, 8), id="slurm-and-how-many"),
        pytest.param(" Auto / 8 ", slurm(" 3 ", 0, 7, 8), Shard(4, 8), id="blanks"),
        pytest.param("auto/8", kubernetes(0), Shard(1, 8), id="kubernetes-first"),
        pytest.param("auto/8", kubernetes(7), Shard(8, 8), id="kubernetes-last"),
        pytest.param("auto/8", slurm(3, 0, 7, 8) | kubernetes(3), Shard(4, 8), id="both-agree"),
    ],
)
def test_a_part_is_read_from_the_variables_of_the_scheduler(
    value: str, environ: dict[str, str], shard: Shard
) -> None:
    assert resolve_shard(value, environ) == shard


def test_a_job_array_without_a_step_counts_by_one() -> None:
    environ = slurm(3, 0, 7, 8)
    del environ["SLURM_ARRAY_TASK_STEP"]

    assert resolve_shard("auto", environ) == Shard(4, 8)


@pytest.mark.parametrize(
    ("value", "environ", "said"),
    [
        ("auto", {}, "neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set"),
        ("auto/8", {}, "neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set"),
        ("auto", kubernetes(3), "Kubernetes does not set the number of shards"),
        ("auto/8", kubernetes(8), "so there are more than 8 shards"),
        ("auto/8", kubernetes("three"), 'JOB_COMPLETION_INDEX is "three", not a number'),
        ("auto/8", kubernetes(""), "JOB_COMPLETION_INDEX is not set"),
        ("auto/8", kubernetes("9" * 99), "JOB_COMPLETION_INDEX is"),
        ("auto", {"SLURM_ARRAY_TASK_ID": "3"}, "SLURM_ARRAY_TASK_MIN is not set"),
        ("auto", slurm("-1", 0, 7, 8), 'SLURM_ARRAY_TASK_ID is "-1", not a number'),
        ("auto", slurm(9, 0, 7, 8), "SLURM_ARRAY_TASK_ID is 9, which is not in 0-7:1"),
        ("auto", slurm(2, 1, 7, 4, 2), "SLURM_ARRAY_TASK_ID is 2, which is not in 1-7:2"),
        ("auto", slurm(2, 0, 7, 8, 0), "which is not in 0-7:0"),
        ("auto", slurm(2, 1, 9, 3), "one range of indices"),
        (
            "auto/8",
            slurm(3, 3, 3, 1),
            "the job array has 1 tasks, not 8; submit the whole array again",
        ),
        (
            "auto/8",
            slurm(3, 0, 7, 8) | kubernetes(4),
            "SLURM_ARRAY_TASK_ID means 4/8, JOB_COMPLETION_INDEX means 5/8",
        ),
        ("auto/", slurm(3, 0, 7, 8), "such as 1/4"),
        ("auto/0", slurm(3, 0, 7, 8), "such as 1/4"),
        ("auto/many", slurm(3, 0, 7, 8), "such as 1/4"),
        ("automatic", slurm(3, 0, 7, 8), "such as 1/4"),
    ],
)
def test_what_cannot_be_read_or_does_not_fit_together_is_refused(
    value: str, environ: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        resolve_shard(value, environ)

    assert said in str(error.value)


@given(st.integers(0, 50), st.integers(1, 9), st.integers(1, 40))
def test_the_tasks_of_an_array_share_all_parts_among_them(
    least: int, step: int, count: int
) -> None:
    most = least + (count - 1) * step
    indices = range(least, most + 1, step)
    parts = [resolve_shard("auto", slurm(index, least, most, count, step)) for index in indices]

    assert parts == [Shard(number, count) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("flags", "environ"),
    [({"shard": "auto/8"}, {}), ({}, {"SURECALL_SHARD": "auto/8"})],
    ids=["flag", "variable"],
)
def test_the_setting_is_settled_before_anything_is_planned(
    flags: dict[str, str], environ: dict[str, str]
) -> None:
    effective = resolve_settings(flags, kubernetes(2) | environ)

    assert effective.settings.shard == Shard(3, 8)
    with pytest.raises(ConfigError, match=r"shard|SHARD"):
        resolve_settings(flags, environ)
