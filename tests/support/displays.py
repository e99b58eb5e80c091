"""What a display showed, as a screen would have it."""

from surecall.core.streaming.display import Shown, TextWithdrawn
from surecall.wire.assembler import TextDelta


def screen(shown: list[Shown]) -> str:
    return "".join(event.text for event in shown if isinstance(event, TextDelta))


def withdrawals(shown: list[Shown]) -> list[str]:
    return [event.text for event in shown if isinstance(event, TextWithdrawn)]
