"""The part that a scheduler gave to a process is read from its variables, or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.settings.load import load
from surecall.eval.settings.parse import Shard
from surecall.eval.settings.schedulers import shard_from
from surecall.values.errors import ConfigError


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
    assert shard_from(value, environ) == shard


def test_a_job_array_without_a_step_counts_by_one() -> None:
    environ = slurm(3, 0, 7, 8)
    del environ["SLURM_ARRAY_TASK_STEP"]

    assert shard_from("auto", environ) == Shard(4, 8)


@pytest.mark.parametrize(
    ("value", "environ", "said"),
    [
        ("auto", {}, "neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set"),
        ("auto/8", {}, "neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set"),
        ("auto", kubernetes(3), "Kubernetes does not say how many parts there are"),
        ("auto/8", kubernetes(8), "so there are more than 8 parts"),
        ("auto/8", kubernetes("three"), 'JOB_COMPLETION_INDEX is "three", not a number'),
        ("auto/8", kubernetes(""), "JOB_COMPLETION_INDEX is not set"),
        ("auto/8", kubernetes("9" * 99), "JOB_COMPLETION_INDEX is"),
        ("auto", {"SLURM_ARRAY_TASK_ID": "3"}, "SLURM_ARRAY_TASK_MIN is not set"),
        ("auto", slurm("-1", 0, 7, 8), 'SLURM_ARRAY_TASK_ID is "-1", not a number'),
        ("auto", slurm(9, 0, 7, 8), "SLURM_ARRAY_TASK_ID is 9, which is not in 0-7:1"),
        ("auto", slurm(2, 1, 7, 4, 2), "SLURM_ARRAY_TASK_ID is 2, which is not in 1-7:2"),
        ("auto", slurm(2, 0, 7, 8, 0), "which is not in 0-7:0"),
        ("auto", slurm(2, 1, 9, 3), "write its indices as a range"),
        ("auto/8", slurm(3, 3, 3, 1), "the job array has 1 tasks, not 8; submit all of it again"),
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
        shard_from(value, environ)

    assert said in str(error.value)


@given(st.integers(0, 50), st.integers(1, 9), st.integers(1, 40))
def test_the_tasks_of_an_array_share_all_parts_among_them(
    least: int, step: int, count: int
) -> None:
    most = least + (count - 1) * step
    indices = range(least, most + 1, step)
    parts = [shard_from("auto", slurm(index, least, most, count, step)) for index in indices]

    assert parts == [Shard(number, count) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("flags", "environ"),
    [({"shard": "auto/8"}, {}), ({}, {"SURECALL_SHARD": "auto/8"})],
    ids=["flag", "variable"],
)
def test_the_setting_is_settled_before_anything_is_planned(
    flags: dict[str, str], environ: dict[str, str]
) -> None:
    effective = load(flags, kubernetes(2) | environ)

    assert effective.settings.shard == Shard(3, 8)
    with pytest.raises(ConfigError, match=r"shard|SHARD"):
        load(flags, environ)
