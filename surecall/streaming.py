"""What comes by while a run is watched: pieces of text, calls that are announced, and the stream.

    for event in runner.stream_sync("…"):
        match event:
            case TextDelta(text): ...

The events of the trace come by as well.
"""

from surecall.display import CallAnnounced, TextWithdrawn
from surecall.live import BlockingRunStream, RunStream
from surecall.stream import ReasoningDelta, TextDelta

__all__ = [
    "BlockingRunStream",
    "CallAnnounced",
    "ReasoningDelta",
    "RunStream",
    "TextDelta",
    "TextWithdrawn",
]
