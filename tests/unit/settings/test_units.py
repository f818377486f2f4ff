"""Sizes and durations: what is read, what is refused, and that writing and reading agree."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.settings.units import format_bytes, format_seconds, parse_bytes, parse_seconds


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("8GiB", 8 * 2**30),
        ("500MB", 500 * 10**6),
        ("1.5 kib", 1536),
        (" 2 TB ", 2 * 10**12),
        ("12B", 12),
        ("4096", 4096),
        (4096, 4096),
        (0, 0),
        ("-1GiB", -(2**30)),
        ("0.3B", 0),
    ],
)
def test_sizes_are_read(written, expected):
    """A size is a number with a unit of 1000 or of 1024 in any case, or a plain number of bytes."""
    assert expected == parse_bytes(written)


@pytest.mark.parametrize(
    "written",
    [
        *[
            "",
            " ",
            "GiB",
            "8 GiBB",
            "8G",
            "8Gi",
            "1_000",
            "1e9",
            "0.5",
            "8GiB 1MB",
            "½GB",
            "٣GB",
            "nan",
            "inf",
        ],
        *[True, 1.5, None, [], {}, math.nan],
    ],
)
def test_what_is_no_size_is_refused(written):
    """What is not a size raises, and never becomes 0 or a guess."""
    with pytest.raises(ValueError):
        parse_bytes(written)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2h", 7200.0),
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("1d2h3m4s5ms", 93784.005),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        ("0s", 0.0),
        ("30", 30.0),
        ("0.5", 0.5),
        ("-3", -3.0),
        (" 30s ", 30.0),
        (30, 30.0),
        (0.25, 0.25),
    ],
)
def test_durations_are_read(written, expected):
    """A duration is numbers with units, the larger first, or a plain number of seconds."""
    assert expected == parse_seconds(written)


@pytest.mark.parametrize(
    "written",
    [
        *[
            "",
            " ",
            "h",
            "30m1h",
            "1h1h",
            "1h 30m",
            "-1h",
            "2 hours",
            "2H",
            "1e3",
            "nan",
            "inf",
            "9" * 400,
            "1:30",
        ],
        *[True, None, [], math.nan, math.inf, -math.inf, 10**400],
    ],
)
def test_what_is_no_duration_is_refused(written):
    """What is not a finite duration raises, and never becomes 0 or a guess."""
    with pytest.raises(ValueError):
        parse_seconds(written)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(2**24, "16MiB"), (5 * 10**8, "500MB"), (1, "1B"), (1536, "1536B"), (2**50, "1024TiB"), (0, "0B")],
)
def test_sizes_are_written_in_the_largest_unit_that_is_exact(count, expected):
    """A size is shown as a person would have written it."""
    assert expected == format_bytes(count)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(7200.0, "2h"), (5400.0, "1h30m"), (30.0, "30s"), (0.25, "250ms"), (0.0, "0s"), (86400.0, "1d")],
)
def test_durations_are_written_with_units(seconds, expected):
    """A duration is shown as a person would have written it."""
    assert expected == format_seconds(seconds)


@given(st.integers(min_value=0, max_value=2**50))
def test_a_size_survives_writing_and_reading(count):
    """Writing a size loses no byte."""
    assert count == parse_bytes(format_bytes(count))


@given(st.floats(min_value=0, max_value=31_536_000, allow_subnormal=False))
def test_a_duration_survives_writing_and_reading(seconds):
    """Writing a duration loses nothing, however fine it is."""
    assert seconds == parse_seconds(format_seconds(seconds))
