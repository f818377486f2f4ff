"""Token vectors as bytes."""

import pytest

from app.snapshots.entry import BYTES_PER_TOKEN, pack, token_count


def test_a_packed_vector_has_one_width_a_token() -> None:
    """Every token takes the same number of bytes, so that a prefix of tokens is a prefix of bytes."""
    tokens = [0, 1, 256, 2**32 - 1]

    assert token_count(pack(tokens)) == 4
    assert len(pack(tokens)) == 4 * BYTES_PER_TOKEN
    assert pack(tokens).startswith(pack(tokens[:2]))


@pytest.mark.parametrize("token", [-1, 2**32])
def test_a_token_beyond_32_bits_cannot_be_packed(token: int) -> None:
    """An id that would not survive packing raises instead of turning into another one."""
    with pytest.raises(OverflowError):
        pack([token])
