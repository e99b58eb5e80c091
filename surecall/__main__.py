"""`python -m surecall`: the same as the command `surecall`."""

import sys

# Python looks for modules in the working directory first, which may be anyone's.
if not sys.flags.safe_path:  # pragma: no branch  # with -P there is nothing to do
    del sys.path[0]

from surecall.cli import main

sys.exit(main())
