"""Pieces that queries of panels are put together from; it knows no series and no dashboard.

A query never divides by zero: what has no value has no sample, so a panel says "no data" and never NaN.
"""

SELECTED = 'job=~"$job", instance=~"$instance"'
"""What every selector of a dashboard carries: the servers that the reader chose."""

SHOWN = "$__range"
"""As far as the reader looks back."""


def series(name: str, *matchers: str) -> str:
    """The series of the chosen servers, with more matchers such as `kind="limit"`."""
    return f"{name}{{{', '.join((SELECTED, *matchers))}}}"


def rate(name: str, *matchers: str) -> str:
    """A counter's rise a second."""
    return f"rate({series(name, *matchers)}[$__rate_interval])"


def increase(name: str, *matchers: str, window: str = SHOWN) -> str:
    """A counter's rise within a window."""
    return f"increase({series(name, *matchers)}[{window}])"


def total(expression: str, *by: str) -> str:
    """The sum over everything but the labels `by`."""
    return f"sum by ({', '.join(by)}) ({expression})" if by else f"sum({expression})"


def share(part: str, whole: str) -> str:
    """`part` of `whole`; no sample where the whole is nothing."""
    return f"{part} / ({whole} > 0)"


def quantile(rank: float, name: str, *by: str, window: str = "") -> str:
    """A quantile of a histogram's rate or, with a window, rise; no sample where nothing was observed."""
    buckets = increase(f"{name}_bucket", window=window) if window else rate(f"{name}_bucket")
    # Of no observation the quantile is NaN, and NaN is not ≥ 0.
    return f"histogram_quantile({rank:g}, {total(buckets, 'le', *by)}) >= 0"


def mean(name: str, *matchers: str) -> str:
    """The mean of a histogram's observations; no sample where there were none."""
    return share(total(rate(f"{name}_sum", *matchers)), total(rate(f"{name}_count", *matchers)))


def named(expression: str, label: str, value: str) -> str:
    """The same samples with one more label."""
    return f'label_replace({expression}, "{label}", "{value}", "", "")'
