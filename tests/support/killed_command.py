"""A command that is killed (-9) when it has recorded so many trials.

    python -m tests.support.killed_command 3 before eval -n 10 …

`before`: the trial that would be the next is over, and not yet recorded; `after`: it just was. So
the moment depends on no clock, and the other trials under way are wherever they are.
"""

import os
import signal
import sys
from typing import Any

from surecall import cli
from surecall.eval.storage.store import Store


def main(count: str, moment: str, *arguments: str) -> int:
    """Run a command that does not come far."""
    add, recorded = Store.add, iter(range(int(count)))

    def adding(self: Store, *what: Any, **named: Any) -> None:
        last = next(recorded, None) is None
        if last and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        add(self, *what, **named)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    Store.add = adding  # type: ignore[method-assign]  # this process is nobody else's
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
