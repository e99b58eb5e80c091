"""Refused requests: the model's failures only if the model was ever heard.

An endpoint answers 400 to a history that the wrong settings have spoiled; but also to a model that
it does not have, an account without credit, an organisation that must be verified. Where the first
request of every trial of a model is refused, nothing was measured: these trials are spoiled. The
model's first reply settles it: then the requests as such are served, and what was refused before
was refused for what was in it.
"""

from typing import Final

import msgspec

from surecall.eval.storage.trial import Key, Trial
from surecall.values.errors import ErrorCode

REFUSED: Final = frozenset(
    {ErrorCode.BAD_REQUEST, ErrorCode.REQUEST_TOO_LARGE, ErrorCode.UNPROCESSABLE}
)


class Refusals:
    """Remembers which models were heard, and which trials of the others were refused.

    The trials themselves are in the store.
    """

    def __init__(self) -> None:
        self._heard: set[str] = set()
        self._refused: dict[str, list[Key]] = {}

    def judged(self, trial: Trial) -> Trial:
        """Return a trial as it counts for now: spoiled, if nothing of its model was ever heard."""
        model = trial.key.cell.model
        if trial.requests or trial.category not in REFUSED or model in self._heard:
            return trial
        self._refused.setdefault(model, []).append(trial.key)
        return msgspec.structs.replace(trial, status="infra", truth="")

    def settled_by(self, trial: Trial) -> list[Key]:
        """Return the earlier trials that count as failed, now that the model was heard."""
        if not trial.requests:
            return []
        self._heard.add(trial.key.cell.model)
        return self._refused.pop(trial.key.cell.model, [])


def settled(trial: Trial) -> Trial:
    """Return a trial that was `judged` to be spoiled as the failure that it was after all.

    An error told of it, so it was an open one.
    """
    return msgspec.structs.replace(trial, status="failed", truth="open")
