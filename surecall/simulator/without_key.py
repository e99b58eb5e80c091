"""A client for the simulator, for code that is to run before there is a key.

    key = os.environ.get("OPENROUTER_API_KEY")
    client = OpenAICompatible("https://openrouter.ai/api", api_key=key) if key else stand_in()

Nothing here is chosen behind anybody's back: whoever wants it writes it down, and it says so.
"""

import atexit
import sys
from typing import Final

from surecall.runtime.transport import OpenAICompatible
from surecall.simulator.personas.catalogue import DEFAULT_PERSONA
from surecall.simulator.server import Simulator

SAID: Final = "surecall: no key, so the simulator answers; this is no real model"


def stand_in(persona: str = DEFAULT_PERSONA) -> OpenAICompatible:
    """Start the simulator for the rest of the program, say so, and return a client for it.

    Whatever model is asked for, the `persona` answers, unless the name begins with `sim/`.
    """
    simulator = Simulator(default=persona)
    simulator.__enter__()
    atexit.register(simulator.__exit__)
    print(SAID, file=sys.stderr)  # noqa: T201 - whoever asks for it must see that it is no model
    return OpenAICompatible(simulator.url)
