"""Transforms: named repairs of requests and responses, selected by name in the configuration.

A transform takes one JSON object and returns a repaired copy, or the same object (`is`) if there is
nothing to repair. It never mutates its input and never raises.
"""

from surecall.wire.transforms.request_transforms import MESSAGE, TOOL, TOOL_RESULT
from surecall.wire.transforms.response_transforms import BODY, RESPONSE, TOOL_CALL

__all__ = ["BODY", "MESSAGE", "RESPONSE", "TOOL", "TOOL_CALL", "TOOL_RESULT"]
