"""Laws of what a request read from the store and left in it."""

import pytest

from app.api.token_usage import CacheUse, cache_use
from app.chat import PreparedPrompt
from app.scheduler.job import Boundary, Started
from app.snapshots.entry import Bucket, pack
from app.vocabulary import Miss, Origin

TOKENS = tuple(range(20))
BUCKET = Bucket(model="m", cache_signature="c")


def prompt(*lengths: int) -> PreparedPrompt:
    return PreparedPrompt(
        tokens=TOKENS,
        packed=pack(TOKENS),
        boundaries=tuple(Boundary(Origin.BOUNDARY, length) for length in lengths),
        bucket=BUCKET,
    )


@pytest.mark.parametrize(
    ("lengths", "started", "use"),
    [
        ((18,), None, CacheUse(0, 0)),
        ((18,), Started(0, Miss.EMPTY), CacheUse(0, 18)),
        ((7, 18), Started(7, None), CacheUse(7, 11)),
        ((18,), Started(19, None), CacheUse(19, 0)),
        ((), Started(7, None), CacheUse(7, 0)),
        ((18,), Started(0, Miss.OPTED_OUT), CacheUse(0, 0)),
        ((18,), Started(0, Miss.DISABLED), CacheUse(0, 0)),
    ],
)
def test_read_and_written_never_overlap(
    lengths: tuple[int, ...], started: Started | None, use: CacheUse
) -> None:
    """Written is what lies between what was reused and the last boundary, where anything is kept at all."""
    assert cache_use(prompt(*lengths), started) == use
