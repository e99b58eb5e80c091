"""Whether an endpoint can be used at all, judging by how the trials of an evaluation end."""

from typing import Final

from surecall.eval.running.refusals import REFUSED
from surecall.eval.storage.trial import Trial
from surecall.values.errors import ErrorCode

# After so many in a row, the next one would end the same way.
HOPELESS_AFTER: Final = 10
HOPELESS: Final = frozenset(
    {
        ErrorCode.AUTH,
        ErrorCode.PAYMENT_REQUIRED,
        ErrorCode.CONNECTION_ERROR,
        ErrorCode.NOT_FOUND,
        *REFUSED,
    }
)
# A gateway may refuse a key for one model alone.
_MODELS_ENOUGH: Final = 2


class Outlook:
    """Looks for trials that end as the next one would, too.

    After several of them in a row an endpoint is hopeless. A wrong key is known sooner: as soon as
    it is refused for two models, or the only one, and nothing else was heard. `category` and
    `error` are those of the last such trial; the error says what to do, if anything is known.
    """

    def __init__(self, models: int) -> None:
        self._enough = min(models, _MODELS_ENOUGH)
        self._refused: set[str] = set()
        self._in_a_row = 0
        self._heard = False
        self.category = self.error = ""

    def add(self, trial: Trial, said: str) -> None:
        """Take in how a trial ended, and what the endpoint said about it, if it did."""
        # A refused request of a model that answers others says something about the model.
        if trial.status != "infra" or trial.category not in HOPELESS:
            self._in_a_row, self._heard = 0, True
            return
        self._in_a_row += 1
        self.category, self.error = trial.category, said or trial.error
        if trial.category == ErrorCode.AUTH:
            self._refused.add(trial.key.cell.model)

    @property
    def hopeless(self) -> bool:
        """Whether another trial is not worth its while."""
        refused = not self._heard and len(self._refused) >= self._enough
        return refused or self._in_a_row >= HOPELESS_AFTER

    @property
    def silent(self) -> bool:
        """Whether trials ended, and all of them so."""
        return bool(self._in_a_row) and not self._heard
