"""A simulator client for code that runs without an API key.

    key = os.environ.get("OPENROUTER_API_KEY")
    client = OpenAICompatible("https://openrouter.ai/api", api_key=key) if key else stand_in()

The simulator is never used automatically, and it prints a notice.
"""

import atexit
import sys
from typing import Final

from surecall.runtime.transport import OpenAICompatible
from surecall.simulator.personas.persona_catalog import DEFAULT_PERSONA
from surecall.simulator.server import Simulator

NO_KEY_NOTICE: Final = "surecall: no API key; using the built-in simulator instead of a real model."


def stand_in(persona: str = DEFAULT_PERSONA) -> OpenAICompatible:
    """Start a simulator for the rest of the program, print a notice, and return a client for it.

    The `persona` answers for every model whose name does not begin with `sim/`.
    """
    simulator = Simulator(default=persona)
    simulator.__enter__()
    atexit.register(simulator.__exit__)
    print(NO_KEY_NOTICE, file=sys.stderr)  # noqa: T201 - the user must see that this is not a model
    return OpenAICompatible(simulator.url)
