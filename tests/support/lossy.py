"""Breaks how states are kept, as tests need it broken."""

import dataclasses

import mlx.core as mx
import pytest
from mlx_lm.models.cache import ArraysCache

from app.engine.kinds import KINDS


def lose_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The array of a recurrent layer that remembers longest comes back as zeros."""
    seal = KINDS[ArraysCache].seal

    def seal_without_a_slot(cache):
        sealed = seal(cache)
        slot = min(1, len(sealed.cache) - 1)
        sealed[slot] = mx.zeros_like(sealed[slot])
        return sealed

    monkeypatch.setitem(KINDS, ArraysCache, dataclasses.replace(KINDS[ArraysCache], seal=seal_without_a_slot))
