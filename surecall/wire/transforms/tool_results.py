"""Tool-result transforms: reshape an envelope before the model sees it."""

from surecall.values.family import Family
from surecall.values.types import JSON

TOOL_RESULT: Family[JSON] = Family("tool result transform")


@TOOL_RESULT.register
def tool_result_compact_envelope(envelope: JSON) -> JSON:
    """Leave out `data`, `warnings` and `errors` where they are empty, to save tokens."""
    present = [key for key in ("data", "warnings", "errors") if key in envelope]
    empty = [key for key in present if envelope[key] in ({}, [], None)]
    if not empty:
        return envelope
    return {key: value for key, value in envelope.items() if key not in empty}
