"""How a session is named outside this process: by a keyed hash, so that no log or trace holds the key."""

from hashlib import blake2b

DIGEST_BYTES = 8


class SessionHash:
    """Hashes sessions with one secret key, so that equal sessions look equal in spans and logs of one run.

    Args:
        key: up to 64 random bytes, new for each process; without it a guessed session cannot be confirmed.

    Raises:
        ValueError: the key is empty, which would make the hash one that anybody can compute, or too long.
    """

    def __init__(self, key: bytes) -> None:
        if not 1 <= len(key) <= blake2b.MAX_KEY_SIZE:
            raise ValueError(f"the session key has {len(key)} bytes; 1 to {blake2b.MAX_KEY_SIZE} are allowed")
        self._key = key

    def __call__(self, session: str) -> str:
        """16 hexadecimal digits for `session`."""
        # A JSON string may hold lone surrogates, which plain UTF-8 refuses.
        encoded = session.encode("utf-8", "surrogatepass")
        return blake2b(encoded, key=self._key, digest_size=DIGEST_BYTES).hexdigest()
