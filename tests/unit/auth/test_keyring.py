"""The keys in use: finding one by its secret, and holding each to its limits."""

import contextlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.auth.allowance import Allowance
from app.auth.key import ApiKey
from app.auth.keyring import Keyring
from app.errors import RequestError
from tests.support.clock import ManualClock
from tests.support.keys import KEYS, SECRETS, key


def test_a_key_is_found_by_its_whole_secret_alone() -> None:
    """Each secret is that of its own key, and nothing near it is that of any."""
    ring = Keyring(KEYS)
    for each in KEYS:
        secret = SECRETS[each.name].encode()
        assert ring.find(secret) == each
        assert [
            ring.find(near) for near in (secret[:-1], secret + b"0", secret.upper(), b"", each.digest)
        ] == [None] * 5


def test_every_key_is_compared_whichever_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time a secret takes tells neither whether it is right nor which key it is near."""
    compared: list[bytes] = []
    really = hmac.compare_digest

    def noting(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return really(one, other)

    monkeypatch.setattr("app.auth.keyring.hmac.compare_digest", noting)
    ring = Keyring(KEYS)
    for secret in (SECRETS[KEYS[0].name], SECRETS[KEYS[-1].name], "wrong"):
        compared.clear()
        ring.find(secret.encode())
        assert compared == [each.digest for each in KEYS]


def test_other_keys_take_the_place_of_all() -> None:
    """After a rotation the old secret is nobody's, and quotas are the new ones."""
    ring = Keyring([key("ann", quota_bytes=5)])
    assert (ring.is_open, ring.quota_of("ann"), ring.quota_of("bob")) == (False, 5, None)
    ring.replace([key("bob", quota_bytes=7)])
    assert ring.find(SECRETS["ann"].encode()) is None
    assert (ring.quota_of("ann"), ring.quota_of("bob")) == (None, 7)
    assert Keyring().is_open


def refusal(ring: Keyring, limited: ApiKey) -> RequestError:
    """What a key is told that may not send another request."""
    with pytest.raises(RequestError) as raised, ring.admitted(limited):
        pass
    return raised.value


def test_a_key_has_no_more_requests_under_way_than_it_may() -> None:
    """One that ends, even badly, makes room for one more; other keys are not held up."""
    ring = Keyring()
    limited = key("ann", max_concurrent=2)
    with ring.admitted(limited):
        with contextlib.suppress(ZeroDivisionError), ring.admitted(limited):
            error = refusal(ring, limited)
            told = (error.status, error.code, error.retry_after_seconds)
            assert told == (429, "concurrency_limit_exceeded", 1)
            with ring.admitted(key("bob", max_concurrent=2)):
                pass
            raise ZeroDivisionError
        with ring.admitted(limited):
            pass


def test_a_refused_request_spends_nothing() -> None:
    """A key at its limit of requests at a time keeps its requests a minute for later."""
    clock = ManualClock()
    ring = Keyring(clock=clock)
    limited = key("ann", max_concurrent=1, requests_per_minute=2)
    with ring.admitted(limited):
        for _ in range(5):
            refusal(ring, limited)
    with ring.admitted(limited):
        pass
    assert refusal(ring, limited).code == "rate_limit_exceeded"


def test_a_rotation_forgives_nothing_and_breaks_nothing() -> None:
    """A key that keeps its name keeps its count; one that is gone ends its requests in peace."""
    clock = ManualClock()
    ring = Keyring([key("ann", max_concurrent=1)], clock=clock)
    with ring.admitted(key("ann", max_concurrent=1)):
        ring.replace([key("ann", max_concurrent=1)])
        assert refusal(ring, key("ann", max_concurrent=1)).code == "concurrency_limit_exceeded"
        ring.replace([key("bob")])
    with ring.admitted(key("ann", max_concurrent=1)):
        pass


@given(
    per_minute=st.integers(1, 600),
    pauses=st.lists(st.sampled_from([0.0, 0.01, 0.1, 1.0, 7.0, 61.0]), min_size=1, max_size=300),
)
def test_no_window_of_a_minute_has_more_than_twice_the_rate(per_minute: int, pauses: list[float]) -> None:
    """At most a minute's requests at once, and from then on as many a minute as the key may send."""
    clock = ManualClock()
    allowance = Allowance(clock)
    sent: list[float] = []
    for pause in pauses:
        clock.advance(pause)
        if allowance.wait_seconds(per_minute) == 0:
            sent.append(clock())
    for start in sent:
        within = [at for at in sent if start <= at < start + 60]
        assert len(within) <= 2 * per_minute
        for end in within:
            count = sum(start <= at <= end for at in sent)
            assert count <= per_minute + (end - start) * per_minute / 60 + 1e-6


@given(per_minute=st.integers(1, 600), burst=st.integers(0, 700))
def test_whoever_waits_as_long_as_told_is_served(per_minute: int, burst: int) -> None:
    """`Retry-After` is long enough, and never more than a second too long."""
    clock = ManualClock()
    allowance = Allowance(clock)
    for _ in range(burst):
        allowance.wait_seconds(per_minute)
    if wait := allowance.wait_seconds(per_minute):
        if wait > 1:
            clock.advance(wait - 1.01)
            assert allowance.wait_seconds(per_minute) > 0
            clock.advance(1.01)
        else:
            clock.advance(wait)
        assert allowance.wait_seconds(per_minute) == 0
