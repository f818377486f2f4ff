"""Has parts of a server fail in the midst of a soak, and keeps the count. Knows no client and no law."""

import random
from collections import Counter
from pathlib import Path

BATCH_FAULTS = (
    *(("prefill", "oom"), ("prefill", "error"), ("decode", "oom"), ("decode", "error")),
    *(("sampler", "error"), ("processor", "error")),
)
"""Places and kinds of `tests.support.faulty_server`: each failure costs a batch, and is one rebuild."""

COPY_FAULTS = (("capture", "oom"), ("restore", "oom"))
"""As above, but a failure costs a stored state alone."""


class Faults:
    """Has parts of the server fail, one at a time, and knows how many of them did.

    Args:
        folder: where the server looks for orders; None orders nothing.
        rng: decides what fails next.
    """

    def __init__(self, folder: Path | None, rng: random.Random) -> None:
        self._folder = folder
        self._rng = rng
        self._last: tuple[str, str] | None = None
        self.struck: Counter[str] = Counter()

    @property
    def batches(self) -> int:
        """How many failures cost a batch."""
        return sum(self.struck[place] for place in {place for place, _ in BATCH_FAULTS})

    def order(self) -> None:
        """Have the next part fail, if the last one has."""
        if self._folder is None or (self._last and (self._folder / self._last[0]).exists()):
            return
        self._settle()
        self._last = place, kind = self._rng.choice((*BATCH_FAULTS, *COPY_FAULTS))
        (self._folder / ".next").write_text(kind)
        (self._folder / ".next").rename(self._folder / place)

    def withdraw(self) -> None:
        """Take back what nobody has come by."""
        if self._folder is None or self._last is None:
            return
        try:
            (self._folder / self._last[0]).unlink()
            self._last = None
        except FileNotFoundError:
            self._settle()

    def _settle(self) -> None:
        if self._last is not None:
            self.struck[self._last[0]] += 1
            self._last = None
