"""`python -m app` is the `samovar` command."""

import sys

from app.cli import main

sys.exit(main())
