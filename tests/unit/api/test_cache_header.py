"""Laws of the header that says what the store did."""

import pytest

from app.api.cache_header import cache_header
from app.scheduler.job import Started
from app.vocabulary import Miss


@pytest.mark.parametrize(
    ("started", "told"),
    [
        (None, {}),
        (Started(45, None), {"x-samovar-cache": "hit; reused=45"}),
        (Started(0, Miss.EMPTY), {"x-samovar-cache": "miss; reused=0; reason=empty"}),
        (
            Started(0, Miss.DIVERGED, diverged_at=31),
            {"x-samovar-cache": "miss; reused=0; reason=diverged; at=31"},
        ),
    ],
)
def test_it_says_hit_or_why_not_and_where(started: Started | None, told: dict[str, str]) -> None:
    """Nothing while it is not known; the point of divergence where there is one."""
    assert cache_header(started) == told
