"""What comes by while a run is watched: pieces of text, calls that are announced, and the stream.

    for event in runner.stream_sync("…"):
        match event:
            case TextDelta(text): ...

The events of the trace come by as well.
"""

from surecall.core.streaming.display import CallAnnounced, TextWithdrawn
from surecall.runtime.run_stream import BlockingRunStream, RunStream
from surecall.wire.assembler import ReasoningDelta, TextDelta

__all__ = [
    "BlockingRunStream",
    "CallAnnounced",
    "ReasoningDelta",
    "RunStream",
    "TextDelta",
    "TextWithdrawn",
]
