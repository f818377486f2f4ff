"""Whether two starts had the same settings, as one short word that tells none of them."""

import hashlib

import msgspec

from app.settings.keys import all_keys
from app.settings.schema import Settings

_DIGEST_BYTES = 4
"""Enough to tell two starts apart."""


def digest(settings: Settings) -> str:
    """Eight hex digits that differ where any value differs; of a secret only whether there is one counts."""
    values = {key.dotted: key.show(key.value_in(settings)) for key in all_keys()}
    return hashlib.blake2b(msgspec.json.encode(values), digest_size=_DIGEST_BYTES).hexdigest()
