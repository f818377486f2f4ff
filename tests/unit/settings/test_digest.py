"""The word that tells two starts apart."""

import msgspec

from app.settings.digest import digest
from app.settings.layers import built_in


def test_a_digest_follows_every_value_but_tells_nothing_of_a_secret() -> None:
    """Another value is another word; another API key is not, or the word could be used to try keys."""
    settings = built_in()
    other = msgspec.structs.replace(settings, server=msgspec.structs.replace(settings.server, port=1))
    with_key, with_another = (
        msgspec.structs.replace(settings, auth=msgspec.structs.replace(settings.auth, key=key))
        for key in ("0123456789abcdef", "fedcba9876543210")
    )
    assert len({digest(settings), digest(other), digest(with_key)}) == 3
    assert digest(with_key) == digest(with_another)
