"""Transforms: named repairs in six families, one module each, chosen by name in the config.

Each member takes one JSON object and returns a healed copy, or the very same object when there is
nothing to heal. It never mutates and never raises.
"""

from surecall.wire.transforms.bodies import BODY
from surecall.wire.transforms.messages import MESSAGE
from surecall.wire.transforms.responses import RESPONSE
from surecall.wire.transforms.tool_calls import TOOL_CALL
from surecall.wire.transforms.tool_results import TOOL_RESULT
from surecall.wire.transforms.tools import TOOL

__all__ = ["BODY", "MESSAGE", "RESPONSE", "TOOL", "TOOL_CALL", "TOOL_RESULT"]
