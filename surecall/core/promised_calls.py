"""Promised calls: a reply that says it calls a tool, and has no call, is never an answer.

It may say so by its finish reason, or by being nothing but a call as text that could not be run.
What is then said to the model is in `early_answers`.
"""

from surecall.core.offer import offers_tools
from surecall.core.state import Run
from surecall.values.types import Assistant
from surecall.wire.finish_reasons import PROMISES, ending_of


def missing_call(run: Run, said: Assistant) -> str:
    """Say why a turn without calls is no answer: it was to have some. Otherwise say nothing.

    `said` is the newest turn. Where no tools were on offer no call was wanted, and none is missing.
    """
    if said.calls:
        return ""
    why = ""
    if ending_of(said.finish_reason) in PROMISES:
        why = f"the reply ended with {said.finish_reason!r}, and there was no call in it"
    elif any(claim.alone for claim in said.claims):
        why = "the reply was nothing but a call as text, which could not be run"
    position = len(run.messages) - len(run.tail) - 1
    return why if why and offers_tools(run.until(position)) else ""
