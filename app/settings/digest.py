"""Whether two starts had the same settings, as one short word that tells none of them."""

import hashlib

import msgspec

from app.settings.schema import Settings

_DIGEST_BYTES = 4
"""Enough to tell two starts apart, and too little to find a secret by trying."""


def digest(settings: Settings) -> str:
    """Eight hex digits that differ where any value differs."""
    return hashlib.blake2b(msgspec.json.encode(settings), digest_size=_DIGEST_BYTES).hexdigest()
