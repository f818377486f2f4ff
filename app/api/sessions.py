"""Which conversation a request belongs to, from what clients of any API send. Knows no route."""

import json
import re
from collections.abc import Mapping

from app.errors import RequestError
from app.snapshots.entry import ANONYMOUS_SESSION

MAX_SESSION_CHARACTERS = 512

SESSION_HEADERS = (
    "x-session-id",
    "session-id",
    "session_id",
    "x-claude-code-session-id",
    "x-session-affinity",
)
"""Where clients that cannot set a field of the body name their conversation, best first."""

_SESSION_PART = re.compile(r"(?:^|_)session_(?P<session>.+)$")


def session_of(
    headers: Mapping[str, str],
    *,
    prompt_cache_key: str | None = None,
    metadata_user_id: str | None = None,
    conversation: str | None = None,
    user: str | None = None,
) -> str:
    """Whose state this is: the first non-empty name of the conversation, or the anonymous session.

    `metadata_user_id` names a conversation in a part of it only; the rest is a user's or a device's, which
    would make one conversation of many. `user` is such a name too, and comes last: it is all there is then.

    Raises:
        RequestError: the name is too long.
    """
    sources = (
        ("prompt_cache_key", prompt_cache_key),
        *((header, headers.get(header)) for header in SESSION_HEADERS),
        ("metadata.user_id", _session_part(metadata_user_id)),
        ("conversation", conversation),
        ("user", user),
    )
    for source, name in sources:
        if name:
            if len(name) > MAX_SESSION_CHARACTERS:
                raise RequestError(
                    f"{source}: has {len(name)} characters; at most {MAX_SESSION_CHARACTERS} are allowed.",
                    param=source,
                )
            return name
    return ANONYMOUS_SESSION


def _session_part(user_id: str | None) -> str | None:
    """What follows `session_`, or the `session_id` of a JSON object: the two forms that clients send."""
    if not user_id:
        return None
    if user_id.startswith("{"):
        try:
            named = json.loads(user_id).get("session_id")
        except ValueError:
            return None
        return named if isinstance(named, str) else None
    match = _SESSION_PART.search(user_id)
    return match["session"] if match else None
