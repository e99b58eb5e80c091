"""`python -m surecall`: the same as the command `surecall`."""

import sys

# `python -m` puts the working directory first on the import path, where others may plant modules.
if not sys.flags.safe_path:  # pragma: no branch  # with -P there is nothing to do
    del sys.path[0]

from surecall.cli import main

sys.exit(main())
