"""`python -m surecall`: the same as the command `surecall`."""

import sys

from surecall.cli import main

sys.exit(main())
