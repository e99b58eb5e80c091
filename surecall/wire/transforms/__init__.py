"""Transforms: named repairs in six families and two directions, chosen by name in the config.

Each member takes one JSON object and returns a healed copy, or the same object (`is`) when there is
nothing to heal. It never mutates and never raises.
"""

from surecall.wire.transforms.inbound import BODY, RESPONSE, TOOL_CALL
from surecall.wire.transforms.outbound import MESSAGE, TOOL, TOOL_RESULT

__all__ = ["BODY", "MESSAGE", "RESPONSE", "TOOL", "TOOL_CALL", "TOOL_RESULT"]
