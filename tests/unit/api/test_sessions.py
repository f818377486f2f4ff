"""Laws of how a request's conversation is told from what clients send."""

import json

import pytest

from app.api.sessions import SESSION_HEADERS, session_of
from app.errors import RequestError
from app.snapshots.entry import ANONYMOUS_SESSION


def test_the_first_named_session_wins() -> None:
    """The best name of a conversation first, a mere user's last; an empty name counts as none."""
    headers = dict(zip(SESSION_HEADERS, ("h1", "h2", "h3", "h4", "h5"), strict=True))
    fields = {
        "prompt_cache_key": "key",
        "metadata_user_id": "user_1_account_2_session_part",
        "conversation": "talk",
        "user": "user",
    }
    won = []
    order = ["prompt_cache_key", *SESSION_HEADERS, "metadata_user_id", "conversation", "user"]
    for source in order:
        won.append(session_of(headers, **fields))
        (headers if source in headers else fields)[source] = ""

    assert won == ["key", "h1", "h2", "h3", "h4", "h5", "part", "talk", "user"]
    assert session_of(headers, **fields) == ANONYMOUS_SESSION


@pytest.mark.parametrize(
    ("user_id", "session"),
    [
        ("user_0af7_account_11-22_session_6a9c-4d", "6a9c-4d"),
        ("session_1", "1"),
        (json.dumps({"device_id": "d", "account_uuid": "a", "session_id": "6a9c"}), "6a9c"),
        (json.dumps({"device_id": "d"}), ANONYMOUS_SESSION),
        (json.dumps({"session_id": 5}), ANONYMOUS_SESSION),
        ("{not json", ANONYMOUS_SESSION),
        ("user_0af7_account_11-22", ANONYMOUS_SESSION),
        ("obsession_1", ANONYMOUS_SESSION),
        ("somebody", ANONYMOUS_SESSION),
    ],
)
def test_only_the_session_part_of_a_user_id_names_a_conversation(user_id: str, session: str) -> None:
    """The rest of it is a user's or a device's, and would make one conversation of all of theirs."""
    assert session_of({}, metadata_user_id=user_id) == session


@pytest.mark.parametrize(
    ("fields", "headers", "param"),
    [
        ({"prompt_cache_key": "k" * 513}, {}, "prompt_cache_key"),
        ({}, {"session-id": "k" * 513}, "session-id"),
        ({"metadata_user_id": "session_" + "k" * 513}, {}, "metadata.user_id"),
        ({"conversation": "k" * 513}, {}, "conversation"),
        ({"user": "k" * 513}, {}, "user"),
    ],
)
def test_a_long_name_is_refused_by_its_source(
    fields: dict[str, str], headers: dict[str, str], param: str
) -> None:
    """A name of 512 characters passes; one more is a 400 that says where it stood."""
    with pytest.raises(RequestError, match="512") as refusal:
        session_of(headers, **fields)

    assert refusal.value.param == param
    assert session_of({}, user="k" * 512) == "k" * 512
