"""Limits are checked when they are made, and answer for themselves."""

import math
from typing import Any

import pytest

from app.errors import ConfigurationError
from app.snapshots.limits import Limits
from app.vocabulary import Rejection, Removal
from tests.support.snapshots import limits


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("capacity_bytes", 0),
        ("capacity_bytes", -1),
        ("max_entries", 0),
        ("max_arrays", 0),
        ("ttl_seconds", 0),
        ("ttl_seconds", -1.0),
        ("ttl_seconds", math.nan),
        ("ttl_seconds", math.inf),
    ],
)
def test_a_limit_that_would_keep_nothing_is_refused(field: str, value: float) -> None:
    """A limit out of its range names its field, its value and the way to switch the store off."""
    values: dict[str, Any] = {"capacity_bytes": 1, "max_entries": 1, "ttl_seconds": 1, "min_prefix_tokens": 1}

    with pytest.raises(ConfigurationError) as refusal:
        Limits(**{**values, field: value})

    message = str(refusal.value)
    assert f"snapshots.{field}" in message
    assert f"got {value}" in message
    assert "snapshots.enabled = false" in message


def test_a_prefix_of_no_tokens_is_refused() -> None:
    """The shortest prefix that can be kept has one token."""
    with pytest.raises(ConfigurationError, match=r"snapshots\.min_prefix_tokens must be at least 1 token"):
        limits(min_prefix_tokens=0)


def test_fewer_ancestors_than_none_are_refused() -> None:
    """None is the least that can be kept."""
    with pytest.raises(ConfigurationError, match=r"snapshots\.keep_ancestors must be at least 0, got -1"):
        limits(keep_ancestors=-1)


def test_the_smallest_limits_are_allowed() -> None:
    """Every limit may be as small as one."""
    smallest = limits(capacity_bytes=1, max_entries=1, ttl_seconds=1e-9, min_prefix_tokens=1, max_arrays=1)

    assert smallest.rejection(tokens=1, nbytes=1, arrays=1) is None


@pytest.mark.parametrize(
    ("tokens", "nbytes", "arrays", "reason"),
    [
        (4, 10, 2, None),
        (3, 10, 2, Rejection.TOO_SHORT),
        (4, 11, 2, Rejection.OVERSIZED),
        (4, 10, 3, Rejection.OVERSIZED),
        (3, 11, 3, Rejection.TOO_SHORT),
    ],
)
def test_what_does_not_fit_alone_is_rejected(
    tokens: int, nbytes: int, arrays: int, reason: Rejection | None
) -> None:
    """Exactly at a limit is within it, one beyond is not; too short is said before oversized."""
    bound = limits(capacity_bytes=10, min_prefix_tokens=4, max_arrays=2)

    assert bound.rejection(tokens, nbytes, arrays) is reason


def test_a_store_that_is_off_rejects_for_no_other_reason() -> None:
    """Off comes first: what else is wrong with a snapshot does not matter then."""
    assert limits(enabled=False, capacity_bytes=1).rejection(0, 99, 0) is Rejection.DISABLED


def test_bytes_are_named_before_entries_and_entries_before_arrays() -> None:
    """Where several limits are exceeded, removals are counted for bytes, then entries, then arrays."""
    bound = limits(capacity_bytes=10, max_entries=2, max_arrays=5)

    assert bound.exceeded(entries=3, nbytes=11, arrays=6) is Removal.LRU_BYTES
    assert bound.exceeded(entries=3, nbytes=10, arrays=6) is Removal.LRU_ENTRIES
    assert bound.exceeded(entries=2, nbytes=10, arrays=6) is Removal.LRU_ARRAYS
    assert bound.exceeded(entries=2, nbytes=10, arrays=5) is None


def test_the_time_to_live_is_half_open() -> None:
    """Just before the time to live an entry is alive, exactly at it it is dead."""
    assert not limits(ttl_seconds=8.0).expired(7.999)
    assert limits(ttl_seconds=8.0).expired(8.0)
    assert not limits(ttl_seconds=None).expired(math.inf)
