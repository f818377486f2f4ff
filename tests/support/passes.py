"""Counts how often a network reads its weights."""

from typing import Any

import pytest


def counted_passes(monkeypatch: pytest.MonkeyPatch, network: Any) -> list[tuple[int, ...]]:
    """The shape of the tokens of each forward pass from now on, in order."""
    passes: list[tuple[int, ...]] = []
    call = type(network).__call__

    def counted(self: Any, tokens: Any, *args: Any, **kwargs: Any) -> Any:
        passes.append(tuple(tokens.shape))
        return call(self, tokens, *args, **kwargs)

    monkeypatch.setattr(type(network), "__call__", counted)
    return passes
