"""Sessions outside the process."""

import pytest

from app.telemetry.session_hash import SessionHash


def test_equal_sessions_look_equal_and_others_do_not():
    """Within one process the hash tells sessions apart, in 16 hexadecimal digits."""
    name = SessionHash(b"key")
    assert name("alice") == name("alice")
    assert name("alice") != name("bob")
    assert len(name("alice")) == 16
    assert int(name("alice"), 16) >= 0


def test_without_the_key_a_guess_cannot_be_confirmed():
    """The same session looks different in another process."""
    assert SessionHash(b"one")("alice") != SessionHash(b"two")("alice")


def test_any_string_a_client_can_send_is_a_session():
    """JSON allows lone surrogates, and none of them breaks the hash or makes two sessions one."""
    name = SessionHash(b"key")
    assert len({name("\ud800"), name("\udfff"), name(""), name("☕" * 5000)}) == 4


@pytest.mark.parametrize("length", [0, 65])
def test_a_key_that_hides_nothing_or_does_not_fit_is_refused(length):
    """The message says how long it was and what is allowed."""
    with pytest.raises(ValueError, match=rf"{length} bytes; 1 to 64"):
        SessionHash(b"k" * length)
