"""Time as an argument: the core takes a clock and never reads one of its own."""

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Returns seconds on a scale that never goes back; only differences mean anything."""

monotonic: Clock = time.monotonic
