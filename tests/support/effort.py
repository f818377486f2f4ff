"""Fewer of Hypothesis's examples where each is a long life, in which what may happen happens often."""

from hypothesis import HealthCheck, settings


def one_in(number: int) -> settings:
    """One in so many of the profile's examples, and 25 at least; each may be as long as it likes."""
    return settings(
        max_examples=max(25, settings().max_examples // number), suppress_health_check=list(HealthCheck)
    )
