"""Reads the text of a file of keys, TOML with a table for each. Opens no file, and repeats no secret."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from app.auth.key import (
    LEAST_SECRET_CHARACTERS,
    NAME_RULE,
    ApiKey,
    Scope,
    digest_of,
    is_name,
)
from app.errors import ConfigurationError

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_Count = Annotated[int, Meta(ge=1)]


class _Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key's table: its secret in clear (`key`) or hashed (`sha256`), and what it may do."""

    key: str | None = None
    sha256: str | None = None
    tenant: str | None = None
    scopes: tuple[str, ...] = (Scope.INFERENCE,)
    quota_bytes: int | str | None = None
    max_concurrent: _Count | None = None
    requests_per_minute: _Count | None = None


FIELDS = _Entry.__struct_fields__
"""What a table can say."""


def read_keys(text: str, *, source: str, parse_bytes: Callable[[object], int]) -> tuple[ApiKey, ...]:
    """The keys of a file, at least one.

    Args:
        text: of the file.
        source: what messages call it.
        parse_bytes: reads a size; raises ValueError.

    Raises:
        ConfigurationError: the file cannot be used as it is; one line a fault.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{source}: the file of keys is not TOML: {error}") from None
    if not tables:
        raise ConfigurationError(f"{source}: there is no key in it; `samovar keys new NAME` makes one")
    keys, faults = [], []
    for name, table in tables.items():
        try:
            keys.append(_key(name, table, parse_bytes))
        except ValueError as error:
            faults.append(f"{source}: [{name}]: {error}")
    faults += [f"{source}: {fault}" for fault in disagreements(keys)]
    if faults:
        raise ConfigurationError("\n".join(faults))
    return tuple(keys)


def disagreements(keys: Iterable[ApiKey]) -> Iterator[str]:
    """What is wrong between keys that are each right: two of one secret, two quotas for one tenant."""
    names: dict[bytes, str] = {}
    quotas: dict[str, ApiKey] = {}
    for key in keys:
        if key.digest in names:
            yield f"[{key.name}] has the same secret as [{names[key.digest]}]; each key needs its own"
        names[key.digest] = key.name
        if key.quota_bytes is None:
            continue
        other = quotas.setdefault(key.tenant, key)
        if other.quota_bytes != key.quota_bytes:
            yield (
                f"[{key.name}] and [{other.name}] give the tenant {key.tenant} different quotas;"
                " let one of them say quota_bytes"
            )


def _key(name: str, table: Any, parse_bytes: Callable[[object], int]) -> ApiKey:
    """Raises ValueError, which says what is wrong with the table."""
    if not is_name(name):
        raise ValueError(f"the name of a key must be {NAME_RULE}")
    try:
        entry = msgspec.convert(table, _Entry)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    tenant = name if entry.tenant is None else entry.tenant
    if not is_name(tenant):
        raise ValueError(f"tenant must be {NAME_RULE}")
    return ApiKey(
        name=name,
        digest=_digest(entry),
        tenant=tenant,
        scopes=_scopes(entry.scopes),
        quota_bytes=_quota(entry.quota_bytes, parse_bytes),
        max_concurrent=entry.max_concurrent,
        requests_per_minute=entry.requests_per_minute,
    )


def _scopes(written: tuple[str, ...]) -> frozenset[Scope]:
    if not written or not set(Scope).issuperset(written):
        raise ValueError(f"scopes must be a list of at least one of {', '.join(Scope)}")
    return frozenset(map(Scope, written))


def _digest(entry: _Entry) -> bytes:
    if (entry.key is None) == (entry.sha256 is None):
        raise ValueError("one of key and sha256 must be there, and not both")
    if entry.sha256 is not None:
        if not _SHA256.fullmatch(entry.sha256):
            raise ValueError("sha256 must be 64 hexadecimal digits")
        return bytes.fromhex(entry.sha256)
    secret = (entry.key or "").encode()
    if len(secret) < LEAST_SECRET_CHARACTERS:
        raise ValueError(f"key must have at least {LEAST_SECRET_CHARACTERS} characters")
    return digest_of(secret)


def _quota(written: int | str | None, parse_bytes: Callable[[object], int]) -> int | None:
    if written is None:
        return None
    try:
        quota = parse_bytes(written)
    except ValueError:
        quota = 0
    if quota < 1:
        raise ValueError("quota_bytes must be a size of at least 1 byte, such as 500MB or 8GiB")
    return quota
