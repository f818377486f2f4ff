"""When Python looks for garbage in cycles: not while it imports, never among what stays.

A full search goes through every object there is, with Python's lock held: modules and model of a server
are some 150,000 of them, and all tokens wait meanwhile.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept() -> Iterator[None]:
    """What the block makes stays, as modules do: it is searched neither while it is made nor afterwards."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def keep_all() -> None:
    """Search once through everything, and never again through what is there now."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
