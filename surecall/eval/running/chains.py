"""Chains of models, measured as one: `a>b` asks b where a fails, as a runner with both would.

All models of a chain are asked at the same endpoint. Every trial begins with the first.
"""

from collections.abc import Callable, Sequence
from typing import Final

from surecall.eval.running.cells import Model
from surecall.values.errors import ConfigError

THEN: Final = ">"


def spelt(expression: str) -> str:
    """Write a filter without blanks around the signs between the models of a chain."""
    return THEN.join(part.strip() for part in expression.split(THEN))


def is_chain(token: str) -> bool:
    """Whether a word of a filter names a chain."""
    return THEN in token


def links_in(model: str) -> tuple[str, ...]:
    """Return the ids of the models of a chain; nothing if it is none."""
    return tuple(model.split(THEN)) if is_chain(model) else ()


def chain_of(token: str, pick: Callable[[str], Sequence[Model]]) -> Model:
    """Return a chain as a model; `pick` finds the models of each of its words."""
    links = tuple(_only(name, pick) for name in token.split(THEN))
    if len({link.simulated for link in links}) > 1:
        raise ConfigError(f'models: of the chain "{token}" some are simulated, and others are not')
    first = links[0]
    return Model(
        THEN.join(link.id for link in links),
        first.provider,
        imitates=first.imitates,
        simulated=first.simulated,
        links=links,
    )


def _only(name: str, pick: Callable[[str], Sequence[Model]]) -> Model:
    if not name:
        raise ConfigError(f"models: a chain is written as a{THEN}b; there is a name missing")
    found = pick(name)
    if len(found) != 1:
        raise ConfigError(f'models: "{name}" is more than one model; a chain names each by itself')
    return found[0]
