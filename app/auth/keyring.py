"""The keys there are now: finds the one a secret belongs to, and keeps each within its limits."""

import hmac
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from app.auth.allowance import Allowance
from app.auth.key import ApiKey, digest_of
from app.clock import Clock, monotonic
from app.errors import RequestError

_RETRY_WHEN_FULL_SECONDS = 1
"""A place becomes free when one of the key's requests ends, which may be any moment."""


class Keyring:
    """Keys by their secrets. Used on the event loop; `quota_of` on any thread.

    Args:
        keys: those there are; without any, the server asks for none.
        clock: monotonic seconds.
    """

    def __init__(self, keys: Iterable[ApiKey] = (), *, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._allowances: dict[str, Allowance] = {}
        self.replace(keys)

    @property
    def is_open(self) -> bool:
        """Whether no key is asked for."""
        return not self._keys

    def replace(self, keys: Iterable[ApiKey]) -> None:
        """Let these be the keys. One that keeps its name keeps count of what it has spent."""
        self._keys = tuple(keys)
        self._quotas = {key.tenant: key.quota_bytes for key in self._keys if key.quota_bytes is not None}
        names = {key.name for key in self._keys}
        # Requests under way hold on to theirs, so that a name that comes back begins anew and owes nothing.
        self._allowances = {name: held for name, held in self._allowances.items() if name in names}

    def find(self, secret: bytes) -> ApiKey | None:
        """The key of that secret. It takes as long for a wrong secret as for any right one."""
        digest = digest_of(secret)
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found

    def quota_of(self, tenant: str) -> int | None:
        """The most bytes of snapshots that the tenant may hold; None: the keys set no limit."""
        return self._quotas.get(tenant)

    @contextmanager
    def admitted(self, key: ApiKey) -> Iterator[None]:
        """Count a request of `key` for as long as the block lasts.

        Raises:
            RequestError: 429; it has as many under way, or has sent as many, as it may.
        """
        allowance = self._allowances.setdefault(key.name, Allowance(self._clock))
        if key.max_concurrent is not None and allowance.running >= key.max_concurrent:
            raise _refused(
                f"{key.max_concurrent} requests of this API key are under way, as many as it may have at a"
                " time; send the next one when one has ended",
                "concurrency_limit_exceeded",
                _RETRY_WHEN_FULL_SECONDS,
            )
        if wait_seconds := allowance.wait_seconds(key.requests_per_minute):
            raise _refused(
                f"this API key may send {key.requests_per_minute} requests a minute; try again in"
                f" {wait_seconds} s",
                "rate_limit_exceeded",
                wait_seconds,
            )
        allowance.running += 1
        try:
            yield
        finally:
            allowance.running -= 1


def _refused(message: str, code: str, retry_after_seconds: int) -> RequestError:
    return RequestError(
        message,
        status=429,
        kind="rate_limit_error",
        code=code,
        retry_after_seconds=retry_after_seconds,
    )
