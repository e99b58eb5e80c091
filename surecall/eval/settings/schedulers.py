"""Which part of an evaluation a scheduler gave to this process: `--shard auto` and `auto/8`.

A scheduler starts the same command many times and tells each, in variables, which one it is:

    SLURM_ARRAY_TASK_ID      of a job array (sbatch --array=0-7), with how many there are
    JOB_COMPLETION_INDEX     of an indexed job of Kubernetes, which does not say how many there are

Whatever cannot be read, or does not fit together, is an error: otherwise one part would be measured
twice, and another one never.
"""

from collections.abc import Mapping
from typing import Any, Final

from surecall.eval.settings.parse import AUTO, Shard
from surecall.eval.settings.parse import shard as read_shard
from surecall.values.errors import ConfigError

_SLURM: Final = "SLURM_ARRAY_TASK_"
_SLURM_ID: Final = f"{_SLURM}ID"
_KUBERNETES_ID: Final = "JOB_COMPLETION_INDEX"
_BY_HAND: Final = "say which part this is, such as --shard 1/8"


def shard_from(value: Any, environ: Mapping[str, str]) -> Shard:
    """Read one part of several; `auto` asks the scheduler which, `auto/8` says of how many."""
    word, slash, parts = str(value).partition("/")
    if word.strip().lower() != AUTO:
        return read_shard(value)
    count = read_shard(f"1/{parts}").count if slash else None
    given = {
        name: part_of(environ, count)
        for name, part_of in ((_SLURM_ID, _in_slurm), (_KUBERNETES_ID, _in_kubernetes))
        if name in environ
    }
    if not given:
        names = f"{_SLURM_ID} nor {_KUBERNETES_ID}"
        raise ConfigError(
            f"no scheduler says which part this is: neither {names} is set; {_BY_HAND}"
        )
    first, *others = given.values()
    if any(other != first for other in others):
        said = ", ".join(f"{name} means {_shown(part)}" for name, part in given.items())
        raise ConfigError(f"two schedulers disagree about the part: {said}; {_BY_HAND}")
    return first


def _in_slurm(environ: Mapping[str, str], count: int | None) -> Shard:
    """Read the variables of a job array, whose indices may begin anywhere and have a step."""
    index, least = (_number(environ, f"{_SLURM}{name}") for name in ("ID", "MIN"))
    most, tasks = (_number(environ, f"{_SLURM}{name}") for name in ("MAX", "COUNT"))
    step = _number(environ, f"{_SLURM}STEP") if f"{_SLURM}STEP" in environ else 1
    if step < 1 or not least <= index <= most or (index - least) % step:
        raise ConfigError(
            f"{_SLURM_ID} is {index}, which is not in {least}-{most}:{step}; {_BY_HAND}"
        )
    if (most - least) // step + 1 != tasks:
        raise ConfigError(
            f"the job array has {tasks} tasks, but {least}-{most}:{step} has another number; write "
            f"its indices as a range, such as --array=0-7, or {_BY_HAND}"
        )
    if count not in {None, tasks}:
        raise ConfigError(
            f"the job array has {tasks} tasks, not {count}; submit all of it again (what is "
            f"recorded is not run again), or {_BY_HAND}"
        )
    return Shard((index - least) // step + 1, tasks)


def _in_kubernetes(environ: Mapping[str, str], count: int | None) -> Shard:
    """Read the index of an indexed job, which counts from zero."""
    index = _number(environ, _KUBERNETES_ID)
    if count is None:
        raise ConfigError(
            "Kubernetes does not say how many parts there are; write the job's completions behind "
            "it, such as --shard auto/8"
        )
    if index >= count:
        raise ConfigError(
            f"{_KUBERNETES_ID} is {index}, and counts from 0, so there are more than {count} "
            "parts; write the job's completions behind auto"
        )
    return Shard(index + 1, count)


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= len("4294967295")):
        shown = f'is "{text[:40]}", not a number' if text else "is not set"
        raise ConfigError(f"{name} {shown}; {_BY_HAND}")
    return int(text)


def _shown(part: Shard) -> str:
    return f"{part.index}/{part.count}"
