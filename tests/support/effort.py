"""Fewer of Hypothesis's examples where each is a long life, in which what may happen happens often."""

from hypothesis import settings

LONG_LIVES = settings(max_examples=max(25, settings().max_examples // 4))
"""A quarter of what the profile says."""
