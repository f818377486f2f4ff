"""An API key as the server knows it, and the caller it stands for. The secret itself is in neither."""

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from enum import StrEnum

SECRET_PREFIX = "sk-samovar-"  # noqa: S105 - what every secret begins with, so that scanners of leaks know it
_SECRET_BYTES = 32

LEAST_SECRET_CHARACTERS = 16
"""A stored hash is fast to compute, so that a shorter secret could be found by trying."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
NAME_RULE = "1 to 64 letters, digits and ._@-, the first a letter or a digit"


class Scope(StrEnum):
    """What a key may be used for; none contains another."""

    INFERENCE = "inference"
    """Requests to the model, and what the snapshot store holds for the key's own tenant."""
    METRICS = "metrics"
    """`/metrics`, which adds up all tenants."""
    ADMIN = "admin"
    """The snapshots of every tenant: their numbers, and their removal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """One key.

    `digest`: SHA-256 of the secret. `quota_bytes`: the most that the tenant's snapshots may weigh.
    `max_concurrent`: requests under way at a time. `requests_per_minute`: also how many may come at once.
    None sets no such limit.
    """

    name: str
    digest: bytes = field(repr=False)
    tenant: str
    scopes: frozenset[Scope]
    quota_bytes: int | None = None
    max_concurrent: int | None = None
    requests_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request. `key`: the name of the key; None where the server has no keys."""

    key: str | None
    tenant: str
    scopes: frozenset[Scope]


ANYBODY = Caller(None, "", frozenset(Scope))
"""Every caller of a server without keys: one tenant, which may do everything."""


def is_name(text: str) -> bool:
    """Whether `text` can name a key or a tenant."""
    return _NAME.fullmatch(text) is not None


def new_secret() -> str:
    """A secret that nobody has: 256 bits from the system's source of randomness."""
    return SECRET_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def digest_of(secret: bytes) -> bytes:
    """What is kept of a secret: SHA-256. Fast is right here, because secrets are long and random."""
    return hashlib.sha256(secret).digest()
