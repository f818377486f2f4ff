"""Sizes and durations as people write them, to plain bytes and seconds and back. Knows no setting."""

import math
import re
from decimal import Decimal
from enum import StrEnum

BYTES_PER = {
    "TiB": 2**40,
    "TB": 10**12,
    "GiB": 2**30,
    "GB": 10**9,
    "MiB": 2**20,
    "MB": 10**6,
    "KiB": 2**10,
    "KB": 10**3,
    "B": 1,
}
SECONDS_PER = {
    "d": Decimal(86400),
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
}

_NUMBER = r"\d+(?:\.\d+)?"
_SIZE = re.compile(rf"(-?{_NUMBER})\s*([a-z]*)", re.IGNORECASE | re.ASCII)
_DURATION = re.compile("".join(rf"(?:({_NUMBER}){unit})?" for unit in SECONDS_PER), re.ASCII)
_PLAIN = re.compile(rf"-?{_NUMBER}", re.ASCII)


class Unit(StrEnum):
    """What a quantity is measured in once it has been read."""

    BYTES = "bytes"
    SECONDS = "seconds"


def parse_bytes(written: object) -> int:
    """Bytes of `8GiB`, `500MB`, `1.5 kib` or a plain whole number.

    KB, MB, … are powers of 1000 and KiB, MiB, … of 1024, in any case; a fraction of a byte is dropped.

    Raises:
        ValueError: it is none of these.
    """
    if isinstance(written, int) and not isinstance(written, bool):
        return written
    match = _SIZE.fullmatch(written.strip()) if isinstance(written, str) else None
    if match is None:
        raise ValueError("not a size")
    number, unit = match.groups()
    if not unit:
        return int(number)
    factors = {name.lower(): factor for name, factor in BYTES_PER.items()}
    if unit.lower() not in factors:
        raise ValueError("not a unit of size")
    return int(Decimal(number) * factors[unit.lower()])


def parse_seconds(written: object) -> float:
    """Seconds of `2h`, `1h30m`, `250ms`, or of a plain number.

    Units are d, h, m, s and ms, the larger before the smaller.

    Raises:
        ValueError: it is none of these, or not finite.
    """
    if isinstance(written, (int, float)) and not isinstance(written, bool):
        # By way of text, which makes a number too large for a float infinite and not an OverflowError.
        seconds = float(str(written))
    else:
        seconds = _seconds_of_text(written.strip() if isinstance(written, str) else "")
    if not math.isfinite(seconds):
        raise ValueError("not a finite duration")
    return seconds


def _seconds_of_text(text: str) -> float:
    if _PLAIN.fullmatch(text):
        return float(text)
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError("not a duration")
    parts = zip(match.groups(), SECONDS_PER.values(), strict=True)
    return float(sum(Decimal(number) * seconds for number, seconds in parts if number))


def format_bytes(count: int) -> str:
    """The shortest exact way to write a size, such that `parse_bytes` reads the same number back."""
    fitting = (unit for unit, factor in BYTES_PER.items() if count >= factor and count % factor == 0)
    unit = next(fitting, "B")
    return f"{count // BYTES_PER[unit]}{unit}"


def format_seconds(seconds: float) -> str:
    """A duration such as `1h30m`, exact: `parse_seconds` reads the same number back."""
    rest = Decimal(repr(seconds))
    if rest % SECONDS_PER["ms"] != 0:
        return f"{rest:f}s"
    written = ""
    for unit, size in SECONDS_PER.items():
        whole, rest = divmod(rest, size)
        written += f"{whole:f}{unit}" if whole else ""
    return written or "0s"
